//! `zctrace check`: collects the checks, runs and judges them, shows the results, writes baselines.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context as _, anyhow, bail, ensure};
use zctrace::{
    check::{
        self, Baseline, Check, CheckProfile, CheckSettings, LockFile, Results, RunAttempt, SCHEMA,
        Status, Tolerances,
    },
    expect::Lock,
    profile::{CallGroups, CallProfile},
    render::{self, CheckFormat},
    syscalls::Abi,
};
use zctrace_core::{signal, text::plural};

use super::{exports, render_options, report_command::open_report, show_progress};
use crate::{
    cli::{CheckArgs, find_identity},
    output::{Links, ReportOutput},
    say,
};

/// Exit status if no check could be run at all.
pub const COULD_NOT_RUN: u8 = 2;
/// The file of checks if none is named.
const DEFAULT_FILE: &str = "zctrace.toml";

/// Runs checks and shows their results. Errors in their definitions are found before any of them
/// runs.
pub fn check(args: &CheckArgs) -> ExitCode {
    try_check(args).unwrap_or_else(|error| {
        say(format_args!("{error:#}"));
        ExitCode::from(COULD_NOT_RUN)
    })
}

fn try_check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let checks = checks(args)?;
    let output = ReportOutput::open(args.output.as_deref(), ReportOutput::Stdout)?;
    if args.list {
        let line = |check: &Check| {
            format!(
                "{}: {}\n",
                render::escape(&check.name),
                render::command_line(&check.command_words())
            )
        };
        output.write(&checks.iter().map(line).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let exports = exports(&args.export)?;
    // Not where commands write.
    let mut show_count = show_progress(!args.show_output);
    let mut progress = |done, all| show_count("checking", done, all);
    let run = check::run(&checks, &settings(args)?, &mut progress)?;
    let started = || {
        checks
            .iter()
            .zip(&run.attempts)
            .filter(|(_, attempts)| !attempts.is_empty())
    };
    let results = Results {
        schema: SCHEMA,
        labels: args.label.iter().cloned().collect(),
        checks: checks
            .iter()
            .zip(&run.attempts)
            .zip(&run.controls)
            .filter(|((_, attempts), _)| !attempts.is_empty())
            .map(|((check, attempts), control)| {
                check::judge_check(check, attempts, control.as_ref())
            })
            .collect(),
        interrupted: run.interrupted.map(|signal| signal.to_string()),
    };
    if args.update {
        for ((check, attempts), result) in started().zip(&results.checks) {
            update_baseline(check, attempts, result.status)?;
            update_lock(check, attempts, result.status)?;
        }
    }
    // If one place cannot be written, the others still are.
    let mut written = vec![show(args, &results, &output)];
    written.extend(
        args.reports
            .as_deref()
            .map(|directory| save_reports(directory, &args.label, started())),
    );
    for (format, file) in exports {
        let text = render::check(&results, format, &render::Options::default());
        written.push(file.write(&text));
    }
    let mut all_written = true;
    for error in written.into_iter().filter_map(Result::err) {
        say(format_args!("{error:#}"));
        all_written = false;
    }
    Ok(match run.interrupted {
        Some(signal) => ExitCode::from(signal::exit_status(signal as i32)),
        // A failed check is more important than a file that could not be written.
        None if results.exit_status() == 1 || all_written => ExitCode::from(results.exit_status()),
        None => ExitCode::from(COULD_NOT_RUN),
    })
}

/// Saves the report of the last run of each check. Names of checks are different, and so are the files.
fn save_reports<'a>(
    directory: &Path,
    labels: &[(String, String)],
    checks: impl Iterator<Item = (&'a Check, &'a Vec<RunAttempt>)>,
) -> anyhow::Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory '{}'", directory.display()))?;
    for (check, attempts) in checks {
        let last = attempts.last().map(|attempt| &attempt.outcome);
        let Some(Ok(report)) = last else { continue };
        let mut report = (**report).clone();
        let name_of_check = ("name".to_owned(), check.name.clone());
        report
            .labels
            .extend([name_of_check].into_iter().chain(labels.iter().cloned()));
        let text = render::render(&report, render::Format::Json, &render::Options::default());
        let path = directory.join(file_stem(&check.name) + ".json");
        ReportOutput::open_file(&path, Links::Followed)?.write(&text)?;
    }
    Ok(())
}

