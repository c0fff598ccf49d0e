use super::*;
use crate::{
    compare::sample::report,
    report::{
        Options,
        sample::{
            files::{Scene, copy, map, read, write, written_after, written_from},
            of_threads, row,
        },
    },
    trace::{FileKind, Row},
};

/// The APIs, which are known.
#[track_caller]
fn known(report: &Report) -> Vec<String> {
    Work::of(report).apis.expect("they are known")
}

fn apis(rows: Vec<Row>) -> Vec<String> {
    known(&report(rows))
}

fn moved(name: &'static str, bytes: u64) -> Row {
    row(name).called(10).bytes(bytes)
}

#[test]
fn the_call_that_moved_nearly_all() {
    assert_eq!(apis(vec![moved("read", 832), moved("sendfile", 1 << 20), moved("write", 20)]), ["sendfile"]);
    assert_eq!(apis(vec![moved("pread64", 832), moved("copy_file_range", 1 << 20)]), ["copy_file_range"]);
}

#[test]
fn a_loop_through_user_memory_whatever_its_calls() {
    assert_eq!(apis(vec![moved("read", 1 << 20), moved("sendto", 1 << 20)]), ["read+write"]);
    assert_eq!(apis(vec![moved("recvfrom", 600), moved("readv", 400), moved("write", 1000)]), ["read+write"]);
}

#[test]
fn only_one_half_of_a_loop() {
    assert_eq!(apis(vec![moved("read", 832), moved("write", 1 << 20)]), ["write"]);
    assert_eq!(apis(vec![moved("read", 1 << 20), moved("write", 10)]), ["read"]);
}

#[test]
fn several_that_did_a_tenth_or_more() {
    let rows = vec![moved("read", 300), moved("write", 300), moved("sendfile", 600), moved("splice", 20)];
    assert_eq!(apis(rows), ["sendfile", "read+write"]);
}

#[test]
fn bytes_that_nobody_tells() {
    assert_eq!(apis(vec![row("ioctl(FICLONE)").called(1)]), ["reflink"]);
    assert_eq!(apis(vec![moved("read", 9), moved("write", 9), row("ioctl(FICLONE)").called(1)]), ["read+write", "reflink"]);
    assert_eq!(Work::of(&report(vec![row("ioctl(FICLONE)").called(1)])).bytes_per_call, None);
    // One that failed moved nothing.
    assert_eq!(apis(vec![row("ioctl(FICLONE)").failed(libc::EXDEV, 1), moved("sendfile", 9)]), ["sendfile"]);
}

const MIB: u64 = 1 << 20;

/// The report of a process with these files.
fn with_files(rows: impl Fn(&mut Scene) -> Vec<Row>) -> Report {
    let mut scene = Scene::new();
    let rows = rows(&mut scene);
    scene.process("copier", rows);
    Report::from_trace(&scene.trace, &Options::default())
}

fn apis_with_files(rows: impl Fn(&mut Scene) -> Vec<Row>) -> Vec<String> {
    known(&with_files(rows))
}

#[test]
fn where_files_are_known_the_transfers_tell() {
    let found = apis_with_files(|scene| {
        let (from, to) = (scene.regular("in"), scene.file(FileKind::Tcp, "sock"));
        vec![map(from, MIB), written_from("sendto", from, to, 4, MIB)]
    });
    assert_eq!(found, ["mmap+write"]);
    let found = apis_with_files(|scene| {
        let (from, to) = (scene.regular("in"), scene.regular("out"));
        vec![copy("copy_file_range", from, to, 2, MIB)]
    });
    assert_eq!(found, ["copy_file_range"]);
    let found = apis_with_files(|scene| {
        let (from, to) = (scene.regular("in"), scene.regular("out"));
        vec![read("read", from, 257, MIB), written_after("write", from, to, 256, MIB, MIB)]
    });
    assert_eq!(found, ["read+write"]);
}

