//! Files that somebody has changed to harm zctrace: programs whose symbols are read, reports, logs.
//! `ZCTRACE_MUTANTS=100` tries 100 times as many.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use zc_tests::truth::Rng;
use zctrace::report::Report;

use crate::harness::{Finished, TestDir, program, zctrace};

/// Changes some bytes from this one on.
fn change(numbers: &mut Rng, bytes: &mut [u8], from: usize) {
    for _ in 0..=numbers.below(8) {
        let at = from + numbers.below(bytes.len() - from);
        let any = numbers.next().to_le_bytes()[0];
        bytes[at] = numbers.pick(&[0, 0xff, 0x80, b'{', b'9', any]);
    }
}

/// How many mutants to try, of this many in a short run.
fn mutants(few: usize) -> usize {
    let times = std::env::var("ZCTRACE_MUTANTS").ok();
    few * times.map_or(1, |times| times.parse().expect("a number"))
}

/// The number that has this many bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> usize {
    let mut word = [0; 8];
    word[..length].copy_from_slice(&bytes[at..at + length]);
    usize::try_from(u64::from_le_bytes(word)).expect("64 bits")
}

/// A program with compressed debug information, and where in it what is not mapped begins.
fn with_compressed_sections(dir: &TestDir) -> (Vec<u8>, usize) {
    let source =
        "#include <unistd.h>\nint main(void) { for (int i = 0; i < 9; i++) write(1, \"x\", 1); }";
    let (from, to) = (dir.write("main.c", source), dir.join("program"));
    let gcc = program("gcc")
        .args(&["-g3", "-gz=zlib", "-o"])
        .arg(&to)
        .arg(from);
    gcc.finish().exits(0);
    let bytes = fs::read(to).expect("it was made");
    // Elf64_Ehdr: e_phoff, e_phentsize, e_phnum; Elf64_Phdr: p_type, p_offset, p_filesz.
    let headers = (0..number(&bytes, 56, 2)).map(|index| number(&bytes, 32, 8) + 56 * index);
    let loaded = headers.filter(|&at| number(&bytes, at, 4) == 1);
    let end = loaded
        .map(|at| number(&bytes, at + 8, 8) + number(&bytes, at + 32, 8))
        .max();
    (bytes, end.expect("it has code"))
}

/// Where the sizes of compressed sections are (`ch_size`).
fn sizes(bytes: &[u8]) -> Vec<usize> {
    const COMPRESSED: usize = 0x800;
    let headers = (0..number(bytes, 60, 2)).map(|index| number(bytes, 40, 8) + 64 * index);
    let compressed = headers.filter(|&at| number(bytes, at + 8, 8) & COMPRESSED != 0);
    compressed.map(|at| number(bytes, at + 24, 8) + 8).collect()
}

/// Runs it with callers. The report is never lost.
#[track_caller]
fn sampled(path: &Path, bytes: &[u8]) -> Report {
    fs::write(path, bytes).expect("it is ours");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let run = zctrace().option("--callers").run(&program(path));
    run.finished.exits(0).says_only("").prints_only("xxxxxxxxx");
    run.report
}

#[test]
fn symbols_that_cannot_be_read_cost_no_report() {
    let dir = TestDir::new();
    let path = dir.join("mutant");
    let (bytes, end) = with_compressed_sections(&dir);
    let is_noted = |report: &Report| {
        report
            .notes
            .iter()
            .any(|note| note.contains("have no names"))
    };
    assert!(!is_noted(&sampled(&path, &bytes)));
    let sizes = sizes(&bytes);
    assert!(!sizes.is_empty(), "gcc compresses");
    for size in [1_u64 << 40, u64::MAX] {
        let mut mutant = bytes.clone();
        for &at in &sizes {
            mutant[at..at + 8].copy_from_slice(&size.to_le_bytes());
        }
        assert!(is_noted(&sampled(&path, &mutant)), "{size}");
    }
    let mut numbers = Rng::new(55);
    for _ in 0..mutants(10) {
        let mut mutant = bytes.clone();
        change(&mut numbers, &mut mutant, end);
        // Most of the bytes are of no interest.
        let at = sizes[numbers.below(sizes.len())] + numbers.below(8);
        mutant[at] ^= u8::from(numbers.below(2) == 0) << numbers.below(8);
        let headers = number(&bytes, 40, 8);
        change(&mut numbers, &mut mutant, headers);
        sampled(&path, &mutant);
    }
}

/// It was read, or refused with a message.
#[track_caller]
fn is_answered(finished: &Finished, input: &[u8]) {
    let is_right = match finished.code {
        Some(0) => finished.stderr.is_empty(),
        Some(125) => finished.stderr.starts_with("zctrace: "),
        _ => false,
    };
    assert!(is_right, "{finished}\n{}", String::from_utf8_lossy(input));
}

#[test]
fn reports_and_logs_that_were_changed_are_read_or_refused() {
    let dir = TestDir::new();
    let files = zctrace()
        .options(&["--files", "--callers"])
        .json_to(dir.join("report.json"));
    files.show(&program("ls").arg("/")).exits(0);
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/strace");
    let logs = [
        "pipeline-f.log",
        "python.log",
        "restarts.log",
        "summary-C-f.log",
    ]
    .map(|name| logs.join(name));
    let mut numbers = Rng::new(56);
    for input in logs.into_iter().chain([dir.join("report.json")]) {
        let bytes = fs::read(&input).expect("it is there");
        for _ in 0..mutants(8) {
            let mut mutant = bytes.clone();
            change(&mut numbers, &mut mutant, 0);
            let cut = if numbers.below(4) == 0 {
                numbers.below(mutant.len())
            } else {
                mutant.len()
            };
            let path = dir.write("mutant", &mutant[..cut]);
            let finished = zctrace()
                .option("report")
                .option(path)
                .option("--format=json")
                .finish();
            is_answered(&finished, &mutant[..cut]);
        }
    }
}