/// A name for a file that no other name of a check has: letters, digits, `_` and `.` stay, a blank is a
/// dash, and every other byte is `%` and its number. One that is too long ends with a checksum.
fn file_stem(name: &str) -> String {
    let encode = |(at, byte): (usize, u8)| match byte {
        b' ' => "-".to_owned(),
        b'.' if at == 0 => "%2E".to_owned(),
        b'_' | b'.' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let stem: String = name.bytes().enumerate().map(encode).collect();
    match stem.len() {
        0 => "%".to_owned(),
        1..=200 => stem,
        _ => {
            // FNV-1a.
            let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
            format!("{}%-{hash:016x}", &stem[..180])
        }
    }
}

fn show(args: &CheckArgs, results: &Results, output: &ReportOutput) -> anyhow::Result<()> {
    let look = render_options(args.color, output);
    let annotations = || render::annotations(&with_files_of_repository(results));
    let mut text = if args.format == CheckFormat::Github {
        annotations()
    } else {
        render::check(results, args.format, &look)
    };
    if args.format == CheckFormat::Text && args.report {
        let reports = results
            .checks
            .iter()
            .filter_map(|check| check.report.as_ref());
        text = reports
            .map(|report| render::render(report, render::Format::Table, &look) + "\n")
            .collect::<String>()
            + &text;
    }
    let is_in_actions = std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true");
    let has_lines = matches!(
        args.format,
        CheckFormat::Text | CheckFormat::Junit | CheckFormat::Markdown
    );
    if is_in_actions && has_lines && matches!(output, ReportOutput::Stdout) {
        text = render::escape_workflow_commands(&text);
    }
    output.write_once(&text)?;
    // GitHub's runner looks for annotations in the log, and removes them from it.
    if is_in_actions && args.format == CheckFormat::Text {
        ReportOutput::Stdout.write(&annotations())?;
    }
    Ok(())
}

/// The results with the files of checks as paths from the root of the repository, as annotations
/// name them. GitHub's runner says where that is.
fn with_files_of_repository(results: &Results) -> Results {
    let mut results = results.clone();
    let root = std::env::var_os("GITHUB_WORKSPACE");
    let Some(root) = root.and_then(|root| Path::new(&root).canonicalize().ok()) else {
        return results;
    };
    for file in results
        .checks
        .iter_mut()
        .filter_map(|check| check.file.as_mut())
    {
        if let Ok(relative) = Path::new(file.as_str()).strip_prefix(&root) {
            *file = relative.display().to_string();
        }
    }
    results
}

fn settings(args: &CheckArgs) -> anyhow::Result<CheckSettings> {
    Ok(CheckSettings {
        zctrace: std::env::current_exe()
            .context("cannot find the program file of zctrace itself")?,
        limits: args.limits.limits(),
        jobs: args.jobs.into(),
        shows_output: args.show_output,
    })
}

/// Why a check that did not pass writes nothing, as a clause.
const fn why_not_updated(status: Status) -> &'static str {
    match status {
        Status::NoResult => "its check has no result",
        Status::Inconclusive => "its check is inconclusive",
        Status::Passed | Status::Failed => "its check failed",
    }
}

/// Writes the report of the last run as the baseline if the check passed.
fn update_baseline(check: &Check, attempts: &[RunAttempt], status: Status) -> anyhow::Result<()> {
    let Some(baseline) = &check.baseline else {
        return Ok(());
    };
    let report = attempts
        .last()
        .and_then(|attempt| attempt.outcome.as_ref().ok());
    let Some(report) = report.filter(|_| status == Status::Passed) else {
        let why = if status == Status::Inconclusive {
            "its figures would be lower bounds (the whole report says what helps)".to_owned()
        } else {
            why_not_updated(status).to_owned()
        };
        say(format_args!(
            "the baseline '{}' is not updated: {why}",
            baseline.path.display()
        ));
        return Ok(());
    };
    let mut report = (**report).clone();
    for process in &mut report.processes {
        process.file_calls = None;
    }
    let text = render::render(&report, render::Format::Json, &render::Options::default());
    // Its path may come from the checkout, as its links do.
    ReportOutput::open_file(&baseline.path, Links::Refused)?.write(&text)?;
    say(format_args!(
        "wrote the baseline '{}'",
        baseline.path.display()
    ));
    Ok(())
}

