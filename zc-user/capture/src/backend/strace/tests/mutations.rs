//! Damaged logs: no line makes the parser panic, and whole lines are still counted.

use std::{fs, thread};

use super::{Collector, Log, corpus, files, logs, read_log};
use crate::{backend::Until, syscall::Selection};

const LINES: usize = 1_000_000;
/// Lines per log, so that tasks and unfinished calls are carried over, and every log is assembled.
const LINES_PER_LOG: usize = 10_000;

/// What is inserted into lines.
const TOKENS: &[&str] = &[
    "\"",
    "\\",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    ", ",
    " = ",
    " = ?",
    " = -1 E",
    " <unfinished ...>",
    "<... read resumed>",
    "+++ ",
    " +++",
    "--- ",
    "...",
    "0x",
    "18446744073709551616",
    "-",
    "[pid ",
    "\u{fffd}",
    "\n",
    "iov_len=",
    "msg_iov=[",
    "flags=",
    "CLONE_THREAD",
    "execve(",
    "strace: Process 7 attached",
    "superseded by execve in pid ",
    " <pid changed to 7 ...>",
    "[ Process PID=7 runs in 32 bit mode. ]",
    "\0",
];

/// xorshift64*: the same lines in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).expect("31 bits fit") % bound.max(1)
    }

    fn mutate(&mut self, line: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(line.len() + 1);
        let end = at + self.below(line.len() + 1 - at).min(20);
        match self.below(6) {
            0 => line.truncate(at),
            1 => drop(line.drain(at..end)),
            2 => line.extend_from_within(at..end),
            3 => drop(line.splice(at..at, TOKENS[self.below(TOKENS.len())].bytes())),
            4 => drop(line.splice(at..end, other[self.below(other.len() + 1)..].iter().copied())),
            _ => line.iter_mut().skip(at).take(1).for_each(|byte| *byte = u8::try_from(self.below(256)).expect("is below 256")),
        }
    }
}

#[test]
fn a_million_damaged_lines_are_read_without_a_panic() {
    let texts: Vec<&[u8]> = logs().iter().flat_map(|log| files(log)).map(|log| log.reader).collect();
    let lines: Vec<&[u8]> = texts.iter().flat_map(|text| text.split(|&byte| byte == b'\n')).collect();
    let unparsed: usize = thread::scope(|scope| {
        let halves = [0x5eed, 0xf00d].map(|seed| {
            scope.spawn({
                let lines = &lines;
                move || read_damaged(lines, LINES / 2, Random(seed))
            })
        });
        halves.into_iter().map(|half| half.join().expect("does not panic")).sum()
    });
    assert!((LINES / 20..LINES).contains(&unparsed), "{unparsed} lines are not understood");
}

/// Reads `count` damaged lines; returns how many are not understood.
fn read_damaged(lines: &[&[u8]], count: usize, mut random: Random) -> usize {
    let mut line = Vec::new();
    let mut unparsed = 0;
    for _ in 0..count / LINES_PER_LOG {
        let mut on_unparsed = |_: &str| unparsed += 1;
        let mut collector = Collector::new(&Selection::All, Until::AllEnd, &mut on_unparsed);
        for _ in 0..LINES_PER_LOG {
            line.clear();
            line.extend_from_slice(lines[random.below(lines.len())]);
            for _ in 0..=random.below(3) {
                let other = lines[random.below(lines.len())];
                random.mutate(&mut line, other);
            }
            collector.push_line(&line);
        }
        collector.push_cut_line(&line);
        drop(collector.finish());
    }
    unparsed
}

#[test]
fn a_log_may_be_cut_off_anywhere() {
    let text = fs::read(corpus().join("stderr-moves.log")).expect("can be read");
    // Every seventh byte hits all kinds of places in a fraction of the time.
    for end in (0..text.len()).step_by(7) {
        let mut ignore = |_: &str| {};
        let mut collector = Collector::new(&Selection::default(), Until::AllEnd, &mut ignore);
        read_log(Log { reader: &text[..end], tid: None }, &mut collector).expect("memory can be read");
        let trace = collector.finish();
        assert!(trace.processes.len() <= 1, "no process is made up at {end}");
    }
}
