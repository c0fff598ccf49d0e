//! [`Forgetting`]: gives up the numbers of files that nothing needs any more, so that the room for
//! files is for those in use.
//!
//! The kernel side finds the number of a file in a map. To take entries out of it, this side begins
//! a new generation of the map ([`zc_ebpf::maps::FILE_ROOM`]), which has only the entries that are
//! kept. No number is given out twice: a file that is used again gets another one, and
//! [`NumberedFiles`] knows by its identity that it is the same.
//!
//! No other entry may name a number that was given up, unless something in the kernel still has it:
//! a task's state (descriptors, mapping, last read), memory that a read filled, or the row of a
//! call under way. From there it spreads only by calls, and their rows name it. So a number is dead
//! if neither tasks nor memory had it when they were read, and no row that was taken out afterwards
//! names it.

use std::{
    collections::HashSet,
    io,
    time::{Duration, Instant},
};

use aya::maps::{Array, HashMap, MapData};
use zc_ebpf::{
    FileKey, FileNumber, FileRoom, KnownFile, NO_ROOM, ODD_GENERATION, SharedMemory, Task,
    is_room_low,
};

use super::{
    drain::{Maps, wait_for_programs},
    file_table::NumberedFiles,
    table::{Table as _, insert_new},
};
use crate::{
    backend::{Limits, RunError},
    trace::FileId,
};

/// The next generation begins after at least so many new files, if there is room for more.
const MIN_NEW_FILES: u32 = 512;
/// If there is no room at all, it begins so long after the last one.
const RETRY: Duration = Duration::from_secs(1);
/// If room is low, it begins after at least so many new files and ended tasks.
const MIN_OCCASIONS: usize = 8;

/// With so many known files (and at least `most`), files that only ended processes used keep their
/// numbers. That limits how many become known.
const MAX_KNOWN: usize = 65_536;

/// Begins the generations of the map of files.
pub struct Forgetting {
    room: Array<MapData, FileRoom>,
    files: HashMap<MapData, FileKey, KnownFile>,
    memories: Array<MapData, SharedMemory>,
    now: FileRoom,
    most: u32,
    /// How many files were kept when this generation began.
    kept: usize,
    /// The last number that was known then, or when nothing could be given up.
    last_then: FileNumber,
    /// How many tasks have ended since, and how many files were seen.
    occasions: usize,
    /// When the last generation began, or could not begin.
    begun_at: Instant,
}

impl Forgetting {
    /// The first generation.
    pub fn new(
        room: Array<MapData, FileRoom>,
        files: HashMap<MapData, FileKey, KnownFile>,
        memories: Array<MapData, SharedMemory>,
        limits: Limits,
    ) -> Self {
        let now = FileRoom::default();
        Self {
            room,
            files,
            memories,
            now,
            most: limits.max_files,
            kept: 0,
            last_then: 0,
            occasions: 0,
            begun_at: Instant::now(),
        }
    }

    /// Begins the first generation of another run, without any file.
    pub fn restart(&mut self) -> Result<(), RunError> {
        self.files.clear()?;
        self.now = FileRoom::default();
        self.room.set(0, self.now, 0)?;
        (self.kept, self.last_then, self.occasions) = (0, 0, 0);
        Ok(())
    }

    /// Counts tasks that ended and files that were seen.
    pub fn note_occasions(&mut self, count: usize) {
        self.occasions += count;
    }

    /// Whether it is time to begin the next generation.
    pub fn is_due(&self, files: &NumberedFiles) -> bool {
        let most_new = MIN_NEW_FILES.max(u32::try_from(self.kept / 2).unwrap_or(u32::MAX));
        let new = files.last_number().saturating_sub(self.last_then);
        new >= most_new || self.is_urgent(files)
    }

    /// Whether room for files is low, and enough has happened that some may have become free.
    pub fn is_urgent(&self, files: &NumberedFiles) -> bool {
        let is_time = self.is_full(files) && self.begun_at.elapsed() >= RETRY;
        is_room_low(files.last_number(), self.now.given_up, self.most)
            && (is_time || self.occasions >= MIN_OCCASIONS.max(self.kept / 8))
    }

    /// Whether there is no room for files. Then there are no messages of further ones.
    pub fn is_full(&self, files: &NumberedFiles) -> bool {
        files.last_number().saturating_sub(self.now.given_up) >= self.most
    }

    /// How many files may be in rows of live processes before those that are no longer used are summed:
    /// of those in no directory, and of all, so that a quarter is free for others.
    pub fn max_living(&self) -> [usize; 2] {
        let most = usize::try_from(self.most).unwrap_or(usize::MAX);
        [most / 4, most / 4 * 3]
    }

