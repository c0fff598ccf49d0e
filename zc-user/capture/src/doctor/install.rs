//! How a package is installed: the one table of package managers.

use super::facts::{Reading, System};

/// An `ID` of `os-release(5)`, and what installs a package there. Others say what they are like in `ID_LIKE`.
const MANAGERS: [(&str, &str); 10] = [
    ("debian", "apt-get install"),
    ("ubuntu", "apt-get install"),
    ("fedora", "dnf install"),
    ("rhel", "dnf install"),
    ("alpine", "apk add"),
    ("arch", "pacman -S"),
    ("suse", "zypper install"),
    ("opensuse", "zypper install"),
    ("gentoo", "emerge"),
    ("void", "xbps-install"),
];

/// The command that installs a package on this distribution; `None` if that is not known.
pub(super) fn command(system: &System, package: &str) -> Option<String> {
    let Reading::Known(distribution) = &system.distribution else { return None };
    let manager = |id: &String| MANAGERS.iter().find(|(name, _)| name == id).map(|(_, command)| *command);
    let command = distribution.ids.iter().find_map(manager)?;
    Some(as_root(system, &format!("{command} {package}")))
}

/// The command as one types it to run it as root.
pub(super) fn as_root(system: &System, command: &str) -> String {
    if system.euid == 0 { command.to_owned() } else { format!("sudo {command}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{Distribution, sample};

    fn install(euid: u32, ids: &[&str]) -> Option<String> {
        let ids = ids.iter().map(|&id| id.to_owned()).collect();
        let distribution = Reading::Known(Distribution { name: String::new(), ids });
        command(&System { distribution, euid, ..sample::root().system }, "strace")
    }

    #[test]
    fn every_family_has_its_command() {
        for (ids, expected) in [
            (["debian"].as_slice(), "apt-get install strace"),
            (&["linuxmint", "ubuntu", "debian"], "apt-get install strace"),
            (&["rocky", "rhel", "centos", "fedora"], "dnf install strace"),
            (&["alpine"], "apk add strace"),
            (&["manjaro", "arch"], "pacman -S strace"),
            (&["opensuse-leap", "suse", "opensuse"], "zypper install strace"),
        ] {
            assert_eq!(install(0, ids).as_deref(), Some(expected));
        }
    }

    #[test]
    fn who_is_not_root_needs_sudo() {
        assert_eq!(install(1000, &["debian"]).as_deref(), Some("sudo apt-get install strace"));
    }

    #[test]
    fn nothing_is_guessed() {
        assert_eq!(install(0, &[]), None);
        assert_eq!(install(0, &["slackware"]), None);
    }
}
