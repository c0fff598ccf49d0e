//! How things are installed on this machine.

use crate::{command::is_root, toolchain::on_path};

/// The means that the machine offers.
pub(super) struct Host {
    /// What comes before `apt-get`, if packages can be installed at all.
    apt: Option<&'static str>,
    /// Whether there is rustup.
    pub(super) rustup: bool,
}

impl Host {
    /// Looks for them.
    pub(super) fn examine() -> Self {
        let prefix = match (is_root(), on_path("sudo")) {
            (true, _) => Some("env"),
            (false, Some(_)) => Some("sudo env"),
            (false, None) => None,
        };
        Self { apt: prefix.filter(|_| on_path("apt-get").is_some()), rustup: on_path("rustup").is_some() }
    }

    /// Routes that install packages: first with the lists that are there, then with fresh ones.
    pub(super) fn packages(&self, names: &str) -> Vec<String> {
        let Some(prefix) = self.apt else { return Vec::new() };
        // Another installation that is under way is waited for, within a limit.
        let apt = format!("{prefix} DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120");
        let install = format!("{apt} install -y --no-install-recommends {names}");
        vec![install.clone(), format!("{apt} update && {install}")]
    }
}
