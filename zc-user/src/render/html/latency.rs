//! How long the calls took: the histogram of each, on one logarithmic scale, with its percentiles.

use maud::{Markup, html};

use super::{LINE_BREAK, counts_are_lower_bounds};
use crate::{
    render::{
        calls, latency,
        text::{self, known, plural},
    },
    report::{Bucket, Report, Syscall},
    units,
};

/// How many calls are drawn.
const MOST_CALLS: usize = 12;
/// Above the bars is some room, and below them is the scale.
const BARS_HEIGHT: u32 = 56;
const HEIGHT: u32 = 76;
/// The lowest bar, so that a single call is seen beside a million.
const LEAST_HEIGHT: f64 = 1.5;
/// At most so many times are on the scale.
const MOST_LABELS: u32 = 4;
const LONGEST_NAME: usize = 28;

pub(super) fn section(report: &Report) -> Markup {
    let mut calls: Vec<&Syscall> = latency::timed(report).collect();
    calls.sort_by_key(|call| std::cmp::Reverse(call.total_ns));
    let hidden = calls.split_off(calls.len().min(MOST_CALLS));
    let scale = Scale::of_calls(&calls);
    html! {
        section {
            h2 { "Latency" }
            (counts_are_lower_bounds(report))
            @if calls.is_empty() {
                p { "no call was timed" }
            } @else {
                p.faint {
                    "From entry to exit, on the same logarithmic scale for all. The area of a bar is its share of the calls; the smallest "
                    "bars are drawn higher, so that they can be seen. The percentiles are at most 6.25 % off."
                }
            }
            @for call in &calls { (LINE_BREAK) (chart(call, scale)) }
            @if !hidden.is_empty() {
                p { "and " (plural(hidden.len() as u64, "more kind of calls", "more kinds of calls")) ", which took less time" }
            }
        }
    }
}

/// The times at both ends of the scale, as powers of two.
#[derive(Debug, Clone, Copy)]
struct Scale {
    first: u32,
    last: u32,
}

impl Scale {
    fn of_calls(calls: &[&Syscall]) -> Self {
        let times = || {
            calls
                .iter()
                .flat_map(|call| [call.min_ns, call.max_ns])
                .flatten()
        };
        let first = times().min().map_or(0, latency::octave);
        Self {
            first,
            last: times().max().map_or(0, latency::octave) + 1,
        }
    }

    /// Where a time is, from 0 to 100.
    fn place(self, ns: u64) -> f64 {
        let octaves = log2(ns) - f64::from(self.first);
        (octaves / f64::from(self.last - self.first) * 100.0).clamp(0.0, 100.0)
    }

    /// The powers of two that are named.
    fn labels(self) -> impl Iterator<Item = u32> {
        let step = (self.last - self.first).div_ceil(MOST_LABELS).max(1);
        (self.first..=self.last).step_by(step as usize)
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is for a place in a picture")]
fn log2(ns: u64) -> f64 {
    (ns.max(1) as f64).log2()
}

fn chart(call: &Syscall, scale: Scale) -> Markup {
    let marks = [
        ("p50", call.p50_ns),
        ("p90", call.p90_ns),
        ("p99", call.p99_ns),
    ];
    let timed = call
        .histogram
        .iter()
        .fold(0_u64, |sum, bucket| sum.saturating_add(bucket.calls));
    let bottom = BARS_HEIGHT;
    html! {
        figure.latency {
            figcaption {
                b.name { (text::shorten(&calls::name(call), LONGEST_NAME)) } " "
                span.figure { "min " (known(call.min_ns, units::duration)) }
                @for (name, ns) in marks {
                    " " span.figure {
                        svg class={ "mark " (name) } width="9" height="12" aria-hidden="true" {
                            line x1="4" x2="4" y1="0" y2="12" {}
                        }
                        (name) " " (known(ns, units::duration))
                    }
                }
                " " span.figure { "max " (known(call.max_ns, units::duration)) }
                @if timed > 0 && timed < call.calls {
                    " " span.warning { (timed) " of " (plural(call.calls, "call", "calls")) " timed" }
                }
            }
            svg width="100%" height=(HEIGHT) role="img" aria-label="distribution of the times" {
                svg width="100%" height=(bottom) viewBox={ "0 0 100 " (bottom) } preserveAspectRatio="none" {
                    @for bar in bars(call, scale) { (bar) }
                }
                line.axis x1="0" x2="100%" y1=(bottom) y2=(bottom) {}
                @if let Some((min, max)) = call.min_ns.zip(call.max_ns) {
                    line.range x1=(percent(scale.place(min))) x2=(percent(scale.place(max))) y1=(bottom) y2=(bottom) {}
                }
                @for (name, ns) in marks {
                    @if let Some(ns) = ns {
                        @let x = percent(scale.place(ns));
                        line class={ "mark " (name) } x1=(x) x2=(x) y1="0" y2=(bottom) {}
                    }
                }
                @for power in scale.labels() {
                    @let ns = 1_u64.checked_shl(power).unwrap_or(u64::MAX);
                    @let x = percent(scale.place(ns));
                    line.tick x1=(x) x2=(x) y1=(bottom) y2=(bottom + 4) {}
                    text class=(anchor(scale, power)) x=(x) y=(HEIGHT - 3) { (units::duration(ns)) }
                }
            }
        }
    }
}

/// How the label of a tick lies beside it, so that it stays within the picture.
const fn anchor(scale: Scale, power: u32) -> &'static str {
    if power == scale.first {
        "start"
    } else if power == scale.last {
        "end"
    } else {
        "middle"
    }
}

/// A bar for each interval. Its width is that of the interval on the scale, its area the number of
/// calls.
fn bars(call: &Syscall, scale: Scale) -> Vec<Markup> {
    let sides = |bucket: &Bucket| {
        let end = bucket
            .below_ns
            .or(call.max_ns)
            .unwrap_or(bucket.from_ns)
            .max(bucket.from_ns.saturating_add(1));
        [scale.place(bucket.from_ns), scale.place(end)]
    };
    #[expect(
        clippy::cast_precision_loss,
        reason = "it is for a height in a picture"
    )]
    let density = |bucket: &Bucket| {
        let [left, right] = sides(bucket);
        bucket.calls as f64 / (right - left).max(0.01)
    };
    let most = call
        .histogram
        .iter()
        .map(density)
        .fold(f64::MIN_POSITIVE, f64::max);
    let bar = |bucket: &Bucket| {
        let [left, right] = sides(bucket);
        let room = f64::from(BARS_HEIGHT - 4);
        let height = (density(bucket) / most * room).max(LEAST_HEIGHT);
        let top = f64::from(BARS_HEIGHT) - height;
        let below = bucket
            .below_ns
            .map_or_else(|| "longer".to_owned(), units::duration);
        html! {
            rect x=(format!("{left:.2}")) y=(format!("{top:.1}")) width=(format!("{:.2}", right - left)) height=(format!("{height:.1}")) {
                title { (units::duration(bucket.from_ns)) " to " (below) ": " (plural(bucket.calls, "call", "calls")) }
            }
        }
    };
    call.histogram.iter().map(bar).collect()
}

fn percent(place: f64) -> String {
    format!("{place:.2}%")
}
