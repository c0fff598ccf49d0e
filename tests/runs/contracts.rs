//! Which kernel interfaces programs use that nobody here wrote: runs the checks of
//! `tests/contracts/`, and makes a row of each.
//!
//! ```text
//! FILE.toml ──zctrace check──▶ Report, verdict ──▶ row of a table
//! ```

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use zc_tests::zctrace_to_test;
use zctrace::{
    backend::Limits,
    check::{self, Check, CheckResult, CheckSettings, Status},
    report::Report,
};

/// Where the contracts are.
#[derive(Args)]
pub struct ContractsOptions {
    /// The directory with their files
    #[arg(long, hide = true, default_value = "tests/contracts")]
    contracts: PathBuf,
}

/// The checks of one project, and what its file says of it in the first lines.
struct Contract {
    /// The project, and what of it is checked.
    project: String,
    /// The programs that the checks start.
    needs: Vec<String>,
    /// Where its file is.
    base: PathBuf,
    /// A line for a shell that prints the version, started there.
    version: String,
    checks: Vec<Check>,
}

/// Runs them all and prints a table. A program that is not installed is no failure.
pub fn run(options: &ContractsOptions) -> Result<()> {
    put_own_programs_on_path()?;
    let mut failed = Vec::new();
    println!("| program | what it does | by | why | |\n|---|---|---|---|---|");
    for contract in contracts(&options.contracts)? {
        for (check, result) in results(&contract)? {
            println!("{}", row(&contract, &check, result.as_ref()));
            let result = result.filter(|result| result.status != Status::Passed);
            failed.extend(result.map(|result| format!("{}: {}", check.name, findings(&result))));
        }
    }
    ensure!(
        failed.is_empty(),
        "broken contracts:\n{}",
        failed.join("\n")
    );
    Ok(())
}

/// The checks may name our copiers, which use libraries of others.
fn put_own_programs_on_path() -> Result<()> {
    let program = env::current_exe()?;
    let own = program.parent().context("is in a directory")?;
    let path = env::var_os("PATH").unwrap_or_default();
    let all = [own.to_owned()].into_iter().chain(env::split_paths(&path));
    let all = env::join_paths(all)?;
    // SAFETY: there is only this thread.
    unsafe { env::set_var("PATH", all) };
    Ok(())
}

/// The contracts in a directory, by the names of their files.
fn contracts(directory: &Path) -> Result<Vec<Contract>> {
    let entries = fs::read_dir(directory)
        .with_context(|| format!("cannot read '{}'", directory.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<Contract> {
    let text = fs::read_to_string(path)?;
    let mut lines = text.lines();
    let mut next = |title: &str| {
        let line = lines.next().and_then(|line| line.strip_prefix(title));
        let line = line.with_context(|| format!("{}: no line '{title}'", path.display()));
        line.map(str::to_owned)
    };
    let base = path.parent().unwrap_or(Path::new(".")).canonicalize()?;
    Ok(Contract {
        project: next("# ")?,
        needs: next("# needs: ")?.split(' ').map(str::to_owned).collect(),
        version: next("# version: ")?,
        checks: check::parse(&text, path, &base)?,
        base,
    })
}

/// The result of each check; `None`: a program is missing.
fn results(contract: &Contract) -> Result<Vec<(Check, Option<CheckResult>)>> {
    let checks = contract.checks.clone().into_iter();
    if contract.needs.iter().any(|program| !is_on_path(program)) {
        return Ok(checks.map(|check| (check, None)).collect());
    }
    let settings = CheckSettings {
        zctrace: zctrace_to_test(),
        limits: Limits::default(),
        jobs: 1,
        shows_output: false,
    };
    let runs = check::run(&contract.checks, &settings, &mut |_, _| ())?;
    ensure!(runs.interrupted.is_none(), "interrupted");
    let judged = checks.zip(runs.attempts).map(|(check, attempts)| {
        let result = check::judge(&check, &attempts, None);
        (check, Some(result))
    });
    Ok(judged.collect())
}

fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// `| coreutils (cp 9.1) | cp copies within the kernel | copy_file_range | why | ok |`.
fn row(contract: &Contract, check: &Check, result: Option<&CheckResult>) -> String {
    let (project, rest) = contract.project.split_once(": ").unwrap_or_default();
    let why = check.why.as_deref().unwrap_or(rest);
    let (version, interfaces, state) = match result {
        None => {
            let needs = contract.needs.join(" and ");
            (
                String::new(),
                String::new(),
                format!("NOT RUN: needs {needs}"),
            )
        }
        Some(result) => {
            let report = result.report.as_deref();
            let state = if result.status == Status::Passed {
                "ok"
            } else {
                result.status.name()
            };
            let version = format!(" {}", version(contract));
            (
                version,
                report.map(interfaces).unwrap_or_default(),
                state.to_owned(),
            )
        }
    };
    let name = &check.name;
    format!("| {project}{version} | {name} | {interfaces} | {why} | {state} |")
}

/// The version that is installed.
fn version(contract: &Contract) -> String {
    let mut shell = Command::new("sh");
    let said = shell
        .args(["-c", &contract.version])
        .current_dir(&contract.base)
        .output();
    let said = said.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).trim().to_owned()
}

/// The interfaces that moved the bytes of the prepared file, the most bytes first.
fn interfaces(report: &Report) -> String {
    let of_input = report.transfers.iter().filter(|transfer| {
        transfer.part_of.is_empty() && transfer.from.path.as_deref() == Some("in")
    });
    let mut names: Vec<&str> = of_input.map(|transfer| transfer.api.name()).collect();
    names.dedup();
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}

/// What a check found instead.
fn findings(result: &CheckResult) -> String {
    let outcomes = result
        .expectations
        .iter()
        .flat_map(|one| one.outcome.decisive());
    let found: Vec<&str> = outcomes.map(|finding| finding.found.as_str()).collect();
    let error = result.error.as_deref().unwrap_or_default();
    format!("{} {error} {}", result.status.name(), found.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_contract_and_its_reason() {
        let page = include_str!("../../docs/contracts.md");
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("contracts");
        for contract in contracts(&directory).expect("are read") {
            for check in contract.checks {
                let why = check.why.expect("each says why");
                let cells = format!("| {} |", check.name);
                assert!(
                    page.contains(&cells) && page.contains(&why),
                    "{cells} {why}"
                );
            }
        }
    }
}
