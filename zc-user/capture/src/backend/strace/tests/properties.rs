//! Properties of generated lines.

use std::{collections::BTreeMap, fs, thread};

use proptest::prelude::*;

use super::{Collector, Log, corpus, files, logs, read_log, read_text};
use crate::{
    backend::{
        Until,
        strace::line::{CallResult, Event, Line, Outcome},
    },
    syscalls::Selection,
    trace::{Row, Trace},
};

/// A call to be printed as strace prints it.
#[derive(Debug, Clone)]
struct Printed {
    tid: u32,
    name: &'static str,
    args: Vec<String>,
    result: String,
    duration_us: Option<u32>,
    /// How many arguments are known at the entry, if the line is interrupted.
    known: usize,
}

impl Printed {
    fn outcome(&self) -> String {
        let duration = self.duration_us.map_or_else(String::new, |us| {
            format!(" <{}.{:06}>", us / 1_000_000, us % 1_000_000)
        });
        format!(")  = {}{duration}", self.result)
    }

    fn whole(&self) -> String {
        format!(
            "{} {}({}{}\n",
            self.tid,
            self.name,
            self.args.join(", "),
            self.outcome()
        )
    }

    fn entry(&self) -> String {
        let known = self.known.min(self.args.len());
        let comma = if known > 0 && known < self.args.len() {
            ", "
        } else {
            ""
        };
        format!(
            "{} {}({}{comma} <unfinished ...>\n",
            self.tid,
            self.name,
            self.args[..known].join(", ")
        )
    }

    fn rest(&self) -> String {
        let known = self.known.min(self.args.len());
        format!(
            "{} <... {} resumed>{}{}\n",
            self.tid,
            self.name,
            self.args[known..].join(", "),
            self.outcome()
        )
    }
}

/// A string as strace escapes it.
fn quoted() -> impl Strategy<Value = String> {
    (prop::collection::vec(any::<u8>(), 0..40), any::<bool>()).prop_map(|(bytes, is_cut)| {
        let text: String = bytes.iter().map(|&byte| escape(byte)).collect();
        format!("\"{text}\"{}", if is_cut { "..." } else { "" })
    })
}

fn escape(byte: u8) -> String {
    match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b'\n' => "\\n".to_owned(),
        0x20..0x7f => char::from(byte).to_string(),
        _ => format!("\\{byte:03o}"),
    }
}

fn argument() -> impl Strategy<Value = String> {
    let plain = prop_oneof![
        quoted(),
        any::<u64>().prop_map(|number| number.to_string()),
        any::<u32>().prop_map(|number| format!("{number:#x}")),
        (0..9_u32, "[a-z /)(=,-]{0,12}").prop_map(|(fd, path)| format!("{fd}</{path}>")),
        Just("7<TCP:[127.0.0.1:5->127.0.0.1:6]>".to_owned()),
        Just("8<UNIX-STREAM:[1->2,\"/run/a)>\"]>".to_owned()),
        Just("O_RDONLY|O_CLOEXEC".to_owned()),
        Just("0x1000 /* 1<<12 */".to_owned()),
    ];
    plain.prop_recursive(2, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|list| format!("[{}]", list.join(", "))),
            prop::collection::vec(inner, 1..3)
                .prop_map(|list| format!("{{iov_base={}}}", list.join(", iov_len="))),
        ]
    })
}

fn call() -> impl Strategy<Value = Printed> {
    let name = prop::sample::select(vec![
        "read", "write", "readv", "sendmsg", "close", "mmap", "splice", "ioctl", "futex",
    ]);
    let result = prop_oneof![
        (0..1_000_000_u32).prop_map(|value| value.to_string()),
        Just("0x7f0000001000".to_owned()),
        Just("3</tmp/a (b) = 1>".to_owned()),
        Just("0 (Timeout)".to_owned()),
        Just("1 ([{fd=3, revents=POLLIN}])".to_owned()),
        Just("-1 EAGAIN (Resource temporarily unavailable)".to_owned()),
        Just("? ERESTARTSYS (To be restarted if SA_RESTART is set)".to_owned()),
        Just("?".to_owned()),
    ];
    (
        10..14_u32,
        name,
        prop::collection::vec(argument(), 0..5),
        result,
        prop::option::of(0..5_000_000_u32),
        0..5_usize,
    )
        .prop_map(|(tid, name, args, result, duration_us, known)| Printed {
            tid,
            name,
            args,
            result,
            duration_us,
            known,
        })
}

