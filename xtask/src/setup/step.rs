//! A step of the set-up, and what a machine offers to do it with.

use std::process::Command;

use crate::{
    command::{is_root, root},
    toolchain::on_path,
};

/// What a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
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
    /// Checking scripts, pages and dependencies.
    Linting,
    /// Making a release.
    Releasing,
    /// All of it.
    Everything,
    /// Comparing zctrace with other tools, where they can be had: nothing else needs them.
    Benchmarking,
}

impl Purpose {
    /// Whether what serves the other purpose is needed. Linting and benchmarking need nothing else,
    /// and a release no more than a build before it; each of the others includes those before it.
    pub(super) fn includes(self, other: Self) -> bool {
        match self {
            Self::Linting | Self::Benchmarking => other == self,
            Self::Releasing => [Self::Building, self].contains(&other),
            _ => other <= self,
        }
    }
}

/// One thing that has to be on the machine: what it is; what it is for; what looks whether it is
/// there, without changing anything; and what to do by hand if none of the routes works.
pub(super) struct SetupStep(
    pub(super) &'static str,
    pub(super) Purpose,
    pub(super) fn(&Host) -> Readiness,
    pub(super) &'static str,
);

/// Result of a check.
pub(super) enum Readiness {
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

impl SetupStep {
    /// Tries the routes until the check passes; returns whether it does.
    pub(super) fn install(&self, host: &Host) -> bool {
        let Readiness::Missing { found, routes } = (self.2)(host) else {
            return true;
        };
        eprintln!("setup: {}: {found}", self.0);
        routes.iter().any(|route| {
            eprintln!("setup: $ {route}");
            // No route may wait for input, and its output does not belong on the stdout of xtask.
            let line = format!("exec 1>&2 </dev/null; {route}");
            let status = Command::new("sh")
                .args(["-c", &line])
                .current_dir(root())
                .status();
            // Success counts only if the check now passes.
            status.is_ok_and(|status| status.success())
                && matches!((self.2)(host), Readiness::Ready(_))
        })
    }
}

/// What this machine offers to install things with.
pub(super) struct Host {
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
        Self {
            apt: prefix.filter(|_| on_path("apt-get").is_some()),
            rustup: on_path("rustup").is_some(),
        }
    }

    /// Shell lines that install packages: first with the package lists as they are, then with fresh
    /// ones.
    pub(super) fn packages(&self, names: &str) -> Vec<String> {
        let Some(prefix) = self.apt else {
            return Vec::new();
        };
        // If another installation runs, apt waits for it, within a limit.
        let apt = format!(
            "{prefix} DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120"
        );
        let install = format!("{apt} install -y --no-install-recommends {names}");
        vec![install.clone(), format!("{apt} update && {install}")]
    }
}

/// A shell line with a time limit in seconds: behind some proxies a download hangs for ever.
pub(super) fn within(seconds: u32, line: &str) -> String {
    format!("timeout --foreground -k 5 {seconds} {line}")
}

/// Short for [`Readiness::Missing`].
pub(super) fn missing(found: impl Into<String>, routes: Vec<String>) -> Readiness {
    Readiness::Missing {
        found: found.into(),
        routes,
    }
}
