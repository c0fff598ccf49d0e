//! What counts as a failure, and how failures are grouped.

use super::*;
use crate::report::{
    Options, PathBase,
    sample::{copier, files::Scene},
};

fn failed(syscall: &str, errno: &str, path: Option<&str>, calls: u64) -> FailedPath {
    FailedPath {
        syscall: syscall.into(),
        abi: "x86_64".into(),
        errno: errno.into(),
        path: path.map(str::to_owned),
        base: PathBase::Root,
        path_cut: false,
        second_path: None,
        name_found: false,
        path_found: false,
        meaning: None,
        calls,
    }
}

/// The groups of these calls, one line each, and the number of lookups.
fn summed(failed: &[FailedPath], without_path: &[FailedPath]) -> (Vec<String>, u64) {
    summed_at_exit(None, failed, without_path)
}

fn summed_at_exit(
    code: Option<i32>,
    failed: &[FailedPath],
    without_path: &[FailedPath],
) -> (Vec<String>, u64) {
    let mut report = Report::from_trace(&copier(), &Options::default());
    report.exit.code = code;
    report.command = vec!["sh".into(), "/named".into()];
    report.totals.failed_paths = Some(failed.to_vec());
    report.totals.failed_without_path = without_path.to_vec();
    let failures = report.failures();
    let line = |group: &FailedGroup<'_>| {
        let (calls, errno) = (group.calls, group.errno);
        let below = ["", "below "][usize::from(group.is_below_descriptor)];
        format!(
            "{calls} {errno} {:?} {below}{:?}",
            group.place, group.syscalls
        )
    };
    (failures.groups.iter().map(line).collect(), failures.lookups)
}

#[test]
fn a_file_that_is_made_or_is_no_directory_is_no_failure() {
    let made = |errno| FailedPath {
        path_found: true,
        name_found: true,
        ..failed("openat", errno, Some("/named"), 1)
    };
    let probe = failed("statx", "EFAULT", None, 1);
    let all = [made("ENOENT"), made("ENOTDIR"), probe];
    assert_eq!(summed(&all, &[]), (Vec::new(), 1));
}

#[test]
fn a_program_that_is_not_there_is_the_reason_of_status_127() {
    let of_shell = FailedPath {
        name_found: true,
        ..failed("execve", "ENOENT", Some("/nosuch/sh"), 1)
    };
    let all = [failed("openat", "EACCES", Some("/etc/x"), 9), of_shell];
    let denied = r#"9 EACCES Path("/etc/x") {"openat"}"#;
    assert_eq!(summed(&all, &[]), (vec![denied.to_owned()], 1));
    let missing = r#"1 ENOENT Path("/nosuch/sh") {"execve"}"#;
    let (groups, searches) = summed_at_exit(Some(127), &all, &[]);
    assert_eq!(
        (groups, searches),
        ([missing, denied].map(str::to_owned).to_vec(), 1)
    );
}

