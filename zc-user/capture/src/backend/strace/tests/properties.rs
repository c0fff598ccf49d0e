//! Properties of generated lines.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Collector, read_text};
use crate::{
    backend::{
        Until,
        strace::line::{CallResult, Event, Line, Outcome},
    },
    syscall::Selection,
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
        let duration = self.duration_us.map_or_else(String::new, |us| format!(" <{}.{:06}>", us / 1_000_000, us % 1_000_000));
        format!(")  = {}{duration}", self.result)
    }

    fn whole(&self) -> String {
        format!("{} {}({}{}\n", self.tid, self.name, self.args.join(", "), self.outcome())
    }

    fn entry(&self) -> String {
        let known = self.known.min(self.args.len());
        let comma = if known > 0 && known < self.args.len() { ", " } else { "" };
        format!("{} {}({}{comma} <unfinished ...>\n", self.tid, self.name, self.args[..known].join(", "))
    }

    fn rest(&self) -> String {
        let known = self.known.min(self.args.len());
        format!("{} <... {} resumed>{}{}\n", self.tid, self.name, self.args[known..].join(", "), self.outcome())
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
            prop::collection::vec(inner.clone(), 0..3).prop_map(|list| format!("[{}]", list.join(", "))),
            prop::collection::vec(inner, 1..3).prop_map(|list| format!("{{iov_base={}}}", list.join(", iov_len="))),
        ]
    })
}

fn call() -> impl Strategy<Value = Printed> {
    let name = prop::sample::select(vec!["read", "write", "readv", "sendmsg", "close", "mmap", "splice", "ioctl", "futex"]);
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
    (10..14_u32, name, prop::collection::vec(argument(), 0..5), result, prop::option::of(0..5_000_000_u32), 0..5_usize)
        .prop_map(|(tid, name, args, result, duration_us, known)| Printed { tid, name, args, result, duration_us, known })
}

/// Everything that does not depend on the order of lines of different threads.
fn sums(trace: &Trace) -> BTreeMap<u32, Vec<String>> {
    let threads = trace.processes.iter().flat_map(|process| &process.threads);
    threads
        .map(|thread| {
            let mut rows: Vec<String> = thread
                .rows
                .iter()
                .map(|row| format!("{:?}", Row { order: None, moved_order: None, last_order: None, ..row.clone() }))
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
        // A call ends when its thread enters the next one, or at the end, so that each thread has one unfinished call.
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
