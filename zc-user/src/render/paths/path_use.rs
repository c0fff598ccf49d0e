//! What a run did with one path: sums over all files that had it, and all calls that named it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    counts::add_counts,
    render::{
        text::{self, known},
        transfers::end_kind,
    },
    report::{FailedPath, FileTotals, PathBase, Report},
    touched::{Touch, TouchAction, TouchedPath},
    units::{self, UNKNOWN, sum_all},
};

/// How many names of failed calls are shown.
const MAX_FAILED_CALLS: usize = 2;

/// What was done with a path, an address, or what has neither, such as pipes.
#[derive(Debug, Default)]
pub(super) struct PathUse {
    /// As reports show it. Of what has no path: its kind.
    path: String,
    /// Whether it has no path and no address.
    is_nameless: bool,
    /// Whether the calls on it come from those that touched paths, which has all of them.
    is_touched: bool,
    /// What is shown behind the path: the kind, if it is no file, flags of `open`, and whether what was
    /// changed there is gone.
    natures: BTreeSet<String>,
    /// How many files had the path, as far as their descriptors tell.
    files: u64,
    /// What calls did, each once.
    done: Vec<&'static str>,
    /// The names of calls that failed.
    failed_calls: BTreeSet<String>,
    /// How many calls there were.
    pub(super) calls: u64,
    /// How many of them failed.
    failed: u64,
    /// The errors, as far as they are known.
    errnos: BTreeMap<String, u64>,
    /// Bytes that calls read. `None`: unknown.
    read: Option<u64>,
    /// Bytes that calls wrote. `None`: unknown.
    written: Option<u64>,
    /// Calls that read from its descriptors. `None`: unknown.
    reads: Option<u64>,
    /// Calls that wrote to its descriptors. `None`: unknown.
    writes: Option<u64>,
    /// How often it was mapped.
    maps: u64,
    /// How often it was mapped to be written.
    writable_maps: u64,
    /// Length of the only file that had this path, if it is a regular one.
    size: Option<u64>,
    /// How long the calls took. `None`: unknown.
    ns: Option<u64>,
}

/// What was done, by path.
struct PathUses {
    /// What is read and written of a path that no file had: nothing, or that is unknown.
    none: [Option<u64>; 2],
    /// By path; what has none by its kind, and `true`.
    by_path: BTreeMap<(String, bool), PathUse>,
}

impl PathUses {
    fn of_path(&mut self, path: &str) -> &mut PathUse {
        self.of_name(path, false)
    }

    fn of_name(&mut self, path: &str, is_nameless: bool) -> &mut PathUse {
        let [reads, writes] = self.none;
        let entry = self.by_path.entry((path.to_owned(), is_nameless));
        entry.or_insert_with(|| PathUse {
            path: path.to_owned(),
            is_nameless,
            read: reads,
            written: writes,
            reads,
            writes,
            ..PathUse::default()
        })
    }
}

impl PathUse {
    /// Each path once.
    pub(super) fn all_of(report: &Report) -> Vec<Self> {
        // Where no file has such calls, they were not chosen, or no files were recorded.
        let is_counted = |calls: fn(&FileTotals) -> Option<u64>| {
            let is_counted = report.files.iter().any(|file| calls(file).is_some());
            is_counted.then_some(0)
        };
        let mut uses = PathUses {
            none: [
                is_counted(FileTotals::counted_reads),
                is_counted(FileTotals::counted_writes),
            ],
            by_path: BTreeMap::new(),
        };
        if let Some(touched) = &report.touched {
            for path in &touched.paths {
                uses.of_path(&path.path).add_touches(path);
            }
        } else {
            for failed in report.totals.failed_paths.iter().flatten() {
                for path in paths_of(failed, report.directory.as_deref()) {
                    uses.of_path(&path).add_failed(failed);
                }
            }
        }
        for file in &report.files {
            let name = file.file.name();
            let path = name.unwrap_or_else(|| end_kind(&file.file));
            let path = path.strip_suffix(" (deleted)").unwrap_or(path);
            uses.of_name(path, name.is_none()).add_file(file);
        }
        uses.by_path.into_values().collect()
    }

