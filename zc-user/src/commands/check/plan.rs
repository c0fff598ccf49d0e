//! What is to be checked, from the command line and a file.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail, ensure};
use zctrace::{
    check::{self, Baseline, Check, Shown, Tolerance, Tolerances},
    expect::Expectation,
    render,
};

use crate::{cli::CheckArgs, commands::saved};

/// The file of checks if none is named.
const USUAL_FILE: &str = "zctrace.toml";
/// What to do if that is not there.
const NO_FILE: &str = "; name another file, or a command: zctrace check --expect 'write.calls == 0' -- CMD";

/// The checks to run, with everything that the command line says of them.
pub fn checks(args: &CheckArgs) -> anyhow::Result<Vec<Check>> {
    let mut checks = if args.command.is_empty() { of_file(args)? } else { vec![of_command(args)?] };
    let timeout =
        args.timeout.as_deref().map(|text| check::timeout(text).map_err(|why| anyhow!("--timeout: {why}"))).transpose()?;
    let tolerances = tolerances(args)?;
    ensure!(
        tolerances.is_empty() || checks.iter().any(|check| check.baseline.is_some()),
        "--tolerance is for a comparison: name what with, by --baseline FILE"
    );
    for check in &mut checks {
        override_by(check, args, timeout);
        if let Some(baseline) = &mut check.baseline {
            for tolerance in &tolerances {
                baseline.tolerances.add(tolerance.clone());
            }
            read_baseline(baseline, args.update)?;
        }
        if let Some((expectation, calls)) = check.uncounted() {
            bail!("'{}' is expected, but --syscalls does not count {}", expectation.text(), calls.join(", "));
        }
    }
    ensure!(
        !args.update || checks.iter().any(|check| check.baseline.is_some()),
        "--update writes a baseline: name it with --baseline FILE"
    );
    Ok(checks)
}

/// The checks of a file that are chosen.
fn of_file(args: &CheckArgs) -> anyhow::Result<Vec<Check>> {
    let is_file = |word: &&String| Path::new(word).extension().is_some_and(|extension| extension == "toml");
    let files: Vec<&String> = args.words.iter().filter(is_file).collect();
    let path = match files.as_slice() {
        [] => Path::new(USUAL_FILE),
        [file] => Path::new(file),
        [_, second, ..] => bail!("one file of checks at a time: '{second}' is the second"),
    };
    let remedy = if files.is_empty() { NO_FILE } else { "" };
    let text = fs::read_to_string(path).with_context(|| format!("cannot read '{}'{remedy}", path.display()))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let checks = check::parse(&text, path, &absolute(folder)?)?;
    let patterns: Vec<String> = args.words.iter().filter(|word| !is_file(word)).cloned().collect();
    check::choose(checks, &patterns).map_err(|why| anyhow!(why))
}

/// The check of a command on the command line.
fn of_command(args: &CheckArgs) -> anyhow::Result<Check> {
    ensure!(
        !args.expect.is_empty() || args.baseline.is_some(),
        "nothing is expected of the command: say what, as in --expect 'write.calls == 0', or name a --baseline"
    );
    let parse = |text: &String| text.parse::<Expectation>().map_err(|error| anyhow!("--expect: {error}"));
    let here = absolute(Path::new("."))?;
    let baseline = args.baseline.clone().map(|path| Baseline { path, report: None, tolerances: Tolerances::default() });
    Ok(Check {
        name: render::command_line(&args.command),
        command: args.command.clone(),
        env: BTreeMap::new(),
        directory: Some(here.clone()),
        files: Vec::new(),
        expectations: args.expect.iter().map(parse).collect::<Result<_, _>>()?,
        repeat: 1,
        inferred: args.inferred.unwrap_or_default(),
        backend: args.backend.unwrap_or_default(),
        timeout: Check::TIMEOUT,
        selection: None,
        baseline,
        base: here,
        shown_by: Shown::ByRun,
    })
}

/// What the command line says counts for every check.
fn override_by(check: &mut Check, args: &CheckArgs, timeout: Option<Duration>) {
    check.repeat = args.repeat.unwrap_or(check.repeat);
    check.timeout = timeout.unwrap_or(check.timeout);
    check.backend = args.backend.unwrap_or(check.backend);
    check.inferred = args.inferred.unwrap_or(check.inferred);
    check.selection = args.syscalls.clone().or(check.selection.take());
}

fn tolerances(args: &CheckArgs) -> anyhow::Result<Vec<Tolerance>> {
    args.tolerance.iter().map(|text| text.parse().map_err(|error| anyhow!("--tolerance: {error}"))).collect()
}

/// Reads a baseline, unless it is to be written.
fn read_baseline(baseline: &mut Baseline, is_to_be_written: bool) -> anyhow::Result<()> {
    if is_to_be_written {
        return Ok(());
    }
    ensure!(baseline.path.exists(), "there is no baseline '{}' yet: --update writes it", baseline.path.display());
    baseline.report = Some(saved::open_report(&baseline.path).context("cannot compare with the baseline")?);
    Ok(())
}

fn absolute(folder: &Path) -> anyhow::Result<PathBuf> {
    fs::canonicalize(folder).with_context(|| format!("cannot find '{}'", folder.display()))
}
