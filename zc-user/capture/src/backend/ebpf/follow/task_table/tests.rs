use zc_ebpf::Ended;
use zerocopy::FromZeros as _;

use super::*;
use crate::syscalls::Abi;

fn header(serial: u32, program: u32) -> EventHeader {
    let mut comm = *b"t_\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    comm[1] = b"0123456789"[serial as usize];
    EventHeader {
        serial,
        program,
        tid: 100 + serial,
        pid: 100 + program,
        time_ns: u64::from(serial) * 10,
        comm,
        ..EventHeader::new_zeroed()
    }
}

fn raw(minor_faults: u64) -> RawCounters {
    RawCounters {
        minor_faults,
        runtime_ns: 1000,
        user_ns: 300,
        system_ns: 100,
        ..RawCounters::default()
    }
}

fn calls(calls: u64) -> zc_ebpf::OtherCalls {
    zc_ebpf::OtherCalls {
        calls,
        ..zc_ebpf::OtherCalls::NONE
    }
}

fn started(serial: u32) -> TaskEvent {
    TaskEvent::Started(EventHeader {
        extra: 7,
        ..header(serial, 1)
    })
}

fn ended(header: EventHeader, time_ns: u64, minor_faults: u64) -> TaskEvent {
    TaskEvent::Ended(Ended {
        header: EventHeader { time_ns, ..header },
        exited_ns: time_ns,
        slot: 0,
        reserved: 0,
        entered_ns: 0,
        counters: raw(minor_faults),
        other_calls: calls(minor_faults),
        fault: zc_ebpf::Fault::default(),
    })
}

/// The end of a task that entered this call at this time, of which it did not return.
fn exiting(mut event: TaskEvent, call: &str, entered_ns: u64) -> TaskEvent {
    if let TaskEvent::Ended(end) = &mut event {
        let number = (0..1024).find(|&number| Abi::NATIVE.call_name(number) == Some(call));
        (end.slot, end.entered_ns) = (number.expect("a call"), entered_ns);
    }
    event
}

fn table(events: impl IntoIterator<Item = TaskEvent>) -> TaskTable {
    let mut table = TaskTable::default();
    events.into_iter().for_each(|event| table.record(&event));
    table
}

/// The processes with the tasks that are alive, and how many ends were not seen.
fn processes(table: TaskTable, alive: &[(u32, Option<RawCounters>)]) -> (Vec<Process>, u64) {
    let alive = alive.iter().copied().collect();
    table.into_processes(HashMap::new(), &alive, BTreeMap::new())
}

fn minor_faults(process: &Process) -> Option<u64> {
    process.counters.map(|counters| counters.minor_faults)
}

#[test]
fn the_counters_of_threads_are_summed_for_their_process_from_its_exec_on() {
    let exec = TaskEvent::Executed(Box::new(Exec {
        header: header(1, 1),
        counters: raw(2),
        ..Exec::new_zeroed()
    }));
    let mut table = table([started(1), exec, started(2)]);
    assert_eq!(table.not_ended().count(), 2);
    table.record(&ended(header(2, 1), 20, 5));
    assert_eq!(table.exit_ns(), None);
    table.record(&exiting(ended(header(1, 1), 20, 6), "exit_group", 13));
    assert_eq!(table.not_ended().count(), 0);
    assert_eq!(table.wall_ns(Until::RootEnds, 0), Some(10));
    assert_eq!(table.exit_ns(), Some(7));
    let (processes, unseen) = processes(table, &[]);
    assert_eq!((processes.len(), unseen), (1, 0));
    let process = &processes[0];
    assert_eq!(
        (process.pid, process.ppid, process.comm.as_deref()),
        (101, Some(7), Some("t1"))
    );
    let other_calls = process.threads.iter().map(|thread| thread.other_calls);
    let other_calls: Vec<_> = other_calls
        .map(|sums| sums.map(|sums| sums.calls))
        .collect();
    assert_eq!(other_calls, [Some(6), Some(5)]);
    let counters = process.counters.expect("all ends were seen");
    assert_eq!(
        (counters.minor_faults, counters.user_ns, counters.system_ns),
        (5 + 6 - 2, 750, 250),
        "the first thread used its CPU time before"
    );
}

#[test]
fn a_thread_is_counted_from_entering_to_leaving_the_scope() {
    let entered = TaskEvent::Entered(Ended {
        header: header(1, 1),
        counters: raw(30),
        ..Ended::new_zeroed()
    });
    let first = ended(header(1, 1), 400, 42);
    // A thread that outlives the root does not extend the time.
    let second = ended(header(2, 1), 900, 1);
    let table = table([entered, started(2), first, second]);
    assert_eq!(table.wall_ns(Until::RootEnds, 0), Some(390));
    let (processes, _) = processes(table, &[]);
    let counters = processes[0].threads[0].counters.expect("known");
    assert_eq!(counters.minor_faults, 12);
}