    fn add_touches(&mut self, path: &TouchedPath) {
        self.is_touched = true;
        self.natures.extend(path.gone.then(|| "gone".to_owned()));
        self.read = self.read.or(Some(0));
        self.written = self.written.or(Some(0));
        for touch in &path.touches {
            self.add_touch(touch);
        }
        let each_once = path.touches.iter().filter(|one| !one.is_counted_elsewhere);
        self.ns = sum_all(each_once.map(|touch| touch.ns));
    }

    fn add_done(&mut self, what: &'static str) {
        if !self.done.contains(&what) {
            self.done.push(what);
        }
    }

    fn add_touch(&mut self, touch: &Touch) {
        if touch.calls > touch.failed() {
            self.add_done(touch.action.name());
        }
        if !touch.is_counted_elsewhere {
            self.calls += touch.calls;
            for (errno, calls) in &touch.errors {
                self.add_errors(errno, *calls);
            }
        }
        if touch.failed() > 0 {
            self.failed_calls.insert(touch.call.clone());
        }
        let is_read = touch.action == TouchAction::Read;
        let bytes = if is_read {
            &mut self.read
        } else {
            &mut self.written
        };
        *bytes = sum_all([*bytes, Some(touch.bytes)]);
        if touch.call == "mmap" {
            self.maps += touch.done();
            self.writable_maps += if is_read { 0 } else { touch.done() };
        }
    }

    fn add_failed(&mut self, failed: &FailedPath) {
        self.calls += failed.calls;
        self.add_errors(&failed.errno, failed.calls);
        self.failed_calls.insert(failed.syscall.clone());
    }

    fn add_errors(&mut self, errno: &str, calls: u64) {
        self.failed += calls;
        *self.errnos.entry(errno.to_owned()).or_default() += calls;
    }

    /// Adds a file that had this path.
    fn add_file(&mut self, file: &FileTotals) {
        let kind = end_kind(&file.file);
        let is_file = matches!(
            kind,
            "regular" | "directory" | "char" | "block" | "unknown file"
        );
        if !is_file && kind != self.path {
            self.natures.insert(kind.to_owned());
        }
        self.natures.extend(file.file.open_flags.iter().cloned());
        let is_first = self.files == 0;
        self.files += 1;
        // What the path had before it had a file is nothing or unknown.
        let with_file = |sum, more| if is_first { more } else { sum_all([sum, more]) };
        self.size = file.file.size.filter(|_| is_first && kind == "regular");
        self.reads = with_file(self.reads, file.counted_reads());
        self.writes = with_file(self.writes, file.counted_writes());
        if self.is_touched {
            return;
        }
        let (reads, writes) = (file.reads + file.maps, file.writes + file.writable_maps);
        let done = [(TouchAction::Read, reads), (TouchAction::Written, writes)];
        for (action, _) in done.iter().filter(|(_, calls)| *calls > 0) {
            self.add_done(action.name());
        }
        self.calls += file.reads + file.writes + file.other_calls + file.errors;
        self.failed += file.errors;
        add_counts(&mut self.errnos, &file.errnos);
        self.read = with_file(self.read, file.bytes_read);
        self.written = with_file(self.written, file.bytes_written);
        self.maps += file.maps;
        self.writable_maps += file.writable_maps;
        self.ns = with_file(self.ns, file.total_ns);
    }

    /// Whether this is its path.
    pub(super) fn has_path(&self, path: &str) -> bool {
        self.path == path
    }

    /// Whether all calls on it failed.
    pub(super) const fn has_only_failed(&self) -> bool {
        self.calls == self.failed
    }

    /// Whether programs use it when they start.
    pub(super) fn is_of_start(&self) -> bool {
        crate::report::is_used_at_start(&self.path)
    }

    /// Its bytes, its calls and its time.
    pub(super) fn weights(&self) -> [u128; 3] {
        let bytes = self
            .read
            .unwrap_or(0)
            .saturating_add(self.written.unwrap_or(0));
        [bytes, self.calls, self.ns.unwrap_or(0)].map(u128::from)
    }

