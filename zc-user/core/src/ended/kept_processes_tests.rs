//! The sums of a report are the same, whichever of its processes were kept.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::report::{Api, Certainty, Files, Options, Report, Transfer, sample::files::scene};

/// What processes can do, by a number.
const BEHAVIOURS: u8 = 10;

/// What the processes with this behaviour do, the `number`th of all.
fn processes(behaviour: u8, number: usize) -> String {
    let pipe = format!("pipe{number}");
    let held = |name: &str, ends: [&str; 2], bytes: u64| {
        let [from, to] = ends;
        format!("{name}: read {from} 4 {bytes} +1 100ns, write {from}>{to} 4 {bytes}")
    };
    match behaviour {
        0 => "cp: sendfile data->char 1 9000 +1".to_owned(),
        1 => held("dd", ["data", &format!("out.{number}x")], 4096),
        // The reader takes everything, or it leaves something in the pipe.
        2 | 3 => {
            let into = held("cat", ["data", &pipe], 8192);
            let taken = if behaviour == 2 { 8192 } else { 4096 };
            format!("{into}; {}", held("tee", [&pipe, "char"], taken))
        }
        4 => "gzip: read data 3 9001, write char 3 4500".to_owned(),
        5 => "tr: read data 3 9000, write data!char 3 9000".to_owned(),
        // The pipe is the program's own, or its parent puts something in, too.
        6 => format!("copier: splice data->{pipe} 1 6000, splice {pipe}->char 1 6000"),
        7 => format!("parent: write {pipe} 1 5; {}", processes(6, number)),
        _ => "tokio: read data 3 7000, write char 3 7000".to_owned(),
    }
}

/// The trace of a shell that ran processes with these behaviours.
fn trace(behaviours: &[u8]) -> Trace {
    let mut scene = scene("sh: read libc.so.6 1 832");
    for (number, &behaviour) in behaviours.iter().enumerate() {
        if behaviour == BEHAVIOURS - 1 {
            let [server, client] = scene.socketpair();
            scene.name("server", server);
            scene.name("client", client);
            scene.run(
                "server: read data 2 5000, write data>server 2 5000; \
                 client: read client 2 5000, write client>char 2 5000",
            );
        } else {
            // Each also loads a library.
            let library = ", read libc.so.6 1 832";
            let processes = processes(behaviour, number);
            scene.run(&(processes.replace(';', &format!("{library};")) + library));
        }
    }
    scene.trace
}

/// The same trace with only those processes kept that are meant.
fn summed(mut trace: Trace, is_kept: impl Fn(usize) -> bool) -> Trace {
    let mut ended = EndedProcesses::default();
    let processes = std::mem::take(&mut trace.processes);
    for (index, process) in processes.into_iter().enumerate() {
        if is_kept(index) {
            trace.processes.push(process);
        } else {
            ended.add_process(process, &trace, &trace.files, true);
        }
    }
    (trace.merged, trace.ended) = ended.into_parts();
    trace
}

fn report(trace: &Trace) -> Report {
    let options = Options {
        files: Files::Listed,
        ..Options::default()
    };
    Report::from_trace(trace, &options)
}

/// Transfers and their bytes, by interface, number of processes, number of chains that they are a
/// step of, and certainty.
fn sums(report: &Report) -> BTreeMap<(Api, usize, usize, Certainty), [u64; 2]> {
    let mut sums = BTreeMap::new();
    for one in &report.transfers {
        let shape = (one.api, one.pids.len(), one.part_of.len(), one.certainty);
        let [count, bytes]: &mut [u64; 2] = sums.entry(shape).or_default();
        *count += one.transfer_count();
        *bytes += one.bytes.expect("calls tell");
    }
    sums
}

/// What was written, brought by transfers, from own memory, and changed in buffers; and what was
/// read.
fn byte_sums(report: &Report) -> [u64; 5] {
    let processes = || report.processes.iter();
    let destinations = processes().flat_map(|one| &one.destinations);
    let sources = processes().flat_map(|one| &one.sources);
    let merged = || report.merged.iter();
    let mut sums = [0; 5];
    for one in destinations.chain(merged().flat_map(|one| &one.destinations)) {
        sums[0] += one.written_bytes.expect("calls tell");
        sums[1] += one.transferred_bytes;
        sums[2] += one.own_memory_bytes.expect("calls tell");
        sums[3] += one.buffers.iter().map(|one| one.bytes).sum::<u64>();
    }
    for one in sources.chain(merged().flat_map(|one| &one.sources)) {
        sums[4] += one.read_bytes.expect("calls tell");
    }
    sums
}

