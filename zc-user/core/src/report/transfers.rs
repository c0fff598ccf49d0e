//! The one list of transfers: those within processes and those over several, in one order.

use std::cmp::Reverse;

use crate::transfer::{Found, Transfer};

/// All transfers of a report, and which of them lie within which process.
#[derive(Debug, Default)]
pub(super) struct AllTransfers {
    /// [`Report::transfers`](super::Report::transfers).
    pub list: Vec<Transfer>,
    /// For each process, [`Process::transfers`](super::Process::transfers).
    pub of_processes: Vec<Vec<usize>>,
}

impl AllTransfers {
    /// Sorts what was found in so many processes.
    pub fn new(found: Vec<Found>, processes: usize) -> Self {
        let mut sorted: Vec<(usize, Found)> = found.into_iter().enumerate().collect();
        sorted.sort_by_key(|(_, one)| Reverse(one.transfer.weight()));
        let mut places = vec![0; sorted.len()];
        for (place, (index, _)) in sorted.iter().enumerate() {
            places[*index] = place;
        }
        let mut all = Self {
            list: Vec::with_capacity(sorted.len()),
            of_processes: vec![Vec::new(); processes],
        };
        for (place, (_, mut one)) in sorted.into_iter().enumerate() {
            if let Some(process) = one.process {
                all.of_processes[process].push(place);
            }
            for chain in &mut one.transfer.part_of {
                *chain = places[*chain];
            }
            one.transfer.part_of.sort_unstable();
            all.list.push(one.transfer);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use crate::report::sample::files::scene;

    /// Two processes that copy, and a pipeline of two others.
    #[test]
    fn all_transfers_are_in_one_list_largest_first() {
        let scene = scene(
            "small: sendfile a->b 1 100; cat: read a 8 1M, write a>pipe 8 1M; \
             dd: read pipe 8 1M, write pipe>c 8 1M; large: sendfile a->b 1 1024M",
        );
        let report = scene.report();
        let listed: Vec<_> = report
            .transfers
            .iter()
            .map(|one| (one.bytes, one.pids.as_slice(), one.part_of.as_slice()))
            .collect();
        let expected = [
            (Some(1 << 30), &[1237][..], &[][..]),
            (Some(1 << 20), &[1235, 1236], &[]),
            (Some(1 << 20), &[1235], &[1]),
            (Some(1 << 20), &[1236], &[1]),
            (Some(100), &[1234], &[]),
        ];
        assert_eq!(listed, expected);
        let of_processes: Vec<_> = report
            .processes
            .iter()
            .map(|process| process.transfers.as_slice())
            .collect();
        assert_eq!(of_processes, [[4], [2], [3], [0]]);
    }
}
