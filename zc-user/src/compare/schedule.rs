//! Whose turn it is.

/// The timed runs of several commands, in turn. One that runs more often than another has its turns evenly among the other's.
#[derive(Debug)]
pub(super) struct Schedule {
    turns: Vec<Turns>,
}

#[derive(Debug, Clone, Copy)]
struct Turns {
    done: u64,
    wanted: u64,
}

impl Schedule {
    /// For so many commands. How often each runs is known after its first run; until then it is assumed to be once.
    pub(super) fn new(commands: usize) -> Self {
        Self { turns: vec![Turns { done: 0, wanted: 1 }; commands] }
    }

    /// How often a command runs in all.
    pub(super) fn want(&mut self, command: usize, runs: u64) {
        self.turns[command].wanted = runs;
    }

    /// Whose turn it is: of those that are not done, the first that is furthest behind. `None` if all are done.
    pub(super) fn next(&mut self) -> Option<usize> {
        let unfinished = self.turns.iter().enumerate().filter(|(_, turns)| turns.done < turns.wanted);
        // Shares of what is wanted, compared without division.
        let share =
            |a: &Turns, b: &Turns| (u128::from(a.done) * u128::from(b.wanted)).cmp(&(u128::from(b.done) * u128::from(a.wanted)));
        let (command, _) = unfinished.min_by(|(_, a), (_, b)| share(a, b))?;
        self.turns[command].done += 1;
        Some(command)
    }

    /// How many runs there are in all.
    pub(super) fn total(&self) -> u64 {
        self.turns.iter().map(|turns| turns.wanted).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(wanted: &[u64]) -> Vec<usize> {
        let mut schedule = Schedule::new(wanted.len());
        let mut order = Vec::new();
        while let Some(command) = schedule.next() {
            schedule.want(command, wanted[command]);
            order.push(command);
        }
        assert_eq!(schedule.total(), order.len() as u64);
        order
    }

    #[test]
    fn equals_take_turns() {
        assert_eq!(order(&[3, 3]), [0, 1, 0, 1, 0, 1]);
        assert_eq!(order(&[1, 1, 1]), [0, 1, 2]);
    }

    #[test]
    fn a_rare_run_stands_evenly_among_frequent_ones() {
        assert_eq!(order(&[2, 6]), [0, 1, 1, 1, 0, 1, 1, 1]);
    }
}
