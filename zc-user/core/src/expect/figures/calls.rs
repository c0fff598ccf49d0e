//! Figures of calls: sums over rows.

use super::{
    Measured,
    chosen::{Names, Rows, rows},
};
use crate::{
    expect::{
        ast::Figure,
        facts,
        field::Field,
        known::{Amount, Known},
    },
    histogram::bucket_range,
    report::{Report, Syscall},
};
use zc_ebpf::bucket_of;

/// What is known of a figure of calls. The error names those that were not counted.
pub(super) fn measure(figure: &Figure, report: &Report) -> Result<Measured, Vec<String>> {
    let names = Names::of(&figure.subject);
    let uncounted = report.counted.as_ref().map(|counted| names.uncounted(counted)).unwrap_or_default();
    if !uncounted.is_empty() {
        return Err(uncounted);
    }
    let chosen = match rows(figure, &names, report) {
        Rows::Missing(why) => return Ok(Measured::plain(Known::Missing(why))),
        Rows::Unknown(why) => return Ok(Measured::unknown(why)),
        Rows::Chosen(chosen) => chosen,
    };
    let sum = Sum { rows: &chosen.rows, is_open: chosen.open.is_some() };
    let known = sum.figure(figure.field, figure.errno.as_deref());
    let is_limited = matches!(known, Known::Between(low, Some(high)) if low == high);
    let reason = chosen.open.filter(|_| !is_limited).or_else(|| why_unknown(&known, figure.field));
    let facts = facts::of_calls(figure, &names_of(&chosen.rows), report);
    Ok(Measured { known, reason, facts })
}

fn names_of<'a>(rows: &[&'a Syscall]) -> Vec<&'a str> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Rows to sum up.
struct Sum<'a> {
    rows: &'a [&'a Syscall],
    /// Whether there may be more.
    is_open: bool,
}

impl Sum<'_> {
    fn figure(&self, field: Field, errno: Option<&str>) -> Known {
        match field {
            Field::Errors => self.errors(errno),
            Field::Unfinished => self.count(|row| row.unfinished),
            Field::Bytes => self.total(bytes),
            Field::RequestedBytes => self.total(|row| row.requested_bytes),
            Field::AvgSize => self.mean(bytes, |row| row.calls - row.errors, "no call to average"),
            Field::Total => self.total(|row| row.total_ns),
            Field::Avg => self.mean(|row| row.total_ns, |row| row.calls, NO_TIME),
            Field::Min => self.least(),
            Field::Max => self.most(),
            field if field.is_percentile() => self.percentile(field),
            // The parser lets no other figure through.
            _ => self.count(|row| row.calls),
        }
    }

    /// Rows of calls that returned.
    fn returned(&self) -> impl Iterator<Item = &Syscall> {
        self.rows.iter().copied().filter(|row| row.calls > 0)
    }

    fn count(&self, figure: impl Fn(&Syscall) -> u64) -> Known {
        let (low, fits) = super::sum(self.rows.iter().map(|row| Some(figure(row))));
        Known::Between(low.into(), (fits && !self.is_open).then(|| low.into()))
    }

    fn errors(&self, errno: Option<&str>) -> Known {
        let Some(errno) = errno else { return self.count(|row| row.errors) };
        let low: u64 = self.rows.iter().filter_map(|row| row.errnos.get(errno)).sum();
        // Errors whose errno is not known may be any.
        let nameless: u64 = self.rows.iter().map(|row| row.errors.saturating_sub(row.errnos.values().sum())).sum();
        Known::Between(low.into(), (!self.is_open).then(|| (low + nameless).into()))
    }

    /// A sum of which parts may be unknown.
    fn total(&self, figure: impl Fn(&Syscall) -> Option<u64>) -> Known {
        let (low, all_known) = super::sum(self.returned().map(&figure));
        Known::Between(low.into(), (all_known && !self.is_open).then(|| low.into()))
    }

    fn mean(&self, sum: impl Fn(&Syscall) -> Option<u64>, count: impl Fn(&Syscall) -> u64, if_none: &str) -> Known {
        if self.is_open {
            return Known::Unknown;
        }
        let count: u64 = self.returned().map(count).sum();
        let sum = self.returned().map(sum).try_fold(0, |all: u64, figure| all.checked_add(figure?));
        match (Amount::mean(sum.unwrap_or(0), count), sum) {
            (None, _) => Known::Missing(if_none.to_owned()),
            (Some(mean), Some(_)) => Known::exactly(mean),
            (Some(_), None) => Known::Unknown,
        }
    }

    fn most(&self) -> Known {
        let Some(low) = self.returned().filter_map(|row| row.max_ns).max() else { return self.no_time() };
        let all_known = self.returned().all(|row| row.max_ns.is_some());
        Known::Between(low.into(), (all_known && !self.is_open).then(|| low.into()))
    }

    fn least(&self) -> Known {
        let Some(high) = self.returned().filter_map(|row| row.min_ns).min() else { return self.no_time() };
        let is_all = !self.is_open && self.returned().all(|row| row.min_ns.is_some());
        Known::Between(if is_all { high } else { 0 }.into(), Some(high.into()))
    }

    /// Of several rows together, a percentile lies between theirs.
    fn percentile(&self, field: Field) -> Known {
        let all: Option<Vec<(u64, u64)>> = self.returned().map(|row| percentile_range(row, field)).collect();
        match all {
            _ if self.is_open => self.no_time(),
            Some(all) => match (all.iter().map(|(low, _)| *low).min(), all.iter().map(|(_, high)| *high).max()) {
                (Some(low), Some(high)) => Known::Between(low.into(), Some(high.into())),
                _ => self.no_time(),
            },
            None => Known::Unknown,
        }
    }

    /// Of no time that is known.
    fn no_time(&self) -> Known {
        if self.is_open || self.returned().next().is_some() { Known::Unknown } else { Known::Missing(NO_TIME.to_owned()) }
    }
}

/// Where a percentile of a row lies: the report has the middle of the bucket that it falls in.
fn percentile_range(row: &Syscall, field: Field) -> Option<(u64, u64)> {
    let middle = match field {
        Field::P50 => row.p50_ns,
        Field::P90 => row.p90_ns,
        _ => row.p99_ns,
    }?;
    let (low, width) = bucket_range(bucket_of(middle));
    let (low, high) = (low.max(row.min_ns.unwrap_or(0)), (low + (width - 1)).min(row.max_ns.unwrap_or(u64::MAX)));
    Some((low.min(middle), high.max(middle)))
}

/// What the rows themselves do not tell.
fn why_unknown(known: &Known, field: Field) -> Option<String> {
    match known {
        Known::Between(low, Some(high)) if low != high && field.is_percentile() => {
            Some("percentiles are known up to 6.25 %".to_owned())
        }
        Known::Between(_, None) | Known::Unknown => Some("the calls do not tell, or the backend does not".to_owned()),
        Known::Between(low, Some(high)) if low != high => Some("of several calls together no more is known".to_owned()),
        _ => None,
    }
}

const NO_TIME: &str = "no call was timed";

/// What calls moved; those that failed moved nothing, also where a success would not tell.
fn bytes(row: &Syscall) -> Option<u64> {
    if row.calls == row.errors { Some(0) } else { row.bytes }
}
