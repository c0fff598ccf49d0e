//! The picture of changes and syncs in time, as SVG: a line for each file, with bars while something
//! was not synced.

use maud::{Markup, html};

use super::markup::{LINE_BREAK, shorten};
use crate::{
    durable::{FileSyncs, SyncMoment, Syncs, TimelineEvent, TimelineKind},
    render::text::{self, plural},
    report::Report,
    units,
};

/// How many files have a line.
const MAX_LINES: usize = 20;
/// How many marks are drawn.
const MAX_MARKS: usize = 8;
/// A longer name is shortened.
const MAX_NAME: usize = 32;
/// Where the lines begin and end, and how far they are apart.
const LEFT: f64 = 250.0;
const RIGHT: f64 = 980.0;
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 24.0;
/// The room above the lines, for the names of marks, and below, for times.
const ABOVE: f64 = 24.0;
const BELOW: f64 = 22.0;
/// The width of a bar of a short time.
const MIN_WIDTH: f64 = 3.0;

/// The section; nothing if no times are known.
pub(super) fn section(report: &Report) -> Option<Markup> {
    let syncs = report.syncs.as_ref()?;
    let has_line = |file: &&FileSyncs| !file.timeline.is_empty();
    let all: Vec<&FileSyncs> = syncs.files.iter().filter(has_line).collect();
    let (shown, hidden) = all.split_at(all.len().min(MAX_LINES));
    let scale = TimeScale::new(shown, syncs, report.wall_ns)?;
    let marks = marks(syncs, &scale);
    let bottom = ABOVE + HEIGHT * index(shown.len());
    let view = format!("0 0 {WIDTH} {}", bottom + BELOW);
    Some(html! {
        section {
            h2 { "CHANGES AND SYNCS IN TIME" }
            (legend())
            div.scroll {
                svg.times role="img" aria-label="When files were changed and synced" viewBox=(view) style="min-width: 640px" {
                    @for (mark, x) in &marks {
                        (LINE_BREAK)
                        g.mark {
                            title { (mark_title(mark)) }
                            line x1=(number(*x)) x2=(number(*x)) y1="14" y2=(number(bottom)) {}
                            text x=(number(*x)) y="10" text-anchor="middle" { (text::shorten(&mark.name, MAX_NAME)) }
                        }
                    }
                    @for (row, file) in shown.iter().enumerate() { (LINE_BREAK) (line(file, row, &scale)) }
                    @for (at_ns, anchor) in scale.labels() {
                        (LINE_BREAK)
                        text.faint x=(number(scale.x(at_ns))) y=(number(bottom + 14.0)) text-anchor=(anchor) { (units::duration(at_ns)) }
                    }
                }
            }
            @if let Some(rest) = left_out(hidden.len(), marks.len(), syncs) { p { (rest) } }
        }
    })
}

/// What is not drawn.
fn left_out(files: usize, marks: usize, syncs: &Syncs) -> Option<String> {
    let without_times = syncs
        .files
        .iter()
        .filter(|file| file.changed && file.timeline.is_empty());
    let marks = syncs.marks.len().saturating_sub(marks);
    let parts = [
        (files as u64, ["more file", "more files"], ""),
        (
            without_times.count() as u64,
            ["file", "files"],
            " whose times are unknown",
        ),
        (marks as u64, ["more mark", "more marks"], ""),
    ];
    let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, [one, many], what)| plural(count, one, many) + what)
        .collect();
    (!parts.is_empty()).then(|| format!("not drawn: {}", parts.join(", ")))
}

/// From times to places.
struct TimeScale {
    first_ns: u64,
    last_ns: u64,
}

