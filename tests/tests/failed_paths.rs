//! Calls that fail, by the path that they were given.

use std::collections::BTreeMap;

use zctrace::report::{FailedPath, PathBase, Report};

use crate::harness::{BACKENDS, c, each_backend, program, shell, zctrace};

/// The failed calls of a report.
fn failed(report: &Report) -> &[FailedPath] {
    report
        .totals
        .failed_paths
        .as_deref()
        .expect("they are known")
}

/// Those of the program `failed-paths`; the loader's are left out.
fn stated(report: &Report) -> Vec<(&str, &str, &str, Option<&str>, u64)> {
    let is_meant = |one: &&FailedPath| {
        one.path
            .as_deref()
            .is_none_or(|path| path == "/" || path.contains("zc-none"))
    };
    let mut found: Vec<_> = failed(report)
        .iter()
        .filter(is_meant)
        .filter(|one| one.path.as_deref().is_none_or(|path| path.len() < 100))
        .map(|one| {
            (
                one.syscall.as_str(),
                one.abi.as_str(),
                one.errno.as_str(),
                one.path.as_deref(),
                one.calls,
            )
        })
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn failed_calls_are_counted_by_path_under_both_backends() {
    let native = std::env::consts::ARCH;
    let mut expected = vec![
        ("execve", native, "ENOENT", Some("/zc-none/program"), 1),
        ("mkdirat", native, "EEXIST", Some("/"), 1),
        ("openat", native, "EBADF", Some("zc-none"), 1),
        ("openat", native, "EFAULT", None, 1),
        ("openat", native, "ENOENT", Some("/zc-none/a"), 4),
        ("openat", native, "ENOENT", Some("/zc-none/b \"ä\""), 1),
        ("renameat2", native, "ENOENT", Some("/zc-none/from"), 1),
        ("symlinkat", native, "ENOENT", Some("/zc-none/link"), 1),
    ];
    if native == "x86_64" {
        expected.push(("open", "i386", "ENOENT", Some("/zc-none/32"), 1));
    }
    expected.sort_unstable();
    for zctrace in each_backend() {
        let run = zctrace.run(&c("failed-paths"));
        run.finished.successful();
        assert_eq!(stated(&run.report), expected, "{}", run.report.backend);
        assert!(run.report.totals.failed_paths_complete);
    }
}

#[test]
fn of_a_long_path_the_kernel_side_keeps_the_beginning() {
    for (zctrace, is_cut) in each_backend().into_iter().zip([true, false]) {
        let run = zctrace.run(&c("failed-paths"));
        let long = |one: &&FailedPath| {
            one.path
                .as_deref()
                .is_some_and(|path| path.starts_with("/zc-none/xxx"))
        };
        let long: Vec<_> = failed(&run.report).iter().filter(long).collect();
        let [long] = long.as_slice() else {
            panic!("{long:?}")
        };
        assert_eq!((long.path_cut, long.calls), (is_cut, 1));
        assert!(
            long.path
                .as_ref()
                .is_some_and(|path| path.len() == if is_cut { 239 } else { 1023 }),
            "{long:?}"
        );
    }
}

#[test]
fn where_a_relative_path_starts_is_known_unless_a_process_changed_its_directory() {
    let base = |report: &Report, path: &str| {
        let one = failed(report)
            .iter()
            .find(|one| one.path.as_deref() == Some(path));
        one.unwrap_or_else(|| panic!("{path} in {:?}", failed(report)))
            .base
    };
    for zctrace in each_backend() {
        let report = zctrace
            .clone()
            .run(&program("cat").args(&["zc-none", "/zc-none"]))
            .report;
        assert_eq!(
            [base(&report, "zc-none"), base(&report, "/zc-none")],
            [PathBase::Directory, PathBase::Root],
            "{}",
            report.backend
        );
        // One of its calls names a directory by a descriptor.
        let report = zctrace.clone().run(&c("failed-paths")).report;
        assert_eq!(
            base(&report, "zc-none"),
            PathBase::Unknown,
            "{}",
            report.backend
        );
        let report = zctrace
            .run(&shell("cd /; cat zc-none /zc-none; exit 0"))
            .report;
        assert_eq!(
            [base(&report, "zc-none"), base(&report, "/zc-none")],
            [PathBase::Unknown, PathBase::Root],
            "{}",
            report.backend
        );
    }
}

#[test]
fn every_failed_call_that_takes_a_path_is_in_the_list_whether_it_has_a_row_or_not() {
    let script = "cat /zc-none/1 /zc-none/2; test -e /zc-none/3; ls /zc-none/4; cd /zc-none/5; /zc-none/6; mkdir /; exit 0";
    let sums = |report: &Report| {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for one in failed(report) {
            *sums.entry(one.syscall.clone()).or_default() += one.calls;
        }
        sums
    };
    for zctrace in each_backend() {
        let with_rows = zctrace.clone().syscalls("all").run(&shell(script)).report;
        let takes_path = |name: &str| zctrace::syscalls::Spec::named(name).path.is_some();
        let rows = with_rows
            .totals
            .syscalls
            .iter()
            .filter(|call| takes_path(&call.name) && call.errors > 0);
        let rows: BTreeMap<String, u64> =
            rows.map(|call| (call.name.clone(), call.errors)).collect();
        assert!(rows.len() > 3 && rows.values().sum::<u64>() > 5, "{rows:?}");
        assert_eq!(sums(&with_rows), rows);
        let without_rows = zctrace.run(&shell(script)).report;
        assert_eq!(sums(&without_rows), rows, "{}", without_rows.backend);
    }
}

#[test]
fn a_full_list_is_a_lower_bound_and_counts_stay_exact() {
    let run = zctrace()
        .option("--max-files=1")
        .run(&shell("cat /zc-none/1 /zc-none/2 /zc-none/3; exit 0"));
    let report = &run.report;
    assert!(
        report.exact && !report.totals.failed_paths_complete && failed(report).len() == 1,
        "{:?}",
        failed(report)
    );
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("the paths of") && note.contains("--max-files")),
        "{:?}",
        report.notes
    );
}