#[test]
fn few_paths_are_listed_and_many_are_summed_up_by_directory_and_error() {
    let renamed = FailedPath {
        base: PathBase::Descriptor,
        path_cut: true,
        name_found: true,
        second_path: Some("b".into()),
        ..failed("rename", "ENOENT", Some("/etc/x/a"), 2)
    };
    let long = FailedPath {
        path_cut: true,
        ..failed("openat", "ENOENT", Some("/etc/lo"), 1)
    };
    let all = [
        renamed,
        failed("openat", "ENOENT", Some("/etc/x/a"), 20),
        failed("openat", "ENOENT", Some("/etc/x/b"), 10),
        failed("stat", "ENOENT", Some("/etc/x/e"), 10),
        failed("openat", "EACCES", Some("/etc/x/c"), 15),
        failed("stat", "EACCES", Some("/etc/x/c"), 15),
        failed("open", "EFAULT", None, 9),
        failed("openat", "ENOENT", Some("a1"), 3),
        failed("openat", "ENOENT", Some("b1/"), 1),
        failed("openat", "ENOENT", Some("c1"), 1),
        failed("openat", "ENOENT", Some("/1"), 3),
        failed("openat", "ENOENT", Some("/named"), 1),
        failed("mkdir", "EEXIST", Some("/etc"), 1),
        long,
    ];
    let expected = [
        r#"1 ENOENT Path("/named") {"openat"}"#,
        r#"30 EACCES Path("/etc/x/c") {"openat", "stat"}"#,
        r#"9 EFAULT Unknown {"open"}"#,
        r#"40 ENOENT Directory("/etc/x") {"openat", "stat"}"#,
        r#"3 ENOENT Path("a1") {"openat"}"#,
        r#"3 ENOENT Path("/1") {"openat"}"#,
        r#"2 ENOENT Paths("/etc/x/a", "b", true) below {"rename"}"#,
        r#"1 ENOENT Path("b1/") {"openat"}"#,
        r#"1 ENOENT Path("c1") {"openat"}"#,
        r#"1 ENOENT LongPath("/etc/lo") {"openat"}"#,
    ];
    let mut expected: Vec<String> = expected.map(str::to_owned).into();
    assert_eq!(summed(&all, &[]), (expected.clone(), 52));
    // What failed last explains an exit status.
    let renamed = expected.remove(6);
    expected.insert(3, renamed);
    let frequent = expected.remove(6);
    expected.insert(8, frequent);
    assert_eq!(summed_at_exit(Some(1), &all, &[]), (expected, 52));
}

#[test]
fn a_call_without_a_path_is_a_failure_unless_its_error_is_an_answer() {
    let others = [
        failed("ioctl", "ENOTTY", None, 3),
        failed("epoll_ctl", "EPERM", None, 32),
        failed("kill", "EPERM", None, 1),
        failed("setns", "EPERM", None, 2),
        failed("sendto", "ENOTCONN", None, 3),
        failed("getpeername", "ENOTCONN", None, 3),
        failed("io_uring:write", "EIO", Some("/x"), 1),
    ];
    let expected = [
        r#"1 EIO Path("/x") {"io_uring:write"}"#,
        r#"3 ENOTCONN Unknown {"sendto"}"#,
        r#"2 EPERM Unknown {"setns"}"#,
        r#"1 EPERM Unknown {"kill"}"#,
    ];
    let expected = expected.map(str::to_owned);
    assert_eq!(summed(&[], &others), (expected.to_vec(), 0));
}

#[test]
fn what_is_missing_everywhere_explains_and_what_was_found_elsewhere_is_a_search() {
    let found = |path| FailedPath {
        name_found: true,
        ..failed("newfstatat", "ENOENT", Some(path), 1)
    };
    let all = [
        found("/usr/local/bin/dd"),
        found("out"),
        found("/named"),
        found("conf/in"),
        failed("openat", "ENOENT", Some("/home/locale/x"), 1),
        failed("openat", "ENOENT", Some("x1"), 1),
        failed("openat", "ENOENT", Some("./x1"), 1),
        failed("openat", "ENOENT", Some("/etc/ld.so.preload"), 1),
        failed("openat", "ENOENT", Some("/usr/share/locale/de/git.mo"), 1),
        failed("openat", "ENOENT", Some("/lib/a/libgone.so"), 1),
        failed("openat", "ENOENT", Some("/lib/b/libgone.so"), 1),
        failed("newfstatat", "ENOENT", Some("/lib/a"), 1),
        failed("newfstatat", "EACCES", Some("/lib/a"), 1),
        failed("readlink", "EINVAL", Some("/usr"), 1),
        failed("openat", "ENOENT", Some("/a/gone/"), 1),
        failed("openat", "ENOENT", Some("/b/gone"), 1),
        failed("openat", "ENOENT", Some(""), 1),
    ];
    let without_path = [failed("write", "EINVAL", Some("/proc/1/uid_map"), 1)];
    let expected = [
        r#"1 ENOENT Path("/named") {"newfstatat"}"#,
        r#"1 EACCES Path("/lib/a") {"newfstatat"}"#,
        r#"1 EINVAL Path("/proc/1/uid_map") {"write"}"#,
        r#"2 ENOENT Nowhere("libgone.so", 2, ["/lib/a", "/lib/b"]) {"openat"}"#,
        r#"2 ENOENT Nowhere("gone", 2, ["/a", "/b"]) {"openat"}"#,
        r#"1 ENOENT Path("conf/in") {"newfstatat"}"#,
        r#"1 ENOENT Path("/home/locale/x") {"openat"}"#,
        r#"1 ENOENT Path("x1") {"openat"}"#,
        r#"1 ENOENT Path("./x1") {"openat"}"#,
        r#"1 ENOENT Path("") {"openat"}"#,
    ];
    let expected: Vec<String> = expected.map(str::to_owned).into();
    assert_eq!(summed(&all, &without_path), (expected, 15));
}

