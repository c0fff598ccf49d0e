//! `zctrace check`: read what is expected, run, judge, show, write baselines.

mod plan;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::ValueEnum as _;
use zctrace::{
    check::{self, Attempt, Check, Results, SCHEMA, Settings, Status},
    render::{self, CheckFormat},
};

use super::progress::Bar;
use crate::{
    cli::CheckArgs,
    output::{self, Output},
    say,
};

/// Exit status if checks could not be run at all.
pub const COULD_NOT_RUN: u8 = 2;

/// Runs checks, and shows what came of them. Whatever can be wrong with them is found before one runs.
pub fn check(args: &CheckArgs) -> ExitCode {
    try_check(args).unwrap_or_else(|error| {
        say(format_args!("{error:#}"));
        ExitCode::from(COULD_NOT_RUN)
    })
}

fn try_check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let checks = plan::checks(args)?;
    let output = Output::open(args.output.as_deref(), Output::Stdout)?;
    if args.list {
        let line = |check: &Check| format!("{}: {}\n", render::escape(&check.name), render::command_line(&check.command));
        output.write(&checks.iter().map(line).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let exports = exports(args)?;
    let ran = check::run(&checks, &settings(args)?, &mut progress(args))?;
    let tried = || checks.iter().zip(&ran.attempts).filter(|(_, attempts)| !attempts.is_empty());
    let results = Results {
        schema: SCHEMA,
        checks: tried().map(|(check, attempts)| check::judge(check, attempts)).collect(),
        interrupted: ran.interrupted.map(|signal| signal.to_string()),
    };
    if args.update {
        for ((check, attempts), result) in tried().zip(&results.checks) {
            update_baseline(check, attempts, result.status)?;
        }
    }
    // Whatever cannot be written, the others are.
    let mut written = vec![show(args, &results, &output)];
    written.extend(exports.into_iter().map(|export| export.write(&results)));
    let mut all_written = true;
    for error in written.into_iter().filter_map(Result::err) {
        say(format_args!("{error:#}"));
        all_written = false;
    }
    Ok(match ran.interrupted {
        Some(signal) => ExitCode::from(u8::try_from(128 + signal as i32).unwrap_or(COULD_NOT_RUN)),
        // What failed, failed.
        None if results.exit_status() == 1 || all_written => ExitCode::from(results.exit_status()),
        None => ExitCode::from(COULD_NOT_RUN),
    })
}

fn show(args: &CheckArgs, results: &Results, output: &Output) -> anyhow::Result<()> {
    let look = render::Options {
        width: output.width(),
        colour: output::wants_colour(args.color, output.is_terminal()),
        ..render::Options::default()
    };
    let mut text = render::check(results, args.format, &look);
    if args.format == CheckFormat::Text && args.report {
        let reports = results.checks.iter().filter_map(|check| check.report.as_ref());
        text = reports.map(|report| render::render(report, render::Format::Table, &look) + "\n").collect::<String>() + &text;
    }
    let is_in_actions = std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true");
    let has_lines = matches!(args.format, CheckFormat::Text | CheckFormat::Tap | CheckFormat::Junit | CheckFormat::Markdown);
    if is_in_actions && has_lines && matches!(output, Output::Stdout) {
        text = render::defused(&text);
    }
    output.write(&text)?;
    // The log is where its runner looks for them; it takes them out.
    if is_in_actions && args.format == CheckFormat::Text {
        Output::Stdout.write(&render::annotations(results))?;
    }
    Ok(())
}

/// Results that are to be written to a file, too.
struct Export {
    format: CheckFormat,
    output: Output,
}

impl Export {
    fn open(format: CheckFormat, path: PathBuf) -> anyhow::Result<Self> {
        // What steps of a job before this one wrote there is to stay.
        let is_summary = std::env::var_os("GITHUB_STEP_SUMMARY").is_some_and(|summary| path == Path::new(&summary));
        let output = if is_summary {
            let file = fs::OpenOptions::new().append(true).create(true).open(&path);
            let file = file.with_context(|| format!("cannot write the results to '{}'", path.display()))?;
            Output::Special(path, file)
        } else {
            Output::open(Some(&path), Output::Stdout)?
        };
        Ok(Self { format, output })
    }

    fn write(self, results: &Results) -> anyhow::Result<()> {
        let text = render::check(results, self.format, &render::Options::default());
        self.output.write(&text)
    }
}

fn exports(args: &CheckArgs) -> anyhow::Result<Vec<Export>> {
    let open = |pair: &[String]| {
        let format = CheckFormat::from_str(&pair[0], false).map_err(|_| {
            let names =
                CheckFormat::value_variants().iter().filter_map(|format| Some(format.to_possible_value()?.get_name().to_owned()));
            anyhow::anyhow!(
                "--export: '{}' is none of {}; write it as in: --export junit FILE",
                pair[0],
                names.collect::<Vec<_>>().join(", ")
            )
        })?;
        Export::open(format, PathBuf::from(&pair[1]))
    };
    args.export.chunks_exact(2).map(open).collect()
}

fn settings(args: &CheckArgs) -> anyhow::Result<Settings> {
    let limits = args.limits.limits();
    Ok(Settings {
        zctrace: std::env::current_exe().context("zctrace does not know where it is")?,
        options: vec![
            format!("--max-rows={}", limits.max_rows),
            format!("--max-files={}", limits.max_files),
            format!("--max-tasks={}", limits.max_tasks),
        ],
        jobs: args.jobs.into(),
        shows_output: args.show_output,
    })
}

/// A bar on a terminal, unless commands write there, too.
fn progress(args: &CheckArgs) -> impl FnMut(u64, u64) + use<> {
    use zctrace::compare::Progress as _;
    let mut bar = Bar::new(!args.show_output);
    let mut shown = None;
    move |done, all| {
        let before = *shown.get_or_insert_with(|| {
            bar.begin("checking", all);
            0
        });
        (before..done).for_each(|_| bar.step(all));
        shown = Some(done);
        if done == all {
            bar.end();
        }
    }
}

/// Writes the report of the last run as a baseline, unless something is wrong with the check.
fn update_baseline(check: &Check, attempts: &[Attempt], status: Status) -> anyhow::Result<()> {
    let Some(baseline) = &check.baseline else { return Ok(()) };
    let report = attempts.last().and_then(|attempt| attempt.outcome.as_ref().ok());
    let Some(report) = report.filter(|_| status == Status::Passed) else {
        let why = if status == Status::Inconclusive {
            "its figures would be lower bounds; what helps, says the whole report".to_owned()
        } else {
            format!("its check {}", status.name())
        };
        say(format_args!("the baseline '{}' stays as it is: {why}", baseline.path.display()));
        return Ok(());
    };
    let mut report = (**report).clone();
    for process in &mut report.processes {
        process.file_calls = None;
    }
    let text = render::render(&report, render::Format::Json, &render::Options::default());
    Output::open(Some(&baseline.path), Output::Stdout)?.write(&text)?;
    say(format_args!("wrote the baseline '{}'", baseline.path.display()));
    Ok(())
}
