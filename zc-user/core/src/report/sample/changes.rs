//! What a line of text changes in a made-up trace.

use zc_ebpf::bucket_of;

use super::{
    files::{Scene, errno_named},
    on_path, stack,
};
use crate::{
    durable::{FileSyncs, MomentFile, SyncMoment, SyncSums, SyncVerdict, Syncs},
    histogram::Histogram,
    left_open::LeftDescriptor,
    marked_spans::{MarkedSpan, SpanCalls},
    syscalls::{Abi, Call},
    touched::{
        FirstTouch, SocketFamily, TouchAction, TouchEnding, TouchedPath, TouchedSums, TouchingCall,
    },
    trace::{
        CallSums, EndInode, Ends, Exit, FileId, FileKind, Language, LastCall, Loss, OpenEnd,
        OpenFlags, OtherCalls, Part, Process, Row, SampleSum, StackId, Thread, Toolchain,
    },
};

impl Scene {
    /// The trace of processes that did what lines say, as [`run`](Self::run) takes them, with what
    /// lines that begin with `@` [change](Self::change).
    pub fn read(lines: &str) -> Self {
        let mut scene = Self::new();
        for line in lines.lines() {
            match line.strip_prefix("@ ") {
                Some(change) => scene.change(change),
                None => drop(scene.run(line)),
            }
        }
        scene
    }

    /// Changes the trace, a file, or the last process, as the text says.
    pub fn change(&mut self, change: &str) {
        let words: Vec<&str> = change.split(' ').collect();
        let is_done = self.change_trace(&words)
            || self.change_syncs(&words)
            || self.change_touched(&words)
            || self.change_paths(&words)
            || self.change_files(&words)
            || self.change_process(&words);
        assert!(is_done, "nobody knows how to do this: {change}");
    }

    fn change_trace(&mut self, words: &[&str]) -> bool {
        let trace = &mut self.trace;
        match words {
            ["nobody", .., "open", "before"] => trace.inherited = None,
            ["nobody", .., "counted"] => trace.counted = None,
            ["nobody", .., "wall", "time"] => trace.wall_ns = None,
            ["wall", ns] => trace.wall_ns = Some(parse_word(ns)),
            ["nobody", .., "it", "ended"] => trace.exit = None,
            ["nobody", .., "counters"] => {
                let processes = trace.processes.iter_mut();
                processes.for_each(|process| process.counters = None);
            }
            ["lost", loss, count] => {
                let loss = Loss::from_name(loss).expect("a loss");
                trace.losses.insert(loss, parse_word(count));
            }
            ["counted", selection] => trace.counted = Some(selection.parse().expect("a selection")),
            ["exit", code] => trace.exit = Some(Exit::Code(parse_word(code))),
            ["killed", "by", signal] => trace.exit = Some(Exit::Signal(parse_word(signal))),
            ["stack", ..] => {
                let stacks = trace.stacks.get_or_insert_default();
                stacks.push(stack(&words[1..].join(" ")));
            }
            // `span request 3 read=2,write=1`: three spans with these calls; `span request unended`: one more.
            ["span", name, "unended"] => self.marked_span(name).unended += 1,
            ["span", name, spans, calls] => {
                let spans = parse_word(spans);
                let calls = calls.split(',').filter_map(|call| call.split_once('='));
                let calls = calls.map(|(name, count)| (name.to_owned(), parse_word(count)));
                let calls = calls.collect();
                let span = self.marked_span(name);
                span.count += spans;
                span.combinations.push(SpanCalls { spans, calls });
            }
            // `left open 3 out/a openat`; `left nothing`, `left unseen why`.
            ["left", "nothing"] => drop(trace.left_open.get_or_insert_default()),
            ["left", "unseen", why @ ..] => {
                let left = trace.left_open.get_or_insert_default();
                left.doubts.push(why.join(" "));
            }
            ["left", "open", fd, path, call] => {
                let left = trace.left_open.get_or_insert_default();
                left.descriptors.push(LeftDescriptor {
                    fd: parse_word(fd),
                    path: (*path != "pipe").then(|| format!("/work/{path}")),
                    kind: Some(if *path == "pipe" { "pipe" } else { "regular" }.to_owned()),
                    call: Some((*call).to_owned()),
                });
            }
            // `sizes read 4096*16 0*1`: the reads moved these bytes.
            ["sizes", call, sizes @ ..] => {
                let mut histogram = Histogram::default();
                for size in sizes {
                    let (bytes, calls) = size.split_once('*').expect("BYTES*CALLS");
                    histogram.add_to_bucket(bucket_of(parse_word(bytes)), parse_word(calls));
                }
                let call = Call::new((*call).to_owned(), Abi::X86_64);
                let sizes = trace.sizes.get_or_insert_default();
                sizes.insert(call, histogram);
            }
            ["by", "strace"] => (trace.backend, trace.sees_memory) = ("strace", false),
            _ => return false,
        }
        true
    }

