//! What `--syncs` costs the kernel: which programs and maps there are, and how many messages.

use std::{collections::BTreeSet, fmt::Display, fs};

use aya::{
    maps::{Array, MapData, loaded_maps},
    programs::loaded_programs,
};
use rustix::process::Signal;
use zc_ebpf::{SyncState, maps};

use crate::harness::{
    Program, TestDir, bpf_maps_of, bpf_programs_of, program, python, shell, untraced, waiting,
    zctrace,
};
use zctrace::durable::SyncVerdict::NotSynced;

/// The names of the programs and of the maps of a process, as far as the kernel keeps them.
fn objects_of(process: impl Display) -> [BTreeSet<String>; 2] {
    let programs: BTreeSet<u32> = bpf_programs_of(&process).collect();
    let maps: BTreeSet<u32> = bpf_maps_of(&process).collect();
    let own_programs = loaded_programs().flatten();
    let own_programs = own_programs.filter(|one| programs.contains(&one.id()));
    let own_maps = loaded_maps().flatten();
    let own_maps = own_maps.filter(|one| maps.contains(&one.id()));
    [
        own_programs
            .map(|one| one.name_as_str().unwrap_or_default().to_owned())
            .collect(),
        own_maps
            .map(|one| one.name_as_str().unwrap_or_default().to_owned())
            .collect(),
    ]
}

#[test]
fn programs_and_maps_for_syncs_are_there_only_with_syncs() {
    let [without, with] = [&[][..], &["--syncs"]].map(|options| {
        let zctrace = zctrace().ebpf().options(options);
        let (mut running, _report) = zctrace.start(&waiting());
        running.expect("ready");
        let found = objects_of(running.pid().as_raw_pid());
        running.signal(Signal::TERM);
        running.wait();
        found
    });
    let [programs, maps] = [0, 1].map(|kind| {
        assert!(
            with[kind].is_superset(&without[kind]),
            "{with:?}, {without:?}"
        );
        let more = with[kind].difference(&without[kind]).cloned();
        // Whether the compiler places constants there is its own affair.
        let more = more.filter(|name| !name.starts_with(".rodata"));
        more.collect::<Vec<_>>().join(" ")
    });
    let names = ["sync_enter sync_exit", "sync_enter_even sync_exit_event"];
    assert!(names.contains(&&*programs), "{programs}");
    assert_eq!(
        maps,
        ".data.kinds .data.syncs SYNC_EVENTS SYNC_FILES SYNC_SCRATCH SYNC_TASKS"
    );
}

/// How many messages the programs of a process have sent.
fn messages_of(process: impl Display) -> u64 {
    let ids: BTreeSet<u32> = bpf_maps_of(process).collect();
    let mut maps = loaded_maps().flatten();
    let state = maps
        .find(|map| ids.contains(&map.id()) && map.name_as_str() == Some(maps::SYNC_STATE))
        .expect("is there");
    let state = MapData::from_id(state.id()).expect("is open");
    let state = Array::<_, SyncState>::try_from(aya::maps::Map::Array(state)).expect("an array");
    state.get(&0, 0).expect("can be read").sequence
}

#[test]
fn a_million_writes_send_a_handful_of_messages() {
    let directory = TestDir::new();
    let dd = "dd if=/dev/zero of=a bs=1 count=1000000 status=none conv=notrunc";
    // Where cargo tells a program to look for libraries, it looks in vain, and each time is a message.
    let script = format!(
        "unset LD_LIBRARY_PATH; {dd}; echo ready; read x; {dd},fsync; {dd}; echo ready; read x"
    );
    let zctrace = zctrace().ebpf().option("--syncs").dir(directory.path());
    let (mut running, report) = zctrace.start(&shell(&script));
    running.expect("ready");
    let before = messages_of(running.pid().as_raw_pid());
    running.say("");
    running.expect("ready");
    // Two dd have looked up some files.
    let messages = messages_of(running.pid().as_raw_pid()) - before;
    assert!(messages < 200, "{messages}");
    running.say("");
    assert_eq!(running.wait(), Some(0));
    let syncs = report.read(&running.stderr()).syncs.expect("asked for");
    let file = syncs.files.iter().find(|file| file.path == "a");
    let file = file.expect("was written");
    assert_eq!((file.calls, file.bytes), (3_000_000, 3_000_000));
    assert_eq!(file.verdict, NotSynced);
    let change = file.unsynced_change.as_ref().expect("not synced");
    assert_eq!(change.unsynced_bytes, 1_000_000);
}

