//! The one list of transfers: those within processes and those over several, in one order.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::transfer::Transfer;

/// All transfers of a report, and which of them lie within which process.
#[derive(Debug, Default)]
pub(super) struct AllTransfers {
    /// [`Report::transfers`](super::Report::transfers).
    pub list: Vec<Transfer>,
    /// For each process, [`Process::transfers`](super::Process::transfers).
    pub of_processes: Vec<Vec<usize>>,
}

impl AllTransfers {
    /// Joins the transfers within each process, given with its id, those over several processes,
    /// and the sums over transfers of merged processes, whose `part_of` are indices into `merged`.
    pub fn new(
        within: Vec<(u32, Vec<Transfer>)>,
        across: Vec<Transfer>,
        merged: Vec<Transfer>,
    ) -> Self {
        let mut of_processes = vec![Vec::new(); within.len()];
        let mut all: Vec<(Origin, Transfer)> = across
            .into_iter()
            .map(|way| (Origin::Across, way))
            .collect();
        all.extend(
            merged
                .into_iter()
                .enumerate()
                .map(|(index, sum)| (Origin::Merged(index), sum)),
        );
        for (process, (pid, transfers)) in within.into_iter().enumerate() {
            let with_pid = |transfer| {
                (
                    Origin::Within(process),
                    Transfer {
                        pids: vec![pid],
                        ..transfer
                    },
                )
            };
            all.extend(transfers.into_iter().map(with_pid));
        }
        all.sort_by_key(|(_, transfer)| Reverse(transfer.weight()));
        let mut places = BTreeMap::new();
        for (index, (origin, _)) in all.iter().enumerate() {
            match *origin {
                Origin::Within(process) => of_processes[process].push(index),
                Origin::Merged(place) => drop(places.insert(place, index)),
                Origin::Across => {}
            }
        }
        for (_, sum) in all
            .iter_mut()
            .filter(|(origin, _)| matches!(origin, Origin::Merged(_)))
        {
            sum.part_of = sum
                .part_of
                .iter()
                .filter_map(|place| places.get(place).copied())
                .collect();
            sum.part_of.sort_unstable();
        }
        let mut list: Vec<Transfer> = all.into_iter().map(|(_, transfer)| transfer).collect();
        name_steps(&mut list);
        Self { list, of_processes }
    }
}

/// Where a transfer comes from.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// From the process with this index.
    Within(usize),
    /// From several processes.
    Across,
    /// From the sums with this index.
    Merged(usize),
}

/// Lets each transfer within a process name those that it is a step of.
fn name_steps(list: &mut [Transfer]) {
    let mut ways: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, way) in list
        .iter()
        .enumerate()
        .filter(|(_, way)| way.crosses_processes() && way.merged.is_none())
    {
        for &pid in &way.pids {
            let of_pid = ways.entry(pid).or_default();
            // A process may do several steps.
            if of_pid.last() != Some(&index) {
                of_pid.push(index);
            }
        }
    }
    for index in 0..list.len() {
        let step = &list[index];
        let &[pid] = step.pids.as_slice() else {
            continue;
        };
        // Sums know already what they are a part of; the ids in them are only examples.
        if step.merged.is_some() {
            continue;
        }
        let candidates = ways.get(&pid).into_iter().flatten().copied();
        let part_of = candidates
            .filter(|&way| step.is_hop_of(pid, &list[way]))
            .collect();
        list[index].part_of = part_of;
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        report::{
            Options, Report,
            sample::files::{Scene, copy, read, written_after},
        },
        trace::Row,
    };

    /// Two processes that copy, and a pipeline of two others.
    fn report() -> Report {
        let mut scene = Scene::new();
        let [a, b, c] = ["a", "b", "c"].map(|name| scene.regular(name));
        let pipe = scene.pipe();
        let through = |from, to| -> Vec<Row> {
            vec![
                read("read", from, 8, 1 << 20),
                written_after("write", from, to, 8, 1 << 20, 1 << 20),
            ]
        };
        scene.process("small", vec![copy("sendfile", a, b, 1, 100)]);
        scene.process("cat", through(a, pipe));
        scene.process("dd", through(pipe, c));
        scene.process("large", vec![copy("sendfile", a, b, 1, 1 << 30)]);
        Report::from_trace(&scene.trace, &Options::default())
    }

    #[test]
    fn all_transfers_are_in_one_list_largest_first() {
        let report = report();
        let bytes: Vec<_> = report
            .transfers
            .iter()
            .map(|transfer| transfer.bytes.expect("is known"))
            .collect();
        assert_eq!(bytes, [1 << 30, 1 << 20, 1 << 20, 1 << 20, 100]);
        let pids = |index: usize| report.processes[index].pid;
        let expected = [
            vec![pids(3)],
            vec![pids(1), pids(2)],
            vec![pids(1)],
            vec![pids(2)],
            vec![pids(0)],
        ];
        assert!(
            report
                .transfers
                .iter()
                .map(|transfer| &transfer.pids)
                .eq(&expected),
            "{report:?}"
        );
        let of_processes: Vec<_> = report
            .processes
            .iter()
            .map(|process| process.transfers.as_slice())
            .collect();
        assert_eq!(of_processes, [[4], [2], [3], [0]]);
    }

    #[test]
    fn a_step_names_the_transfer_that_it_is_a_part_of() {
        let part_of: Vec<_> = report()
            .transfers
            .into_iter()
            .map(|transfer| transfer.part_of)
            .collect();
        assert_eq!(part_of, [vec![], vec![], vec![1], vec![1], vec![]]);
    }
}
