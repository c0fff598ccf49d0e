//! What stands before the event: who (`[pid 123] `, `123 `), when (`-t`, `-tt`, `-ttt`, `-r`),
//! where (`-i`, `-n`).

use std::time::{Duration, SystemTime};

use crate::backend::strace::syntax::{SECOND_NS, decimal, fraction_ns, seconds, split_while, tid};

/// The timestamp of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// What the time counts from.
    pub clock: Clock,
    /// The time.
    pub ns: u64,
    /// Whether it was printed with a fraction of a second.
    pub has_fraction: bool,
}

impl Stamp {
    /// The moment `ns` later.
    #[must_use]
    pub fn plus(self, ns: u64) -> Self {
        Self {
            ns: self.ns.saturating_add(ns),
            ..self
        }
    }

    /// The time from `start` to this moment in ns. `None` if the timestamps do not say, as with
    /// whole seconds.
    pub fn since(self, start: Self) -> Option<u64> {
        if start.clock != self.clock || !start.has_fraction || !self.has_fraction {
            return None;
        }
        let is_next_day = self.clock == Clock::Midnight && self.ns < start.ns;
        let days_ns = if is_next_day { DAY_NS } else { 0 };
        self.ns.saturating_add(days_ns).checked_sub(start.ns)
    }

    /// The moment as a date; `None` without `-ttt`.
    pub fn date(self) -> Option<SystemTime> {
        let is_date = self.clock == Clock::Epoch;
        let date = SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(self.ns));
        date.filter(|_| is_date)
    }
}

/// What a [`Stamp`] counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The epoch (`-ttt`).
    Epoch,
    /// Midnight, local time (`-t`, `-tt`).
    Midnight,
    /// The line before (`-r`); after [`Stamps::next`], the first line.
    LineBefore,
}

/// What stands before the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prefix<'a> {
    /// Thread id.
    pub tid: Option<u32>,
    /// Name of the thread (`-Y`), escaped as strace does.
    pub comm: Option<&'a [u8]>,
    /// The timestamp.
    pub stamp: Option<Stamp>,
}

const DAY_NS: u64 = 24 * 3600 * SECOND_NS;
/// A number at the beginning of a line is a thread id up to this value (`PID_MAX_LIMIT` of the
/// kernel's include/linux/threads.h), and a time beyond it.
const PID_MAX: u64 = 4 << 20;
/// From this value on (30 years), a time counts from the epoch; below, from the line before.
const EPOCH_FROM_NS: u64 = 1_000_000_000 * SECOND_NS;

impl<'a> Prefix<'a> {
    /// Parses the prefix of a line; also returns the rest of the line.
    pub fn read(line: &'a [u8]) -> (Self, &'a [u8]) {
        let mut prefix = Self::default();
        let rest = prefix.read_who(line).unwrap_or(line);
        let rest = prefix.read_when(rest).unwrap_or(rest);
        (prefix, skip_position(rest))
    }

    fn read_who(&mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        let bracketed = line.strip_prefix(b"[pid ");
        let text = skip_spaces(bracketed.unwrap_or(line));
        let (tid, mut rest) = tid(text).filter(|(tid, _)| u64::from(*tid) <= PID_MAX)?;
        if let Some(comm) = rest.strip_prefix(b"<") {
            let end = comm.iter().position(|&byte| byte == b'>')?;
            self.comm = Some(&comm[..end]);
            rest = &comm[end + 1..];
        }
        let rest = if bracketed.is_some() {
            rest.strip_prefix(b"] ")?
        } else {
            rest.strip_prefix(b" ")?
        };
        self.tid = Some(tid);
        Some(skip_spaces(rest))
    }

    fn read_when(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        let (stamp, rest) = clock_time(text).or_else(|| plain_seconds(skip_spaces(text)))?;
        self.stamp = Some(stamp);
        // If `-r` is combined with another option, the absolute time is enough.
        let relative = rest
            .strip_prefix(b"(+")
            .and_then(|rest| seconds(skip_spaces(rest)))
            .and_then(|(_, rest)| rest.strip_prefix(b") "));
        Some(relative.unwrap_or(rest))
    }
}

/// `06:52:41.123456 `
fn clock_time(text: &[u8]) -> Option<(Stamp, &[u8])> {
    if text.get(2) != Some(&b':') {
        return None;
    }
    let (hours, rest) = decimal(text)?;
    let (minutes, rest) = decimal(rest.strip_prefix(b":")?)?;
    let (second, rest) = decimal(rest.strip_prefix(b":")?)?;
    let (fraction, rest) = match rest.strip_prefix(b".") {
        Some(fraction) => fraction_ns(fraction).map(|(ns, rest)| (Some(ns), rest))?,
        None => (None, rest),
    };
    if hours > 23 || minutes > 59 || second > 60 {
        return None;
    }
    let ns = (hours * 3600 + minutes * 60 + second) * SECOND_NS + fraction.unwrap_or(0);
    Some((
        Stamp {
            clock: Clock::Midnight,
            ns,
            has_fraction: fraction.is_some(),
        },
        rest.strip_prefix(b" ")?,
    ))
}

/// `1795243962.014612 ` or `0.000123 `
fn plain_seconds(text: &[u8]) -> Option<(Stamp, &[u8])> {
    let (ns, rest) = seconds(text)?;
    let number = &text[..text.len() - rest.len()];
    let clock = if ns >= EPOCH_FROM_NS {
        Clock::Epoch
    } else {
        Clock::LineBefore
    };
    Some((
        Stamp {
            clock,
            ns,
            has_fraction: number.contains(&b'.'),
        },
        rest.strip_prefix(b" ")?,
    ))
}

/// Skips the instruction pointer of `-i` and the number of `-n`: `[00007fc79db9ead7] `, `[  59] `.
fn skip_position(text: &[u8]) -> &[u8] {
    let mut text = text;
    while let Some(inside) = text.strip_prefix(b"[") {
        let is_inside = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b' ' | b'?');
        let Some(rest) = split_while(inside, is_inside).1.strip_prefix(b"] ") else {
            return text;
        };
        text = rest;
    }
    text
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    split_while(text, |byte| byte == b' ').1
}

/// Makes moments of the timestamps of consecutive lines.
#[derive(Debug, Default)]
pub struct Stamps {
    elapsed_ns: u64,
}

impl Stamps {
    /// The moment of the next line.
    pub fn next(&mut self, stamp: Stamp) -> Stamp {
        if stamp.clock != Clock::LineBefore {
            return stamp;
        }
        self.elapsed_ns = self.elapsed_ns.saturating_add(stamp.ns);
        Stamp {
            ns: self.elapsed_ns,
            ..stamp
        }
    }
}
