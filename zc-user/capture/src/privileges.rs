//! What changes when zctrace has file capabilities (`setcap`) and its caller is not root.
//!
//! - Environment variables that name kernel data are ignored, see [`is_secure`].
//! - The command gains no privileges by exec (`no_new_privs`): otherwise users could watch what a
//!   setuid program does with files that they may not read. strace and ptrace(2) do the same
//!   (`LSM_UNSAFE_PTRACE` in the kernel's security/commoncap.c).
//! - zctrace needs its capabilities to load and attach the programs, not to read their maps: see
//!   `lower`.

use std::{collections::BTreeSet, io, path::Path};

use rustix::{
    io::Errno,
    process::{getegid, geteuid, getgid, getuid},
    thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities},
};

use zctrace_core::options::Identity;

use crate::trace::Trace;

/// What happens to the capabilities of an [elevated](is_elevated) zctrace once the programs are
/// attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AfterAttach {
    /// They are not effective while the command runs. This process may trace again afterwards.
    #[default]
    Lowered,
    /// They are given up for good: this process does not trace again.
    GivenUp,
}

/// Whether the kernel marked this process as more privileged than its caller (`AT_SECURE`,
/// getauxval(3)): by file capabilities, setuid or setgid. Then it must not trust what its caller
/// controls. Under sudo it is not so marked: there the caller is root.
pub fn is_secure() -> bool {
    // SAFETY: it takes and returns plain numbers.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether this process has privileges that its caller lacks, and the caller is not root.
pub fn is_elevated() -> bool {
    is_secure() && !getuid().is_root()
}

/// Whether this program runs setuid or setgid. zctrace does not support that: it would write
/// reports and run commands as another user.
pub fn is_set_id() -> bool {
    getuid() != geteuid() || getgid() != getegid()
}

/// Whether this process may run a command as this user.
pub(crate) fn may_become(user: Identity) -> bool {
    let is_own = user.uid == geteuid().as_raw() && user.gid == getegid().as_raw();
    is_own || capabilities(None).is_ok_and(|own| own.permitted.contains(CapabilitySet::SETUID))
}

/// Capabilities that are not effective. Dropping it makes them effective again, unless they were
/// given up.
pub(crate) struct Lowered(Option<CapabilitySets>);

impl Drop for Lowered {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // They are still permitted, so this does not fail.
            let _ = set_capabilities(None, before);
        }
    }
}

/// Makes the capabilities of this thread ineffective if the process is [elevated](is_elevated);
/// otherwise does nothing.
///
/// They stay effective if `can_read_maps` says that maps cannot be read without them: up to Linux
/// 5.18, `unprivileged_bpf_disabled` forbids that (the kernel's commit c8644cd0efe7). The
/// inheritable set belongs to the caller and is not changed.
pub(crate) fn lower(
    after: AfterAttach,
    can_read_maps: impl FnOnce() -> bool,
) -> io::Result<Lowered> {
    if !is_elevated() {
        return Ok(Lowered(None));
    }
    let before = capabilities(None)?;
    let none = CapabilitySet::empty();
    let ineffective = CapabilitySets {
        effective: none,
        ..before
    };
    set_capabilities(None, ineffective)?;
    if !can_read_maps() {
        set_capabilities(None, before)?;
        return Ok(Lowered(None));
    }
    if after == AfterAttach::Lowered {
        return Ok(Lowered(Some(before)));
    }
    give_up()?;
    Ok(Lowered(None))
}

/// Gives up the capabilities of this thread for good if the process is [elevated](is_elevated);
/// otherwise does nothing.
pub fn give_up() -> io::Result<()> {
    if is_elevated() {
        let given_up = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            ..capabilities(None)?
        };
        set_capabilities(None, given_up)?;
    }
    Ok(())
}

/// A note on the programs of a trace that were kept from gaining privileges, if there are any, and
/// why.
pub(crate) fn restrained_note(trace: &Trace, why: &str) -> Option<String> {
    let directory = trace.directory.as_deref().map_or(Path::new(""), Path::new);
    let programs = trace
        .all_processes()
        .filter_map(|process| process.exe.as_deref());
    let restrained: BTreeSet<&str> = programs
        .filter(|exe| grants_privileges(&directory.join(exe)))
        .collect();
    let first = restrained.first()?;
    let others = match restrained.len() - 1 {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "'{first}'{others} ran without the privileges that its file grants{why}"
    ))
}

/// Whether executing this file changes the user, the group or the capabilities.
fn grants_privileges(program: &Path) -> bool {
    let is_set_id = rustix::fs::stat(program)
        .is_ok_and(|stat| stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0);
    let found = rustix::fs::getxattr(program, "security.capability", &mut [0_u8; 64][..]);
    is_set_id || found.is_ok() || found == Err(Errno::RANGE)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn a_test_runner_is_not_elevated_and_keeps_its_capabilities() {
        assert!(!is_elevated() && !is_set_id());
        let before = capabilities(None).expect("readable");
        let lowered = lower(AfterAttach::GivenUp, || true).expect("nothing to do");
        assert_eq!(capabilities(None).expect("readable"), before);
        drop(lowered);
        assert_eq!(capabilities(None).expect("readable"), before);
    }

    #[test]
    fn a_setuid_file_grants_privileges() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        for (mode, grants) in [(0o755, false), (0o4755, true), (0o2755, true)] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("ours");
            assert_eq!(grants_privileges(file.path()), grants, "{mode:o}");
        }
        assert!(!grants_privileges(Path::new("/nonexistent")));
    }
}
