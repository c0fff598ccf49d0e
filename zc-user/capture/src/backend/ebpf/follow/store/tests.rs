//! Messages in, traces out. Each line of a script is a message, or what is done at that moment; a
//! span or the end adds a line to the result.

use zc_ebpf::{Ended, EventHeader, Exec, Replaced};
use zerocopy::FromZeros as _;

use super::*;
use crate::{
    backend::ebpf::{
        follow::{live_tasks::LiveTasks, process_sums::RawCounters},
        load::object::Sight,
        read::events::TaskEvent,
    },
    syscalls::{Abi, Call},
    trace::{FileIdentity, Loss, Process, State, Trace},
};

/// The device of all files.
const DEVICE: u64 = 1;

/// A store that a script tells what happens, and the traces that it has made.
#[derive(Default)]
struct Script {
    store: Store,
    now_ns: u64,
    /// The ids of processes that have executed a program, by its number.
    pids: HashMap<u32, u32>,
    /// The tasks that are gone without a message of their end.
    gone: Vec<u32>,
    traces: Vec<String>,
}

/// What the traces have that a script makes.
fn traces(script: &str) -> Vec<String> {
    let mut run = Script::default();
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

impl Script {
    fn step(&mut self, words: &[&str]) {
        let message = match *words {
            ["divide" | "alive", ..] => return self.act(words),
            ["start", task, "of", program] => {
                let header = self.header(number(task), number(program));
                Message::Task(TaskEvent::Started(header))
            }
            ["exec", task, "as", next] => self.exec(number(task), number(next)),
            ["end", task, "of", program] => Message::Task(TaskEvent::Ended(Ended {
                header: self.header(number(task), number(program)),
                exited_ns: self.now_ns,
                ..Ended::new_zeroed()
            })),
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
                self.traces.push(shown(part, &reading));
            }
            ["finish"] => {
                let reading = self.reading();
                self.traces.push(shown(self.store.clone(), &reading));
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
            totals: Totals::default(),
            live: LiveTasks {
                read_ns: self.now_ns,
                is_proc_ours: true,
                tasks: Vec::new(),
                counters: alive
                    .map(|serial| (serial, Some(RawCounters::default())))
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

fn row(task: u32, calls: u64, name: &str, file: u32) -> Message {
    let call = (0..1024).find(|&number| Abi::NATIVE.call_name(number) == Some(name));
    let call = call.expect("a call");
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

/// The processes with their calls, in the order of the trace, and what was lost. `+`: it goes on.
fn shown(store: Store, reading: &Reading) -> String {
    let mut trace = Trace::default();
    store.finish(reading, &Sight::default(), &mut trace, None);
    let mut shown: Vec<String> = trace
        .processes
        .iter()
        .map(|process| shown_process(process, &trace.files))
        .collect();
    for merged in &trace.merged {
        let calls = shown_process(&merged.sums, &trace.files);
        shown.push(format!("{} like {calls}", merged.programs));
    }
    for loss in [Loss::LostEvents, Loss::UnseenEnds] {
        let count = trace.losses[&loss];
        shown.extend((count > 0).then(|| format!("{loss:?} {count}")));
    }
    shown.join("; ")
}

fn shown_process(process: &Process, files: &[File]) -> String {
    let plus = if process.state == State::Running {
        "+"
    } else {
        ""
    };
    let mut shown = vec![format!("{}{plus}", process.pid)];
    for row in process.threads.iter().flat_map(|thread| &thread.rows) {
        shown.push(format!("{} {}", row.calls, row.call.name));
        let file = row.files().next().and_then(|file| file.in_files(files));
        shown.extend(file.and_then(|file| file.path.clone()));
    }
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
