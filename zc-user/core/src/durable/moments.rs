//! What was not synced in order at marks, and when the program told others something.

use std::collections::BTreeMap;

use super::{
    Judge,
    syncs::{MomentFile, SyncMoment},
};

/// So many files are kept for the moments of one name.
const MAX_FILES: usize = 10_000;
/// So many names of marks are kept.
const MAX_NAMES: usize = 1_000;

/// All moments, by name.
#[derive(Debug, Default)]
pub struct Moments {
    marks: BTreeMap<String, Moment>,
    told: BTreeMap<&'static str, Moment>,
}

#[derive(Debug, Default)]
struct Moment {
    count: u64,
    first_ns: Option<u64>,
    /// Up to which event what is not synced was added.
    seen: u64,
    files: BTreeMap<String, MomentFile>,
    left_out: u64,
}

impl Moment {
    fn add_files(&mut self, files: Vec<MomentFile>, at_ns: Option<u64>) {
        for mut file in files {
            let is_known = self.files.contains_key(&file.path);
            if !is_known && self.files.len() >= MAX_FILES {
                self.left_out += 1;
                continue;
            }
            file.first_ns = at_ns;
            let known = self.files.entry(file.path.clone());
            let known = known.or_insert_with(|| file.clone());
            if file.verdict < known.verdict {
                *known = file;
            }
        }
    }

    fn into_summary(self, name: &str) -> SyncMoment {
        SyncMoment {
            name: name.to_owned(),
            count: self.count,
            first_ns: self.first_ns,
            files: self.files.into_values().collect(),
            left_out: self.left_out,
        }
    }
}

impl Judge {
    /// The program made a mark.
    pub(super) fn record_mark(&mut self, name: &str, at_ns: Option<u64>) {
        let marks = &self.moments.marks;
        if marks.len() >= MAX_NAMES && !marks.contains_key(name) {
            return;
        }
        let open = self.open_files();
        let mark = self.moments.marks.entry(name.to_owned()).or_default();
        mark.first_ns = mark.first_ns.or(at_ns);
        mark.count += 1;
        mark.add_files(open, at_ns);
    }

    /// The program had told others something more, when nothing had changed since it did so last.
    pub(super) fn record_told_again(&mut self, to: &'static str, calls: u64) {
        self.moments.told.entry(to).or_default().count += calls;
    }

    /// The program told others something.
    pub(super) fn record_told(&mut self, to: &'static str, at_ns: Option<u64>) {
        let moment = self.moments.told.entry(to).or_default();
        moment.first_ns = moment.first_ns.or(at_ns);
        moment.count += 1;
        // What was not synced before was added then.
        if moment.seen >= self.last_unsynced && moment.count > 1 {
            return;
        }
        let open = self.open_files();
        let moment = self.moments.told.entry(to).or_default();
        moment.seen = self.number;
        moment.add_files(open, at_ns);
    }
}

impl Moments {
    /// The marks, and to whom the program told something.
    pub fn into_summaries(self) -> [Vec<SyncMoment>; 2] {
        let marks = self.marks.into_iter();
        let told = self.told.into_iter();
        [
            marks
                .map(|(name, moment)| moment.into_summary(&name))
                .collect(),
            told.map(|(name, moment)| moment.into_summary(name))
                .collect(),
        ]
    }
}
