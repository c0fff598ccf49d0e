//! Messages in, traces out. Each line of a script is a message, or what is done at that moment; a
//! span or the end adds a line to the result.

use zc_ebpf::{Ended, EventHeader, Exec, Replaced};
use zerocopy::FromZeros as _;

use super::*;
use crate::{
    backend::{
        Until,
        ebpf::{
            follow::{live_tasks::LiveTasks, process_sums::RawCounters},
            load::object::Sight,
            read::events::TaskEvent,
        },
    },
    syscalls::{Abi, Call},
    trace::{FileIdentity, Loss, Process, State, Trace},
};

/// The device of all files.
const DEVICE: u64 = 1;

/// A store that a script tells what happens, and the traces that it has made.
#[derive(Default)]
struct EventScript {
    store: Store,
    now_ns: u64,
    /// The ids of processes that have executed a program, by its number.
    pids: HashMap<u32, u32>,
    /// The tasks that are gone without a message of their end.
    gone: Vec<u32>,
    /// The minor faults of live tasks so far, if not 0.
    faults: HashMap<u32, u64>,
    /// Whether traces show how many threads there are.
    shows_threads: bool,
    traces: Vec<String>,
}

/// What the traces have that a script makes.
fn traces(script: &str) -> Vec<String> {
    let mut run = EventScript::default();
    for line in script.trim().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        run.now_ns += 10;
        run.step(&words);
    }
    run.traces
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    let number = word.parse().ok();
    number.unwrap_or_else(|| panic!("{word} is no number"))
}

impl EventScript {
    fn step(&mut self, words: &[&str]) {
        let (words, counters) = match words {
            [words @ .., "faults", count] => (words, raw(number(count))),
            words => (words, RawCounters::default()),
        };
        let message = match *words {
            ["divide" | "alive" | "runs" | "uses", ..] => return self.act(words),
            ["launch", task] => {
                let task = number(task);
                Message::Task(TaskEvent::Executed(Box::new(Exec {
                    header: self.header(task, task),
                    counters,
                    ..Exec::new_zeroed()
                })))
            }
            ["enter", task] => {
                let task = self.ended(number(task), number(task), counters);
                Message::Task(TaskEvent::Entered(task))
            }
            ["found", task, "of", program] => {
                let task = self.ended(number(task), number(program), counters);
                Message::Task(TaskEvent::Found(task))
            }
            ["end", task, "of", program, "in", call, "since", ns] => {
                let mut ended = self.ended(number(task), number(program), counters);
                (ended.slot, ended.entered_ns) = (call_number(call), number(ns));
                Message::Task(TaskEvent::Ended(ended))
            }
            ["start", task, "of", program] => {
                let header = self.header(number(task), number(program));
                Message::Task(TaskEvent::Started(header))
            }
            ["exec", task, "as", next] => self.exec(number(task), number(next)),
            ["end", task, "of", program] => {
                let ended = self.ended(number(task), number(program), counters);
                Message::Task(TaskEvent::Ended(ended))
            }
            ["file", file, path] => Message::File(number(file), named_file(number(file), path)),
            [task, calls, call] => row(number(task), number(calls), call, 0),
            [task, calls, call, "of", file] => row(number(task), number(calls), call, number(file)),
            ["lost"] => Message::Unreadable,
            _ => return self.act(words),
        };
        self.store.apply(message);
    }

