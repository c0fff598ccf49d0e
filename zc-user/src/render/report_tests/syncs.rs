//! The section of `--syncs`.

use super::*;
use crate::durable::{
    FileChange, FileSyncs, MomentFile, ProgramSyncs, SyncMoment, SyncSums, SyncVerdict, Syncs,
};

fn sums(count: u64, wasted: u64, ns: Option<u64>) -> SyncSums {
    SyncSums {
        count,
        wasted,
        failed: 0,
        ns,
    }
}

fn file(path: &str, verdict: SyncVerdict, why: Option<&str>) -> FileSyncs {
    FileSyncs {
        path: path.to_owned(),
        changed: true,
        verdict,
        why: why.map(str::to_owned),
        calls: 1,
        bytes: 5,
        unsynced_change: why.map(|_| FileChange {
            call: "write".to_owned(),
            program: Some("dd".to_owned()),
            functions: Vec::new(),
            unsynced_bytes: 5,
            at_ns: Some(1_000_000),
            age_ns: Some(17_000_000),
        }),
        syncs: sums(1, 0, Some(1_500_000)),
        timeline: Vec::new(),
        timeline_left_out: 0,
    }
}

fn with_syncs(syncs: Syncs) -> Report {
    let mut report = report(&transfers::several());
    report.syncs = Some(syncs);
    report
}

/// The section and the line of the head.
fn syncs_of(text: &str) -> String {
    let lines = text.lines().filter(|line| line.starts_with("syncs: "));
    let section = text.lines().skip_while(|line| !line.starts_with("SYNCS"));
    let section = section.take_while(|line| !line.is_empty());
    let lines: Vec<&str> = lines.chain(section).chain([""]).collect();
    lines.join("\n")
}

#[test]
fn files_that_were_not_synced_in_order_come_with_the_reason() {
    let why = "it was not synced after write";
    let mut only_synced = file("data/old", SyncVerdict::InOrder, None);
    only_synced.changed = false;
    only_synced.syncs = sums(2, 2, None);
    let report = with_syncs(Syncs {
        changed: 3,
        in_order: 1,
        unknown: 1,
        sums: sums(4, 2, Some(3_000_000)),
        files: vec![
            file("data/a", SyncVerdict::NotSynced, Some(why)),
            file(
                "data/b",
                SyncVerdict::Unknown,
                Some("calls are missing in the trace"),
            ),
            file("data/c", SyncVerdict::InOrder, None),
            only_synced,
        ],
        marks: vec![SyncMoment {
            name: "commit".to_owned(),
            count: 2,
            files: vec![MomentFile {
                path: "data/a".to_owned(),
                verdict: SyncVerdict::NotSynced,
                why: why.to_owned(),
                first_ns: None,
            }],
            ..SyncMoment::default()
        }],
        programs: vec![
            ProgramSyncs {
                program: "dd".to_owned(),
                syncs: sums(2, 0, Some(3_000_000)),
            },
            ProgramSyncs {
                program: String::new(),
                syncs: sums(2, 2, None),
            },
        ],
        ..Syncs::default()
    });
    let expected = "\
syncs: 3 changed files, 1 synced in order, 1 not, 1 unknown; 4 syncs took 3.00 ms, 2 not needed
SYNCS, 3 changed files, 1 synced in order, 1 not, 1 unknown
  file          verdict  unsynced change  before the end  syncs  not needed
  -------- ------------ ---------------- --------------- ------ -----------
  data/a     not synced      write by dd         17.0 ms      1           0
  data/b        unknown      write by dd         17.0 ms      1           0
  data/c       in order                -               -      1           0
  data/old  not changed                -               -      2           2
  data/a: it was not synced after write
  data/b: calls are missing in the trace
  mark \"commit\", 2 times: 1 file was not synced in order, or it is unknown; data/a: it was not synced after write
  syncs by program: dd: 2 syncs took 3.00 ms; -: 2 syncs, 2 not needed
";
    assert_eq!(syncs_of(&shown(&report, &Options::default())), expected);
    assert_has(
        &render(&report, Format::Markdown, &Options::default()),
        &["SYNCS", why],
    );
    assert_has(&html(&report), &["SYNCS", why]);
    check_page(|options| shown(&report, options), |_| false);
}

#[test]
fn a_run_without_changes_says_so() {
    let report = with_syncs(Syncs::default());
    let text = syncs_of(&shown(&report, &Options::default()));
    assert_eq!(
        text,
        "syncs: no file changed; 0 syncs\nSYNCS, no file changed\n"
    );
    let report = with_syncs(Syncs {
        doubts: vec!["calls are missing in the trace".into()],
        ..Syncs::default()
    });
    let text = syncs_of(&shown(&report, &Options::default()));
    assert_eq!(
        text,
        "syncs: no change of a file seen; 0 syncs\nSYNCS, no change of a file seen\n  unknown: calls are missing in the trace\n"
    );
}