/// Compares the report with one that has all processes apart.
fn compare(behaviours: &[u8], is_kept: impl Fn(usize) -> bool) -> Report {
    let whole = trace(behaviours);
    let all = report(&whole);
    let few = report(&summed(whole, is_kept));
    assert_eq!(few.totals, all.totals);
    assert_eq!(few.programs, all.programs);
    assert_eq!(few.files, all.files);
    assert_eq!(sums(&few), sums(&all));
    assert_eq!(byte_sums(&few), byte_sums(&all));
    few
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_sums_are_the_same(
        behaviours in vec(0..BEHAVIOURS, 0..60),
        kept in vec(prop::bool::weighted(0.3), 130),
    ) {
        compare(&behaviours, |index| index == 0 || kept[index]);
    }
}

#[test]
fn equal_processes_take_the_room_of_one() {
    let report = compare(&[0; 200], |index| index == 0);
    let [transfer] = report.transfers.as_slice() else {
        panic!("{:?}", report.transfers)
    };
    let merged = transfer.merged.as_ref().expect("is a sum");
    assert_eq!((merged.transfers, merged.same_ends), (200, true));
    assert_eq!(
        (transfer.bytes, transfer.calls),
        (Some(200 * 9000), Some(400))
    );
    assert_eq!(transfer.verdict, "200 transfers: sendfile, 400 calls");
    let merged = report.merged.expect("there are some");
    assert_eq!((merged.programs, merged.destinations.len()), (200, 1));
}

#[test]
fn a_pipeline_is_summed_with_its_way_from_end_to_end() {
    let report = compare(&[2; 20], |index| index == 0);
    let counts: Vec<_> = report
        .transfers
        .iter()
        .map(|one| (one.transfer_count(), one.pids.len(), one.part_of.len()))
        .collect();
    assert_eq!(counts, [(20, 2, 0), (20, 1, 1), (20, 1, 1)]);
    let notes = report.notes.join("\n");
    assert!(
        notes.contains("40 programs that had ended are summed"),
        "{notes}"
    );
}

#[test]
fn a_chain_of_which_only_a_part_was_kept_is_a_sum() {
    // Every `cat` is kept, and every `tee` is summed.
    let report = compare(&[2; 20], |index| index == 0 || index % 2 == 1);
    let chains = report.transfers.iter().filter(|one| one.pids.len() == 2);
    assert_eq!(
        chains.map(Transfer::transfer_count).collect::<Vec<_>>(),
        [20]
    );
}

#[test]
fn of_many_files_only_some_keep_their_names() {
    let report = compare(&[1; 100], |index| index == 0);
    let has_name = |one: &&Transfer| one.to.path.is_some();
    let (named, others): (Vec<_>, Vec<_>) = report.transfers.iter().partition(has_name);
    assert_eq!((named.len(), others.len()), (16, 1));
    assert!(others[0].merged.as_ref().is_some_and(|sum| !sum.same_ends));
    assert_eq!(others[0].transfer_count(), 84);
    let merged = report.merged.expect("there are some");
    assert_eq!(merged.destinations.len(), 17);
}

#[test]
fn pipes_beyond_the_limit_are_summed_without_their_ways() {
    let whole = trace(&vec![2; MAX_STEPS / 2 + 10]);
    let report = report(&summed(whole, |index| index == 0));
    let chains = report.transfers.iter().filter(|one| one.pids.len() == 2);
    let followed = u64::try_from(MAX_STEPS / 2).expect("fits");
    assert_eq!(chains.map(Transfer::transfer_count).sum::<u64>(), followed);
    let notes = report.notes.join("\n");
    assert!(notes.contains("20 of these used pipes"), "{notes}");
}

#[test]
fn beyond_a_number_of_rows_only_libraries_keep_their_files() {
    let whole = trace(&vec![1; MAX_ROWS_BY_FILE]);
    let mut ended = EndedProcesses::default();
    for process in &whole.processes[1..] {
        ended.add_process(process.clone(), &whole, &whole.files, false);
    }
    let (programs, _) = ended.into_parts();
    let [SummedProcesses { sums, .. }] = programs.as_slice() else {
        panic!("{programs:?}")
    };
    let rows = &sums.threads[0].rows;
    assert!(rows.len() <= MAX_ROWS_BY_FILE + 3, "{}", rows.len());
    let calls: u64 = rows.iter().map(|row| row.calls).sum();
    let all = whole.processes[1..]
        .iter()
        .flat_map(|one| &one.threads[0].rows);
    assert_eq!(calls, all.map(|row| row.calls).sum::<u64>());
}
