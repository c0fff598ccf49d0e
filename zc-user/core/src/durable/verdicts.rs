//! The verdicts, at the end or at a moment in between.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    Judge,
    event::{Doubt, ProgramId},
    judge::Breach,
    names::{Names, NodeId, Place, Presence},
    on_disk::DirectoriesOnDisk,
    pending::{Group, LastChange, Pending},
    syncs::{FileChange, FileSyncs, MomentFile, ProgramSyncs, SyncSums, SyncVerdict, Syncs},
    timeline::Timeline,
};
use crate::errno;

/// How the run ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunEnd {
    /// When, in ns since the beginning; `None`: unknown.
    pub at_ns: Option<u64>,
    /// Whether the program said that all went well: it exited with 0.
    pub is_success: bool,
}

/// A verdict and its reason.
#[derive(Debug, Clone)]
struct Finding {
    verdict: SyncVerdict,
    why: String,
    change: Option<LastChange>,
    bytes: u64,
}

impl Finding {
    fn new(verdict: SyncVerdict, why: String, group: Option<&Group>) -> Self {
        Self {
            verdict,
            why,
            change: group.map(|group| group.change),
            bytes: group.map_or(0, |group| group.bytes),
        }
    }

    fn of_doubt(doubt: Doubt) -> Self {
        Self::new(SyncVerdict::Unknown, doubt.sentence().to_owned(), None)
    }
}

/// The first group that certainly needs a sync, or else one that may need one.
fn first_unsynced(pending: &Pending) -> Option<&Group> {
    let groups = pending.groups();
    let certain = groups.iter().find(|group| group.doubt.is_none());
    certain.or(groups.last())
}

impl FileSyncs {
    fn set_timeline(&mut self, timeline: Timeline) {
        self.timeline = timeline.events;
        self.timeline_left_out = timeline.left_out;
    }
}

impl Judge {
    /// What is not synced in order now.
    pub(super) fn open_files(&self) -> Vec<MomentFile> {
        let directory_changed = self.changed_names.keys().any(|place| {
            matches!(self.names.presence_at(place), Presence::Present(id) if self.names.has_names(id))
        });
        let mut candidates: Vec<(&Place, NodeId)> = Vec::new();
        let mut add = |file: NodeId| {
            let places = self.names.places(file);
            candidates.extend(places.iter().map(|place| (place, file)));
        };
        if directory_changed || self.doubt_about_all().is_some() || !self.breaches.is_empty() {
            self.contents.keys().copied().for_each(&mut add);
        } else {
            let files = self.dirty.iter().chain(&self.outputs);
            files.copied().for_each(&mut add);
            for place in self.changed_names.keys() {
                if let Presence::Present(file) = self.names.presence_at(place) {
                    add(file);
                }
            }
        }
        let live = candidates.into_iter().filter_map(|(place, file)| {
            let finding = self.finding_at(place, file, RunEnd::default())?;
            Some((self.names.path(place), finding))
        });
        let breached = self.breaches.iter();
        let breached = breached.map(|(path, breach)| (path.clone(), self.moved_unsynced(breach)));
        let all: BTreeMap<String, Finding> =
            breached.chain(self.removed_names()).chain(live).collect();
        let file = |(path, finding): (String, Finding)| MomentFile {
            path,
            verdict: finding.verdict,
            why: finding.why,
            first_ns: None,
        };
        all.into_iter().map(file).collect()
    }

    /// What is wrong with a file at this place, or unknown; `None`: nothing is.
    fn finding_at(&self, place: &Place, file: NodeId, end: RunEnd) -> Option<Finding> {
        if let Some(doubt) = self.doubt_about_all() {
            return self.is_changed(file).then(|| Finding::of_doubt(doubt));
        }
        let data = self.contents.get(&file).map(|content| &content.pending);
        let data = data.and_then(|pending| self.of_content(pending, end));
        let name = self.of_names_above(place);
        let breach = self.breaches.get(&self.names.path(place));
        let is_output = self.outputs.contains(&file) && self.is_changed(file);
        let output = is_output.then(|| Finding::of_doubt(Doubt::Output));
        let breach = breach.map(|breach| self.moved_unsynced(breach));
        let findings = [data, name, breach, output];
        findings.into_iter().flatten().min_by_key(|one| one.verdict)
    }

    /// Why all is unknown; `None`: it is not.
    fn doubt_about_all(&self) -> Option<Doubt> {
        let doubtful = self.names.has_doubtful().then_some(Doubt::UnknownPath);
        self.unseen.first().copied().or(doubtful)
    }

    fn is_changed(&self, file: NodeId) -> bool {
        let content = self.contents.get(&file);
        content.is_some_and(|content| content.calls > 0 || content.is_named)
    }