/// Everything that does not depend on the order of lines of different threads.
fn sums(trace: &Trace) -> BTreeMap<u32, Vec<String>> {
    let threads = trace.processes.iter().flat_map(|process| &process.threads);
    threads
        .map(|thread| {
            let mut rows: Vec<String> = thread
                .rows
                .iter()
                .map(|row| {
                    format!(
                        "{:?}",
                        Row {
                            order: None,
                            ..row.clone()
                        }
                    )
                })
                .collect();
            rows.sort();
            (thread.tid, rows)
        })
        .collect()
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..50)) {
        let mut ignore = |_: &str| {};
        let mut collector = Collector::new(&Selection::All, Until::AllEnd, &mut ignore);
        for line in &lines {
            collector.push_line(line);
        }
        drop(collector.finish());
    }

    #[test]
    fn a_printed_call_is_parsed(call in call()) {
        let line = call.whole();
        let parsed = Line::parse(line.trim_end_matches('\n').as_bytes());
        prop_assert_eq!(parsed.prefix.tid, Some(call.tid));
        let args = call.args.join(", ");
        let Event::Call { name, args: read_args, outcome: Outcome { result, duration_ns, .. } } = parsed.event else {
            return Err(TestCaseError::fail(format!("{:?}", parsed.event)));
        };
        prop_assert_eq!((name, read_args), (call.name.as_bytes(), args.as_bytes()));
        prop_assert_eq!(duration_ns, call.duration_us.map(|us| u64::from(us) * 1000));
        match result {
            CallResult::Value(value) => {
                let is_printed = call.result.starts_with(&value.to_string()) || call.result == format!("{value:#x}");
                prop_assert!(is_printed, "{} is not {}", value, call.result);
            }
            CallResult::Error(errno) => prop_assert!(call.result.contains(&*String::from_utf8_lossy(errno))),
            CallResult::Never => prop_assert_eq!(call.result, "?"),
            CallResult::Errno(_) => return Err(TestCaseError::fail("no number was printed")),
        }
    }

    #[test]
    fn interrupted_lines_give_the_same_sums(calls in prop::collection::vec(call(), 0..30)) {
        let whole: String = calls.iter().map(Printed::whole).collect();
        // A call ends when its thread enters the next one, or at the end, so that each thread has
        // one unfinished call.
        let mut interrupted = String::new();
        let mut under_way: BTreeMap<u32, &Printed> = BTreeMap::new();
        for call in &calls {
            interrupted.extend(under_way.remove(&call.tid).map(Printed::rest));
            interrupted.push_str(&call.entry());
            under_way.insert(call.tid, call);
        }
        interrupted.extend(under_way.into_values().map(Printed::rest));
        prop_assert_eq!(sums(&read_text(&whole)), sums(&read_text(&interrupted)));
    }
}

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
            4 => drop(line.splice(
                at..end,
                other[self.below(other.len() + 1)..].iter().copied(),
            )),
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
    let unparsed: usize = thread::scope(|scope| {
        let halves = [0x5eed, 0xf00d].map(|seed| {
            scope.spawn({
                let lines = &lines;
                move || read_damaged(lines, LINES / 2, Random(seed))
            })
        });
        halves
            .into_iter()
            .map(|half| half.join().expect("does not panic"))
            .sum()
    });
    assert!(
        (LINES / 20..LINES).contains(&unparsed),
        "{unparsed} lines are not understood"
    );
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
        read_log(
            Log {
                reader: &text[..end],
                tid: None,
            },
            &mut collector,
        )
        .expect("memory can be read");
        let trace = collector.finish();
        assert!(trace.processes.len() <= 1, "no process is made up at {end}");
    }
}
