//! What is said of bytes that go through a buffer: the words that are compared, what was changed on
//! the way, and what was forgotten.

use zctrace::{
    expect::{Expectation, Premises},
    report::{Certainty, Evidence, Report},
};

use super::{input, traced};
use crate::harness::{Program, Run, TestDir, Transfers as _, python, shell, zctrace};

/// Whether expectations hold: `holds`, `fails` or `inconclusive`.
fn verdict(report: &Report, expectation: &str) -> &'static str {
    let expectation: Expectation = expectation.parse().expect("an expectation");
    let premises = Premises {
        may_match_nothing: true,
        ..Premises::default()
    };
    let outcome = expectation.evaluate_with(report, &premises);
    outcome.expect("is counted").verdict.name()
}

#[track_caller]
fn assert_no_transfers(report: &Report) {
    assert!(report.transfers.is_empty(), "{:?}", report.transfers);
}

/// Traces a script in Python in a directory with the file `in`.
#[track_caller]
fn traced_script(script: &str) -> Run {
    traced(&input(), &python(script))
}

#[test]
fn pieces_of_a_large_read_come_from_its_file() {
    // As curl does: it reads up to 100 KiB at a time, and writes 12 KiB.
    let run = traced_script(
        r#"
import os
source, to = os.open("in", os.O_RDONLY), os.open("out", os.O_CREAT | os.O_WRONLY)
buffer = bytearray(102400)
while got := os.readv(source, [buffer]):
    for at in range(0, got, 12288):
        os.write(to, memoryview(buffer)[at:min(at + 12288, got)])
"#,
    );
    let transfer = run.report.transfer("in", "out");
    assert_eq!(transfer.bytes, Some(super::BYTES));
    assert_eq!(transfer.observed_bytes, Some(super::BYTES));
    assert!(transfer.calls.is_some(), "each byte was written once");
    let words = transfer.compared_words;
    assert!(
        (20..=48).contains(&words),
        "at most 16 of each read: {words}"
    );
}

#[test]
fn a_piece_without_a_word_leans_on_the_others() {
    // As tar does: some files are so small that no word lies in them.
    let run = traced_script(
        r#"
import os
buffer = bytearray(10240)
os.readv(os.open("in", os.O_RDONLY), [buffer])
for number in range(20):
    to = os.open(f"out{number}", os.O_CREAT | os.O_WRONLY)
    os.write(to, memoryview(buffer)[512 * number:512 * (number + 1)])
"#,
    );
    let transfers: Vec<_> = (0..20)
        .map(|number| run.report.transfer("in", &format!("out{number}")))
        .collect();
    assert!(transfers.iter().all(|one| one.bytes == Some(512)));
    let is_observed = |certainty| transfers.iter().any(|one| one.certainty == certainty);
    assert!(is_observed(Certainty::Observed) && is_observed(Certainty::Inferred));
}

#[test]
fn a_filter_in_its_buffer_is_no_copy_even_if_some_words_agree() {
    let dir = input();
    for _ in 0..5 {
        let run = traced(&dir, &shell("tr a-z A-Z <in >out"));
        let transfer = run.report.transfer("in", "out");
        assert_eq!(
            (transfer.evidence, transfer.certainty),
            (Evidence::Changed, Certainty::Changed)
        );
        let words = [transfer.changed_words, transfer.compared_words];
        assert!(0 < words[0] && words[0] < words[1], "{words:?}");
        let told = format!("{} of {} words compared differ", words[0], words[1]);
        assert!(transfer.verdict.contains(&told), "{}", transfer.verdict);
        let bytes = "transfer(\"in\" -> \"out\").bytes";
        assert_eq!(
            verdict(&run.report, &format!("{bytes} > 0")),
            "inconclusive"
        );
        let none = "transfer(\"in\" -> \"out\").count == 0";
        assert_eq!(verdict(&run.report, none), "inconclusive");
    }
}