impl TimeScale {
    /// From the first thing that happened to these files to the end of the run, or the last mark.
    fn new(files: &[&FileSyncs], syncs: &Syncs, wall_ns: Option<u64>) -> Option<Self> {
        let events = || files.iter().flat_map(|file| &file.timeline);
        let began = |event: &TimelineEvent| event.at_ns.saturating_sub(event.ns.unwrap_or(0));
        let first_ns = events().map(began).min()?;
        let marks = syncs.marks.iter().filter_map(|mark| mark.first_ns);
        let at = events().map(|event| event.at_ns).chain(marks);
        Some(Self {
            first_ns,
            last_ns: at.chain(wall_ns).max()?,
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "a picture needs three digits")]
    fn x(&self, at_ns: u64) -> f64 {
        let all = (self.last_ns - self.first_ns).max(1) as f64;
        let at = at_ns.clamp(self.first_ns, self.last_ns) - self.first_ns;
        LEFT + at as f64 / all * (RIGHT - LEFT)
    }

    /// The times below the lines, and which part of each is there.
    fn labels(&self) -> [(u64, &'static str); 3] {
        let middle = u64::midpoint(self.first_ns, self.last_ns);
        [
            (self.first_ns, "start"),
            (middle, "middle"),
            (self.last_ns, "end"),
        ]
    }
}

fn index(index: usize) -> f64 {
    f64::from(u32::try_from(index).unwrap_or(u32::MAX))
}

fn number(number: f64) -> String {
    format!("{number:.1}")
}

/// The first marks, and where they are.
fn marks<'a>(syncs: &'a Syncs, scale: &TimeScale) -> Vec<(&'a SyncMoment, f64)> {
    let mut marks: Vec<(&SyncMoment, u64)> = syncs
        .marks
        .iter()
        .filter_map(|mark| Some((mark, mark.first_ns?)))
        .filter(|(_, at_ns)| (scale.first_ns..=scale.last_ns).contains(at_ns))
        .collect();
    marks.sort_by_key(|(_, at_ns)| *at_ns);
    let marks = marks.into_iter().take(MAX_MARKS);
    marks.map(|(mark, at_ns)| (mark, scale.x(at_ns))).collect()
}

/// `mark "commit", the first of 3`.
fn mark_title(mark: &SyncMoment) -> String {
    let first = match mark.count {
        1 => String::new(),
        count => format!(", the first of {count}"),
    };
    format!("mark \"{}\"{first}", shorten(&mark.name))
}

/// A bar from one time to another.
struct Bar {
    class: &'static str,
    from_ns: u64,
    to_ns: u64,
    title: String,
}

/// When a file had something that was not synced, and its syncs.
fn bars(file: &FileSyncs, last_ns: u64) -> Vec<Bar> {
    let mut dirty_since = None;
    let mut bars: Vec<Bar> = Vec::new();
    let unsynced = |class, from_ns, to_ns: u64| Bar {
        class,
        from_ns,
        to_ns,
        title: format!("not synced for {}", units::duration(to_ns - from_ns)),
    };
    for event in &file.timeline {
        let TimelineEvent { at_ns, what, ns } = *event;
        if what == TimelineKind::Changed {
            dirty_since.get_or_insert(at_ns);
        }
        if let TimelineKind::Synced | TimelineKind::Clean = what
            && let Some(since) = dirty_since.take()
        {
            bars.push(unsynced("dirty", since, at_ns));
        }
        if let TimelineKind::Synced | TimelineKind::SyncFailed = what {
            let class = if what == TimelineKind::Synced {
                "sync"
            } else {
                "failed"
            };
            bars.push(Bar {
                class,
                from_ns: at_ns.saturating_sub(ns.unwrap_or(0)),
                to_ns: at_ns,
                title: format!("{}, {}", what.name(), text::known(ns, units::duration)),
            });
        }
    }
    // What followed is unknown if events were left out.
    let end = if file.timeline_left_out == 0 {
        last_ns
    } else {
        file.timeline.last().map_or(0, |event| event.at_ns)
    };
    bars.extend(dirty_since.map(|since| unsynced("open", since, end.max(since))));
    bars
}

/// A file's line.
fn line(file: &FileSyncs, row: usize, scale: &TimeScale) -> Markup {
    let middle = ABOVE + HEIGHT * (index(row) + 0.5);
    let end_ns = scale.last_ns;
    let path = match file.path.as_str() {
        "" => "all filesystems",
        path => path,
    };
    let verdict = file.verdict.name();
    let why = file
        .why
        .as_deref()
        .map(|why| format!(", {why}"))
        .unwrap_or_default();
    let is_of_name = |event: &&TimelineEvent| event.what.is_of_name();
    html! {
        g {
            title { (shorten(&format!("{path}: {verdict}{why}"))) }
            text x="0" y=(number(middle + 4.0)) { (text::shorten(path, MAX_NAME)) }
            line.base x1=(LEFT) x2=(RIGHT) y1=(number(middle)) y2=(number(middle)) {}
            @for bar in bars(file, end_ns) {
                @let (from, to) = (scale.x(bar.from_ns), scale.x(bar.to_ns));
                @let (above, height) = if bar.class == "sync" || bar.class == "failed" { (7.0, 14.0) } else { (3.0, 6.0) };
                rect.(bar.class) x=(number(from)) y=(number(middle - above)) height=(height)
                    width=(number((to - from).max(MIN_WIDTH))) { title { (bar.title) } }
            }
            @for event in file.timeline.iter().filter(is_of_name) {
                circle cx=(number(scale.x(event.at_ns))) cy=(number(middle)) r="4" {
                    title { (event.what.name()) ", " (units::duration(event.at_ns)) }
                }
            }
            @if file.timeline_left_out > 0 {
                text.faint x=(RIGHT) y=(number(middle - 5.0)) text-anchor="end" { "and " (file.timeline_left_out) " more" }
            }
        }
    }
}

fn legend() -> Markup {
    let looks = [
        ("dirty", "changed, not synced yet"),
        ("open", "not synced at the end"),
        ("sync", "a sync"),
        ("failed", "a sync that failed"),
        ("named", "made, moved or removed"),
    ];
    html! {
        ul.legend {
            @for (class, words) in looks { li { span class={ "swatch time-" (class) } {} (words) } }
            li { "dashed: a mark" }
        }
    }
}