/// Creates, writes and syncs this number of files, and then syncs their directory.
fn many_files(count: u32) -> Program {
    python(&format!(
        "
import os
os.mkdir('d')
for number in range({count}):
    f = os.open('d/%d' % number, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(f, b'hello')
    os.fsync(f)
    os.close(f)
for directory in ('d', '.'): os.fsync(os.open(directory, os.O_RDONLY))
"
    ))
}

#[test]
fn many_files_are_exact() {
    // Where syncs cost nothing.
    let shared = TestDir::inside("/dev/shm");
    let zctrace = zctrace().ebpf().option("--syncs").dir(shared.path());
    // As many as the buffers have room for: zctrace without optimizations reads slower than this makes
    // files.
    let run = zctrace.run(&many_files(8_000));
    let syncs = run.report.syncs.expect("asked for");
    assert_eq!(
        (syncs.changed, syncs.in_order, syncs.unknown),
        (8_001, 8_001, 0)
    );
    assert_eq!(syncs.sums.count, 8_002);
}

#[test]
fn operations_that_nobody_sees_make_verdicts_unknown() {
    let directory = TestDir::new();
    let syncs = |script: &str| {
        let zctrace = zctrace().ebpf().option("--syncs").dir(directory.path());
        zctrace
            .run(&python(script))
            .report
            .syncs
            .expect("asked for")
    };
    // io_uring_setup with IORING_SETUP_SQPOLL: operations are submitted without a call.
    let ring = syncs(
        "
import ctypes, os
parameters = (ctypes.c_uint * 30)()
parameters[2] = 2
assert ctypes.CDLL(None).syscall(425, 1, parameters) > 0
open('a', 'w').write('x')
",
    );
    assert_eq!((ring.changed, ring.unknown), (1, 1), "{ring:#?}");
    let why = ring.files.first().and_then(|file| file.why.clone());
    assert!(why.is_some_and(|why| why.contains("io_uring")), "{ring:#?}");
}

/// Writes a file, and moves another one that was synced. Neither's directory is synced.
const SAVE: &str = "#include <fcntl.h>\n#include <stdio.h>\n#include <unistd.h>
int make(const char *path) { return open(path, O_WRONLY | O_CREAT | O_EXCL, 0600); }
void save(int file) { if (write(file, \"x\", 1) != 1) _exit(1); }
void save_well(int file) { if (write(file, \"x\", 1) != 1 || fsync(file)) _exit(1); }
void publish(void) { if (rename(\"data/t\", \"data/b\")) _exit(1); }
int main(void) { save(make(\"data/a\")); save_well(make(\"data/t\")); publish(); return 0; }
";

#[test]
fn callers_name_the_function_that_made_an_unsynced_change() {
    let directory = TestDir::with("save.c", SAVE);
    fs::create_dir(directory.join("data")).expect("can be made");
    let compile = shell("gcc -O0 -o save save.c").dir(directory.path());
    untraced(&compile).finish().exits(0);
    let zctrace = zctrace()
        .ebpf()
        .options(&["--syncs", "--callers", "-e=%data,rename"]);
    let run = zctrace.dir(directory.path()).run(&program("./save"));
    let syncs = run.report.syncs.expect("asked for");
    let made = |path: &str| {
        let file = syncs.files.iter().find(|file| file.path == path);
        let change = file.and_then(|file| file.unsynced_change.as_ref());
        let change = change.expect("it was not synced");
        (change.call.clone(), change.functions.join(" "))
    };
    assert_eq!(made("data/a"), ("write".to_owned(), "save".to_owned()));
    assert_eq!(made("data/b"), ("rename".to_owned(), "publish".to_owned()));
}
