//! The subcommands: a file for each but the shortest, and what several of them need.

pub mod check_command;
pub mod compare_command;
pub mod diff_command;
pub mod report_command;
pub mod run_command;
pub mod span_writer;
pub mod top_command;

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::{anyhow, ensure};
use clap::{ColorChoice, ValueEnum};
use zctrace::{
    backend::Listed,
    doctor,
    profile::written,
    render::{self, Format},
    report::{Detail, Files, Report},
    trace::Trace,
};

use crate::{
    cli::{DisplayArgs, DoctorArgs},
    output::{self, ReportOutput},
    pager, say,
};

/// `zctrace doctor`: shows what this machine can do. The exit status is 1 if no backend can run.
pub fn doctor(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let output = ReportOutput::Stdout;
    let diagnosis = doctor::diagnose(&doctor::probe());
    output.write(&render::diagnosis(
        &diagnosis,
        args.format,
        &render_options(args.color, &output),
    ))?;
    Ok(ExitCode::from(diagnosis.exit_status()))
}

/// `zctrace schema` and its like: prints a text to stdout.
pub fn print(text: &str) -> anyhow::Result<ExitCode> {
    ReportOutput::Stdout.write(text)?;
    Ok(ExitCode::SUCCESS)
}

/// The report on a trace, with the details that the command line asks for.
fn report_of(trace: &Trace, display: &DisplayArgs) -> Report {
    let options = zctrace::report::Options {
        // What people read names the processes beside the pipes.
        detail: match display.by {
            Some(Detail::Total) if is_for_people(display.format) => Detail::Process,
            by => by.unwrap_or_default(),
        },
        sort: display.sort,
        files: listed_if(display.files),
        file_calls: listed_if(display.file_calls),
    };
    if display.paths.is_empty() {
        return Report::from_trace(trace, &options);
    }
    let paths = display.paths.iter().map(|path| path.0.clone()).collect();
    Report::on_paths(trace, &options, &paths)
}

const fn listed_if(is_wanted: bool) -> Files {
    if is_wanted {
        Files::Listed
    } else {
        Files::Omitted
    }
}

/// The places where a report goes.
struct Outputs {
    /// In the format that the command line asks for.
    report: ReportOutput,
    /// As a page, with `--html`.
    page: Option<ReportOutput>,
}

impl Outputs {
    /// Opens what the command line names.
    fn open(display: &DisplayArgs, default: ReportOutput) -> anyhow::Result<Self> {
        let report = ReportOutput::open(display.output.as_deref(), default)?;
        let page = display
            .html
            .as_deref()
            .map(|path| ReportOutput::open(Some(path), ReportOutput::Stdout))
            .transpose()?;
        ensure!(
            page.as_ref()
                .is_none_or(|page| !page.is_same_place(&report)),
            "-o and --html name the same file; give each its own"
        );
        Ok(Self { report, page })
    }
}

/// Opens what each `--export FORMAT FILE` names.
fn exports<F: ValueEnum>(words: &[String]) -> anyhow::Result<Vec<(F, ReportOutput)>> {
    let open = |pair: &[String]| {
        let format = F::from_str(&pair[0], false).map_err(|_| unknown_format::<F>(&pair[0]))?;
        Ok((format, open_export(Path::new(&pair[1]))?))
    };
    words.chunks_exact(2).map(open).collect()
}

fn unknown_format<F: ValueEnum>(word: &str) -> anyhow::Error {
    let formats = F::value_variants().iter();
    let names: Vec<String> = formats
        .filter_map(|format| Some(format.to_possible_value()?.get_name().to_owned()))
        .collect();
    let names = names.join(", ");
    anyhow!("--export: '{word}' is not one of {names}; write it as in: --export markdown FILE")
}

/// Opens a file for results. Earlier steps of a job have written to the summary of GitHub Actions,
/// so that one is appended to.
fn open_export(path: &Path) -> anyhow::Result<ReportOutput> {
    let is_summary =
        std::env::var_os("GITHUB_STEP_SUMMARY").is_some_and(|summary| path == Path::new(&summary));
    if is_summary {
        return ReportOutput::append_to(path);
    }
    ReportOutput::open(Some(path), ReportOutput::Stdout)
}

/// JSON lists at most so many processes, unless all are asked for. Every one takes 3 to 10 kB, and
/// few readers want 20,000 of them.
const MAX_PROCESSES_IN_JSON: usize = 500;

/// Whether people read this format, and no program.
const fn is_for_people(format: Format) -> bool {
    matches!(format, Format::Table | Format::Markdown)
}

/// Whether the command line asks for all processes one by one.
fn wants_all_processes(display: &DisplayArgs) -> bool {
    display.all || matches!(display.by, Some(Detail::Process | Detail::Thread))
}

