//! The disk of a guest, with Debian, the modules of its kernels and the programs under test; and
//! the initramfs that it starts from.

use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::{
    apt::Apt,
    kernels::{Kernel, beside},
    programs::Programs,
};
use crate::{
    arch::Arch,
    command::{Words as _, check},
    dist::IN_AN_EMPTY_ROOT,
};

/// Packages with programs that the tests use. Their dependencies are installed, too.
const PACKAGES: &str = "base-files base-passwd bash bsdutils btrfs-progs busybox-static coreutils \
    dash diffutils e2fsprogs findutils grep groff-base gzip kmod libc-bin man-db mount perl \
    procps python3 sed strace tar util-linux";

/// Directories that are links into /usr.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// Directories that no package has.
const PLACES: &str = "dev proc sys run tmp root mnt var/tmp";

/// Size of the disk; it is sparse.
const DISK_BYTES: u64 = 4 << 30;

/// Modules that the kernel needs to mount the disk; their dependencies are added. In newer kernels
/// they are built in.
const DISK_MODULES: [&str; 3] = ["virtio_pci", "virtio_blk", "ext4"];

/// The tree of Debian's files that a disk is made of.
pub(super) struct Tree(PathBuf);

impl Tree {
    /// Unpacks packages of this machine's own release of Debian, so that programs built here find
    /// their libraries.
    pub(super) fn unpack(cache: &Path, work: &Path, arch: Arch) -> Result<Self> {
        let apt = Apt::of_guests(cache, arch)?;
        let packages = apt.closure(&PACKAGES.split(' ').collect::<Vec<_>>())?;
        let archives = apt.download(&packages, &cache.join("guest"))?;
        let tree = Self(work.join("root"));
        let (stamp, wanted) = (work.join("root.packages"), packages.join("\n"));
        if !fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            tree.unpack_all(&archives)?;
            fs::write(&stamp, wanted)?;
        }
        Ok(tree)
    }

    fn unpack_all(&self, archives: &[PathBuf]) -> Result<()> {
        if self.0.exists() {
            fs::remove_dir_all(&self.0)?;
        }
        for name in MERGED {
            fs::create_dir_all(self.0.join("usr").join(name))?;
            symlink(format!("usr/{name}"), self.0.join(name))?;
        }
        for archive in archives {
            // dpkg-deb's own -x would put directories in place of the links.
            let script =
                r#"dpkg-deb --fsys-tarfile "$0" | tar -x --keep-directory-symlink -C "$1""#;
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).arg(archive).arg(&self.0);
            check(&mut shell).context("cannot unpack a package")?;
        }
        for place in PLACES.split(' ') {
            fs::create_dir_all(self.0.join(place))?;
        }
        fs::set_permissions(self.0.join("tmp"), fs::Permissions::from_mode(0o1777))?;
        // The packages' own scripts would do this.
        for (from, to) in [
            ("usr/share/base-passwd/passwd.master", "etc/passwd"),
            ("usr/share/base-passwd/group.master", "etc/group"),
        ] {
            fs::copy(self.0.join(from), self.0.join(to))
                .with_context(|| format!("cannot make {to}"))?;
        }
        fs::write(self.0.join("etc/hostname"), "guest\n")?;
        fs::write(self.0.join("etc/hosts"), "127.0.0.1 localhost guest\n")?;
        Ok(())
    }

    /// Puts the programs at the same paths as on this machine, and removes those of an earlier
    /// build.
    pub(super) fn add_programs(&self, programs: &Programs) -> Result<()> {
        let tests = self.inside(programs.test.parent().context("it has a directory")?)?;
        if tests.exists() {
            fs::remove_dir_all(tests)?;
        }
        for path in programs.files() {
            self.add(&path)?;
        }
        let scripts = self.0.join("usr/sbin");
        write_script(&scripts.join("in-an-empty-root"), IN_AN_EMPTY_ROOT)?;
        write_script(&scripts.join("guest"), include_str!("guest.sh"))
    }

    /// Adds a file or a directory at the same path as on this machine.
    fn add(&self, path: &Path) -> Result<()> {
        let place = self.inside(path)?;
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                self.add(&entry?.path())?;
            }
            return fs::create_dir_all(place).context("cannot make a directory");
        }
        fs::create_dir_all(place.parent().context("it has a directory")?)?;
        if place.exists() {
            fs::remove_file(&place)?;
        }
        // A hard link costs nothing; on another filesystem it has to be a copy.
        fs::hard_link(path, &place)
            .or_else(|_| fs::copy(path, &place).map(drop))
            .with_context(|| format!("cannot copy {}", path.display()))
    }

    fn inside(&self, path: &Path) -> Result<PathBuf> {
        let path = path.strip_prefix("/");
        Ok(self.0.join(path.context("a path is not absolute")?))
    }

    /// Adds the modules of a kernel.
    pub(super) fn add_modules(&self, kernel: &Kernel) -> Result<()> {
        let place = self.0.join("lib/modules").join(&kernel.release);
        if !place.exists() {
            fs::create_dir_all(place.parent().context("it has a directory")?)?;
            let mut cp = Command::new("cp");
            check(cp.arg("-a").arg(kernel.modules()?).arg(&place))?;
            let mut depmod = Command::new("/sbin/depmod");
            check(depmod.arg("-b").arg(&self.0).arg(&kernel.release))?;
        }
        Ok(())
    }

    /// Makes a disk of it.
    pub(super) fn disk(&self, path: &Path) -> Result<()> {
        if path.exists() {
            fs::remove_file(path)?;
        }
        File::create(path)?.set_len(DISK_BYTES)?;
        let mut mkfs = Command::new("/sbin/mkfs.ext4");
        mkfs.words("-q -F -E root_owner=0:0 -d")
            .arg(&self.0)
            .arg(path);
        check(&mut mkfs).context("cannot make a disk")
    }

    /// Makes the initramfs, which mounts the disk and has the plan.
    pub(super) fn initramfs(
        &self,
        kernel: &Kernel,
        plan: &[(&str, String)],
        path: &Path,
    ) -> Result<()> {
        let start = beside(path, "start");
        if start.exists() {
            fs::remove_dir_all(&start)?;
        }
        for place in ["bin", "modules", "plan"] {
            fs::create_dir_all(start.join(place))?;
        }
        fs::copy(self.0.join("bin/busybox"), start.join("bin/busybox"))?;
        write_script(&start.join("init"), include_str!("init"))?;
        for (name, text) in plan {
            fs::write(start.join("plan").join(name), text)?;
        }
        let modules = self.0.join("lib/modules").join(&kernel.release);
        let dependencies = fs::read_to_string(modules.join("modules.dep"))
            .context("depmod has not listed the modules")?;
        let order = load_order(&dependencies, &DISK_MODULES);
        for (position, module) in order.into_iter().enumerate() {
            let to = start.join(format!("modules/{position:02}.ko"));
            write_module(&modules.join(module), &to)?;
        }
        let mut cpio = Command::new("sh");
        cpio.args(["-c", "find . | cpio --quiet -o -H newc -R 0:0"]);
        check(cpio.current_dir(&start).stdout(File::create(path)?))
            .context("cannot make the initramfs")?;
        fs::remove_dir_all(start)?;
        Ok(())
    }
}

