//! Spans that threads mark, under strace and in its logs.

use std::{collections::BTreeMap, ffi::OsString};

use zctrace::{expect::ExpectError, marked_spans::MarkedSpan, report::Report};

use crate::harness::{TestDir, program, python, zctrace};

/// Two threads, each with a number of reads for each request; a span within another one; and a span
/// that another thread ends.
const REQUESTS: &str = "
import os, threading
def begin(name): os.path.exists('/zctrace/begin/' + name)
def end(name): os.path.exists('/zctrace/end/' + name)
def work(counts):
    fd = os.open('/dev/zero', os.O_RDONLY)
    for count in counts:
        begin('request')
        for _ in range(count):
            os.read(fd, 1)
        end('request')
def run(*jobs):
    threads = [threading.Thread(target=work, args=[job]) for job in jobs]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
run([1, 2, 5], [2, 2])
fd = os.open('/dev/zero', os.O_RDONLY)
begin('outer')
begin('inner')
os.read(fd, 1)
end('inner')
os.read(fd, 1)
run([3])
end('outer')
begin('elsewhere')
thread = threading.Thread(target=end, args=['elsewhere'])
thread.start()
thread.join()
";

fn span<'a>(report: &'a Report, name: &str) -> &'a MarkedSpan {
    let mut spans = report.marked_spans.iter();
    spans.find(|span| span.name == name).expect("it was marked")
}

fn reads(span: &MarkedSpan) -> BTreeMap<u64, u64> {
    span.spans_by_calls(|name| name == "read")
}

#[track_caller]
fn assert_spans(report: &Report) {
    let request = span(report, "request");
    assert_eq!(request.count, 6);
    let expected = BTreeMap::from([(1, 1), (2, 3), (3, 1), (5, 1)]);
    assert_eq!(reads(request), expected);
    assert_eq!(reads(span(report, "inner")), BTreeMap::from([(1, 1)]));
    // The thread that read more meanwhile is another one.
    assert_eq!(reads(span(report, "outer")), BTreeMap::from([(2, 1)]));
    let elsewhere = span(report, "elsewhere");
    assert_eq!((elsewhere.count, elsewhere.unended), (0, 1));
    assert!(report.expect(r#"read[span="request"].calls <= 5"#).is_ok());
    let fails = report.expect(r#"read[span="request"].calls <= 4"#);
    assert!(matches!(fails, Err(ExpectError::Fails(_))), "{fails:?}");
    let open = report.expect(r#"read[span="elsewhere"].calls == 0"#);
    assert!(
        matches!(open, Err(ExpectError::Inconclusive(_))),
        "{open:?}"
    );
}

#[test]
fn calls_are_counted_in_the_spans_of_their_threads() {
    let run = zctrace().backend("strace").run(&python(REQUESTS));
    run.finished.exits(0);
    assert_spans(&run.report);
    assert_eq!(span(&run.report, "request").max_ns, None);
    let with_times = zctrace().backend("strace").option("--syncs");
    let run = with_times.run(&python(REQUESTS));
    assert_spans(&run.report);
    let request = span(&run.report, "request");
    assert!(request.median_ns > Some(0) && request.median_ns <= request.max_ns);
    assert!(request.max_ns < run.report.wall_ns);
}

#[test]
fn logs_have_the_spans_that_they_show() {
    for option in ["-f", "-ff"] {
        let directory = TestDir::new();
        let strace = program("strace").args(&[option, "-ttt", "-T", "-o", "log"]);
        let strace = strace.args(python(REQUESTS).words());
        strace.dir(directory.path()).finish().exits(0);
        let mut words: Vec<OsString> = vec!["report".into(), "--format=json".into()];
        words.extend(directory.names());
        let shown = zctrace().dir(directory.path()).finish_with(&words);
        let report = shown.report();
        assert_spans(&report);
        let request = span(&report, "request");
        assert!(request.max_ns > Some(0));
    }
}

#[test]
fn a_check_of_calls_in_spans_runs_under_strace() {
    let directory = TestDir::new();
    directory.write("p.py", REQUESTS);
    for (most, status) in [(5, 0), (4, 1)] {
        let text = format!(
            "[[check]]\nname = 'requests'\ncommand = 'python3 {}'\nexpect = ['read[span=\"request\"].calls <= {most}']\n",
            directory.word("p.py")
        );
        directory.write("zctrace.toml", text);
        let check = zctrace().dir(directory.path()).finish_with(&["check"]);
        check.exits(status);
    }
}

#[test]
fn ebpf_says_that_it_does_not_see_spans() {
    let run = zctrace().backend("ebpf").run(&python(REQUESTS));
    let open = run.report.expect(r#"read[span="request"].calls <= 5"#);
    let Err(ExpectError::Inconclusive(open)) = open else {
        panic!("{open:?}");
    };
    assert!(open.to_string().contains("--backend strace"), "{open}");
}