/// Another program of the run found it, so that all but the relative paths may be searches.
#[test]
fn a_name_that_is_missing_in_several_directories_is_told_with_all_of_its_calls() {
    let searched = |path, calls| FailedPath {
        name_found: true,
        ..failed("openat", "ENOENT", Some(path), calls)
    };
    let all = [
        searched("/lib/libnn.so", 300),
        searched("libnn.so", 140),
        searched("tls/libnn.so", 6),
        searched("x86_64/libnn.so", 4),
        searched("/lib/other.so", 7),
    ];
    let expected = r#"450 ENOENT Nowhere("libnn.so", 4, ["", "tls"]) {"openat"}"#.to_owned();
    assert_eq!(summed_at_exit(Some(127), &all, &[]), (vec![expected], 457));
    let most = most_by_directory(all.iter());
    assert_eq!(most, Some(("/lib", 307)));
}

#[test]
fn a_connection_that_no_byte_went_over_explains_a_failure() {
    let mut scene = Scene::new();
    let [client, _] = scene.connection("10.0.0.1:5", "10.0.0.2:80");
    scene.name("client", client);
    scene.run("curl: read client 1 9");
    let connect = |address| failed("connect", "EINPROGRESS", Some(address), 1);
    let configuration = failed("openat", "ENOENT", Some("/root/.curlrc"), 1);
    let mut report = scene.report();
    let all = vec![connect("10.0.0.2:80"), connect("[::1]:80"), configuration];
    report.totals.failed_paths = Some(all);
    let places = |report: &Report| -> Vec<String> {
        let groups = report.failures().groups.into_iter();
        groups.map(|group| format!("{:?}", group.place)).collect()
    };
    report.exit.code = Some(7);
    // A configuration of the user is optional in most programs, so it comes last.
    let expected = [r#"Path("[::1]:80")"#, r#"Path("/root/.curlrc")"#];
    assert_eq!(places(&report), expected);
    report.exit.code = Some(0);
    assert_eq!(places(&report), [""; 0]);
}

#[test]
fn connections_have_the_error_that_the_program_asked_for_if_all_were_refused() {
    let connect = |address| failed("connect", "EINPROGRESS", Some(address), 1);
    let connects = [connect("[::1]:80"), connect("10.0.0.2:80")];
    let told = |errno, calls| [failed("getsockopt", errno, None, calls)];
    let groups = |connects: &[FailedPath], told: &[FailedPath]| {
        let groups = summed_at_exit(Some(7), connects, told).0;
        let errnos = groups.iter().map(|line| line.split(' ').nth(1));
        errnos.flatten().collect::<Vec<_>>().join(" ")
    };
    let all = groups(&connects, &told("ECONNREFUSED", 2));
    assert_eq!(all, "ECONNREFUSED ECONNREFUSED");
    let one = groups(&connects, &told("ECONNREFUSED", 1));
    assert_eq!(one, "EINPROGRESS EINPROGRESS ECONNREFUSED");
    let other = groups(&connects[..1], &told("ETIMEDOUT", 1));
    assert_eq!(other, "EINPROGRESS ETIMEDOUT");
}

#[test]
fn what_a_command_that_succeeded_did_not_find_is_a_search() {
    let found = FailedPath {
        name_found: true,
        ..failed("newfstatat", "EACCES", Some("/root/bin/locale"), 1)
    };
    let all = [
        found,
        failed("newfstatat", "ENOTDIR", Some("/bin/pip/__main__.py"), 1),
        failed("openat", "ENOTDIR", Some("/named"), 1),
        failed("openat", "ENOENT", Some("/root/.curlrc"), 2),
        failed("openat", "EACCES", Some("/etc/shadow"), 1),
        failed("stat", "ENOENT", Some("/named"), 1),
        failed("unlink", "ENOENT", Some("/named"), 1),
    ];
    let expected = [
        r#"1 ENOENT Path("/named") {"unlink"}"#,
        r#"1 EACCES Path("/etc/shadow") {"openat"}"#,
    ];
    let expected = expected.map(str::to_owned).to_vec();
    let no_terminal = [failed("ioctl", "EINVAL", None, 1)];
    let found = summed_at_exit(Some(0), &all, &no_terminal);
    assert_eq!(found, (expected, 4));
    let (groups, _) = summed_at_exit(Some(1), &[], &no_terminal);
    assert_eq!(groups, [r#"1 EINVAL Unknown {"ioctl"}"#]);
}

#[test]
fn the_last_name_that_was_asked_for_is_told_if_nothing_else_is() {
    let stat = |path| failed("newfstatat", "ENOENT", Some(path), 1);
    let search = [
        stat("/share/perl5/Nosuch.pm"),
        stat("/etc/perl/Nosuch.pm"),
        stat("/share/perl5/Nosuch.pmc"),
        stat("/etc/perl/Nosuch.pmc"),
        stat("/usr/lib/locale/C.UTF-8/LC_ALL"),
    ];
    let told = r#"2 ENOENT Nowhere("Nosuch.pm", 2, ["/etc/perl", "/share/perl5"]) {"newfstatat"}"#;
    assert_eq!(summed_at_exit(Some(2), &search, &[]).0, [told]);
    assert!(summed_at_exit(Some(0), &search, &[]).0.is_empty());
    let optional = failed("access", "ENOENT", Some("/root/.config/perl"), 1);
    let with_optional = [&search[..], &[optional]].concat();
    let optional = r#"1 ENOENT Path("/root/.config/perl") {"access"}"#;
    let groups = summed_at_exit(Some(2), &with_optional, &[]).0;
    assert_eq!(groups, [told, optional]);
    let reason = failed("openat", "EACCES", Some("/etc/shadow"), 1);
    let with_reason = [&search[..], &[reason]].concat();
    let groups = summed_at_exit(Some(2), &with_reason, &[]).0;
    assert_eq!(groups, [r#"1 EACCES Path("/etc/shadow") {"openat"}"#]);
}

#[test]
fn a_name_that_is_asked_for_in_many_places_is_no_reason_unless_it_may_be_a_program() {
    let all = [
        failed("connect", "ENOENT", Some("/var/run/nscd/socket"), 2),
        failed("openat", "ENOENT", Some("/nonexist.json"), 1),
        failed("newfstatat", "ENOENT", Some("/lib/a/__init__.so"), 1),
        failed("newfstatat", "ENOENT", Some("/lib/b/__init__.so"), 1),
        failed("openat", "ENOENT", Some("/lib/a/libgone.so"), 1),
        failed("newfstatat", "ENOENT", Some("/lib/b/libgone.so"), 1),
    ];
    let missing = r#"1 ENOENT Path("/nonexist.json") {"openat"}"#;
    let library =
        r#"2 ENOENT Nowhere("libgone.so", 2, ["/lib/a", "/lib/b"]) {"newfstatat", "openat"}"#;
    let asked = r#"2 ENOENT Nowhere("__init__.so", 2, ["/lib/a", "/lib/b"]) {"newfstatat"}"#;
    let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
    let expected: Vec<String> = lines(&[missing, library]);
    assert_eq!(summed_at_exit(Some(1), &all, &[]), (expected, 7));
    let expected: Vec<String> = lines(&[missing, asked, library]);
    assert_eq!(summed_at_exit(Some(127), &all, &[]), (expected, 7));
}
