//! The steps of a random program. What a step does depends on the seed and its number alone, so that any of them can be left out.

mod fails;
mod kernel;
mod lends;
mod own;
mod plain;
mod processes;

use anyhow::Result;
use zc_tests::chance::Chance;

use crate::program::Program;

/// Most calls of one step.
const MOST_CALLS: usize = 200;

impl Program {
    /// Makes all steps.
    pub(crate) fn run(&mut self) -> Result<()> {
        for step in 0..self.options.steps {
            if !self.options.skipped.contains(&step) && self.log.has_room(MOST_CALLS) {
                self.step(step)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, step: usize) -> Result<()> {
        let mut chance = Chance::new(self.options.seed.wrapping_mul(0x0123_4567_89ab_cdef).wrapping_add(step as u64));
        let chance = &mut chance;
        let actor = chance.below(self.actors.len());
        let first_word = self.words.len();
        match self.kind_of_step(chance) {
            0 => self.copy(chance, actor),
            1 => self.fill_any(chance, actor),
            2 => self.write_any(chance, actor),
            3 => self.in_kernel(chance, actor),
            4 => self.lend(chance, actor),
            5 => self.own(chance, actor),
            6 => self.map(chance, actor),
            7 => self.fail(chance, actor),
            8 => self.fork(actor)?,
            _ => self.seek(chance, actor),
        }
        for words in &mut self.words[first_word..] {
            words.insert_str(0, &format!("step {step}: "));
        }
        Ok(())
    }

    fn kind_of_step(&self, chance: &mut Chance) -> usize {
        let mut at = chance.below(self.style.weights.iter().sum());
        for (kind, &weight) in self.style.weights.iter().enumerate() {
            if at < weight {
                return kind;
            }
            at -= weight;
        }
        unreachable!("it is below the sum")
    }
}
