//! Random numbers that are the same for the same seed (splitmix64).

/// A source of random numbers.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The numbers of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below this one, which is not 0.
    #[expect(clippy::cast_possible_truncation, reason = "it is less than a usize")]
    pub const fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True in one of so many cases.
    pub const fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
