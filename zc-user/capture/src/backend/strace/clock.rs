//! Time in a log: whatever stamps it has, as moments that can be subtracted.

use std::time::{Duration, SystemTime};

use super::line::{Clock, Stamp, number::SECOND_NS};

const DAY_NS: u64 = 24 * 3600 * SECOND_NS;

/// A moment in a log. That of a log with `-r` counts from its first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(Stamp);

impl Moment {
    /// The moment that many ns later.
    pub fn plus(self, ns: u64) -> Self {
        Self(Stamp { ns: self.0.ns.saturating_add(ns), ..self.0 })
    }

    /// Time from `start` to this moment, in ns. `None` if their stamps do not tell, whole seconds for instance.
    pub fn since(self, start: Self) -> Option<u64> {
        let (start, end) = (start.0, self.0);
        if start.clock != end.clock || !start.has_fraction || !end.has_fraction {
            return None;
        }
        let is_next_day = end.clock == Clock::Midnight && end.ns < start.ns;
        (if is_next_day { end.ns + DAY_NS } else { end.ns }).checked_sub(start.ns)
    }

    /// The moment as a date; `None` without `-ttt`.
    pub fn date(self) -> Option<SystemTime> {
        let is_date = self.0.clock == Clock::Epoch;
        is_date.then(|| SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(self.0.ns))).flatten()
    }
}

/// Makes moments of the stamps of consecutive lines.
#[derive(Debug, Default)]
pub struct Stamps {
    elapsed_ns: u64,
}

impl Stamps {
    /// The moment of the next line.
    pub fn next(&mut self, stamp: Stamp) -> Moment {
        if stamp.clock != Clock::LineBefore {
            return Moment(stamp);
        }
        self.elapsed_ns = self.elapsed_ns.saturating_add(stamp.ns);
        Moment(Stamp { ns: self.elapsed_ns, ..stamp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(clock: Clock, ns: u64) -> Moment {
        Moment(Stamp { clock, ns, has_fraction: true })
    }

    #[test]
    fn midnight_passes() {
        let (before, after) = (moment(Clock::Midnight, DAY_NS - 5), moment(Clock::Midnight, 7));
        assert_eq!(after.since(before), Some(12));
    }

    #[test]
    fn whole_seconds_and_different_clocks_tell_nothing() {
        let whole = Moment(Stamp { clock: Clock::Midnight, ns: SECOND_NS, has_fraction: false });
        assert_eq!(whole.since(whole), None);
        assert_eq!(moment(Clock::Epoch, 7).since(moment(Clock::Midnight, 5)), None);
        assert_eq!(moment(Clock::Epoch, 5).since(moment(Clock::Epoch, 7)), None);
    }

    #[test]
    fn relative_stamps_add_up() {
        let mut stamps = Stamps::default();
        let stamp = |ns| Stamp { clock: Clock::LineBefore, ns, has_fraction: true };
        let first = stamps.next(stamp(0));
        stamps.next(stamp(5));
        assert_eq!(stamps.next(stamp(6)).since(first), Some(11));
    }

    #[test]
    fn only_an_epoch_has_a_date() {
        assert_eq!(moment(Clock::Epoch, SECOND_NS).date(), Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1)));
        assert_eq!(moment(Clock::Midnight, SECOND_NS).date(), None);
    }
}