/// The files of these modules and of their dependencies, in the order in which they can be loaded.
/// A line of `modules.dep` has a module, a colon and its dependencies, the last of which is loaded
/// first (`man 5 modules.dep`). A module without a line is built into the kernel.
fn load_order<'a>(dependencies: &'a str, names: &[&str]) -> Vec<&'a str> {
    let lines = || dependencies.lines().filter_map(|line| line.split_once(':'));
    let mut order = Vec::new();
    for name in names {
        let file = format!("/{name}.ko");
        let Some((module, below)) = lines().find(|(module, _)| module.contains(&file)) else {
            continue;
        };
        for file in below.split_ascii_whitespace().rev().chain([module]) {
            if !order.contains(&file) {
                order.push(file);
            }
        }
    }
    order
}

/// Writes a module without compression.
fn write_module(module: &Path, to: &Path) -> Result<()> {
    match module.extension().and_then(|extension| extension.to_str()) {
        Some("ko") => fs::copy(module, to)
            .map(drop)
            .context("cannot copy a module"),
        Some("xz") => {
            let mut xz = Command::new("xz");
            check(xz.arg("-dc").arg(module).stdout(File::create(to)?))
        }
        _ => bail!("{} is compressed in an unknown way", module.display()),
    }
}

/// Writes a file that can be run.
fn write_script(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_loaded_after_their_dependencies() {
        let dependencies = "kernel/virtio/virtio_ring.ko.xz:\n\
                            kernel/virtio/virtio.ko.xz: kernel/virtio/virtio_ring.ko.xz\n\
                            kernel/block/virtio_blk.ko.xz: kernel/virtio/virtio.ko.xz kernel/virtio/virtio_ring.ko.xz\n\
                            kernel/virtio/virtio_pci.ko.xz: kernel/virtio/legacy.ko.xz kernel/virtio/virtio.ko.xz kernel/virtio/virtio_ring.ko.xz\n";
        let order = load_order(dependencies, &["virtio_pci", "virtio_blk", "ext4"]);
        let names = [
            "virtio/virtio_ring",
            "virtio/virtio",
            "virtio/legacy",
            "virtio/virtio_pci",
            "block/virtio_blk",
        ];
        assert_eq!(order, names.map(|name| format!("kernel/{name}.ko.xz")));
    }
}
