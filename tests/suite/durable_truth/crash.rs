//! What a crash really leaves: a program runs in a filesystem on a loop device, and a copy of the
//! device's file has only what had been written to the "disk" by then. The copy is mounted, and
//! compared with what the program left.
//!
//! `ZC_CRASH_FILESYSTEMS` names the filesystems (`ext4 xfs btrfs`), `ZC_RANDOM_SCRIPTS` says how many
//! scripts are run on each.

use std::{collections::BTreeMap, sync::Mutex};

use zctrace::{durable::Syncs, report::Report};

use super::{
    BACKENDS, Said, file_script, for_each, in_memory, make_initial, random::script, seeds,
};
use crate::{
    durable_contracts::{PIP, WHEEL, postgres_cluster, postgres_insert},
    harness::{Program, TestDir, python, shell, zctrace},
};

/// How many scripts run on each filesystem by default.
const SCRIPTS: u64 = 24;

/// A filesystem with the weakest promises that it can be mounted with.
struct Filesystem {
    name: &'static str,
    size: &'static str,
    make: &'static str,
    options: &'static str,
    /// How its copy is mounted.
    copy_options: &'static str,
    /// Whether it has `FICLONE`.
    can_clone: bool,
}

const FILESYSTEMS: [Filesystem; 3] = [
    Filesystem {
        name: "ext4",
        size: "160M",
        make: "mkfs.ext4 -q -F",
        options: "loop,noauto_da_alloc,data=writeback,commit=300",
        copy_options: "loop",
        can_clone: false,
    },
    Filesystem {
        name: "xfs",
        size: "320M",
        make: "mkfs.xfs -q",
        options: "loop,nouuid",
        copy_options: "loop,nouuid",
        can_clone: true,
    },
    Filesystem {
        name: "btrfs",
        size: "256M",
        make: "mkfs.btrfs -q",
        options: "loop,commit=300",
        copy_options: "loop",
        can_clone: true,
    },
];

/// Makes the filesystem with the files of `initial` and `data/`, and leaves it on the disk.
const MAKE: &str = r#"set -eu
truncate -s "$SIZE" disk
$MAKE disk
mkdir mnt
mount -o "$OPTIONS" disk mnt
cp -r initial/. mnt
(cd mnt && mkdir data && eval "$PREPARE")
umount mnt"#;

/// Runs `"$@"` in the filesystem, and lists its files as they are and as they would be after a crash
/// then.
const RUN: &str = r#"set -eu
chmod 755 .
cp --sparse=always "$DISK" disk
mkdir live crashed
mount -o "$OPTIONS" disk live
(cd live && "$@" 7<>a)
cp --sparse=always disk copy
mount -o "$COPY_OPTIONS" copy crashed
list() {
    cd "$1"
    find . -mindepth 1 -type d -printf 'directory %P\n'
    find . -type l -printf 'link:%l %P\n'
    find . -type f -exec md5sum {} + | sed 's: [ *]\./: :'
}
(list live) >before
(list crashed) >after
umount live crashed"#;

/// A filesystem that is mounted until this is dropped.
pub struct Mounted(TestDir);

impl Mounted {
    /// `None`: it cannot be made here.
    pub fn new(name: &str) -> Option<Self> {
        let filesystem = FILESYSTEMS.iter().find(|one| one.name == name);
        let filesystem = filesystem.filter(|one| one.is_installed());
        let Some(filesystem) = filesystem else {
            eprintln!("scripts on {name}: NOT RUN, no mkfs or no loop device");
            return None;
        };
        let image = filesystem.make("");
        let mount = shell("mount -o loop disk mnt").dir(image.path());
        mount.finish().exits(0);
        Some(Self(image))
    }

    /// A directory in it.
    pub fn directory(&self) -> TestDir {
        TestDir::inside(&self.0.word("mnt"))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmount = shell("umount --lazy mnt").dir(self.0.path());
        unmount.finish();
    }
}

/// What a directory has: of each path, what is there.
type Listing = BTreeMap<String, String>;

/// What a program left, and what a crash then leaves of it.
struct Crash {
    syncs: Syncs,
    before: Listing,
    after: Listing,
}

impl Filesystem {
    fn is_installed(&self) -> bool {
        let maker = self.make.split(' ').next().unwrap_or_default();
        let found = format!("command -v {maker} && losetup --find");
        shell(&found).finish().code == Some(0)
    }

