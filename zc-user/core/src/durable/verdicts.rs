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
struct SyncFinding {
    verdict: SyncVerdict,
    why: String,
    change: Option<LastChange>,
    bytes: u64,
}

impl SyncFinding {
    fn new(verdict: SyncVerdict, why: String, group: Option<&Group>) -> Self {
        Self {
            verdict,
            why,
            change: group.map(|group| group.change),
            bytes: group.map_or(0, |group| group.bytes),
        }
    }

    fn of_doubt(doubt: Doubt) -> Self {
        Self::new(
            SyncVerdict::Unknown,
            doubt.rest_of_sentence().to_owned(),
            None,
        )
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
        let mut candidates: Vec<NodeId> = Vec::new();
        if directory_changed || self.doubt_about_all().is_some() || !self.breaches.is_empty() {
            candidates.extend(self.contents.keys());
        } else {
            candidates.extend(self.dirty.iter().chain(&self.outputs));
            for place in self.changed_names.keys() {
                if let Presence::Present(file) = self.names.presence_at(place) {
                    candidates.push(file);
                }
            }
        }
        let mut all: BTreeMap<String, SyncFinding> = self.findings_by_path().into_iter().collect();
        for file in candidates {
            for place in self.names.places(file) {
                if let Some(finding) = self.finding_at(place, file, RunEnd::default()) {
                    all.insert(self.names.path_of_place(place), finding);
                }
            }
        }
        let file = |(path, finding): (String, SyncFinding)| MomentFile {
            path,
            verdict: finding.verdict,
            why: finding.why,
            first_ns: None,
        };
        all.into_iter().map(file).collect()
    }

