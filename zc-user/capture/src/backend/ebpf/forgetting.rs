//! [`Forgetting`]: gives up the numbers of files that nothing needs any more, so that the room for files is for those in use.
//!
//! The kernel side finds the number of a file in a map. To take entries out of it, this side begins a new generation of the map
//! ([`zc_ebpf::maps::FILE_ROOM`]), which has only the entries that are kept. No number is given out twice: a file that is used again gets
//! another one, and [`FileTable`] knows by its identity that it is the same.
//!
//! A number that is given up may still be elsewhere in the kernel: in a task's descriptors, in memory that a read filled, in the row of a call
//! that is under way. It can get from one of these places to another only with a call, whose row names it. So nothing will ever name a number
//! that was in none of them when they were read, and that no row has named which was taken out afterwards.

use std::{collections::HashSet, io};

use aya::maps::{Array, MapData};
use zc_ebpf::{FileKey, FileNumber, FileRoom, KnownFile, Memory, NO_ROOM, ODD_GENERATION, Task, UNSAMPLED, hook};
use zctrace_core::merge::{FileUses, used_connections};

use super::{counts::Counts, drain::Maps, ended::EndedProcesses, epochs::wait_for_programs, file_table::FileTable, table::Table};
use crate::{
    backend::{Limits, RunError},
    trace::{File, FileId, FileKind},
};

/// After how many new files the next generation begins, at least, if there is enough room for others.
const FEWEST: u32 = 512;
/// How often it begins if there is not: after so many new files and ended tasks at least.
const FEWEST_OCCASIONS: usize = 8;

/// If so many files are known, and as many as can have a number at once, those that only ended processes used keep theirs, too. So no more
/// will be known.
const MOST_KNOWN: usize = 65_536;

/// Begins the generations of the map of files.
pub struct Forgetting {
    room: Array<MapData, FileRoom>,
    files: Table<FileKey, KnownFile>,
    memories: Table<u32, Memory>,
    now: FileRoom,
    most: u32,
    /// How many files were kept when this generation began.
    kept: usize,
    /// The last number that was known then.
    last_then: FileNumber,
    /// How many tasks have ended since, and how many files were seen.
    occasions: usize,
}

impl Forgetting {
    /// The first generation.
    pub fn new(
        room: Array<MapData, FileRoom>,
        files: Table<FileKey, KnownFile>,
        memories: Table<u32, Memory>,
        limits: Limits,
    ) -> Self {
        let now = FileRoom::default();
        Self { room, files, memories, now, most: limits.max_files, kept: 0, last_then: 0, occasions: 0 }
    }

    /// Notes that so many tasks have ended or files were seen.
    pub fn note_occasions(&mut self, count: usize) {
        self.occasions += count;
    }

    /// Whether it is time to begin the next generation.
    pub fn is_due(&self, files: &FileTable) -> bool {
        let new = files.last_number().saturating_sub(self.last_then);
        new >= FEWEST.max(u32::try_from(self.kept / 2).unwrap_or(u32::MAX)) || self.is_urgent(files)
    }

    /// Whether there is little room for other files, and reason to hope that there can be more.
    pub fn is_urgent(&self, files: &FileTable) -> bool {
        let used = files.last_number().saturating_sub(self.now.given_up);
        used > self.most / 4 * 3 && self.occasions >= FEWEST_OCCASIONS.max(self.kept / 8)
    }

    /// Forgets the files that nothing needs any more, and gives up numbers. All rows of the files up to `last_number` were taken out of `maps`,
    /// except of calls that were under way.
    pub fn forget(
        &mut self,
        counts: &mut Counts,
        ended: &mut EndedProcesses,
        maps: &Maps,
        last_number: FileNumber,
        pipes: &mut SummedPipes,
    ) -> Result<(), RunError> {
        counts.files.bury_unmentioned();
        let (living, used) = forget_unused(counts, ended, pipes);
        // An operation of an `io_uring` may have named its file long before it completes.
        let tasks = maps.live_tasks()?;
        if tasks.iter().any(|task| task.has_ring != 0 || task.hooks & hook::RING_CREATE != 0) {
            self.occasions = 0;
            return Ok(());
        }
        let most = usize::try_from(self.most).unwrap_or(usize::MAX);
        let keeps_all = used.len() <= most / 2 || counts.files.len() >= most.max(MOST_KNOWN);
        let kept = if keeps_all { used } else { living };
        let under_way = self.mentioned(&tasks)?;
        let is_kept = |number| {
            let file = counts.files.placed_as(number);
            number > last_number || under_way.contains(&number) || file.is_some_and(|file| kept.contains(&file))
        };
        let given_up = self.begin(counts.files.last_number(), is_kept)?;
        counts.files.give_up(given_up);
        let mentioned = self.mentioned(&maps.live_tasks()?)?;
        counts.files.retain_mentioned(&mentioned);
        Ok(())
    }