    /// `wal (O_DSYNC)`, `3 x pipe`.
    pub(super) fn label(&self) -> String {
        let path = text::paths([self.path.as_str()], false);
        let natures: Vec<String> = self.natures.iter().map(|one| text::escape(one)).collect();
        let natures = natures.join(", ");
        let times = if self.is_nameless && self.files > 1 {
            format!("{} x ", self.files)
        } else {
            String::new()
        };
        if natures.is_empty() {
            format!("{times}{path}")
        } else {
            format!("{times}{path} ({natures})")
        }
    }

    /// `read, written`; `failed openat` if no call did anything.
    pub(super) fn what_was_done(&self) -> String {
        match (self.done.as_slice(), self.failed_calls()) {
            ([], failed) if failed.is_empty() => "used".to_owned(),
            ([], failed) => format!("failed {failed}"),
            (done, _) => done.join(", "),
        }
    }

    /// `openat, readlink`: which calls failed, as far as that is known.
    pub(super) fn failed_calls(&self) -> String {
        let names = self.failed_calls.iter().take(MAX_FAILED_CALLS);
        let mut names: Vec<String> = names.map(|name| text::escape(name)).collect();
        if self.failed_calls.len() > MAX_FAILED_CALLS {
            names.push("...".to_owned());
        }
        names.join(", ")
    }

    /// `7 ENOENT, EINVAL`.
    pub(super) fn failures(&self) -> String {
        let named: u64 = self.errnos.values().sum();
        let mut errnos: Vec<String> = self.errnos.keys().map(|name| text::escape(name)).collect();
        if !errnos.is_empty() && named < self.failed {
            errnos.push("others".to_owned());
        }
        let failed = format!("{} {}", self.failed, errnos.join(", "));
        failed.trim_end().to_owned()
    }

    /// The bytes that calls read. If they read a file twice or more: of how many.
    pub(super) fn bytes_read(&self) -> String {
        let read = bytes_or_mapped(self.read, self.maps);
        let is_constant = self.written == Some(0) && self.writable_maps == 0;
        let size = self.size.filter(|&size| is_constant && size > 0);
        let is_again = |size: &u64| self.read.is_some_and(|read| read / 2 >= *size);
        let size = size.filter(is_again).map(units::bytes);
        size.map_or_else(|| read.clone(), |size| format!("{read} of {size}"))
    }

    /// The bytes that calls wrote.
    pub(super) fn bytes_written(&self) -> String {
        bytes_or_mapped(self.written, self.writable_maps)
    }

    pub(super) fn reads(&self) -> String {
        known(self.reads, |calls| calls.to_string())
    }

    pub(super) fn writes(&self) -> String {
        known(self.writes, |calls| calls.to_string())
    }

    pub(super) fn time(&self) -> String {
        known(self.ns, units::duration)
    }
}

/// The bytes that calls moved; `mapped` if none did, but loads or stores may have.
fn bytes_or_mapped(bytes: Option<u64>, maps: u64) -> String {
    if bytes == Some(0) && maps > 0 {
        "mapped".to_owned()
    } else {
        known(bytes, units::bytes)
    }
}

/// The paths of a failed call as reports show them. Where a path starts that is below an unknown
/// directory is not known, so it is none of the run's other paths.
fn paths_of(failed: &FailedPath, directory: Option<&str>) -> Vec<String> {
    let end = if failed.path_cut { "..." } else { "" };
    let start = match failed.base {
        PathBase::Root | PathBase::Directory => "",
        PathBase::Descriptor | PathBase::Unknown => ".../",
    };
    let given = failed.path.iter().chain(&failed.second_path);
    let shown = |path: &String| {
        let start = if path.starts_with('/') || path.is_empty() {
            ""
        } else {
            start
        };
        format!("{start}{}{end}", listed(path, directory))
    };
    let paths: BTreeSet<String> = given.map(shown).collect();
    if paths.is_empty() {
        return vec![UNKNOWN.to_owned()];
    }
    paths.into_iter().collect()
}

/// A path that a call was given as the list has it.
pub(super) fn listed<'p>(path: &'p str, directory: Option<&str>) -> &'p str {
    let below_directory = || text::relative_to(directory.unwrap_or_default(), path);
    path.strip_prefix("./").unwrap_or_else(below_directory)
}