/// Which processes a trace has to tell apart for these outputs.
fn listed(display: &DisplayArgs) -> Listed {
    let lists_few = matches!(display.format, Format::Table | Format::Json) && !display.file_calls;
    // Of merged processes it is not known which calls were on which file.
    if !lists_few || wants_all_processes(display) || !display.paths.is_empty() {
        return Listed::All;
    }
    Listed::Busiest {
        most: MAX_PROCESSES_IN_JSON,
        files: listed_if(display.files),
    }
}

/// Writes the report on a trace, or a saved one, where the command line says, in the format that it
/// asks for. If one place cannot be written, the other still is.
fn show(
    mut report: Report,
    trace: Option<&Trace>,
    display: &DisplayArgs,
    outputs: &Outputs,
) -> anyhow::Result<()> {
    report.labels.extend(display.label.iter().cloned());
    say_what_bencher_lacks(&[&report], display.format);
    if display.format.is_profile()
        && let Some(what) = written::what_it_may_lack(&report)
    {
        say(format_args!("{what}"));
    }
    let options = report_options(display, &outputs.report);
    let page = outputs
        .page
        .as_ref()
        .map_or(Ok(()), |page| page.write(&render::html(&report)));
    if display.format == Format::Json && !wants_all_processes(display) {
        report.limit_processes(MAX_PROCESSES_IN_JSON);
    }
    let left_out = report.processes_left_out();
    if display.format == Format::Csv && !report.processes.is_empty() && left_out > 0 {
        say(format_args!(
            "the CSV lacks {left_out} processes that the report was saved without"
        ));
    }
    let timed = trace.filter(|_| display.format == Format::Firefox);
    if timed.is_some_and(|trace| !has_timed_calls(trace)) {
        let why = report
            .notes
            .iter()
            .find(|note| note.starts_with("callers are unknown"));
        say(format_args!(
            "there are no sampled calls to show: {}",
            why.map_or("none was sampled", String::as_str)
        ));
    }
    let text = match timed {
        Some(trace) => render::profile(&report, trace),
        None => render::render(&report, display.format, &options),
    };
    let shown = if display.pager && outputs.report.is_terminal() {
        pager::show(&text, &outputs.report)
    } else {
        outputs.report.write_once(&text)
    };
    shown.and(page)
}

/// Lower bounds are left out of Bencher's format.
fn say_what_bencher_lacks(reports: &[&Report], format: Format) {
    let bounds = reports.iter().filter(|report| !report.exact).count();
    if format == Format::Bencher && bounds > 0 {
        say(format_args!(
            "left out {bounds} of {} reports: they are lower bounds, which the format cannot express",
            reports.len()
        ));
    }
}

fn has_timed_calls(trace: &Trace) -> bool {
    let mut threads = trace.processes.iter().flat_map(|one| &one.threads);
    threads.any(|thread| !thread.timed_calls.is_empty())
}

/// How a report is rendered.
fn report_options(display: &DisplayArgs, output: &ReportOutput) -> render::Options {
    render::Options {
        all: display.all,
        by: display.by,
        histogram: display.histogram,
        sort: display.sort,
        ..render_options(display.color, output)
    }
}

/// How anything is rendered: the width and the colours of the output.
fn render_options(when: ColorChoice, output: &ReportOutput) -> render::Options {
    let colour = output::wants_colour(when, output.is_terminal());
    render::Options {
        width: output.width(),
        height: output.height(),
        colour,
        ..render::Options::default()
    }
}

/// With `-v`, logs what the backends do.
fn log_if(verbose: bool) -> anyhow::Result<()> {
    if verbose {
        log::set_logger(&LogToStderr).map_err(|error| anyhow!("cannot log: {error}"))?;
        log::set_max_level(log::LevelFilter::Debug);
    }
    Ok(())
}

/// Writes log messages to stderr.
struct LogToStderr;

impl log::Log for LogToStderr {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        // Messages of dependencies are not for the user.
        metadata.target().starts_with("zctrace")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let backend = record
                .target()
                .strip_prefix("zctrace::")
                .unwrap_or("kernel");
            say(format_args!("{backend}: {}", record.args()));
        }
    }

    fn flush(&self) {}
}

/// Shows on stderr how far each phase of something is, if that is wanted and a terminal can erase it
/// again. It is written between runs, never while one is timed.
fn show_progress(is_wanted: bool) -> impl FnMut(&'static str, u64, u64) {
    let can_erase = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
    let is_shown = is_wanted && can_erase && io::stderr().is_terminal();
    let shown = is_shown.then(|| ProgressLine);
    move |phase, done, all| {
        if shown.is_some() {
            let line = format!("{phase:16} {done}/{all}");
            let line = Some(line).filter(|_| done < all).unwrap_or_default();
            let _ = write!(io::stderr(), "\r{line}\x1b[K");
        }
    }
}

/// The line that shows progress; it is erased when nobody shows any more.
struct ProgressLine;

impl Drop for ProgressLine {
    fn drop(&mut self) {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}