    fn of_content(&self, pending: &Pending, end: RunEnd) -> Option<Finding> {
        let mut certain = pending
            .groups()
            .iter()
            .filter(|group| group.doubt.is_none());
        let failed = certain.find(|group| group.failed.is_some());
        if let Some((group, (errno, number))) =
            failed.and_then(|group| Some((group, group.failed?)))
        {
            let name = errno::name(errno);
            let has_gone_on = end.is_success || self.last_told > number;
            let (verdict, what) = if has_gone_on {
                (SyncVerdict::FailedSync, "the program went on")
            } else {
                (SyncVerdict::NotSynced, "it is lost, whatever follows")
            };
            let why = format!("a sync of it failed with {name}, and {what}");
            return Some(Finding::new(verdict, why, Some(group)));
        }
        let group = first_unsynced(pending)?;
        let Some(doubt) = group.doubt else {
            let why = format!("it was not synced after {}", group.change.call);
            return Some(Finding::new(SyncVerdict::NotSynced, why, Some(group)));
        };
        Some(Finding {
            change: Some(group.change),
            ..Finding::of_doubt(doubt)
        })
    }

    /// What is wrong with the name of this place, or with that of a directory above it.
    fn of_names_above(&self, place: &Place) -> Option<Finding> {
        let mut at = Some(place);
        let mut worst: Option<Finding> = None;
        while let Some(here) = at {
            let changed = self.changed_names.get(here);
            if let Some(group) = changed.and_then(|name| first_unsynced(&name.pending)) {
                let finding = self.of_name(here, group, here == place);
                if worst
                    .as_ref()
                    .is_none_or(|worst| finding.verdict < worst.verdict)
                {
                    worst = Some(finding);
                }
            }
            at = self.names.place_above(here.directory);
        }
        worst
    }

    fn of_name(&self, place: &Place, group: &Group, is_own: bool) -> Finding {
        if let Some(doubt) = group.doubt {
            return Finding {
                change: Some(group.change),
                ..Finding::of_doubt(doubt)
            };
        }
        if self.may_be_another_path(place) {
            return Finding::of_doubt(Doubt::UnknownDirectory);
        }
        let whose = if is_own {
            "its directory".to_owned()
        } else {
            format!("the directory of {}", self.names.path(place))
        };
        let call = group.change.call;
        let how = match group.failed {
            Some((errno, _)) => format!(
                "the sync of {whose} after {call} failed with {}",
                errno::name(errno)
            ),
            None => format!("{whose} was not synced after {call}"),
        };
        Finding::new(SyncVerdict::NotSynced, how, Some(group))
    }

    /// Whether the directory may have been synced by another path.
    fn may_be_another_path(&self, place: &Place) -> bool {
        self.has_strange_sync && !self.names.is_below_root(place.directory)
    }

    fn moved_unsynced(&self, breach: &Breach) -> Finding {
        let doubt = self.doubt_about_all().or(breach.doubt);
        if let Some(doubt) = doubt {
            return Finding::of_doubt(doubt);
        }
        let call = breach.call;
        let times = match breach.count {
            1 => String::new(),
            count => format!(", {count} times"),
        };
        let why = format!(
            "it was moved here after {call} without a sync in between{times}: a crash may leave it empty"
        );
        Finding {
            change: Some(breach.moved),
            ..Finding::new(SyncVerdict::MovedUnsynced, why, None)
        }
    }