    /// Begins the next generation, with those files that are kept. Returns the numbers of the others: from now on no program finds them.
    fn begin(&mut self, last_number: FileNumber, keeps: impl Fn(FileNumber) -> bool) -> Result<Vec<FileNumber>, RunError> {
        let old = self.now.generation;
        let next = |key: FileKey| FileKey { shared: key.shared ^ ODD_GENERATION, ..key };
        let is_old = |key: &FileKey| key.shared & ODD_GENERATION == old;
        let (mut kept, mut last) = (Vec::new(), 0);
        self.files.for_each(|key, known| {
            last = last.max(known.number);
            // The entry of an inode that files share has no number.
            if is_old(&key) && (known.number == 0 || keeps(known.number)) {
                kept.push((next(key), *known));
            }
        })?;
        (self.occasions, self.last_then, self.kept) = (0, last_number, kept.len());
        let most = usize::try_from(self.most).unwrap_or(usize::MAX);
        if kept.len() > most - most / 8 {
            return Ok(Vec::new());
        }
        // One that does not fit is given up like the others.
        kept.retain(|(key, known)| self.files.insert(key, known).unwrap_or(false));
        let numbers = u32::try_from(kept.iter().filter(|(_, known)| known.number > 0).count()).unwrap_or(u32::MAX);
        let given_up = last.saturating_sub(numbers).min((NO_ROOM - 1).saturating_sub(self.most));
        self.now = FileRoom { generation: old ^ ODD_GENERATION, given_up: given_up.max(self.now.given_up) };
        self.room.set(0, self.now, 0)?;
        wait_for_programs()?;
        let kept: HashSet<FileNumber> = kept.iter().map(|(_, known)| known.number).collect();
        let (mut late, mut given_up) = (Vec::new(), Vec::new());
        self.files.take(is_old, |key, known| {
            if known.number > last {
                late.push((next(key), *known));
            } else if !kept.contains(&known.number) {
                given_up.push(known.number);
            }
        })?;
        for (key, known) in late {
            // The file may have another number by now.
            if !self.files.insert(&key, &known).unwrap_or(false) {
                given_up.push(known.number);
            }
        }
        Ok(given_up)
    }

    /// The numbers that the kernel side may still name, of those that were given up before: what is in the state of these tasks, the live ones,
    /// and what memory came from.
    fn mentioned(&self, tasks: &[Task]) -> io::Result<HashSet<FileNumber>> {
        let mut mentioned = HashSet::new();
        for task in tasks {
            let of_calls = [task.ends.input, task.ends.output, task.unwritten_read.file, task.mapping.file];
            mentioned.extend(of_calls.into_iter().chain([task.last_input.file, task.last_output.file]).map(without_marks));
        }
        self.memories.for_each(|_, memory| {
            let ranges = memory.ranges.iter().filter(|range| range.end != 0).map(|range| range.file);
            mentioned.extend(ranges.chain(memory.sources.iter().map(|source| source.file)).map(without_marks));
        })?;
        Ok(mentioned)
    }
}

/// Pipes of live processes that nothing goes through any more, as one file.
#[derive(Debug, Clone, Default)]
pub struct SummedPipes {
    /// Whether they may be summed.
    pub is_wanted: bool,
    file: Option<FileId>,
    count: usize,
}

impl SummedPipes {
    /// A note on them, if there are any.
    pub fn note(&self) -> Option<String> {
        (self.count > 0).then(|| {
            format!(
                "{} pipes that were used up while a process that had used them went on are shown as one; whether it wrote on later what it had \
                 kept of them is not followed; --all does",
                self.count
            )
        })
    }

    /// Sums what is known of these pipes.
    fn add(&mut self, pipes: &HashSet<FileId>, counts: &mut Counts, ended: &mut EndedProcesses) {
        if pipes.is_empty() {
            return;
        }
        let sum = || File { kind: Some(FileKind::Pipe), filesystem: Some("pipefs".to_owned()), ..File::default() };
        let file = *self.file.get_or_insert_with(|| counts.files.add(sum()));
        counts.replace(pipes, file);
        ended.replace(pipes, file);
        counts.files.forget_nameless(pipes);
        self.count += pipes.len();
    }
}

/// Forgets the files that nothing names any more. Returns those that live processes may use, and all that are named.
fn forget_unused(counts: &mut Counts, ended: &mut EndedProcesses, pipes: &mut SummedPipes) -> (HashSet<FileId>, HashSet<FileId>) {
    let mut rows = FileUses::default();
    counts.add_uses(&mut rows);
    let ended_pipes = rows.ended_pipes(counts.files.placed());
    let living = rows.used() - &ended_pipes;
    ended.add_uses(&mut rows);
    let mut used = ended.files();
    let is_used_up = |pipe: &FileId| pipes.is_wanted && !used.contains(pipe) && rows.is_used_up(*pipe, ended.settled());
    let used_up: HashSet<FileId> = ended_pipes.into_iter().filter(is_used_up).collect();
    used.extend(rows.used().iter().copied().chain(ended.settled().conduits()));
    let connected = used_connections(counts.files.placed(), |file| used.contains(&file));
    used.extend(connected);
    let nameless = counts.files.forget(|file| used.contains(&file));
    pipes.add(&(&used_up & &nameless), counts, ended);
    used.retain(|file| !used_up.contains(file));
    (living, used)
}

/// The number in the field of an [`Ends`](zc_ebpf::Ends).
const fn without_marks(file: FileNumber) -> FileNumber {
    file & (UNSAMPLED - 1)
}
