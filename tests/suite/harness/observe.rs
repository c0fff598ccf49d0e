//! What the kernel and strace say about a program, and waiting until it is true instead of
//! sleeping.

use std::{
    collections::BTreeMap,
    fmt::Display,
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::Pid;

use super::Program;

/// How often something is repeated: so often, unless the environment variable `ZC_REPETITIONS` asks for
/// another number.
pub fn repetitions(default: usize) -> usize {
    let asked = std::env::var("ZC_REPETITIONS");
    asked.map_or(default, |text| text.parse().expect("a number"))
}

/// How long to wait for a condition. One that is still false then will never be true.
const DEADLINE: Duration = Duration::from_secs(30);

/// A time limit, longer on a slow machine. No test depends on its length.
pub fn patience(limit: Duration) -> Duration {
    limit * zc_tests::patience()
}

/// Waits until a condition is true.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let limit = patience(DEADLINE);
    let deadline = Instant::now() + limit;
    while !is_so() {
        assert!(
            Instant::now() < deadline,
            "still not true after {limit:?}: {what}"
        );
        thread::yield_now();
    }
}

/// Whether there is a process with this id that has not ended. Nobody may have reaped one that has:
/// its new parent may be this test, or an init that is slow.
pub fn exists(process: impl Display) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, fields)| fields);
    state.is_some_and(|fields| !fields.starts_with(['Z', 'X']))
}

/// The only child of a process.
#[track_caller]
pub fn child_of(parent: Pid) -> Pid {
    let id = parent.as_raw_pid();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("it lives");
    let child = children.trim().parse().ok().and_then(Pid::from_raw);
    child.unwrap_or_else(|| panic!("not one child: {children:?}"))
}

/// A field of `man 5 proc_pid_stat`, by its number there; not one of the first two.
#[track_caller]
fn stat_field(process: Pid, number: usize) -> String {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid()));
    let stat = stat.expect("it lives");
    let (_, fields) = stat.rsplit_once(") ").expect("fields");
    let field = fields.split_ascii_whitespace().nth(number - 3);
    field.expect("a field").to_owned()
}

/// A counter of `/proc/PID/io`, such as `rchar`.
#[track_caller]
pub fn io_of(process: Pid, name: &str) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", process.as_raw_pid()));
    let io = io.expect("it is not reaped");
    let mut lines = io.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(counter, _)| *counter == name);
    found.and_then(|(_, count)| count.parse().ok()).expect(name)
}

/// The ids of the eBPF programs that a process has open.
pub fn bpf_programs_of(process: impl Display) -> impl Iterator<Item = u32> {
    bpf_objects_of(process, "prog_id:")
}

/// The ids of the eBPF maps that a process has open.
pub fn bpf_maps_of(process: impl Display) -> impl Iterator<Item = u32> {
    bpf_objects_of(process, "map_id:")
}

fn bpf_objects_of(process: impl Display, field: &'static str) -> impl Iterator<Item = u32> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fdinfo"));
    let descriptors = descriptors.into_iter().flatten().flatten();
    descriptors.filter_map(move |descriptor| {
        let info = fs::read_to_string(descriptor.path()).ok()?;
        let mut lines = info.lines();
        let id = lines.find_map(|line| line.strip_prefix(field))?;
        id.trim().parse().ok()
    })
}

/// The state of a process as a letter, `T` for a stopped one.
#[track_caller]
pub fn state_of(process: Pid) -> char {
    let state = stat_field(process, 3);
    state.chars().next().expect("a letter")
}

/// Calls and errors of the program and all its descendants, by name, from `strace -c -f` with these
/// options.
pub fn counted_by_strace(program: &Program, options: &[&str]) -> BTreeMap<String, (u64, u64)> {
    let output = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = output.path().to_str().expect("text");
    let words = [&["strace", "-c", "-f", "-o", path], options, &["--"]].concat();
    super::untraced(program).through(&words).finish().exits(0);
    let summary = fs::read_to_string(output.path()).expect("strace wrote it");
    summary.lines().filter_map(count).collect()
}

/// A line of the summary: `% time, seconds, usecs/call, calls, errors (or nothing), syscall`.
fn count(line: &str) -> Option<(String, (u64, u64))> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let number = |index: usize| words.get(index)?.parse().ok();
    let name = (*words.last()?).to_owned();
    let errors = if words.len() == 6 { number(4)? } else { 0 };
    let calls = number(3)?;
    (name != "total").then_some((name, (calls, errors)))
}
