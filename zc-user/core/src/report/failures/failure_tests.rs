//! What counts as a failure, and how failures are grouped.

use super::*;
use crate::{
    golden::{GoldenCase, check_golden},
    report::{
        Options, PathBase,
        sample::{
            copier,
            files::{Scene, scene},
        },
    },
};

/// The failed calls of a line: `openat ENOENT /etc/x 3 found`.
fn failed(line: &str) -> FailedPath {
    let words: Vec<&str> = line.split(' ').collect();
    let [syscall, errno, path, calls, ref flags @ ..] = words[..] else {
        panic!("{line}")
    };
    let has = |flag| flags.contains(&flag);
    let text = if path == "empty" { "" } else { path };
    let second_path = flags.iter().skip_while(|flag| **flag != "to").nth(1);
    FailedPath {
        syscall: syscall.into(),
        abi: "x86_64".into(),
        errno: errno.into(),
        path: (path != "-").then(|| text.to_owned()),
        base: if has("below") {
            PathBase::Descriptor
        } else {
            PathBase::Root
        },
        path_cut: has("cut"),
        second_path: second_path.map(|path| (*path).to_owned()),
        name_found: has("found") || has("made"),
        path_found: has("made"),
        meaning: None,
        calls: calls.parse().expect("a number"),
    }
}

fn group_line(group: &FailedGroup<'_>) -> String {
    let (class, calls, errno) = (group.class, group.calls, group.errno);
    let below = ["", "below "][usize::from(group.is_below_descriptor)];
    let (place, syscalls) = (group.place, &group.syscalls);
    format!("{class:?}: {calls} {errno} {place:?} {below}{syscalls:?}")
}

#[test]
fn failures_are_summed_up_as_the_golden_file_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/tests/failures.txt");
    check_golden(path, GoldenCase::Lines, |case| {
        let mut report = Report::from_trace(&copier(), &Options::default());
        report.exit.code = None;
        report.command = ["sh", "/named", "nofile"].map(Into::into).into();
        report.directory = Some("/work".into());
        let totals = &mut report.totals;
        for line in case.lines() {
            if let Some(code) = line.strip_prefix("exit ") {
                report.exit.code = code.parse().ok();
            } else if let Some(other) = line.strip_prefix("other ") {
                totals.failed_without_path.push(failed(other));
            } else {
                totals
                    .failed_paths
                    .get_or_insert_default()
                    .push(failed(line));
            }
        }
        let failures = report.failures();
        let mut lines: Vec<String> = failures.groups.iter().map(group_line).collect();
        let last = failures.last_missing.iter().map(group_line);
        lines.extend(last.map(|line| format!("last missing {line}")));
        let most = failures.most_lookups;
        let most = most.map(|(directory, calls)| format!(", {calls} in {directory:?}"));
        let most = most.unwrap_or_default();
        lines.push(format!("{} lookups{most}", failures.lookups));
        lines.join("\n")
    });
}

#[test]
fn a_connection_that_no_byte_went_over_explains_a_failure() {
    let mut scene = Scene::new();
    let [client, _] = scene.connection("10.0.0.1:5", "10.0.0.2:80");
    scene.name("client", client);
    scene.run("curl: read client 1 9");
    let connect = |address| failed(&format!("connect EINPROGRESS {address} 1"));
    let configuration = failed("openat ENOENT /root/.curlrc 1");
    let mut report = scene.report();
    let all = vec![connect("10.0.0.2:80"), connect("[::1]:80"), configuration];
    report.totals.failed_paths = Some(all);
    let places = |report: &Report| -> Vec<String> {
        let groups = report.failures().groups.into_iter();
        groups.map(|group| format!("{:?}", group.place)).collect()
    };
    report.exit.code = Some(7);
    assert_eq!(places(&report), [r#"Path("[::1]:80")"#]);
    report.exit.code = Some(0);
    assert_eq!(places(&report), [""; 0]);
}

#[test]
fn a_transfer_that_stopped_at_eagain_is_a_failure_of_a_command_that_failed() {
    let mut report = scene("copier: sendfile in->tcp 2 1M EAGAIN*3").report();
    report.totals.failed_paths = Some(Vec::new());
    let groups = |report: &mut Report, size: u64, code: i32| -> Vec<String> {
        report.transfers[0].from.size = Some(size);
        report.exit.code = Some(code);
        report.failures().groups.iter().map(group_line).collect()
    };
    let stopped = r#"Refusal: 3 EAGAIN Unknown {"sendfile"}"#;
    assert_eq!(groups(&mut report, 60_000_000, 1), [stopped]);
    assert_eq!(groups(&mut report, 60_000_000, 0), [""; 0]);
    assert_eq!(groups(&mut report, 1 << 20, 1), [""; 0]);
}
