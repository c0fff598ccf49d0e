//! Pairing reads with writes by the memory that both name: what lies where it was read to came from there.

use crate::FileNumber;

/// Of so many places a task's last reads are remembered.
pub const PLACES: usize = 4;

/// The index of none of them.
const NONE: u32 = 4;

/// Memory that was read into and not yet written from.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where it begins.
    pub start: u64,
    /// Where it ends; as the beginning: it is empty.
    pub end: u64,
    /// Where its bytes came from.
    pub file: FileNumber,
    /// Unused; keeps the layout free of padding.
    pub reserved: u32,
}

impl Place {
    const EMPTY: Self = Self { start: 0, end: 0, file: 0, reserved: 0 };

    /// How many bytes of these lie in it.
    #[inline(always)]
    fn overlap(&self, start: u64, end: u64) -> u64 {
        common_length(self.start, self.end, start, end)
    }
}

/// How many numbers lie in both ranges.
///
/// In the kernel a global function, so that the verifier looks at it once, and not at every way through it for every place.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn common_length(start: u64, end: u64, other_start: u64, other_end: u64) -> u64 {
    let start = if start > other_start { start } else { other_start };
    let end = if end < other_end { end } else { other_end };
    end.saturating_sub(start)
}

/// What a task's memory holds of what it read last. Each byte is taken from there once.
///
/// That a program put other bytes in the same place meanwhile, it does not see: how much was covered is for the analysis to judge.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    places: [Place; PLACES],
    /// The range that the place which was filled last once had: no other has any of it.
    last_start: u64,
    last_end: u64,
    /// The place that is given up next.
    next: u32,
    /// Unused; keeps the layout free of padding.
    reserved: u32,
}

/// What a write took from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Where it came from; 0: from nowhere that is known.
    pub file: FileNumber,
    /// So many bytes.
    pub bytes: u64,
}

impl Held {
    /// Nothing was read, as when a program begins.
    pub const NOTHING: Self = Self { places: [Place::EMPTY; PLACES], last_start: 0, last_end: 0, next: 0, reserved: 0 };

    /// Takes note that so many bytes of `file` (0: unknown) were put there. What lay there before is gone.
    #[inline(always)]
    pub fn read(&mut self, file: FileNumber, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        // As in every loop.
        if let Some(last) = self.places.get_mut((self.next + NONE - 1) as usize % PLACES)
            && last.file == file
            && self.last_start <= start
            && end <= self.last_end
            && (last.start >= last.end || start <= last.start)
        {
            (last.start, last.end) = (start, end);
            return;
        }
        give_up(self, start, end);
        if file == 0 || bytes == 0 {
            return;
        }
        for place in &mut self.places {
            if place.file == file && place.end == start && place.start < start {
                place.end = end;
                (self.last_start, self.last_end) = (0, 0);
                return;
            }
        }
        if let Some(place) = self.places.get_mut(self.next as usize % PLACES) {
            *place = Place { start, end, file, reserved: 0 };
        }
        (self.last_start, self.last_end) = (start, end);
        self.next = (self.next + 1) % NONE;
    }

    /// Where most of these bytes came from, and how many of them.
    #[inline(always)]
    pub fn find(&self, start: u64, bytes: u64) -> Taken {
        let index = largest(self, start, start.saturating_add(bytes));
        let Some(place) = self.places.get(index as usize) else { return Taken { file: 0, bytes: 0 } };
        Taken { file: place.file, bytes: place.overlap(start, start.saturating_add(bytes)) }
    }

    /// The same, of bytes that were written: they are not there to be written again.
    #[inline(always)]
    pub fn take(&mut self, start: u64, bytes: u64) -> Taken {
        let end = start.saturating_add(bytes);
        // Places do not overlap, so what lies in the last one lies in no other: as in every loop.
        if let Some(last) = self.places.get_mut((self.next + NONE - 1) as usize % PLACES)
            && last.start <= start
            && start < end
            && end <= last.end
        {
            last.start = end;
            return Taken { file: last.file, bytes };
        }
        let taken = self.find(start, bytes);
        give_up(self, start, end);
        taken
    }
}

/// The index of the place that has most of a range; [`NONE`]: none has any of it.
///
/// This and the next are global functions in the kernel, so that the verifier looks at each once.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
extern "C" fn largest(held: *const Held, start: u64, end: u64) -> u32 {
    // SAFETY: null, or what the caller has.
    let Some(held) = (unsafe { held.as_ref() }) else { return NONE };
    let (mut most, mut found) = (0, NONE);
    for (index, place) in (0..).zip(&held.places) {
        // Most are empty, most of the time.
        if place.start >= place.end {
            continue;
        }
        let overlap = place.overlap(start, end);
        if overlap > most {
            (most, found) = (overlap, index);
        }
    }
    found
}