    fn marked_span(&mut self, name: &str) -> &mut MarkedSpan {
        let spans = &mut self.trace.marked_spans;
        let index = spans.iter().position(|span| span.name == name);
        let index = index.unwrap_or_else(|| {
            spans.push(MarkedSpan {
                name: name.to_owned(),
                ..MarkedSpan::default()
            });
            spans.len() - 1
        });
        &mut spans[index]
    }

    /// Adds what is known of syncs: `synced data/a not_synced 3 1` was changed, is not synced, and had
    /// 3 syncs, 1 of them without need; `at commit data/a` was not synced at that mark, `before tcp
    /// nothing` says that all was synced then.
    fn change_syncs(&mut self, words: &[&str]) -> bool {
        let syncs = &mut self.trace.syncs;
        match words {
            ["synced", "nothing"] => *syncs = Some(Syncs::default()),
            ["synced", path, verdict, count, wasted] => {
                let verdict = match *verdict {
                    "in_order" => SyncVerdict::InOrder,
                    "not_synced" => SyncVerdict::NotSynced,
                    _ => SyncVerdict::Unknown,
                };
                let is_in_order = verdict == SyncVerdict::InOrder;
                let sums = SyncSums {
                    count: parse_word(count),
                    wasted: parse_word(wasted),
                    failed: 0,
                    ns: Some(1_000_000),
                };
                syncs.get_or_insert_default().files.push(FileSyncs {
                    path: (*path).to_owned(),
                    changed: true,
                    verdict,
                    why: (!is_in_order).then_some("it was not synced after write".to_owned()),
                    calls: 1,
                    bytes: 1,
                    unsynced_change: None,
                    syncs: sums,
                    timeline: Vec::new(),
                    timeline_left_out: 0,
                });
            }
            ["at" | "before", name, path] => {
                let syncs = syncs.get_or_insert_default();
                let moments = if words[0] == "at" {
                    &mut syncs.marks
                } else {
                    &mut syncs.told
                };
                let files = Some(*path).filter(|path| *path != "nothing");
                let file = |path: &str| MomentFile {
                    path: path.to_owned(),
                    verdict: SyncVerdict::NotSynced,
                    why: "it was not synced after write".to_owned(),
                    first_ns: None,
                };
                moments.push(SyncMoment {
                    name: (*name).to_owned(),
                    count: 1,
                    files: files.into_iter().map(file).collect(),
                    ..SyncMoment::default()
                });
            }
            ["unseen", why @ ..] => syncs.get_or_insert_default().doubts.push(why.join(" ")),
            _ => return false,
        }
        true
    }

    /// Adds what was touched: `touched write out/a openat cp` was written by `cp`; a further word is how
    /// the call ended, an errno or `?`; `gone` at the end: the path was. `touched nothing` was recorded, `touched unseen why` not all.
    /// `touched socket AF_UNIX cp` made one.
    fn change_touched(&mut self, words: &[&str]) -> bool {
        let ["touched", rest @ ..] = words else {
            return false;
        };
        let (rest, gone) = match rest {
            [rest @ .., "gone"] => (rest, true),
            rest => (rest, false),
        };
        let touched = self.trace.touched.get_or_insert_default();
        let (action, path, call, program, ending) = match *rest {
            ["nothing"] => return true,
            ["socket", family, program] => {
                touched.families.push(SocketFamily {
                    family: family.to_owned(),
                    first: FirstTouch {
                        program: Some(program.to_owned()),
                        ..FirstTouch::default()
                    },
                });
                return true;
            }
            ["unseen", ref why @ ..] => {
                touched.doubts.push(why.join(" "));
                return true;
            }
            [action, path, call, program] => (action, path, call, program, TouchEnding::Done(1)),
            [action, path, call, program, "?"] => {
                (action, path, call, program, TouchEnding::Unfinished)
            }
            [action, path, call, program, errno] => {
                (action, path, call, program, TouchEnding::Failed(errno))
            }
            _ => return false,
        };
        let action = action.replace('_', " ");
        let mut sums = TouchedSums::default();
        sums.add(TouchingCall {
            calls: 1,
            is_counted_elsewhere: false,
            action: TouchAction::from_name(&action).expect("an action"),
            path,
            call,
            ending,
            ns: Some(1000),
            by: FirstTouch {
                program: Some(program.to_owned()),
                tid: Some(1),
                at_ns: Some(2_000_000),
                stack: None,
            },
        });
        let paths = sums.finish(|_, _| None).paths.into_iter();
        touched
            .paths
            .extend(paths.map(|path| TouchedPath { gone, ..path }));
        true
    }

