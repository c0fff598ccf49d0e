//! What holds for every log: interrupted, damaged and cut off ones.

use std::{collections::BTreeMap, fs};

use super::{Collector, corpus, files, logs, read_text, summary::summary};
use crate::{
    backend::{
        Until,
        strace::{
            args::split_args,
            echo::Echo,
            line::{CallLine, Event, Line},
        },
    },
    syscalls::Selection,
};

#[test]
fn interrupted_calls_of_real_logs_give_the_same_sums() {
    let mut interrupted_calls = 0;
    for log in logs().iter().filter(|log| log.is_file()) {
        let text = fs::read(log).expect("can be read");
        let text = String::from_utf8_lossy(&text).into_owned();
        let whole = described(&text);
        for argument in 0..4 {
            let interrupted = interrupt_calls(&text, argument);
            interrupted_calls += interrupted.matches(" resumed>").count();
            let interrupted = described(&interrupted);
            assert_eq!(whole, interrupted, "{}", log.display());
        }
    }
    assert!(interrupted_calls > 5000, "the corpus has calls");
}

/// The log as if each call was interrupted after one of its arguments, another one in each line, or
/// before them. It goes on when its thread has another line, or before a line that is not a call.
fn interrupt_calls(text: &str, argument: usize) -> String {
    let mut lines = String::new();
    let mut under_way = BTreeMap::new();
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let Line { prefix, event } = Line::parse(line.trim_end_matches('\n').as_bytes());
        let has_text_within = Echo::begin(line.as_bytes()).is_some();
        let Event::Call(CallLine {
            name,
            args,
            begins: true,
            outcome: Some(_),
            ..
        }) = event
        else {
            lines.extend(std::mem::take(&mut under_way).into_values());
            lines.push_str(line);
            continue;
        };
        if has_text_within {
            // strace prints all arguments of a `write` before it is made.
            lines.extend(under_way.remove(&prefix.tid));
            lines.push_str(line);
            continue;
        }
        let offset = |part: &[u8]| part.as_ptr().addr() - line.as_ptr().addr();
        let arguments = split_args(args).map(|argument| offset(argument) + argument.len());
        let ends: Vec<usize> = [offset(args)].into_iter().chain(arguments).collect();
        let (known, rest) = line.split_at(ends[(number + argument) % ends.len()]);
        let (before, name) = (&line[..offset(name)], String::from_utf8_lossy(name));
        lines.extend(under_way.insert(prefix.tid, format!("{before}<... {name} resumed>{rest}")));
        lines.push_str(known);
        lines.push_str(" <unfinished ...>\n");
    }
    lines.extend(under_way.into_values());
    lines
}

/// All that is in a trace but its duration, which the added lines of a log with `-r` change.
fn described(text: &str) -> Vec<String> {
    let summary = summary(&read_text(text), &[]);
    let lines = summary.lines().filter(|line| !line.starts_with("wall "));
    lines.map(str::to_owned).collect()
}

const LINES: usize = 1_000_000;
/// Lines per log, so that tasks and unfinished calls are carried over, and every log is assembled.
const LINES_PER_LOG: usize = 10_000;

/// xorshift64*: the same lines in every run.
struct DamageRandom(u64);

impl DamageRandom {
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
            3 | 4 => {
                let from = self.below(other.len() + 1);
                let most = [other.len(), 20][self.below(2)];
                drop(line.splice(at..end, other.iter().copied().skip(from).take(most)));
            }
            _ => line
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte = u8::try_from(self.below(256)).expect("is below 256")),
        }
    }
}

#[test]
fn a_million_damaged_lines_are_read_without_a_panic() {
    let texts: Vec<&[u8]> = logs()
        .iter()
        .flat_map(|log| files(log))
        .map(|log| log.reader)
        .collect();
    let lines: Vec<&[u8]> = texts
        .iter()
        .flat_map(|text| text.split(|&byte| byte == b'\n'))
        .collect();
    let unparsed = read_damaged(&lines, DamageRandom(0x5eed));
    assert!(
        (LINES / 20..LINES).contains(&unparsed),
        "{unparsed} lines are not understood"
    );
}

/// Reads damaged lines; returns how many are not understood.
fn read_damaged(lines: &[&[u8]], mut random: DamageRandom) -> usize {
    let mut line = Vec::new();
    let mut unparsed = 0;
    for _ in 0..LINES / LINES_PER_LOG {
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
        let trace = collector.finish();
        let threads = trace.processes.iter().flat_map(|one| &one.threads);
        let calls = threads.flat_map(|thread| &thread.rows).map(|row| row.calls);
        assert!(
            calls.sum::<u64>() <= LINES_PER_LOG as u64 + 1,
            "calls are made up"
        );
    }
    unparsed
}

#[test]
fn a_log_may_be_cut_off_anywhere() {
    let text = fs::read(corpus().join("stderr-moves.log")).expect("can be read");
    // Every seventh byte hits all kinds of places in a fraction of the time.
    for end in (0..text.len()).step_by(7) {
        let trace = read_text(&text[..end]);
        assert!(trace.processes.len() <= 1, "no process is made up at {end}");
    }
}
