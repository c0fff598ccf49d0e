//! How much stack and how many instructions each eBPF program takes: the kernel's verifier limits
//! both. Nothing here depends on time.
//!
//! `golden/verifier/kernels.md` has the verifier's own figures on each kernel. To update it:
//!
//! - this kernel's part: `ZC_UPDATE_GOLDEN=1 cargo xtask test verifier`
//! - that of other kernels: append the rows that guests print, and update this kernel's part

mod stack;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{Write as _, stderr},
};

use aya::programs::loaded_programs;
use nix::sys::utsname::uname;
use rustix::process::{Pid, Signal};
use zc_ebpf::programs::{ALL, CGROUP, RING, SCOPE, SYNCS, TOUCHES, WAKES, WALK};
use zctrace::backend::ebpf::{
    embedded_object, embedded_object_with_paths, embedded_object_with_syncs,
};

use crate::harness::{TestDir, bpf_programs_of, program, untraced, waiting, zctrace};

/// How many percent more instructions the verifier may process than the table says: kernels of one
/// series differ a little.
const TOLERANCE: u32 = 10;

/// The path of the golden table.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/verifier/kernels.md");

const HEAD: &str = "\
# How many instructions the verifiers of kernels process for the eBPF programs

`docs/howto.md` says how this table is updated.

| kernel | program | processed instructions |
|---|---|--:|
";

/// How many instructions the verifier has processed over all paths, by kernel (`6.1 x86_64`) and
/// program.
type ProgramRows = BTreeMap<(String, String), u32>;

/// The rows of a table. Of those with the same kernel and program, the last one counts.
fn rows_of_table(text: &str) -> ProgramRows {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [.., kernel, program, processed, ""] = cells[..] else {
            return None;
        };
        let key = (kernel.to_owned(), program.to_owned());
        Some((key, processed.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

fn table_of_rows(rows: &ProgramRows) -> String {
    let row = |((kernel, program), processed): (&(String, String), &u32)| {
        format!("| {kernel} | {program} | {processed} |\n")
    };
    HEAD.to_owned() + &rows.iter().map(row).collect::<String>()
}

/// How much of a program's name the kernel keeps: `BPF_OBJ_NAME_LEN` of its
/// include/uapi/linux/bpf.h, without the NUL.
const KEPT_NAME_BYTES: usize = 15;

#[test]
fn every_program_stays_within_the_stack_limit() {
    let mut programs = stack::of_programs(embedded_object_with_paths());
    // Those of the other objects are the same.
    for object in [embedded_object(), embedded_object_with_syncs()] {
        for (name, bytes) in stack::of_programs(object) {
            assert_eq!(programs.get(&name), Some(&bytes), "{name}");
        }
    }
    println!("bytes of stack: {programs:#?}");
    programs.retain(|_, bytes| *bytes > stack::LIMIT_BYTES);
    assert_eq!(programs, BTreeMap::new(), "above the limit");
}

/// The version and the machine of this kernel, as in the table.
fn this_kernel() -> String {
    let system = uname().expect("a name");
    let release = system.release().to_string_lossy();
    let mut numbers = release.split('.');
    let mut number = || numbers.next().expect("a version");
    let (major, minor) = (number(), number());
    let machine = system.machine().to_string_lossy();
    format!("{major}.{minor} {machine}")
}

/// The programs that a process has loaded, as far as the kernel keeps their names, and how many
/// instructions the verifier has processed for each. `/proc/PID/fdinfo` has a number for each
/// program (`bpf_prog_show_fdinfo` of the kernel's kernel/bpf/syscall.c).
fn loaded_by(process: Pid) -> BTreeMap<String, u32> {
    let ids: BTreeSet<u32> = bpf_programs_of(process.as_raw_pid()).collect();
    // Those of other tests come and go.
    let programs = loaded_programs().filter_map(Result::ok);
    let own = programs.filter(|program| ids.contains(&program.id()));
    own.map(|program| {
        let name = program.name_as_str().expect("a name").to_owned();
        let processed = program.verified_instruction_count();
        (name, processed.expect("a number, since Linux 5.16"))
    })
    .collect()
}

#[test]
fn the_figures_of_this_kernels_verifier_are_within_the_golden_table() {
    // The verifier removes what is not recorded, so everything is.
    let everything = zctrace().ebpf().syscalls("all");
    let options = [
        "--callers",
        "--slower-than=1s",
        "--recorded=rows,times,histograms,others,files,pairing,paths",
    ];
    let loaded_with = |others: &[&str]| {
        let everything = everything.clone().options(&options).options(others);
        let (mut running, _report) = everything.start(&waiting());
        running.expect("ready");
        let loaded = loaded_by(running.pid());
        running.signal(Signal::TERM);
        running.wait();
        loaded
    };
    let mut loaded = loaded_with(&[]);
    for (option, start) in [("--syncs", "sync_"), ("--paths", "touch_")] {
        let others = loaded_with(&[option]).into_iter();
        loaded.extend(others.filter(|(name, _)| name.starts_with(start)));
    }

    let (mut found, mut unloaded) = (ProgramRows::default(), BTreeSet::new());
    for name in stack::of_programs(embedded_object_with_paths()).into_keys() {
        match loaded.get(&name[..name.len().min(KEPT_NAME_BYTES)]) {
            Some(&processed) => _ = found.insert((this_kernel(), name), processed),
            None => _ = unloaded.insert(name),
        }
    }
    // The programs that only closures need, or only an attach, are not loaded here. Of two programs
    // that do the same, only one is loaded.
    let for_closures = WAKES.map(|hooked| hooked.name);
    let for_others = for_closures.into_iter().chain([SCOPE, WALK, CGROUP.name]);
    let mut ones: BTreeSet<_> = for_others.map(str::to_owned).collect();
    let mut others = ones.clone();
    for hooked in ALL.iter().chain(&RING).chain(&SYNCS).chain(&TOUCHES) {
        if let Some((other, _)) = hooked.not_preempted {
            ones.insert(hooked.name.to_owned());
            others.insert(other.to_owned());
        }
    }
    let is_right = unloaded == ones || unloaded == others;
    assert!(is_right, "not loaded: {unloaded:?}; loaded: {loaded:?}");
    // libtest captures the output of println.
    let shown = stderr().write_all(table_of_rows(&found).as_bytes());
    shown.expect("stderr");
    let mut table = rows_of_table(&fs::read_to_string(GOLDEN).unwrap_or_default());
    if env::var_os("ZC_UPDATE_GOLDEN").is_some() {
        table.retain(|(kernel, _), _| *kernel != this_kernel());
        table.extend(found);
        return fs::write(GOLDEN, table_of_rows(&table)).expect("the table can be written");
    }
    assert!(!table.is_empty(), "no rows in {GOLDEN}");
    // Rows that are not in the table are not compared.
    found.retain(|row, processed| {
        let most = |known: &u32| known * (100 + TOLERANCE) / 100;
        table
            .get(row)
            .map(most)
            .is_some_and(|most| *processed > most)
    });
    assert!(
        found.is_empty(),
        "grown; ZC_UPDATE_GOLDEN=1 accepts it: {found:?}"
    );
}

#[test]
fn the_doctor_shows_the_checksum_of_the_programs_and_where_they_come_from() {
    let dir = TestDir::with("object", embedded_object());
    let sum = untraced(&program("sha256sum").arg(dir.join("object"))).finish();
    let sum = sum.successful().split(' ').next().unwrap_or_default();
    let shown = format!("programs: built from its sources, SHA-256 {sum}, by rustc ");
    zctrace().finish_with(&["doctor"]).prints(&shown);
}
