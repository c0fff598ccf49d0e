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
fn the_api_is_the_call_that_moved_nearly_all_bytes() {
    assert_eq!(apis(vec![moved("read", 832), moved("sendfile", 1 << 20), moved("write", 20)]), ["sendfile"]);
    assert_eq!(apis(vec![moved("pread64", 832), moved("copy_file_range", 1 << 20)]), ["copy_file_range"]);
}

#[test]
fn equal_bytes_in_and_out_are_a_read_write_loop_whatever_the_calls() {
    assert_eq!(apis(vec![moved("read", 1 << 20), moved("sendto", 1 << 20)]), ["read+write"]);
    assert_eq!(apis(vec![moved("recvfrom", 600), moved("readv", 400), moved("write", 1000)]), ["read+write"]);
}

#[test]
fn bytes_of_one_side_only_are_read_or_write() {
    assert_eq!(apis(vec![moved("read", 832), moved("write", 1 << 20)]), ["write"]);
    assert_eq!(apis(vec![moved("read", 1 << 20), moved("write", 10)]), ["read"]);
}

#[test]
fn apis_that_moved_a_tenth_or_more_are_listed() {
    let rows = vec![moved("read", 300), moved("write", 300), moved("sendfile", 600), moved("splice", 20)];
    assert_eq!(apis(rows), ["sendfile", "read+write"]);
}

#[test]
fn an_api_with_unknown_bytes_is_listed_last() {
    assert_eq!(apis(vec![row("ioctl(FICLONE)").called(1)]), ["reflink"]);
    assert_eq!(apis(vec![moved("read", 9), moved("write", 9), row("ioctl(FICLONE)").called(1)]), ["read+write", "reflink"]);
    assert_eq!(Work::of(&report(vec![row("ioctl(FICLONE)").called(1)])).bytes_per_call, None);
    // A failed call moved nothing.
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
fn where_files_are_known_the_transfers_give_the_api() {
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
fn reading_one_file_and_writing_another_is_not_a_loop() {
    let found = apis_with_files(|scene| {
        let (data, stdout) = (scene.regular("data"), scene.regular("tty"));
        vec![read("read", data, 1, MIB), write("write", stdout, 1, MIB / 2)]
    });
    assert_eq!(found, ["read", "write"]);
}

#[test]
fn the_loaders_reads_do_not_hide_a_small_copy() {
    let report = with_files(|scene| {
        let (libc, from, to) = (scene.regular("libc.so.6"), scene.regular("in"), scene.regular("out"));
        vec![read("read", libc, 9, 7520), copy("copy_file_range", from, to, 1, 18).zero(1)]
    });
    assert_eq!(Work::of(&report), Work { apis: Some(vec!["copy_file_range".to_owned()]), bytes_per_call: Some(18.0) });
}

#[test]
fn the_loaders_reads_are_not_the_commands_work() {
    let libc_alone = with_files(|scene| vec![read("read", scene.regular("libc.so.6"), 3, 2400)]);
    assert_eq!(Work::of(&libc_alone), Work { apis: None, bytes_per_call: None });
    let with_a_line = with_files(|scene| {
        let (libc, stdout) = (scene.regular("libc.so.6"), scene.regular("tty"));
        vec![read("read", libc, 3, 2400), write("write", stdout, 1, 3)]
    });
    assert_eq!(Work::of(&with_a_line), Work { apis: Some(vec!["write".to_owned()]), bytes_per_call: Some(3.0) });
}

#[test]
fn a_program_that_only_reads_has_the_api_read() {
    let report = with_files(|scene| {
        let (libc, data) = (scene.regular("libc.so.6"), scene.regular("data"));
        vec![read("read", libc, 3, 2400), read("read", data, 4, MIB)]
    });
    assert_eq!(Work::of(&report), Work { apis: Some(vec!["read".to_owned()]), bytes_per_call: Some(262_144.0) });
}

#[test]
fn a_small_copy_does_not_hide_larger_writes() {
    let found = apis_with_files(|scene| {
        let (from, to, log) = (scene.regular("in"), scene.regular("out"), scene.regular("log"));
        vec![copy("sendfile", from, to, 1, 18), write("write", log, 4, MIB)]
    });
    assert_eq!(found, ["write"]);
}

#[test]
fn a_share_that_may_count_failed_calls_has_no_mean() {
    let report = with_files(|scene| {
        let data = scene.regular("data");
        vec![read("read", data, 4, MIB).failed(libc::EAGAIN, 3)]
    });
    assert_eq!(Work::of(&report), Work { apis: Some(vec!["read".to_owned()]), bytes_per_call: None });
}

#[test]
fn the_api_is_unknown_if_only_some_calls_were_counted() {
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
fn io_uring_is_named_even_if_its_operations_are_unseen() {
    let report = report(vec![moved("read", 832), row("io_uring_enter").called(3)]);
    assert_eq!(Work::of(&report), Work { apis: Some(vec!["io_uring".to_owned()]), bytes_per_call: None });
}

#[test]
fn without_moved_bytes_there_is_no_api() {
    assert!(apis(vec![row("mmap").called(3), row("sendfile").failed(libc::EINVAL, 1)]).is_empty());
}

fn traced(rows: Vec<Row>) -> Traced {
    Traced::of(report(rows))
}

#[test]
fn syscalls_counts_every_call_and_bytes_per_call_only_those_that_moved_bytes() {
    let found = traced(vec![
        row("read").called(3).bytes(4096),
        row("write").called(1).bytes(4096),
        row("sendfile").failed(libc::EINVAL, 5),
        row("mmap").called(7).requested(1 << 20),
    ]);
    assert_eq!(found.syscalls, 16);
    assert_eq!(found.bytes_per_call, Some(2048.0));
}

#[test]
fn without_bytes_there_is_no_mean() {
    assert_eq!(traced(vec![row("mmap").called(7)]).bytes_per_call, None);
    assert_eq!(traced(vec![row("read").bytes(0).failed(libc::EIO, 1)]).bytes_per_call, None);
}