    fn act(&mut self, words: &[&str]) {
        match *words {
            ["divide"] => self.store.divide(BTreeSet::new()),
            ["divide", "by", file] => {
                let inode = number(file);
                let control = OpenBefore {
                    device: DEVICE,
                    inode,
                };
                self.store.divide([control].into());
            }
            ["begin"] => self.store.tasks.begin(self.now_ns),
            ["runs", program, exe] => {
                let running = Process {
                    exe: Some(exe.to_owned()),
                    ..Process::default()
                };
                self.store.tasks.describe_program(number(program), running);
            }
            // The number of page faults of a live task so far.
            ["uses", task, faults] => drop(self.faults.insert(number(task), number(faults))),
            ["threads"] => self.shows_threads = true,
            ["times"] => {
                let tasks = &self.store.tasks;
                let [root, all] =
                    [Until::RootEnds, Until::AllEnd].map(|until| tasks.wall_ns(until, self.now_ns));
                let (processes, exit) = (tasks.processes(), tasks.exit_ns());
                self.traces.push(format!(
                    "processes {processes} root {root:?} all {all:?} exit {exit:?}"
                ));
            }
            // Messages were lost, and these tasks are alive.
            ["alive", ref alive @ ..] => {
                let alive = alive.iter().map(|task| number(task)).collect();
                self.gone.extend(self.store.tasks.note_alive(&alive));
            }
            // All that has ended so far, after its rows.
            ["epoch"] => {
                let mut just_ended = self.store.tasks.take_just_ended();
                just_ended.append(&mut self.gone);
                self.store.set_ended_aside(just_ended, |_, _| {});
            }
            ["keep", most] => {
                let begun = Trace::default();
                let merging = Merging {
                    most: number(most),
                    begun: &begun,
                    tells_files_apart: false,
                };
                self.store.sum_most(merging, Some(merging));
            }
            ["span"] => {
                let reading = self.reading();
                let (part, reading) = self.store.end_span(reading, Some(self.now_ns));
                self.traces.push(shown(part, &reading, self.shows_threads));
            }
            ["finish"] => {
                let reading = self.reading();
                let store = self.store.clone();
                self.traces.push(shown(store, &reading, self.shows_threads));
            }
            _ => panic!("{words:?}"),
        }
    }

    fn header(&self, serial: u32, program: u32) -> EventHeader {
        EventHeader {
            serial,
            program,
            tid: 100 + serial,
            pid: self.pids.get(&program).copied().unwrap_or(100 + program),
            time_ns: self.now_ns,
            ..EventHeader::new_zeroed()
        }
    }

    /// What is known of a task at its end, or when it begins.
    fn ended(&self, task: u32, program: u32, counters: RawCounters) -> Ended {
        Ended {
            header: self.header(task, program),
            exited_ns: self.now_ns,
            counters,
            ..Ended::new_zeroed()
        }
    }

    /// The only task of a process executes a program, and is another task of another program then.
    fn exec(&mut self, task: u32, next: u32) -> Message {
        let pid = self.header(task, task).pid;
        self.pids.insert(next, pid);
        let replaced = Replaced {
            serial: task,
            program: task,
            tid: 100 + task,
            ..Replaced::new_zeroed()
        };
        Message::Task(TaskEvent::Executed(Box::new(Exec {
            header: self.header(next, next),
            replaced,
            ..Exec::new_zeroed()
        })))
    }

    /// Tasks whose end has not been seen are alive.
    fn reading(&self) -> Reading {
        let alive = self.store.tasks.not_ended();
        Reading {
            totals: KernelTotals::default(),
            live: LiveTasks {
                read_ns: self.now_ns,
                is_proc_ours: true,
                tasks: Vec::new(),
                counters: alive
                    .map(|task| {
                        let faults = self.faults.get(&task).copied();
                        (task, Some(raw(faults.unwrap_or_default())))
                    })
                    .collect(),
            },
        }
    }
}

/// A file whose inode is its number.
fn named_file(inode: u64, path: &str) -> File {
    File {
        path: Some(path.to_owned()),
        identity: Some(FileIdentity {
            device: DEVICE,
            inode,
            generation: None,
        }),
        ..File::default()
    }
}

fn raw(minor_faults: u64) -> RawCounters {
    RawCounters {
        minor_faults,
        ..RawCounters::default()
    }
}

fn call_number(name: &str) -> u32 {
    let number = (0..1024).find(|&number| Abi::NATIVE.call_name(number) == Some(name));
    number.expect("a call")
}

fn row(task: u32, calls: u64, name: &str, file: u32) -> Message {
    let call = call_number(name);
    let key = RowKey {
        task,
        call,
        errno: 0,
        ends: NumberedEnds::named(file, 0),
    };
    let mut row = Row::new(Call::from_id(call), Ends::default());
    row.calls = calls;
    Message::Row {
        key,
        row,
        without_files: 0,
    }
}

