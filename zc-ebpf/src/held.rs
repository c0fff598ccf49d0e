//! Pairing reads with writes by the memory that both name: what lies where it was read to came from there.

use crate::FileNumber;

/// Of so many places a task's last reads are remembered.
pub const PLACES: usize = 4;

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
    const fn overlap(&self, start: u64, end: u64) -> u64 {
        let start = if start > self.start { start } else { self.start };
        let end = if end < self.end { end } else { self.end };
        end.saturating_sub(start)
    }
}

/// What a task's memory holds of what it read last. Each byte is taken from there once.
///
/// That a program put other bytes in the same place meanwhile, it does not see: how much was covered is for the analysis to judge.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    places: [Place; PLACES],
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
    pub const NOTHING: Self = Self { places: [Place::EMPTY; PLACES], next: 0, reserved: 0 };

    /// Takes note that so many bytes of `file` (0: unknown) were put there. What lay there before is gone.
    #[inline(always)]
    pub fn read(&mut self, file: FileNumber, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        let mut continued = false;
        for place in &mut self.places {
            if place.overlap(start, end) > 0 {
                *place = Place::EMPTY;
            } else if file != 0 && place.file == file && place.end == start && place.start < start && !continued {
                place.end = end;
                continued = true;
            }
        }
        if file == 0 || continued || bytes == 0 {
            return;
        }
        if let Some(place) = self.places.get_mut(self.next as usize % PLACES) {
            *place = Place { start, end, file, reserved: 0 };
        }
        self.next = (self.next + 1) % PLACES as u32;
    }

    /// Where most of these bytes came from, and how many of them.
    #[inline(always)]
    pub fn find(&self, start: u64, bytes: u64) -> Taken {
        let end = start.saturating_add(bytes);
        let mut most = Taken { file: 0, bytes: 0 };
        for place in &self.places {
            let overlap = place.overlap(start, end);
            if overlap > most.bytes {
                most = Taken { file: place.file, bytes: overlap };
            }
        }
        most
    }

    /// The same, of bytes that were written: they are not there to be written again.
    #[inline(always)]
    pub fn take(&mut self, start: u64, bytes: u64) -> Taken {
        let taken = self.find(start, bytes);
        let end = start.saturating_add(bytes);
        for place in &mut self.places {
            if place.overlap(start, end) > 0 {
                place.start = if end < place.end { end } else { place.end };
            }
        }
        taken
    }
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
        assert_eq!(held.take(1000, 100), NOWHERE);
    }

    #[test]
    fn the_oldest_place_is_given_up() {
        let mut held = Held::NOTHING;
        for file in 1..=5 {
            held.read(file, u64::from(file) * 1000, 10);
        }
        assert_eq!((held.take(1000, 10), held.take(2000, 10), held.take(5000, 10)), (NOWHERE, of(2, 10), of(5, 10)));
    }
}