#[test]
fn without_files_the_paths_are_unknown() {
    for zctrace in each_backend() {
        let totals = zctrace
            .option("--no-files")
            .run(&shell("cat /zc-none/1; exit 0"))
            .report
            .totals;
        assert_eq!(
            (totals.failed_paths, totals.failed_paths_complete),
            (None, false)
        );
    }
}

#[test]
fn the_head_names_what_failed_and_leaves_the_loaders_search_aside() {
    for zctrace in each_backend() {
        let shown = zctrace
            .launch_of(&program("cat").args(&["/zc-none/1", "/zc-none/1"]))
            .finish()
            .stderr;
        assert!(
            shown.contains("\nfailed: 2 x ENOENT /zc-none/1 (openat)\n"),
            "{shown}"
        );
        assert!(!shown.contains("ld.so.preload"), "{shown}");
    }
}

#[test]
fn expectations_hold_or_fail_by_path() {
    for backend in BACKENDS {
        let check = |expectation: &str| {
            let options = ["check", backend, &format!("--expect={expectation}")];
            let words = ["--", "sh", "-c", "cat /zc-none/1; exit 0"];
            let finished = zctrace().options(&options).launch_with(&words).finish();
            (finished.code, finished.text().to_owned())
        };
        assert_eq!(
            check(r#"openat[path="/zc-none/**"].errors == 1"#).0,
            Some(0),
            "{backend}"
        );
        let (code, shown) = check(r#"openat[path="/zc-none/**"].errors == 0"#);
        assert_eq!(code, Some(1), "{shown}");
        assert!(
            shown.contains(r#"openat "/zc-none/1": 1 call failed (ENOENT)"#),
            "{shown}"
        );
        // The paths of calls that succeed are recorded if an expectation is about them. The loader
        // opened libraries.
        assert_eq!(
            check(r#"openat[path="/etc/shadow"].calls == 0"#).0,
            Some(0),
            "{backend}"
        );
        let (code, shown) = check(r#"openat[path="/etc/ld.so.cache"].calls == 0"#);
        assert_eq!(code, Some(1), "{shown}");
        assert!(
            shown.contains(r#"openat "/etc/ld.so.cache": 2 calls succeeded"#),
            "{shown}"
        );
        let (code, shown) = check(r#"openat[path="/zc-nome/1"].errors == 0"#);
        assert_eq!(code, Some(0), "{shown}");
        assert!(
            shown.contains(r#""/zc-nome/1" matches no path of a failed call"#),
            "{shown}"
        );
    }
}

#[test]
fn paths_of_calls_that_succeed_are_recorded_only_if_asked_for_and_then_every_call_has_one() {
    let script = "cat /dev/null; cat /zc-none/1; exec true";
    for zctrace in each_backend() {
        assert_eq!(
            zctrace
                .clone()
                .run(&shell(script))
                .report
                .totals
                .succeeded_paths,
            None
        );
        let totals = zctrace
            .syscalls("all")
            .option("--succeeded-paths")
            .run(&shell(script))
            .report
            .totals;
        assert!(totals.failed_paths_complete);
        let succeeded = totals.succeeded_paths.as_deref().expect("was asked for");
        let opened = |path: &str| {
            succeeded
                .iter()
                .find(|one| one.syscall == "openat" && one.path.as_deref() == Some(path))
        };
        assert_eq!(
            opened("/dev/null").map(|one| one.calls),
            Some(1),
            "{succeeded:?}"
        );
        assert!(opened("/zc-none/1").is_none());
        let takes_path = |name: &str| zctrace::syscalls::Spec::named(name).path.is_some();
        let mut returned: BTreeMap<&str, u64> = BTreeMap::new();
        for call in totals.syscalls.iter().filter(|call| takes_path(&call.name)) {
            *returned.entry(&call.name).or_default() += call.calls;
        }
        let mut listed: BTreeMap<&str, u64> = BTreeMap::new();
        for one in succeeded {
            *listed.entry(&one.syscall).or_default() += one.calls;
        }
        for one in totals.failed_paths.as_deref().unwrap_or_default() {
            *listed.entry(&one.syscall).or_default() += one.calls;
        }
        assert_eq!(listed, returned);
    }
}