    /// Changes what is known of the paths that calls were given, and of calls without rows.
    fn change_paths(&mut self, words: &[&str]) -> bool {
        let trace = &mut self.trace;
        let paths = &mut trace.failed_paths;
        match words {
            ["given", call, errno, path, more @ ..] => {
                let path = Some(*path).filter(|path| *path != "?");
                let errno = if *errno == "-" { 0 } else { errno_named(errno) };
                let mut one = on_path(name(call), errno, path);
                if let Some(path) = &mut one.paths[0] {
                    path.is_below_descriptor = more.contains(&"below");
                    path.is_cut = more.contains(&"cut");
                }
                paths.get_or_insert_default().add(one);
            }
            ["sums", call, sums @ ..] => {
                let all = trace.other_calls.get_or_insert_default();
                all.insert(Call::native(name(call)), other_calls(sums));
            }
            ["no", "sums"] => trace.other_calls = None,
            ["no", "paths"] => *paths = None,
            ["no", "room", "for", "paths", count] => {
                paths.get_or_insert_default().left_out = parse_word(count);
            }
            ["paths", "that", "succeed"] => paths.get_or_insert_default().has_successes = true,
            ["the", "directory", change @ ("may" | "cannot"), "change"] => {
                paths.get_or_insert_default().directory_may_change = *change == "may";
            }
            _ => return false,
        }
        true
    }

    fn change_files(&mut self, words: &[&str]) -> bool {
        match words {
            ["open", "before", name] => {
                let file = self.named(name);
                self.trace.inherited = Some([self.open_before(file)].into());
            }
            ["socketpair", one, other] => {
                let ends = self.socketpair();
                self.name_both([one, other], ends);
            }
            ["connection", one, other, addresses @ ..] => {
                let [client, server] = match *addresses {
                    [client, server] => [client, server],
                    _ => ["127.0.0.1:1000", "[::ffff:127.0.0.1]:80"],
                };
                let ends = self.connection(client, server);
                self.name_both([one, other], ends);
            }
            ["same", one, other] => {
                let [one, other] = [one, other].map(|name| self.named(name).0 as usize);
                self.trace.files[other].identity = self.trace.files[one].identity;
            }
            ["flags", name, flags @ ..] => {
                let bits = flags.iter().map(|flag| match *flag {
                    "O_DIRECT" => libc::O_DIRECT,
                    "O_DSYNC" => libc::O_DSYNC,
                    "O_SYNC" => libc::O_SYNC,
                    _ => 0,
                });
                let flags = OpenFlags::from_bits(bits.fold(0, |all, bit| all | bit));
                let id = self.named(name);
                self.trace.files[id.0 as usize].open_flags = Some(flags);
            }
            [what, name, value] => {
                let id = self.named(name);
                let file = &mut self.trace.files[id.0 as usize];
                match *what {
                    "path" => file.path = Some((*value).to_owned()),
                    "kind" => file.kind = FileKind::from_name(value),
                    "size" => file.size_bytes = Some(parse_word(value)),
                    "filesystem" => file.filesystem = Some((*value).to_owned()),
                    "device" => file.identity.as_mut().expect("has one").device = parse_word(value),
                    _ => return false,
                }
            }
            _ => return false,
        }
        true
    }

    fn name_both(&mut self, names: [&str; 2], ends: [FileId; 2]) {
        for (name, end) in names.into_iter().zip(ends) {
            self.name(name, end);
        }
    }