    /// An image that has the files with which a script begins, and what this script makes.
    fn make(&self, prepare: &str) -> TestDir {
        let directory = in_memory();
        make_initial(&directory.join("initial"));
        let made = shell(MAKE).through(&["unshare", "--mount"]);
        let made = made.env("SIZE", self.size).env("MAKE", self.make);
        let made = made.env("OPTIONS", self.options).env("PREPARE", prepare);
        made.dir(directory.path()).finish().exits(0);
        directory
    }

    fn crash_after(&self, image: &TestDir, backend: &str, program: &Program) -> Crash {
        let directory = TestDir::new();
        let report = directory.join("report.json");
        let options = ["--syncs", "--format=json", "--output"];
        let traced = zctrace().options(&options).option(&report).backend(backend);
        let traced = traced.launch_of(program);
        let words = ["unshare", "--mount", "bash", "-c", RUN, "bash"];
        let run = traced.through(&words).dir(directory.path());
        let run = run.env("DISK", image.join("disk"));
        let run = run.env("OPTIONS", self.options);
        let run = run.env("COPY_OPTIONS", self.copy_options);
        run.finish().exits(0);
        let report = Report::from_json(&directory.read("report.json")).expect("is a report");
        Crash {
            syncs: report.syncs.expect("it was asked for"),
            before: listing(&directory.read("before")),
            after: listing(&directory.read("after")),
        }
    }
}

fn listing(text: &str) -> Listing {
    let entries = text.lines().filter_map(|line| line.split_once(' '));
    entries
        .map(|(what, path)| (path.to_owned(), what.to_owned()))
        .collect()
}

impl Crash {
    /// Whether a crash lost a file.
    fn has_lost(&self, path: &str) -> bool {
        self.before.get(path) != self.after.get(path)
    }

    /// How many files in order, not synced, and unknown, and how many of each the crash lost.
    fn figures(&self) -> [(usize, usize); 3] {
        let said = Said::at_end(&self.syncs);
        [said.holds, said.fails, said.unknown].map(|paths| {
            let lost = paths.iter().filter(|path| self.has_lost(path)).count();
            (paths.len(), lost)
        })
    }

    /// What it lost although it was in order.
    fn broken_promises(&self) -> Vec<String> {
        let said = Said::at_end(&self.syncs);
        let is_lost = |path: &String| self.has_lost(path) || !self.before.contains_key(path);
        let lost = said.holds.into_iter().filter(is_lost);
        lost.map(|path| {
            let [before, after] = [&self.before, &self.after].map(|all| all.get(&path));
            format!("{path}: {before:?} before the crash, {after:?} after it")
        })
        .collect()
    }
}

/// The filesystems to try, of those that can be made here.
fn filesystems() -> Vec<&'static Filesystem> {
    let names = std::env::var("ZC_CRASH_FILESYSTEMS").unwrap_or_else(|_| "ext4".to_owned());
    let is_named = |one: &&Filesystem| names.split(' ').any(|name| name == one.name);
    let (here, missing): (Vec<_>, Vec<_>) = FILESYSTEMS
        .iter()
        .filter(is_named)
        .partition(|one| one.is_installed());
    for one in missing {
        eprintln!(
            "crashes on {}: NOT RUN, no mkfs or no loop device",
            one.name
        );
    }
    here
}

fn sum(all: &mut [(usize, usize); 3], more: [(usize, usize); 3]) {
    for (all, more) in all.iter_mut().zip(more) {
        *all = (all.0 + more.0, all.1 + more.1);
    }
}

/// `holds 10 (0 lost), ...`.
fn describe(figures: [(usize, usize); 3]) -> String {
    let words = ["in order", "not synced", "unknown"].iter().zip(figures);
    let parts = words.map(|(word, (count, lost))| format!("{word} {count} ({lost} lost)"));
    parts.collect::<Vec<_>>().join(", ")
}