#[test]
fn what_is_read_and_written_by_chance_is_no_loop() {
    let found = apis_with_files(|scene| {
        let (data, stdout) = (scene.regular("data"), scene.regular("tty"));
        vec![read("read", data, 1, MIB), write("write", stdout, 1, MIB / 2)]
    });
    assert_eq!(found, ["read", "write"]);
}

#[test]
fn a_small_copy_is_not_hidden_by_what_the_loader_reads() {
    let report = with_files(|scene| {
        let (libc, from, to) = (scene.regular("libc.so.6"), scene.regular("in"), scene.regular("out"));
        vec![read("read", libc, 9, 7520), copy("copy_file_range", from, to, 1, 18).zero(1)]
    });
    assert_eq!(Work::of(&report), Work { apis: Some(vec!["copy_file_range".to_owned()]), bytes_per_call: Some(18.0) });
}

#[test]
fn what_the_loader_reads_is_nobodys_work() {
    let libc_alone = with_files(|scene| vec![read("read", scene.regular("libc.so.6"), 3, 2400)]);
    assert_eq!(Work::of(&libc_alone), Work { apis: None, bytes_per_call: None });
    let with_a_line = with_files(|scene| {
        let (libc, stdout) = (scene.regular("libc.so.6"), scene.regular("tty"));
        vec![read("read", libc, 3, 2400), write("write", stdout, 1, 3)]
    });
    assert_eq!(Work::of(&with_a_line), Work { apis: Some(vec!["write".to_owned()]), bytes_per_call: Some(3.0) });
}

#[test]
fn a_program_that_reads_and_does_nothing_else() {
    let report = with_files(|scene| {
        let (libc, data) = (scene.regular("libc.so.6"), scene.regular("data"));
        vec![read("read", libc, 3, 2400), read("read", data, 4, MIB)]
    });
    assert_eq!(Work::of(&report), Work { apis: Some(vec!["read".to_owned()]), bytes_per_call: Some(262_144.0) });
}

#[test]
fn a_small_copy_does_not_hide_what_is_written_besides() {
    let found = apis_with_files(|scene| {
        let (from, to, log) = (scene.regular("in"), scene.regular("out"), scene.regular("log"));
        vec![copy("sendfile", from, to, 1, 18), write("write", log, 4, MIB)]
    });
    assert_eq!(found, ["write"]);
}

#[test]
fn a_share_that_may_count_failed_calls_tells_no_mean() {
    let report = with_files(|scene| {
        let data = scene.regular("data");
        vec![read("read", data, 4, MIB).failed(libc::EAGAIN, 3)]
    });
    assert_eq!(Work::of(&report), Work { apis: Some(vec!["read".to_owned()]), bytes_per_call: None });
}

#[test]
fn a_part_of_the_calls_does_not_tell_the_api() {
    let of_part = |selection: &str, rows: Vec<Row>| {
        let mut trace = of_threads(vec![rows]);
        trace.counted = Some(selection.parse().expect("a selection"));
        Work::of(&Report::from_trace(&trace, &Options::default()))
    };
    assert_eq!(of_part("mmap", vec![row("mmap").called(9)]), Work { apis: None, bytes_per_call: None });
    let writes = vec![row("write").called(4).bytes(1 << 20)];
    assert_eq!(of_part("write", writes.clone()), Work { apis: None, bytes_per_call: Some(262_144.0) });
    assert_eq!(of_part("%data", writes).apis, Some(vec!["write".to_owned()]));
}

#[test]
fn an_io_uring_whose_operations_nobody_sees() {
    let report = report(vec![moved("read", 832), row("io_uring_enter").called(3)]);
    assert_eq!(Work::of(&report), Work { apis: Some(vec!["io_uring".to_owned()]), bytes_per_call: None });
}

#[test]
fn nothing_was_moved() {
    assert!(apis(vec![row("mmap").called(3), row("sendfile").failed(libc::EINVAL, 1)]).is_empty());
}
