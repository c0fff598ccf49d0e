//! Finds cgroups of version 2: by their directories, or by the id of a container.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::statfs;

use super::{AttachError, Cgroup};

/// `CGROUP2_SUPER_MAGIC` of the kernel's include/uapi/linux/magic.h.
const CGROUP2_MAGIC: u64 = 0x6367_7270;

/// The shortest and the longest id of a container. Tools show 12 digits of 64.
const ID_DIGITS: std::ops::RangeInclusive<usize> = 12..=64;

/// Finds a cgroup by its directory, its path below the root, or the id of its container.
pub(super) fn find(name: &str) -> Result<Cgroup, AttachError> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let root = mount_point(&mounts).ok_or_else(|| AttachError::Cgroup("--cgroup needs cgroup version 2, which is not mounted here: mount it (mount -t cgroup2 none DIRECTORY)".to_owned()))?;
    let given = Path::new(name);
    if given.is_absolute() && given.is_dir() {
        return cgroup_at(given, &root);
    }
    let below = root.join(name.trim_start_matches('/'));
    if below.is_dir() {
        return cgroup_at(&below, &root);
    }
    let mut found = Vec::new();
    if is_id(name) {
        find_container(&root, name, &mut found);
    }
    match found.as_slice() {
        [only] => cgroup_at(only, &root),
        [] => {
            let root = root.display();
            let why = if is_root_hidden() {
                "; zctrace runs in a cgroup namespace, which hides everything outside its own root"
            } else {
                ""
            };
            Err(AttachError::Cgroup(format!(
                "there is no version 2 cgroup '{name}' below {root}{why}"
            )))
        }
        _ => Err(AttachError::Cgroup(format!(
            "'{name}' matches several container ids: write more of it"
        ))),
    }
}

/// The cgroup with this directory, if it is one of version 2.
fn cgroup_at(path: &Path, root: &Path) -> Result<Cgroup, AttachError> {
    let path = path.canonicalize()?;
    let kind = statfs(&path).map_err(std::io::Error::from)?.f_type;
    if u64::try_from(kind).ok() != Some(CGROUP2_MAGIC) {
        let (path, root) = (path.display(), root.display());
        return Err(AttachError::Cgroup(format!(
            "'{path}' is not a version 2 cgroup: name a directory below {root}"
        )));
    }
    let id = fs::metadata(&path)?.ino();
    Ok(Cgroup { path, id })
}

/// Where cgroups of version 2 are mounted, by `/proc/self/mountinfo`.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    let mut lines = mounts.lines();
    lines.find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let is_cgroup2 = filesystem.split(' ').next() == Some("cgroup2");
        mount
            .split(' ')
            .nth(4)
            .filter(|_| is_cgroup2)
            .map(PathBuf::from)
    })
}

fn is_id(name: &str) -> bool {
    ID_DIGITS.contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Finds the directories of the containers whose ids begin so. Those of Docker, Podman and containerd
/// are named `docker-ID.scope`, `libpod-ID.scope`, `cri-containerd-ID.scope` or `ID`; what a container
/// has below its own is not looked at.
fn find_container(directory: &Path, id: &str, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let name = name.strip_suffix(".scope").unwrap_or(&name);
        let container = name.rsplit('-').next().unwrap_or(name);
        if is_id(container) && container.starts_with(id) {
            found.push(entry.path());
        } else {
            find_container(&entry.path(), id, found);
        }
    }
}

/// Whether this process is in a cgroup namespace of its own: then the root that it sees is below that
/// of the machine.
fn is_root_hidden() -> bool {
    // The number of the first cgroup namespace: `PROC_CGROUP_INIT_INO` of the kernel's
    // include/linux/proc_ns.h.
    const FIRST: u64 = 0xefff_fffb;
    fs::metadata("/proc/self/ns/cgroup").is_ok_and(|namespace| namespace.ino() != FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_is_found_among_the_mounts() {
        let hybrid = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let expected = Some(PathBuf::from("/sys/fs/cgroup/unified"));
        assert_eq!(mount_point(hybrid), expected);
        assert_eq!(mount_point(hybrid.lines().next().expect("one")), None);
    }

    #[test]
    fn containers_are_found_by_the_beginning_of_their_id() {
        let root = tempfile::tempdir().expect("a directory");
        let id = "0123456789abcdef".repeat(4);
        let scope = root.path().join(format!("system.slice/docker-{id}.scope"));
        fs::create_dir_all(scope.join("init.scope")).expect("directories");
        for (given, is_found) in [(&id[..], true), (&id[..12], true), ("fedcba987654", false)] {
            let mut found = Vec::new();
            find_container(root.path(), given, &mut found);
            assert_eq!(found == [scope.clone()], is_found, "{given}");
        }
        assert!(!is_id("0123456789a") && !is_id("nginx.service"));
    }
}