/// Runs the scripts in a filesystem under a backend.
fn crash_scripts(filesystem: &Filesystem, image: &TestDir, backend: &str) {
    let (sums, wrong) = (Mutex::new([(0, 0); 3]), Mutex::new(Vec::new()));
    for_each(seeds(SCRIPTS), |seed| {
        let script = script(seed, filesystem.can_clone);
        if script.failing.is_some() {
            // No disk fails here.
            return;
        }
        let crash = filesystem.crash_after(image, backend, &file_script(&script.text));
        sum(&mut sums.lock().expect("no panic"), crash.figures());
        let broken = crash.broken_promises();
        if !broken.is_empty() {
            let text = format!("seed {seed}: {}\n  {}", script.text, broken.join("\n  "));
            wrong.lock().expect("no panic").push(text);
        }
    });
    let figures = *sums.lock().expect("no panic");
    println!("{}, {backend}: {}", filesystem.name, describe(figures));
    let wrong = wrong.into_inner().expect("no panic").join("\n");
    assert_eq!(wrong, "", "{}", filesystem.name);
    let [(in_order, _), (_, lost), _] = figures;
    // Another program may sync everything meanwhile, so not all that was not synced is lost.
    assert!(in_order > 0 && lost > 0, "{figures:?}");
}

#[test]
fn a_crash_loses_no_file_that_was_synced_in_order() {
    for filesystem in filesystems() {
        let image = filesystem.make("");
        for backend in BACKENDS {
            crash_scripts(filesystem, &image, backend);
        }
    }
}

/// Programs of others: what each is, what must be installed, a script that runs before, and a command.
fn real_programs() -> Vec<(&'static str, &'static str, String, Program)> {
    let sqlite = |journal: &str, synchronous: &str| {
        python(&format!(
            "import sqlite3
c = sqlite3.connect('a.db')
c.execute('pragma journal_mode={journal}')
c.execute('pragma synchronous={synchronous}')
c.execute('create table t(a)')
c.execute('insert into t values(1)')
c.commit()
c.close()"
        ))
    };
    let git = |fsync: &str| {
        shell(&format!(
            "git() {{ command git -c user.name=n -c user.email=e@x -c core.fsync={fsync} \"$@\"; }}
git init -q . && git add a && git commit -qm m"
        ))
    };
    let redis = "redis-server --port 0 --unixsocket /tmp/zc-redis-$$ --dir . --appendonly yes --appendfsync always --save '' >/dev/null &
until redis-cli -s /tmp/zc-redis-$$ set k v >/dev/null 2>&1; do sleep 0.05; done
redis-cli -s /tmp/zc-redis-$$ shutdown nosave
wait";
    let replace = "import os\nopen('t', 'w').write('x')\nos.replace('t', 'a')";
    let vim = "vim -es -u NONE -i NONE -c 's/i/x/' -c wq a </dev/null";
    let pg = postgres_cluster();
    let insert = |fsync| shell(&postgres_insert(fsync));
    let none = String::new;
    vec![
        ("sqlite, full", "python3", none(), sqlite("delete", "full")),
        (
            "sqlite, extra",
            "python3",
            none(),
            sqlite("delete", "extra"),
        ),
        ("sqlite, off", "python3", none(), sqlite("delete", "off")),
        (
            "sqlite, WAL, full",
            "python3",
            none(),
            sqlite("wal", "full"),
        ),
        ("git, all", "git", none(), git("all")),
        ("git, none", "git", none(), git("none")),
        ("sed -i", "sed", none(), shell("sed -i s/i/x/ a")),
        ("vim", "vim", none(), shell(vim)),
        ("os.replace", "python3", none(), python(replace)),
        ("redis, always", "redis-server", none(), shell(redis)),
        ("PostgreSQL, on", "postgres", pg.clone(), insert("on")),
        ("PostgreSQL, off", "postgres", pg, insert("off")),
        ("pip", "pip", WHEEL.to_owned(), shell(PIP)),
    ]
}

#[test]
fn a_crash_loses_nothing_that_real_programs_synced_in_order() {
    for filesystem in filesystems() {
        for (name, needs, prepare, program) in real_programs() {
            if shell(&format!("command -v {needs}")).finish().code != Some(0) {
                eprintln!("{name}: NOT RUN, {needs} is not installed");
                continue;
            }
            let image = filesystem.make(&prepare);
            for backend in BACKENDS {
                let crash = filesystem.crash_after(&image, backend, &program);
                let figures = describe(crash.figures());
                println!("{}, {backend}, {name}: {figures}", filesystem.name);
                let broken = crash.broken_promises();
                assert_eq!(broken, [""; 0], "{}, {name}", filesystem.name);
            }
        }
    }
}