#[test]
fn a_task_that_was_found_is_counted_from_the_attach_on() {
    let found = |serial| {
        TaskEvent::Found(Ended {
            header: EventHeader {
                extra: 7,
                ..header(serial, 1)
            },
            counters: raw(30),
            ..Ended::new_zeroed()
        })
    };
    let mut table = table([found(1), found(2)]);
    assert_eq!(table.processes(), 1);
    let programs: Vec<u32> = table.take_found().iter().map(|task| task.program).collect();
    assert_eq!((programs, table.take_found().len()), (vec![1, 1], 0));
    let running = Process {
        exe: Some("/bin/server".to_owned()),
        ..Process::default()
    };
    table.describe_program(1, running);
    table.begin(50);
    table.record(&ended(header(2, 1), 90, 42));
    assert_eq!(table.wall_ns(Until::AllEnd, 400), Some(350));
    let (processes, unseen) = processes(table, &[(1, Some(raw(31)))]);
    assert_eq!((processes.len(), unseen), (1, 0));
    assert_eq!(processes[0].ppid, Some(7));
    assert_eq!(processes[0].exe.as_deref(), Some("/bin/server"));
    assert_eq!(minor_faults(&processes[0]), Some(1 + 12));
}

#[test]
fn a_task_whose_end_was_not_seen_is_running_or_its_counters_are_unknown() {
    let table = table([started(1)]);
    let (unknown, unseen) = processes(table.clone(), &[]);
    assert_eq!((unknown[0].counters, unseen), (None, 1));
    let (running, unseen) = processes(table, &[(1, Some(raw(3)))]);
    assert_eq!((running[0].state, unseen), (State::Running, 0));
    assert_eq!(minor_faults(&running[0]), Some(3));
}

/// The processes of a part of the trace up to this moment, with their tids, states and minor faults.
fn part_of(
    table: &TaskTable,
    used: &HashMap<u32, Used>,
    until_ns: u64,
    did: &[u32],
) -> Vec<(Vec<u32>, State, Option<u64>)> {
    let part = table.part(table.programs(), used, until_ns, |serial| {
        did.contains(&serial)
    });
    let after = table.used(used, &live([]), until_ns);
    let alive = after.into_iter().filter(|(_, used)| !used.has_ended);
    let alive: Vec<_> = alive
        .map(|(serial, used)| (serial, used.counters))
        .collect();
    let (processes, unseen) = processes(part, &alive);
    assert_eq!(unseen, 0);
    let tids = |process: &Process| process.threads.iter().map(|thread| thread.tid).collect();
    let shown = processes.iter();
    shown
        .map(|process| (tids(process), process.state, minor_faults(process)))
        .collect()
}

/// Live tasks with these minor faults.
fn live(faults: impl IntoIterator<Item = (u32, u64)>) -> LiveTasks {
    let counters = faults.into_iter();
    LiveTasks {
        read_ns: 0,
        is_proc_ours: true,
        tasks: Vec::new(),
        counters: counters
            .map(|(serial, faults)| (serial, Some(raw(faults))))
            .collect(),
    }
}

#[test]
fn a_part_has_the_tasks_that_were_there_or_did_something_and_what_they_used_in_it() {
    // The first two threads of one process; another process that begins at 30 and ends at 50.
    let other = TaskEvent::Started(header(3, 3));
    let table = table([
        started(1),
        started(2),
        ended(header(2, 1), 22, 5),
        other,
        ended(header(3, 3), 50, 7),
    ]);
    let before = HashMap::new();
    let running = State::Running;
    assert_eq!(
        part_of(&table, &before, 25, &[]),
        [(vec![101, 102], running, Some(5))]
    );
    let used = table.used(&before, &live([(1, 4)]), 25);
    assert!(used[&2].has_ended && !used.contains_key(&3), "{used:?}");
    // The second thread has ended before. The end of the other process is after this part.
    let expected = [(vec![101], running, Some(0)), (vec![103], running, Some(0))];
    assert_eq!(part_of(&table, &used, 40, &[]), expected);
    let after = table.used(&used, &live([(1, 9)]), 40);
    assert_eq!(after[&1].counters, Some(raw(9)));
    // One that did something is there whenever it ended.
    let expected = [
        (vec![101, 102], running, Some(0)),
        (vec![103], State::Exited, Some(7)),
    ];
    assert_eq!(part_of(&table, &after, 60, &[2]), expected);
}