/// The processes with their calls and minor faults, in the order of the trace, and what was lost. `+`:
/// it goes on.
fn shown(store: Store, reading: &Reading, shows_threads: bool) -> String {
    let mut trace = Trace::default();
    store.finish(reading, &Sight::default(), &mut trace, None);
    let mut shown: Vec<String> = trace
        .processes
        .iter()
        .map(|process| shown_process(process, &trace.files, shows_threads))
        .collect();
    for merged in &trace.merged {
        let calls = shown_process(&merged.sums, &trace.files, shows_threads);
        shown.push(format!("{} like {calls}", merged.counts.programs));
    }
    for loss in [Loss::LostEvents, Loss::UnseenEnds] {
        let count = trace.losses[&loss];
        shown.extend((count > 0).then(|| format!("{loss:?} {count}")));
    }
    shown.join("; ")
}

fn shown_process(process: &Process, files: &[File], shows_threads: bool) -> String {
    let plus = if process.state == State::Running {
        "+"
    } else {
        ""
    };
    let mut shown = vec![format!("{}{plus}", process.pid)];
    shown.extend(process.exe.clone());
    if shows_threads {
        let tids = process.threads.iter().map(|thread| thread.tid);
        shown.push(format!("{:?}", tids.collect::<Vec<_>>()));
    }
    for row in process.threads.iter().flat_map(|thread| &thread.rows) {
        shown.push(format!("{} {}", row.calls, row.call.name));
        let file = row.files().next().and_then(|file| file.in_files(files));
        shown.extend(file.and_then(|file| file.path.clone()));
    }
    let faults = process.counters.map_or(0, |counters| counters.minor_faults);
    shown.extend((faults > 0).then(|| format!("{faults} faults")));
    shown.join(" ")
}

#[test]
fn rows_belong_to_the_tasks_that_made_the_calls() {
    let script = "
        start 1 of 1
        start 2 of 1
        start 3 of 3
        file 7 /in
        1 2 read of 7
        2 3 read of 7
        3 1 write
        1 5 read of 7
        end 3 of 3
        finish";
    assert_eq!(
        traces(script),
        ["101+ 7 read /in 3 read /in; 103 1 write"],
        "rows of the same call and file are one"
    );
}

#[test]
fn what_is_not_known_of_a_task_is_a_loss() {
    // Neither its start nor its end was seen.
    assert_eq!(
        traces("start 1 of 1\nlost\n9 4 read\nend 1 of 1\nfinish"),
        ["101; 0 4 read; LostEvents 1; UnseenEnds 1"]
    );
}

#[test]
fn a_program_that_was_replaced_has_its_own_calls() {
    assert_eq!(
        traces("start 1 of 1\n1 1 read\nexec 1 as 2\n2 2 write\nend 2 of 2\nfinish"),
        ["101 1 read; 101 2 write"]
    );
}

#[test]
fn a_process_that_has_ended_is_in_the_trace_as_if_it_had_not_been_set_aside() {
    let script = |epoch: &str| {
        let before = "start 1 of 1\nstart 2 of 2\n2 1 read\nend 2 of 2\n";
        traces(&format!("{before}{epoch}1 1 write\nfinish"))
    };
    assert_eq!(script("epoch\n"), ["101+ 1 write; 102 1 read"]);
    assert_eq!(script("epoch\n"), script(""));
    // Rows that come when it has ended are still its own.
    let late = "start 1 of 1\nstart 2 of 2\nend 2 of 2\n2 1 read\nepoch\nfinish";
    assert_eq!(traces(late), ["101+; 102 1 read"]);
}

#[test]
fn the_sum_of_the_spans_is_the_whole() {
    let script = "
        start 1 of 1
        divide
        start 2 of 2
        1 1 read
        2 2 read
        end 2 of 2
        epoch
        lost
        span
        1 3 read
        start 3 of 3
        3 4 write
        span
        1 5 read
        end 3 of 3
        epoch
        span
        finish";
    assert_eq!(
        traces(script),
        [
            "101+ 1 read; 102 2 read; LostEvents 1",
            "101+ 3 read; 103+ 4 write",
            "101+ 5 read; 103",
            "101+ 9 read; 102 2 read; 103 4 write; LostEvents 1",
        ]
    );
}

#[test]
fn calls_that_control_the_spans_are_in_none() {
    let script = "
        start 1 of 1
        file 7 /control
        file 8 /in
        divide by 7
        1 1 write of 7
        1 2 read of 8
        span
        finish";
    assert_eq!(
        traces(script),
        ["101+ 2 read /in", "101+ 1 write /control 2 read /in"]
    );
}