/// Writes what the runs touched as the lock if the check passed.
fn update_lock(check: &Check, attempts: &[RunAttempt], status: Status) -> anyhow::Result<()> {
    let Some(file) = &check.lock else {
        return Ok(());
    };
    let reports = attempts
        .iter()
        .filter_map(|one| one.outcome.as_deref().ok());
    let written = match status {
        Status::Passed | Status::Inconclusive => {
            Lock::of_runs(&reports.collect::<Vec<_>>(), &file.lock)
        }
        _ => Err(why_not_updated(status).to_owned()),
    };
    let path = file.path.display();
    let Some(lock) = written.as_ref().ok().filter(|_| status == Status::Passed) else {
        let why = written
            .err()
            .unwrap_or_else(|| why_not_updated(status).to_owned());
        say(format_args!("the lock '{path}' is not updated: {why}"));
        return Ok(());
    };
    ReportOutput::open_file(&file.path, Links::Refused)?.write(&lock.to_string())?;
    let lines = plural(lock.lines() as u64, "line", "lines");
    say(format_args!("wrote the lock '{path}' with {lines}"));
    Ok(())
}

/// Reads a lock. One that will be written may be missing.
fn read_lock(file: &mut LockFile, will_be_written: bool) -> anyhow::Result<()> {
    file.is_to_be_written = will_be_written;
    if will_be_written && !file.path.exists() {
        return Ok(());
    }
    let path = file.path.display();
    ensure!(
        file.path.exists(),
        "there is no lock '{path}' yet; --update writes it"
    );
    let text = fs::read_to_string(&file.path).with_context(|| format!("cannot read '{path}'"))?;
    file.lock =
        Lock::parse(&text).map_err(|why| anyhow!("cannot read the lock '{path}': {why}"))?;
    Ok(())
}

/// The checks to run, with all that the command line says about them.
fn checks(args: &CheckArgs) -> anyhow::Result<Vec<Check>> {
    let mut checks = if args.command.is_empty() {
        checks_of_file(args)?
    } else {
        vec![check_of_command(args)?]
    };
    ensure!(
        args.tolerance.is_empty() || checks.iter().any(|check| check.baseline.is_some()),
        "--tolerance needs a baseline; name it with --baseline FILE"
    );
    for check in &mut checks {
        apply_options(check, args);
        let user = check.user.as_deref().map(find_identity);
        let identity = user.transpose();
        check.identity = identity.with_context(|| format!("check '{}'", check.name))?;
        if let Some(baseline) = &mut check.baseline {
            for tolerance in &args.tolerance {
                baseline.tolerances.add(tolerance.clone());
            }
            read_baseline(baseline, args.update)?;
        }
        if let Some(profile) = &mut check.profile {
            profile.calls = Some(read_profile(&profile.path)?);
        }
        if let Some(lock) = &mut check.lock {
            read_lock(lock, args.update)?;
        }
        if let Some((expectation, calls)) = check.first_uncounted() {
            bail!(
                "the expectation '{}' cannot be judged: --syscalls does not count {}",
                expectation.text(),
                calls.join(", ")
            );
        }
    }
    ensure!(
        !args.update
            || checks
                .iter()
                .any(|check| check.baseline.is_some() || check.lock.is_some()),
        "--update writes a baseline or a lock; name it with --baseline FILE or --lock FILE"
    );
    Ok(checks)
}