    /// Gives up the numbers of files that nothing needs. Rows of live processes name the `living`
    /// files, and anything names those that are `used`. The rows of files up to `last_number` are
    /// out of `maps`, except those of calls that were under way.
    pub fn forget(
        &mut self,
        files: &mut NumberedFiles,
        (living, used): (HashSet<FileId>, HashSet<FileId>),
        maps: &Maps,
        last_number: FileNumber,
    ) -> Result<(), RunError> {
        let tasks = maps.live_tasks()?;
        let most = usize::try_from(self.most).unwrap_or(usize::MAX);
        let keeps_all = used.len() <= most / 2 || files.len() >= most.max(MAX_KNOWN);
        let kept = if keeps_all { used } else { living };
        let under_way = self.numbers_in_use(&tasks)?;
        let is_kept = |number| {
            let file = files.placed_as(number);
            number > last_number
                || under_way.contains(&number)
                || file.is_some_and(|file| kept.contains(&file))
        };
        let given_up = self.begin(files.last_number(), is_kept)?;
        files.give_up(given_up);
        let mentioned = self.numbers_in_use(&maps.live_tasks()?)?;
        files.retain_mentioned(&mentioned);
        Ok(())
    }

    /// Begins the next generation with the files that are kept. Returns the numbers of all others;
    /// no program finds them from now on.
    fn begin(
        &mut self,
        last_number: FileNumber,
        keeps: impl Fn(FileNumber) -> bool,
    ) -> Result<Vec<FileNumber>, RunError> {
        let old = self.now.generation;
        let next = |key: FileKey| FileKey {
            shared: key.shared ^ ODD_GENERATION,
            ..key
        };
        let is_old = |key: &FileKey| key.shared & ODD_GENERATION == old;
        let (mut kept, mut last) = (Vec::new(), 0);
        self.files.for_each(|key, known| {
            last = last.max(known.number);
            // The entry of an inode that files share has no number.
            if is_old(&key) && (known.number == 0 || keeps(known.number)) {
                kept.push((next(key), *known));
            }
        })?;
        (self.occasions, self.last_then) = (0, last_number);
        self.begun_at = Instant::now();
        self.kept = kept.len();
        let most = usize::try_from(self.most).unwrap_or(usize::MAX);
        if kept.len() > most - most / 8 {
            return Ok(Vec::new());
        }
        let mut numbers = HashSet::new();
        for (key, known) in &kept {
            // One that does not fit is given up like the others.
            if insert_new(&mut self.files, key, known)? && known.number > 0 {
                numbers.insert(known.number);
            }
        }
        let given_up = last
            .saturating_sub(u32::try_from(numbers.len()).unwrap_or(u32::MAX))
            .min((NO_ROOM - 1).saturating_sub(self.most));
        self.now = FileRoom {
            generation: old ^ ODD_GENERATION,
            given_up: given_up.max(self.now.given_up),
        };
        self.room.set(0, self.now, 0)?;
        wait_for_programs()?;
        let (mut late, mut given_up) = (Vec::new(), Vec::new());
        self.files.take_entries(is_old, |key, known| {
            if known.number > last {
                late.push((next(key), *known));
            } else if known.number > 0 && !numbers.contains(&known.number) {
                given_up.push(known.number);
            }
        })?;
        for (key, known) in late {
            // The file may have another number by now.
            if !insert_new(&mut self.files, &key, &known)? {
                given_up.push(known.number);
            }
        }
        Ok(given_up)
    }

    /// The numbers that live tasks and their memory name. Rows may name others.
    fn numbers_in_use(&self, tasks: &[Task]) -> io::Result<HashSet<FileNumber>> {
        let mut mentioned = HashSet::new();
        for task in tasks {
            mentioned.extend([
                task.ends.input,
                task.ends.output,
                task.outcome.origin.file,
                task.mapping.file,
                task.last_input.file,
                task.last_output.file,
            ]);
        }
        self.memories.for_each(|_, shared| {
            // What an address space leaves behind that has ended names nothing any more.
            if shared.tasks == 0 {
                return;
            }
            let memory = &shared.memory;
            let ranges = memory.ranges.iter().filter(|range| range.end != 0);
            mentioned.extend(ranges.map(|range| range.file));
            let origins = memory.origins.iter().take(memory.origins_used as usize);
            mentioned.extend(origins.map(|origin| origin.file));
        })?;
        Ok(mentioned)
    }
}