#[test]
fn many_processes_that_have_ended_are_summed_in_the_whole_and_in_the_span() {
    let process = |task| format!("start {task} of {task}\n{task} 1 read\nend {task} of {task}\n");
    let processes: String = (2..302).map(process).collect();
    let script = format!("start 1 of 1\ndivide\n{processes}epoch\nkeep 1\nspan\nfinish");
    let [span, whole] = traces(&script).try_into().expect("two traces");
    assert_eq!(span, whole);
    let kept: Vec<&str> = whole.split("; ").collect();
    assert_eq!(kept, ["101+", "102 1 read", "299 like 103 299 read"]);
}

#[test]
fn processes_whose_end_was_lost_are_summed_when_they_are_gone() {
    let process = |task| format!("start {task} of {task}\n{task} 1 read\n");
    let processes: String = (2..302).map(process).collect();
    // Once is not enough: the messages of their ends may be on their way.
    let script = |alive: &str| {
        let looked = format!("alive 1 {alive}\nepoch\nkeep 1\n");
        let last = traces(&format!(
            "start 1 of 1\n{processes}{looked}{looked}lost\nfinish"
        ));
        last.concat()
    };
    let summed = script("");
    assert!(
        summed.ends_with("299 like 103 299 read; LostEvents 1; UnseenEnds 300"),
        "{summed}"
    );
    let all: Vec<String> = (2..302).map(|task: u32| task.to_string()).collect();
    let apart = script(&all.join(" "));
    assert!(apart.ends_with("401+ 1 read; LostEvents 1"), "{apart}");
    let once = traces(&format!(
        "start 1 of 1\n{processes}alive 1\nepoch\nkeep 1\nfinish"
    ));
    assert_eq!(once.concat().matches(';').count(), 300);
}

#[test]
fn a_thread_whose_start_was_lost_is_added_to_its_process() {
    let script = "
        start 1 of 1
        start 2 of 2
        2 1 read
        end 2 of 2
        epoch
        3 4 write
        end 3 of 2
        epoch
        lost
        finish";
    assert_eq!(traces(script), ["101+; 102 1 read 4 write; LostEvents 1"]);
}

#[test]
fn the_counters_of_threads_are_summed_for_their_process_from_its_exec_on() {
    let script = "
        start 1 of 1
        launch 1 faults 2
        start 2 of 1
        end 2 of 1 faults 5
        times
        end 1 of 1 in exit_group since 53 faults 6
        times
        finish";
    assert_eq!(
        traces(script),
        [
            "processes 1 root Some(20) all Some(30) exit None",
            "processes 1 root Some(40) all Some(40) exit Some(7)",
            "101 9 faults",
        ]
    );
}

#[test]
fn a_thread_is_counted_from_entering_to_leaving_the_scope() {
    // A thread that outlives the root does not extend the time.
    let script = "
        enter 1 faults 30
        start 2 of 1
        end 1 of 1 faults 42
        end 2 of 1 faults 1
        times
        finish";
    assert_eq!(
        traces(script),
        [
            "processes 1 root Some(20) all Some(30) exit None",
            "101 13 faults"
        ]
    );
}

#[test]
fn a_task_that_was_found_is_counted_from_the_attach_on() {
    let script = "
        found 1 of 1 faults 30
        found 2 of 1 faults 30
        runs 1 /bin/server
        begin
        end 2 of 1 faults 42
        uses 1 31
        times
        finish";
    assert_eq!(
        traces(script),
        [
            "processes 1 root None all Some(30) exit None",
            "101+ /bin/server 13 faults"
        ]
    );
}

#[test]
fn a_part_has_the_tasks_that_were_there_or_did_something_and_what_they_used_in_it() {
    // The second thread has ended before the second part, and does something in the third one.
    let script = "
        threads
        start 1 of 1
        start 2 of 1
        divide
        end 2 of 1 faults 5
        uses 1 4
        span
        start 3 of 3
        span
        2 1 read
        end 3 of 3 faults 7
        uses 1 9
        span";
    assert_eq!(
        traces(script),
        [
            "101+ [101, 102] 9 faults",
            "101+ [101]; 103+ [103]",
            "101+ [101, 102] 1 read 5 faults; 103 [103] 7 faults",
        ]
    );
}