/// The checks in a file whose names match.
fn checks_of_file(args: &CheckArgs) -> anyhow::Result<Vec<Check>> {
    let is_file = |word: &&String| {
        Path::new(word)
            .extension()
            .is_some_and(|extension| extension == "toml")
    };
    let files: Vec<&String> = args.words.iter().filter(is_file).collect();
    let path = match files.as_slice() {
        [] => Path::new(DEFAULT_FILE),
        [file] => Path::new(file),
        [_, second, ..] => {
            bail!("only one file of checks can be run at a time; '{second}' is a second one")
        }
    };
    ensure!(
        !files.is_empty() || path.exists(),
        "there is no {DEFAULT_FILE} here; name a file, or a command: zctrace check --expect 'write.calls == 0' -- CMD"
    );
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read '{}'", path.display()))?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let checks = check::parse(&text, path, &absolute(folder)?)?;
    let patterns: Vec<String> = args
        .words
        .iter()
        .filter(|word| !is_file(word))
        .cloned()
        .collect();
    check::choose_checks(checks, &patterns).map_err(|why| anyhow!(why))
}

/// The check of a command given on the command line.
fn check_of_command(args: &CheckArgs) -> anyhow::Result<Check> {
    ensure!(
        !args.expect.is_empty()
            || args.baseline.is_some()
            || args.profile.is_some()
            || args.lock.is_some(),
        "there is nothing to check; add an expectation, such as --expect 'write.calls == 0', or --baseline FILE, or --lock FILE"
    );
    let here = absolute(Path::new("."))?;
    let baseline = args.baseline.clone().map(|path| Baseline {
        path,
        report: None,
        tolerances: Tolerances::default(),
    });
    let control = args.control_command.as_ref();
    let mut check = Check {
        control: control.map(|line| ["sh".into(), "-c".into(), line.clone()].into()),
        directory: Some(here.clone()),
        expectations: args.expect.clone(),
        baseline,
        profile: args
            .profile
            .clone()
            .map(|path| CheckProfile { path, calls: None }),
        lock: args.lock.clone().map(LockFile::not_read_yet),
        ..Check::new(String::new(), args.command.clone(), here)
    };
    check.name = render::command_line(&check.command_words());
    Ok(check)
}

/// Options on the command line override those of every check, but for its user.
fn apply_options(check: &mut Check, args: &CheckArgs) {
    check.repeat = args.repeat.unwrap_or(check.repeat);
    check.timeout = args.timeout.unwrap_or(check.timeout);
    check.user = check.user.take().or(args.user.clone());
    check.backend = args.backend.unwrap_or(check.backend);
    check.inferred = args.inferred.unwrap_or(check.inferred);
    check.callers |= args.callers;
    check.may_match_nothing |= args.may_match_nothing;
    check.ignore_failure |= args.ignore_failure;
    check.selection = args.syscalls.clone().or(check.selection.take());
}

/// Reads a baseline, unless it will be written.
fn read_baseline(baseline: &mut Baseline, will_be_written: bool) -> anyhow::Result<()> {
    if will_be_written {
        return Ok(());
    }
    ensure!(
        baseline.path.exists(),
        "there is no baseline '{}' yet; --update writes it",
        baseline.path.display()
    );
    baseline.report =
        Some(open_report(&baseline.path).context("cannot compare with the baseline")?);
    Ok(())
}

/// Reads a profile.
fn read_profile(path: &Path) -> anyhow::Result<CallProfile> {
    let cannot_read = || format!("cannot read the profile '{}'", path.display());
    let text = fs::read_to_string(path).with_context(cannot_read)?;
    CallProfile::parse(&text, Abi::NATIVE.name(), groups_of_systemd).with_context(cannot_read)
}

/// The named sets of calls, which only systemd knows. `None`: it is not installed.
fn groups_of_systemd() -> Option<CallGroups> {
    let output = Command::new("systemd-analyze")
        .args(["--no-pager", "syscall-filter"])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| CallGroups::parse(&text))
}

fn absolute(folder: &Path) -> anyhow::Result<PathBuf> {
    fs::canonicalize(folder).with_context(|| format!("cannot find '{}'", folder.display()))
}
