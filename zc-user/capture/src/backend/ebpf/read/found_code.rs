//! The code that a process had mapped before the attach, as `/proc/PID/maps` shows it
//! (`man 5 proc_pid_maps`).

use std::{collections::HashMap, fs};

use rustix::time::ClockId;
use zctrace_callers::{CodeFile, CodeMapping};

use crate::proc_stat::{NS_PER_TICK, name_and_fields};

/// The mappings of code of a process; none if it has ended. When they were made is not known, but
/// not before the process began: a file that was changed later may not be what is mapped.
pub fn mapped_code(pid: u32) -> Vec<CodeMapping> {
    let read = |file: &str| {
        let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    };
    let [maps, mounts, stat] = ["maps", "mountinfo", "stat"].map(read);
    let Some(began_ns) = began_ns(&stat) else {
        return Vec::new();
    };
    let filesystems = filesystems(&mounts);
    let mapping = |line| mapping(line, &filesystems, began_ns);
    maps.lines().filter_map(mapping).collect()
}

/// When a process began, by its `stat`: in ns since 1970, rounded down to a tick.
fn began_ns(stat: &str) -> Option<i128> {
    // Field 22 of the line is the time since boot; the first one after the name is the third.
    let ticks: i128 = name_and_fields(stat)?.1.nth(22 - 3)?.parse().ok()?;
    let booted_ns = clock_ns(ClockId::Realtime) - clock_ns(ClockId::Boottime);
    Some(booted_ns + ticks * i128::from(NS_PER_TICK))
}

/// What a clock shows now, in ns.
pub fn clock_ns(clock: ClockId) -> i128 {
    let now = rustix::time::clock_gettime(clock);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// The types of the filesystems by their devices, as `mountinfo` writes both.
fn filesystems(mounts: &str) -> HashMap<&str, &str> {
    mounts.lines().filter_map(filesystem).collect()
}

/// The device and the type of the filesystem of a mount.
fn filesystem(line: &str) -> Option<(&str, &str)> {
    let (mount, of_filesystem) = line.split_once(" - ")?;
    Some((mount.split(' ').nth(2)?, of_filesystem.split(' ').next()?))
}

/// The mapping of a line, if it can be executed: `START-END PERMISSIONS OFFSET DEVICE INODE PATH`.
fn mapping(line: &str, filesystems: &HashMap<&str, &str>, began_ns: i128) -> Option<CodeMapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let is_code = fields.next()?.as_bytes().get(2) == Some(&b'x');
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let offset = hexadecimal(fields.next()?)?;
    let device = fields.next()?;
    let inode: u64 = fields.next()?.parse().ok()?;
    let path = fields.next().unwrap_or_default().trim_start();
    let (major, minor) = device.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let (major, minor) = (number(major)?, number(minor)?);
    let in_mounts = format!("{major}:{minor}");
    let file = CodeFile {
        path: path.to_owned(),
        device: libc::makedev(major, minor),
        inode,
        filesystem: filesystems
            .get(in_mounts.as_str())
            .map(|&name| name.to_owned()),
    };
    is_code.then_some(CodeMapping {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        offset,
        file: Some(file).filter(|file| file.path.starts_with('/')),
        mapped_ns: Some(began_ns),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn the_own_program_is_mapped_and_has_not_changed_since_it_began() {
        let own = fs::canonicalize("/proc/self/exe").expect("has a program");
        let metadata = fs::metadata(&own).expect("is there");
        let here = mapped_code as *const () as u64;
        let code = mapped_code(std::process::id());
        let mut around = code
            .iter()
            .filter(|one| (one.start..one.end).contains(&here));
        let file = around.next().and_then(|one| one.file.as_ref());
        let file = file.expect("a mapping around this function");
        assert_eq!(file.path, own.to_string_lossy());
        assert_eq!(file.inode, metadata.ino());
        let began_ns = code[0].mapped_ns;
        assert!(file.mapped_version(began_ns).is_ok());
        assert!(
            file.mapped_version(Some(0)).is_err(),
            "it was changed after 1970"
        );
    }

    #[test]
    fn only_code_is_read_and_devices_are_those_of_stat() {
        let filesystems = filesystems("29 1 8:17 / / rw,relatime shared:1 - ext4 /dev/sdb1 rw\n");
        let read = |line| mapping(line, &filesystems, 7);
        let file = |path: &str| CodeFile {
            path: path.to_owned(),
            device: libc::makedev(8, 17),
            inode: 131,
            filesystem: Some("ext4".to_owned()),
        };
        assert_eq!(
            read("7f0a1000-7f0a3000 r-xp 0002f000 08:11 131      /opt/a b.so (deleted)"),
            Some(CodeMapping {
                start: 0x7f0a_1000,
                end: 0x7f0a_3000,
                offset: 0x2_f000,
                file: Some(file("/opt/a b.so (deleted)")),
                mapped_ns: Some(7),
            })
        );
        let vdso = read("7ffd0000-7ffd2000 r-xp 00000000 00:00 0      [vdso]");
        assert_eq!(vdso.map(|one| one.file), Some(None));
        assert_eq!(
            read("7f0a1000-7f0a3000 r--p 0002f000 08:11 131  /opt/a.so"),
            None
        );
        assert_eq!(began_ns("1 (a) b) S"), None);
    }
}