    /// Changes the last process, or its last row.
    fn change_process(&mut self, words: &[&str]) -> bool {
        let process = self.last_process();
        match words {
            // Its times in user mode and in the kernel, and how long it waited for a CPU.
            ["usage", user_ns, system_ns, run_delay_ns] => {
                let counters = process.counters.as_mut().expect("counters");
                (counters.user_ns, counters.system_ns) =
                    (parse_word(user_ns), parse_word(system_ns));
                counters.run_delay_ns = Some(parse_word(run_delay_ns));
            }
            ["rust"] => process.toolchain = Some(make_toolchain(Language::Rust)),
            ["go"] => process.toolchain = Some(make_toolchain(Language::Go)),
            ["bytes", "unknown"] => self.last_row().bytes = None,
            ["repeated", bytes] => self.last_row().sourced.repeated_bytes = parse_word(bytes),
            ["begins", bytes] => self.last_row().first_bytes = bytes.as_bytes().to_vec(),
            ["forgot", file] => {
                let file = Some(self.named(file));
                self.last_process().threads[0].forgotten.insert(file, 1);
            }
            ["input", bytes] => self.last_row().sourced.bytes = parse_word(bytes),
            ["part", ends, calls, bytes] => {
                let row = self.row(&format!("write {ends} {calls} {bytes}"));
                self.last_process().threads[0].parts.push(Part {
                    from: row.ends.input.expect("names a source"),
                    to: row.ends.output.expect("names a destination"),
                    sourced: row.sourced,
                    calls: row.calls,
                    call: row.call,
                });
            }
            ["no", "files"] => {
                let row = self.last_row();
                (row.ends, row.sourced.bytes) = (Ends::default(), 0);
            }
            ["sampled", row, samples @ ..] => {
                let row: usize = parse_word(row);
                let callers = &mut process.threads[0].rows[row].callers;
                callers.extend(samples.iter().filter(|one| **one != "none").map(|one| {
                    let (stack, samples) = one.split_once('*').expect("STACK*SAMPLES");
                    (
                        StackId(parse_word(stack)),
                        SampleSum::of_every_call(parse_word(samples)),
                    )
                }));
            }
            // At the end, another thread or the first one had been in this call for `ns` nanoseconds.
            ["thread", "in", call, ns] => process.threads.push(Thread {
                last_call: Some(last_call(call, ns)),
                ..Thread::default()
            }),
            ["in", call, ns] => process.threads[0].last_call = Some(last_call(call, ns)),
            ["held", end, inode, pid] => {
                let inode = parse_word(inode);
                self.trace.open_ends.push(OpenEnd {
                    inode: match *end {
                        "reading" => EndInode::PipeToRead(inode),
                        "writing" => EndInode::PipeToWrite(inode),
                        _ => EndInode::Socket(inode),
                    },
                    pid: parse_word(pid),
                    name: None,
                });
            }
            // `threads tokio-1 read in 3 24`: one more thread, with these calls; `unnamed`: without a name.
            ["threads", name, call @ ..] => {
                let row = self.row(&call.join(" "));
                let threads = &mut self.last_process().threads;
                let thread = Thread {
                    comm: (*name != "unnamed").then_some((*name).to_owned()),
                    rows: vec![row],
                    ..threads[0].clone()
                };
                threads.push(thread);
            }
            ["others", sums @ ..] => process.threads[0].other_calls = Some(other_calls(sums)),
            _ => return false,
        }
        true
    }

    /// The process that was added last.
    pub fn last_process(&mut self) -> &mut Process {
        self.trace.processes.last_mut().expect("there is one")
    }

    /// Its last row.
    pub fn last_row(&mut self) -> &mut Row {
        let rows = &mut self.last_process().threads[0].rows;
        rows.last_mut().expect("it calls")
    }
}

fn make_toolchain(language: Language) -> Toolchain {
    Toolchain {
        language,
        version: "1.95.0".into(),
    }
}

/// Calls, errors, nanoseconds (`-`: unknown), calls that never returned, how many of these were
/// under way at the end, the longest time, and how many timed out after how long.
fn other_calls(words: &[&str]) -> OtherCalls {
    let figure = |index: usize| words.get(index).map_or(Some(0), |word| word.parse().ok());
    let [calls, errors, total_ns, unfinished, under_way] = [0, 1, 2, 3, 4].map(figure);
    OtherCalls {
        sums: CallSums {
            calls: calls.expect("a number"),
            errors: errors.expect("a number"),
            total_ns,
            unfinished: unfinished.expect("a number"),
            under_way: under_way.expect("a number"),
        },
        max_ns: words.get(5).and_then(|word| word.parse().ok()),
        timed_out: figure(6).expect("a number"),
        timed_out_ns: figure(7).expect("a number"),
    }
}

fn last_call(call: &str, ns: &str) -> LastCall {
    LastCall {
        call: Call::native(name(call)),
        lasted_ns: Some(parse_word(ns)),
    }
}

fn name(word: &str) -> &'static str {
    word.to_owned().leak()
}

fn parse_word<T: std::str::FromStr>(word: &str) -> T {
    let number = word.parse().ok();
    number.unwrap_or_else(|| panic!("{word} is no number"))
}