    /// What is wrong with a file at this place, or unknown; `None`: nothing is.
    fn finding_at(&self, place: &Place, file: NodeId, end: RunEnd) -> Option<SyncFinding> {
        if let Some(doubt) = self.doubt_about_all() {
            return self
                .is_changed(file)
                .then_some(SyncFinding::of_doubt(doubt));
        }
        let data = self.contents.get(&file).map(|content| &content.pending);
        let data = data.and_then(|pending| self.of_content(pending, end));
        let name = self.of_names_above(place);
        let breach = self.breaches.get(&self.names.path_of_place(place));
        let is_output = self.outputs.contains(&file) && self.is_changed(file);
        let output = is_output.then_some(SyncFinding::of_doubt(Doubt::Output));
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

    fn of_content(&self, pending: &Pending, end: RunEnd) -> Option<SyncFinding> {
        for group in pending
            .groups()
            .iter()
            .filter(|group| group.doubt.is_none())
        {
            let Some((errno, number)) = group.failed else {
                continue;
            };
            let (verdict, what) = if end.is_success || self.last_told > number {
                (SyncVerdict::FailedSync, "the program went on")
            } else {
                (SyncVerdict::NotSynced, "it is lost, whatever follows")
            };
            let name = errno::name(errno);
            let why = format!("a sync of it failed with {name}, and {what}");
            return Some(SyncFinding::new(verdict, why, Some(group)));
        }
        let group = first_unsynced(pending)?;
        let Some(doubt) = group.doubt else {
            let why = format!("it was not synced after {}", group.change.call);
            return Some(SyncFinding::new(SyncVerdict::NotSynced, why, Some(group)));
        };
        Some(SyncFinding {
            change: Some(group.change),
            ..SyncFinding::of_doubt(doubt)
        })
    }

    /// What is wrong with the name of this place, or with that of a directory above it.
    fn of_names_above(&self, place: &Place) -> Option<SyncFinding> {
        let mut at = Some(place);
        let mut worst: Option<SyncFinding> = None;
        while let Some(here) = at {
            let changed = self.changed_names.get(here);
            if let Some(group) = changed.and_then(|name| first_unsynced(&name.pending)) {
                let finding = self.of_name(here, group, here == place);
                worst = match worst {
                    Some(worst) if worst.verdict <= finding.verdict => Some(worst),
                    _ => Some(finding),
                };
            }
            at = self.names.place_above(here.directory);
        }
        worst
    }

    fn of_name(&self, place: &Place, group: &Group, is_own: bool) -> SyncFinding {
        if let Some(doubt) = group.doubt {
            return SyncFinding {
                change: Some(group.change),
                ..SyncFinding::of_doubt(doubt)
            };
        }
        if self.may_be_another_path(place) {
            return SyncFinding::of_doubt(Doubt::UnknownDirectory);
        }
        let whose = if is_own {
            "its directory".to_owned()
        } else {
            format!("the directory of {}", self.names.path_of_place(place))
        };
        let call = group.change.call;
        let how = match group.failed {
            Some((errno, _)) => format!(
                "the sync of {whose} after {call} failed with {}",
                errno::name(errno)
            ),
            None => format!("{whose} was not synced after {call}"),
        };
        SyncFinding::new(SyncVerdict::NotSynced, how, Some(group))
    }

    /// Whether the directory may have been synced by another path.
    fn may_be_another_path(&self, place: &Place) -> bool {
        self.has_strange_sync && !self.names.is_below_root(place.directory)
    }

    fn moved_unsynced(&self, breach: &Breach) -> SyncFinding {
        let doubt = self.doubt_about_all().or(breach.doubt);
        if let Some(doubt) = doubt {
            return SyncFinding::of_doubt(doubt);
        }
        let call = breach.call;
        let times = match breach.count {
            1 => String::new(),
            count => format!(", {count} times"),
        };
        let why = format!(
            "it was moved here after {call} without a sync in between{times}: a crash may leave it empty"
        );
        SyncFinding {
            change: Some(breach.moved),
            ..SyncFinding::new(SyncVerdict::MovedUnsynced, why, None)
        }
    }

    /// Names that were removed, and may be there again after a crash.
    fn removed_names(&self) -> Vec<(String, SyncFinding)> {
        let (mut removed, mut on_disk) = (Vec::new(), DirectoriesOnDisk::new(self));
        for (place, name) in &self.changed_names {
            if self.is_present(place) {
                continue;
            }
            let Some(group) = first_unsynced(&name.pending) else {
                continue;
            };
            let Some(is_certain) = on_disk.has_name(place) else {
                continue;
            };
            let finding = if let Some(doubt) = self.doubt_about_all().or(group.doubt) {
                SyncFinding::of_doubt(doubt)
            } else if !is_certain {
                SyncFinding::of_doubt(Doubt::MayHaveExisted)
            } else if self.may_be_another_path(place) {
                SyncFinding::of_doubt(Doubt::UnknownDirectory)
            } else {
                let call = group.change.call;
                let why = format!(
                    "{call} removed it, and its directory was not synced after that: it may come back"
                );
                SyncFinding::new(SyncVerdict::NotSynced, why, Some(group))
            };
            removed.push((on_disk.path_on_disk(place), finding));
        }
        removed
    }

    /// What is wrong at paths to which files were moved, or whose names were removed.
    fn findings_by_path(&self) -> Vec<(String, SyncFinding)> {
        let mut findings = Vec::new();
        for (path, breach) in &self.breaches {
            findings.push((path.clone(), self.moved_unsynced(breach)));
        }
        findings.extend(self.removed_names());
        findings
    }

    fn is_present(&self, place: &Place) -> bool {
        matches!(self.names.presence_at(place), Presence::Present(_))
    }

    /// All verdicts.
    pub fn finish_verdicts(mut self, end: RunEnd) -> Syncs {
        self.unseen.extend(self.doubt_about_all());
        let moments = std::mem::take(&mut self.moments);
        let [marks, told] = moments.into_summaries();
        let mut files: BTreeMap<String, FileSyncs> = BTreeMap::new();
        for (&file, content) in &self.contents {
            for place in self.names.places(file) {
                let path = self.names.path_of_place(place);
                let finding = self.finding_at(place, file, end);
                // One that was only synced may be in a directory that was moved.
                let is_changed = self.is_changed(file) || finding.is_some();
                let is_start = Names::is_start(file);
                if is_start && !is_changed {
                    continue;
                }
                let mut one = self.judge_file(path, is_changed, finding, end);
                (one.calls, one.bytes) = (content.calls, content.bytes);
                // Its syncs are those of `.`.
                if !is_start {
                    one.syncs = content.syncs.clone();
                    one.set_timeline(self.timelines.of_file(file));
                }
                files.insert(one.path.clone(), one);
            }
        }
        for (path, finding) in self.findings_by_path() {
            match files.get(&path) {
                Some(known) if known.verdict <= finding.verdict => {}
                _ => drop(files.insert(
                    path.clone(),
                    self.judge_file(path, true, Some(finding), end),
                )),
            }
        }
        for (path, sums) in self.other_sums() {
            let start = match path {
                "/" => Some(Names::ROOT),
                "." => Some(Names::START),
                _ => None,
            };
            let one = files.entry(path.to_owned());
            let one =
                one.or_insert_with_key(|path| self.judge_file(path.clone(), false, None, end));
            one.syncs.add_sums(sums);
            if let Some(id) = start {
                one.set_timeline(self.timelines.of_file(id));
            }
        }
        self.sum_up(files.into_values().collect(), [marks, told])
    }

    /// The syncs of what has no place: removed files, the directories where paths begin, everything.
    fn other_sums(&self) -> impl Iterator<Item = (&str, &SyncSums)> {
        let removed = self.of_removed.iter();
        let removed = removed.map(|(path, sums)| (path.as_str(), sums));
        let starts = [("/", Names::ROOT), (".", Names::START)].into_iter();
        let starts = starts.filter_map(|(path, id)| Some((path, &self.contents.get(&id)?.syncs)));
        let all = removed.chain(starts).chain([("", &self.of_everything)]);
        all.filter(|(_, sums)| sums.count > 0)
    }

    fn judge_file(
        &self,
        path: String,
        changed: bool,
        finding: Option<SyncFinding>,
        end: RunEnd,
    ) -> FileSyncs {
        let mut file = FileSyncs {
            path,
            changed,
            verdict: SyncVerdict::InOrder,
            why: None,
            calls: 0,
            bytes: 0,
            unsynced_change: None,
            syncs: SyncSums::default(),
            timeline: Vec::new(),
            timeline_left_out: 0,
        };
        if let Some(finding) = finding {
            if let Some(change) = finding.change {
                file.unsynced_change = Some(self.change_of_file(change, finding.bytes, end));
            }
            (file.verdict, file.why) = (finding.verdict, Some(finding.why));
        }
        file
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
        let (mut changed, mut in_order, mut unknown) = (0, 0, 0);
        for file in files.iter().filter(|file| file.changed) {
            changed += 1;
            in_order += u64::from(file.verdict == SyncVerdict::InOrder);
            unknown += u64::from(file.verdict == SyncVerdict::Unknown);
        }
        let doubts = self
            .unseen
            .iter()
            .map(|doubt| doubt.rest_of_sentence().to_owned());
        let mut sums = SyncSums::default();
        let mut programs: Vec<ProgramSyncs> = Vec::new();
        for (program, syncs) in &self.by_program {
            sums.add_sums(syncs);
            programs.push(ProgramSyncs {
                program: self.program_name(*program).unwrap_or_default(),
                syncs: syncs.clone(),
            });
        }
        programs.sort_by_key(|program| Reverse(program.syncs.count));
        Syncs {
            changed,
            in_order,
            unknown,
            sums,
            marks,
            told,
            programs,
            doubts: doubts.collect(),
            files,
        }
    }
}
