//! Which paths and addresses were touched, and how.

use super::{
    page::{Options, Style, words},
    part::{DocumentPart, more, split},
    table::{ListColumn, STAYS, ShownTable},
    text::{self, known, plural},
};
use crate::{
    report::Report,
    touched::{Touch, TouchedPath},
    units::{self, sum_all},
};

/// How many paths are shown without `--all`.
const MAX_PATHS: usize = 20;

const COLUMNS: [ListColumn<TouchedPath>; 6] = [
    ("path", STAYS, |path| text::escape(&path.path)),
    ("what was done", STAYS, what_was_done),
    ("calls", STAYS, |path| path.calls().to_string()),
    ("failed", 3, |path| {
        let failed: u64 = path.touches.iter().map(Touch::failed).sum();
        failed.to_string()
    }),
    ("bytes", 1, |path| {
        let bytes = path.touches.iter().map(|touch| touch.bytes).sum();
        units::bytes(bytes)
    }),
    ("time", 2, |path| {
        let ns = sum_all(path.touches.iter().map(|touch| touch.ns));
        known(ns, units::duration)
    }),
];

/// The paths and addresses, most used first.
pub(super) fn part(report: &Report, options: &Options) -> Option<DocumentPart> {
    let touched = report.touched.as_ref()?;
    let (shown, hidden) = split(&touched.paths, MAX_PATHS, options);
    let calls = hidden.iter().map(TouchedPath::calls).sum();
    let figures = plural(calls, "call", "calls");
    let mut part = DocumentPart::listing(
        &format!("PATHS, {}", touched.paths.len()),
        ShownTable::of_list(&COLUMNS, shown),
        more(hidden, ["path", "paths"], &figures),
    );
    if touched.paths.is_empty() {
        part.table = None;
    }
    let left_out = (touched.left_out > 0).then(|| {
        let calls = plural(touched.left_out, "call", "calls");
        format!("there was no room for the paths of {calls}")
    });
    let unseen = touched.doubts.iter().cloned().chain(left_out);
    let lines =
        unseen.map(|why| words(&format!("more may have been touched: {why}"), Style::Plain));
    part.remarks.extend(lines);
    Some(part)
}

/// `read, written; looked up: ENOENT`. What only failed is behind its action with the errno.
fn what_was_done(path: &TouchedPath) -> String {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for touch in &path.touches {
        let name = touch.action.name();
        let has_done = touch.calls > touch.failed();
        if has_done && !done.contains(&name) {
            done.push(name);
        }
    }
    for touch in &path.touches {
        let name = touch.action.name();
        let errnos: Vec<String> = touch
            .errors
            .keys()
            .map(|errno| text::escape(errno))
            .collect();
        let what = format!("{name}: {}", errnos.join(", "));
        if !done.contains(&name) && !failed.contains(&what) {
            failed.push(what);
        }
    }
    let done = (!done.is_empty()).then(|| done.join(", "));
    let parts: Vec<String> = done.into_iter().chain(failed).collect();
    parts.join("; ")
}
