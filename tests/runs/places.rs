//! Places for files: a scratch directory, filesystems that only this process and its children see,
//! and loop devices. The kernel removes these filesystems and devices with their last user, even if
//! this process is killed.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use serde::Deserialize;

/// Room for a filesystem's own structures.
const OVERHEAD_BYTES: u64 = 64 << 20;
/// The minimum size of a filesystem on a loop device: btrfs refuses less than 109 MiB.
const MIN_IMAGE_BYTES: u64 = 256 << 20;

/// Makes all further mounts private: they end with the last process below this one, even if this
/// process is killed.
pub fn keep_mounts_private() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)
        .context("cannot create a mount namespace (this needs root)")?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .context("cannot make mounts private")
}

/// A kind of place for files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunPlace {
    /// The filesystem of the temporary directory.
    Disk,
    /// A tmpfs.
    Memory,
    /// A new ext4 on a loop device.
    Ext4,
    /// A new btrfs on a loop device.
    Btrfs,
}

/// The scratch directory and what is mounted in it.
pub struct Places {
    root: PathBuf,
}

impl Places {
    /// Places below this directory, which must exist.
    pub fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// A directory in this place, with room for this many bytes if the machine has it.
    pub fn directory(&self, place: RunPlace, bytes: u64) -> Result<PathBuf> {
        let (name, make) = match place {
            RunPlace::Disk => ("disk", "mkdir disk"),
            RunPlace::Memory => ("memory", "mkdir memory && mount -t tmpfs none memory"),
            RunPlace::Ext4 => (
                "ext4",
                "truncate -s $0 ext4.image && mkfs.ext4 -q -F ext4.image && \
                 mkdir ext4 && mount -o loop ext4.image ext4",
            ),
            RunPlace::Btrfs => (
                "btrfs",
                "truncate -s $0 btrfs.image && mkfs.btrfs -q btrfs.image && \
                 mkdir btrfs && mount -o loop btrfs.image btrfs",
            ),
        };
        let directory = self.root.join(name);
        if !directory.exists() {
            let mut shell = Command::new("sh");
            shell.args(["-c", make, &image_bytes(bytes).to_string()]);
            run(shell.current_dir(&self.root))?;
        }
        Ok(directory)
    }

    /// Deletes everything that a scenario left, so that the next one finds every place empty.
    pub fn clear(&self) -> Result<()> {
        for place in ["memory", "ext4", "btrfs"].map(|name| self.root.join(name)) {
            if place.exists() {
                run(Command::new("umount").arg(&place))?;
                fs::remove_dir(place)?;
            }
        }
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Writes a file of this many bytes. They are lines of text, and no filesystem stores them as a
/// hole.
pub fn write_input(path: &Path, bytes: u64) -> Result<()> {
    let line: Vec<u8> = (b' '..=b'~').chain([b'\n']).collect();
    let block = line.repeat(4096);
    let name = || path.display().to_string();
    let mut file = File::create_new(path).with_context(name)?;
    let mut left = usize::try_from(bytes)?;
    while left > 0 {
        let part = block.len().min(left);
        file.write_all(&block[..part]).with_context(name)?;
        left -= part;
    }
    // Measurements must not share the disk with the writeback of this file.
    file.sync_all()?;
    // All runs find it in the page cache.
    io::copy(&mut File::open(path)?, &mut io::sink())?;
    Ok(())
}

fn image_bytes(bytes: u64) -> u64 {
    (bytes + bytes / 4 + OVERHEAD_BYTES).max(MIN_IMAGE_BYTES)
}

/// Runs a command and returns what it prints. An error if it fails.
fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {name}: is it installed?"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A loop device. It exists as long as the value.
pub struct LoopDevice {
    path: PathBuf,
    _user: File,
}

impl LoopDevice {
    /// A device with the bytes of this file.
    pub fn over(image: &Path) -> Result<Self> {
        let shown = run(Command::new("losetup")
            .args(["--find", "--show"])
            .arg(image))?;
        let path = PathBuf::from(shown.trim_end());
        let user = File::open(&path).with_context(|| path.display().to_string());
        // A device in use is detached after its last user.
        run(Command::new("losetup").arg("--detach").arg(&path))?;
        Ok(Self { _user: user?, path })
    }

    /// The path of the device.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