/// Nothing that was read lies in this range any more, nor before it in the same place: that is not written in its turn. The result means
/// nothing: a global function must have one.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
extern "C" fn give_up(held: *mut Held, start: u64, end: u64) -> u32 {
    // SAFETY: null, or what the caller has.
    let Some(held) = (unsafe { held.as_mut() }) else { return 0 };
    for place in &mut held.places {
        if place.start >= place.end {
            continue;
        }
        let overlap = place.overlap(start, end);
        if overlap > 0 {
            place.start += common_length(place.start, place.end, 0, start) + overlap;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Taken = Taken { file: 0, bytes: 0 };

    fn of(file: FileNumber, bytes: u64) -> Taken {
        Taken { file, bytes }
    }

    #[test]
    fn a_loop_over_one_buffer_pairs_every_byte() {
        let mut held = Held::NOTHING;
        for bytes in [8192, 8192, 100] {
            held.read(7, 4096, bytes);
            assert_eq!(held.take(4096, bytes), of(7, bytes));
            assert_eq!(held.take(4096, bytes), NOWHERE, "each byte is taken once");
        }
    }

    #[test]
    fn two_copies_in_turn_are_told_apart() {
        let mut held = Held::NOTHING;
        for _ in 0..3 {
            held.read(7, 0x1000, 100);
            held.read(8, 0x2000, 100);
            assert_eq!((held.take(0x1000, 100), held.take(0x2000, 100)), (of(7, 100), of(8, 100)));
        }
    }

    #[test]
    fn other_memory_holds_nothing_of_it() {
        let mut held = Held::NOTHING;
        held.read(7, 0x1000, 100);
        assert_eq!([held.take(0x1064, 100), held.take(0xf00, 0x100), held.take(0, 10)], [NOWHERE; 3]);
        assert_eq!(held.take(0x1000, 100), of(7, 100));
    }

    #[test]
    fn short_writes_go_on_where_they_ended_and_gathered_reads_add_up() {
        let mut held = Held::NOTHING;
        held.read(7, 1000, 100);
        held.read(7, 1100, 100);
        assert_eq!([held.take(1000, 150), held.take(1150, 50), held.take(1200, 50)], [of(7, 150), of(7, 50), NOWHERE]);
    }

    #[test]
    fn a_write_of_more_is_covered_in_part() {
        let mut held = Held::NOTHING;
        held.read(7, 1512, 9728);
        assert_eq!(held.find(1000, 10240), of(7, 9728));
        assert_eq!(held.take(1000, 10240), of(7, 9728));
    }

    #[test]
    fn what_was_read_over_is_gone() {
        let mut held = Held::NOTHING;
        held.read(7, 1000, 100);
        held.read(8, 1050, 100);
        assert_eq!((held.take(1000, 50), held.take(1050, 100)), (NOWHERE, of(8, 100)));
        held.read(7, 1000, 100);
        held.read(0, 1000, 1);
        assert_eq!(held.take(1000, 100), of(7, 99));
    }

    #[test]
    fn the_oldest_place_is_given_up() {
        let mut held = Held::NOTHING;
        for file in 1..=5 {
            held.read(file, u64::from(file) * 1000, 10);
        }
        assert_eq!((held.take(1000, 10), held.take(2000, 10), held.take(5000, 10)), (NOWHERE, of(2, 10), of(5, 10)));
    }

    /// Whatever is read where: what is said to come from a file was read from there, and was not taken before.
    #[test]
    fn nothing_is_said_that_is_not_so() {
        let mut memory = [0; 64];
        let mut held = Held::NOTHING;
        let mut random = 1_u64;
        let mut below = |limit: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u32::try_from(random >> 33).expect("31 bits") % limit
        };
        let mut taken_bytes = 0;
        for _ in 0..2_000_000 {
            let (start, bytes) = (below(40), 1 + below(20));
            let range = start as usize..(start + bytes) as usize;
            let (start, bytes) = (start.into(), bytes.into());
            if below(2) == 0 {
                let file = below(4);
                held.read(file, start, bytes);
                memory[range].fill(file);
            } else {
                let taken = held.take(start, bytes);
                let there = memory[range.clone()].iter().filter(|&&file| file == taken.file).count() as u64;
                assert!(taken.file == 0 || taken.bytes <= there, "{taken:?} of {:?}", &memory[range]);
                taken_bytes += taken.bytes;
                memory[range].fill(0);
            }
        }
        assert!(taken_bytes > 200_000, "{taken_bytes}");
    }
}
