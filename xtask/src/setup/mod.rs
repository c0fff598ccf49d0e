//! `cargo xtask setup`: brings a Debian or Ubuntu machine into a state where everything builds and all tests run.

mod steps;

use std::process::Command;

use anyhow::{Result, bail};
pub(crate) use steps::DEBIAN_RUSTC;
use steps::STEPS;

use crate::{
    command::{is_root, root},
    toolchain::on_path,
};

/// What a step is needed for. Each need includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Building and running zctrace.
    Building,
    /// Running the tests.
    Testing,
    /// Checking a change.
    Checking,
    /// Booting guests of this machine's own architecture.
    Booting,
    /// Booting guests of another architecture.
    BootingForeign,
    /// Checking the fuzz targets.
    Fuzzing,
}

/// One thing that has to be on the machine.
struct Step {
    /// What it is.
    name: &'static str,
    /// What it is for.
    need: Need,
    /// Looks whether it is there, without changing anything.
    check: fn(&Host) -> State,
    /// What to do by hand if none of the routes works.
    by_hand: &'static str,
}

/// Result of a check.
enum State {
    /// It is there; the text says which version.
    Ready(String),
    /// It is missing.
    Missing {
        /// What was found instead.
        found: String,
        /// Shell lines that install it; each is tried if those before it failed.
        routes: Vec<String>,
    },
}

/// Does all steps up to a need. It is quick and prints nothing if nothing is missing.
pub(crate) fn install(need: Need) -> Result<()> {
    install_steps(|step| step.need <= need)
}

/// Does only the steps for this need, and not those for the needs before it.
pub(crate) fn install_only(need: Need) -> Result<()> {
    install_steps(|step| step.need == need)
}

fn install_steps(is_wanted: impl Fn(&Step) -> bool) -> Result<()> {
    let host = Host::examine();
    let mut missing = Vec::new();
    for step in STEPS.iter().filter(|step| is_wanted(step)) {
        if !step.install(&host) {
            eprintln!("setup: {} by hand: {}", step.name, step.by_hand);
            missing.push(step.name);
        }
    }
    if !missing.is_empty() {
        bail!("set-up lacks {}: do what the lines above say, then start again", missing.join(", "));
    }
    Ok(())
}

/// Shows the state of every step and what would be done, and does nothing.
pub(crate) fn print() {
    let host = Host::examine();
    for step in &STEPS {
        match (step.check)(&host) {
            State::Ready(which) => println!("ok       {:16} {which}", step.name),
            State::Missing { found, routes } => {
                println!("missing  {:16} {found}", step.name);
                for (position, route) in routes.iter().enumerate() {
                    println!("{:26}{} {route}", "", if position == 0 { "would run:" } else { "or else:  " });
                }
                println!("{:26}by hand:   {}", "", step.by_hand);
            }
        }
    }
}

impl Step {
    /// Tries the routes until the check passes; returns whether it does.
    fn install(&self, host: &Host) -> bool {
        let State::Missing { found, routes } = (self.check)(host) else { return true };
        eprintln!("setup: {}: {found}", self.name);
        routes.iter().any(|route| {
            eprintln!("setup: $ {route}");
            // No route may wait for input, and its output does not belong on the stdout of xtask.
            let line = format!("exec 1>&2 </dev/null; {route}");
            let status = Command::new("sh").args(["-c", &line]).current_dir(root()).status();
            // Success counts only if the check now passes.
            status.is_ok_and(|status| status.success()) && matches!((self.check)(host), State::Ready(_))
        })
    }
}

/// What this machine offers to install things with.
struct Host {
    /// Words before `apt-get`; `None` if packages cannot be installed.
    apt: Option<&'static str>,
    /// Whether there is rustup.
    pub(super) rustup: bool,
}

impl Host {
    /// Examines this machine.
    pub(super) fn examine() -> Self {
        let prefix = match (is_root(), on_path("sudo")) {
            (true, _) => Some("env"),
            (false, Some(_)) => Some("sudo env"),
            (false, None) => None,
        };
        Self { apt: prefix.filter(|_| on_path("apt-get").is_some()), rustup: on_path("rustup").is_some() }
    }

    /// Shell lines that install packages: first with the package lists as they are, then with fresh ones.
    pub(super) fn packages(&self, names: &str) -> Vec<String> {
        let Some(prefix) = self.apt else { return Vec::new() };
        // If another installation runs, apt waits for it, within a limit.
        let apt = format!("{prefix} DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120");
        let install = format!("{apt} install -y --no-install-recommends {names}");
        vec![install.clone(), format!("{apt} update && {install}")]
    }
}