    /// Names that were removed, and may be there again after a crash.
    fn removed_names(&self) -> impl Iterator<Item = (String, Finding)> + '_ {
        let gone = self.changed_names.iter();
        let gone = gone.filter(|(place, _)| !self.is_present(place));
        let mut on_disk = DirectoriesOnDisk::new(self);
        gone.filter_map(move |(place, name)| {
            let group = first_unsynced(&name.pending)?;
            let is_certain = on_disk.has_name(place)?;
            let finding = if let Some(doubt) = self.doubt_about_all().or(group.doubt) {
                Finding::of_doubt(doubt)
            } else if !is_certain {
                Finding::of_doubt(Doubt::MayHaveExisted)
            } else if self.may_be_another_path(place) {
                Finding::of_doubt(Doubt::UnknownDirectory)
            } else {
                let call = group.change.call;
                let why = format!(
                    "{call} removed it, and its directory was not synced after that: it may come back"
                );
                Finding::new(SyncVerdict::NotSynced, why, Some(group))
            };
            Some((on_disk.path(place), finding))
        })
    }

    fn is_present(&self, place: &Place) -> bool {
        matches!(self.names.presence_at(place), Presence::Present(_))
    }

    /// All verdicts.
    pub fn finish(mut self, end: RunEnd) -> Syncs {
        self.unseen.extend(self.doubt_about_all());
        let moments = std::mem::take(&mut self.moments);
        let [marks, told] = moments.into_summaries();
        let mut files: BTreeMap<String, FileSyncs> = BTreeMap::new();
        for (&file, content) in &self.contents {
            for place in self.names.places(file) {
                let path = self.names.path(place);
                let finding = self.finding_at(place, file, end);
                // One that was only synced may be in a directory that was moved.
                let is_changed = self.is_changed(file) || finding.is_some();
                let is_start = Names::is_start(file);
                if is_start && !is_changed {
                    continue;
                }
                let mut one = self.file(path, is_changed, finding, end);
                (one.calls, one.bytes) = (content.calls, content.bytes);
                // Its syncs are those of `.`.
                if !is_start {
                    one.syncs = content.syncs.clone();
                    one.set_timeline(self.timelines.of_file(file));
                }
                files.insert(one.path.clone(), one);
            }
        }
        let breached = self.breaches.iter();
        let breached = breached.map(|(path, breach)| (path.clone(), self.moved_unsynced(breach)));
        for (path, finding) in breached.chain(self.removed_names()) {
            let known = files.get(&path).map(|file| file.verdict);
            if known.is_none_or(|known| finding.verdict < known) {
                files.insert(path.clone(), self.file(path, true, Some(finding), end));
            }
        }
        for (path, sums) in self.other_sums() {
            let start = [("/", Names::ROOT), (".", Names::START)];
            let start = start.into_iter().find(|(name, _)| *name == path);
            let one = files.entry(path.clone());
            let one = one.or_insert_with(|| self.file(path, false, None, end));
            one.syncs.add(&sums);
            if let Some((_, id)) = start {
                one.set_timeline(self.timelines.of_file(id));
            }
        }
        self.sum_up(files.into_values().collect(), [marks, told])
    }

    /// The syncs of what has no place: removed files, the directories where paths begin, everything.
    fn other_sums(&self) -> impl Iterator<Item = (String, SyncSums)> + '_ {
        let removed = self.of_removed.iter();
        let removed = removed.map(|(path, sums)| (path.clone(), sums.clone()));
        let of = |id| self.contents.get(&id).map(|content| content.syncs.clone());
        let rest = [
            ("/", of(Names::ROOT)),
            (".", of(Names::START)),
            ("", Some(self.of_everything.clone())),
        ];
        let rest = rest.map(|(path, sums)| (path.to_owned(), sums.unwrap_or_default()));
        removed.chain(rest).filter(|(_, sums)| sums.count > 0)
    }

    fn file(
        &self,
        path: String,
        changed: bool,
        finding: Option<Finding>,
        end: RunEnd,
    ) -> FileSyncs {
        let change = finding
            .as_ref()
            .and_then(|finding| Some(self.change_of_file(finding.change?, finding.bytes, end)));
        let verdict = finding.as_ref().map(|finding| finding.verdict);
        FileSyncs {
            path,
            changed,
            verdict: verdict.unwrap_or(SyncVerdict::InOrder),
            why: finding.map(|finding| finding.why),
            calls: 0,
            bytes: 0,
            unsynced_change: change,
            syncs: SyncSums::default(),
            timeline: Vec::new(),
            timeline_left_out: 0,
        }
    }

    fn change_of_file(&self, change: LastChange, unsynced_bytes: u64, end: RunEnd) -> FileChange {
        let since = end.at_ns.zip(change.at_ns);
        FileChange {
            call: change.call.to_owned(),
            program: self.program_name(change.by),
            functions: Vec::new(),
            unsynced_bytes,
            at_ns: change.at_ns,
            age_ns: since.and_then(|(end, at)| end.checked_sub(at)),
        }
    }

    fn program_name(&self, program: ProgramId) -> Option<String> {
        let name = self.programs.get(program.0).cloned();
        name.filter(|name| !name.is_empty())
    }

    fn sum_up(
        &self,
        mut files: Vec<FileSyncs>,
        [marks, told]: [Vec<super::syncs::SyncMoment>; 2],
    ) -> Syncs {
        files.sort_by_key(|file| (file.verdict, Reverse(file.changed)));
        let changed = || files.iter().filter(|file| file.changed);
        let of_verdict = |verdict| {
            let count = changed().filter(|file| file.verdict == verdict).count();
            count as u64
        };
        let mut sums = SyncSums::default();
        let mut programs: Vec<ProgramSyncs> = Vec::new();
        for (program, syncs) in &self.by_program {
            sums.add(syncs);
            programs.push(ProgramSyncs {
                program: self.program_name(*program).unwrap_or_default(),
                syncs: syncs.clone(),
            });
        }
        programs.sort_by_key(|program| Reverse(program.syncs.count));
        Syncs {
            changed: changed().count() as u64,
            in_order: of_verdict(SyncVerdict::InOrder),
            unknown: of_verdict(SyncVerdict::Unknown),
            sums,
            marks,
            told,
            programs,
            doubts: self
                .unseen
                .iter()
                .map(|doubt| doubt.sentence().to_owned())
                .collect(),
            files,
        }
    }
}