#[test]
fn what_goes_through_memory_in_part_is_one_transfer() {
    // As head does: half of each block is written from the buffer, half from a copy.
    let run = traced_script(
        r#"
import os
source, to = os.open("in", os.O_RDONLY), os.open("out", os.O_CREAT | os.O_WRONLY)
buffer = bytearray(8192)
while got := os.readv(source, [buffer]):
    half = got // 2
    os.write(to, memoryview(buffer)[:half])
    os.write(to, bytes(buffer[half:got]))
"#,
    );
    let transfer = run.report.transfer("in", "out");
    assert_eq!(transfer.evidence, Evidence::Totals);
    assert_eq!(transfer.bytes, Some(super::BYTES));
    let observed = transfer.observed_bytes.expect("is known");
    assert!((140_000..=150_001).contains(&observed), "{observed}");
    let bytes = "transfer(\"in\" -> \"out\").bytes";
    for (bound, expected) in [
        (">= 140000", "holds"),
        ("== 300001", "inconclusive"),
        ("> 300001", "fails"),
    ] {
        assert_eq!(verdict(&run.report, &format!("{bytes} {bound}")), expected);
    }
}

#[test]
fn equal_sums_of_other_contents_are_no_transfer() {
    let run = traced_script(
        r#"
import os
source, to = os.open("in", os.O_RDONLY), os.open("out", os.O_CREAT | os.O_WRONLY)
os.read(source, 8192)
os.write(to, bytes(8192))
"#,
    );
    assert_no_transfers(&run.report);
}

#[test]
fn constants_of_a_library_are_the_programs_own() {
    let run = traced_script(
        r#"
import ctypes, os
libc, to = ctypes.CDLL(None), os.open("out", os.O_CREAT | os.O_WRONLY)
libc.strerrordesc_np.restype = ctypes.c_void_p
text = ctypes.c_void_p(libc.strerrordesc_np(2))
assert libc.write(to, text, 25) == 25
"#,
    );
    assert_no_transfers(&run.report);
}

#[test]
fn each_of_forty_threads_keeps_its_buffer() {
    let script = r#"
import os, threading
def copy(number):
    source, to = os.open("in", os.O_RDONLY), os.open(f"out{number}", os.O_CREAT | os.O_WRONLY)
    buffer = bytearray(16384)
    while got := os.readv(source, [buffer]):
        os.write(to, memoryview(buffer)[:got])
threads = [threading.Thread(target=copy, args=(number,)) for number in range(40)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"#;
    let run = traced_script(script);
    let of_buffers = run.report.transfers.iter();
    let of_buffers = of_buffers.filter(|one| one.evidence == Evidence::Buffer);
    let bytes: u64 = of_buffers.filter_map(|one| one.observed_bytes).sum();
    assert_eq!(bytes, 40 * super::BYTES, "{:?}", run.report.losses);
}

/// Reads more buffers than are remembered, and writes the first one.
fn forgetful() -> Program {
    python(
        r#"
import os
source, to = os.open("in", os.O_RDONLY), os.open("out", os.O_CREAT | os.O_WRONLY)
buffers = [bytearray(4096) for _ in range(70)]
for buffer in buffers: os.readv(source, [buffer])
os.write(to, buffers[0])
"#,
    )
}

#[test]
fn forgotten_buffers_make_transfers_of_their_file_a_lower_bound() {
    let run = traced(&input(), &forgetful());
    let report = &run.report;
    assert!(report.exact, "counts are");
    let forgotten = report.losses["forgotten_buffers"];
    assert!((22..40).contains(&forgotten), "{forgotten}");
    for (expectation, expected) in [
        ("transfer(\"in\" -> \"out\").count == 0", "inconclusive"),
        ("transfer(\"/etc/passwd\" -> \"out\").count == 0", "holds"),
    ] {
        assert_eq!(verdict(report, expectation), expected, "{expectation}");
    }
    let dir = input();
    let shown = zctrace().dir(dir.path()).show(&forgetful());
    let text = &shown.stderr;
    assert!(text.contains("exact; transfers: a lower bound"), "{text}");
    assert!(
        text.contains("buffers of which zctrace forgot the source: "),
        "{text}"
    );
}

#[test]
fn a_program_without_the_file_is_known_not_to_have_written_it() {
    // Other threads change mappings all the time, so some cannot be looked up.
    let script = r#"
import mmap, os, threading
def work():
    to = os.open("/dev/null", os.O_WRONLY)
    for _ in range(200):
        with mmap.mmap(-1, 65536) as memory: os.write(to, memory)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"#;
    let dir = TestDir::new();
    let report = traced(&dir, &python(script)).report;
    let none = "transfer(\"/etc/passwd\" -> \"/dev/null\").count == 0";
    assert_eq!(verdict(&report, none), "holds", "{:?}", report.losses);
}
