//! `zctrace -p` and `--cgroup`: what running processes do is counted from the attach to the end of the
//! trace, neither more nor less, and they go on as before. The truth comes from the processes, which do
//! what a test says.

mod cgroup;
mod servers;
mod system;

use rustix::process::{Pid, Signal};
use zctrace::report::{Process, Report, State};

use crate::harness::{
    BACKENDS, Conversation, ReportFile, ReportRows, child_of, python, repetitions, state_of,
    wait_until, zctrace,
};

/// Does what each line of stdin says, in Python, and answers `done`.
const TARGET: &str = "
import os, threading
null = os.open('/dev/null', os.O_WRONLY)
def writes(count):
    for _ in range(count):
        os.write(null, b'0123456789')
def child(count):
    pid = os.fork()
    if pid == 0:
        writes(count)
        os._exit(0)
    os.waitpid(pid, 0)
def threads(number, work, *args):
    all = [threading.Thread(target=work, args=args) for _ in range(number)]
    for thread in all: thread.start()
    for thread in all: thread.join()
def serve():
    while line := os.read(0, 1000):
        exec(line.decode(), globals())
        os.write(1, b'done\\n')
writes(1000)
os.write(1, b'ready\\n')
serve()
";

/// Bytes of each write.
const EACH: u64 = 10;

/// Starts the program that does what it is told.
fn target() -> Conversation {
    let mut target = python(TARGET).start();
    target.expect("ready");
    target
}

/// Has it do something, and waits until that is done: it sleeps in the call that waits for the next
/// line, or its first thread has ended.
fn tell(target: &mut Conversation, what: &str) {
    target.say(what);
    target.expect("done");
    wait_until("it sleeps", || "SZ".contains(state_of(target.pid())));
}

/// A trace that has attached.
struct AttachedTrace {
    zctrace: Conversation,
    report: ReportFile,
}

impl AttachedTrace {
    /// Attaches with these options.
    #[track_caller]
    fn start(options: &[&str]) -> Self {
        let options = [&["--all", "--syscalls=all"], options].concat();
        let (zctrace, report) = zctrace().options(&options).start_without_command();
        wait_until("it is attached", || {
            assert!(!zctrace.has_ended(), "{}", zctrace.stderr());
            zctrace.stderr().contains("attached to ")
        });
        Self { zctrace, report }
    }

    /// Attaches to a process under this backend.
    #[track_caller]
    fn to(process: Pid, backend: &str) -> Self {
        Self::start(&[backend, "-p", &process.as_raw_pid().to_string()])
    }

    /// Ends the trace as Ctrl-C does.
    #[track_caller]
    fn end(self) -> Report {
        self.zctrace.signal(Signal::INT);
        self.ended()
    }

    /// Waits for the end of the trace.
    #[track_caller]
    fn ended(self) -> Report {
        let report = self.ended_perhaps_with_losses();
        assert!(report.exact, "{:?}", report.losses);
        report
    }

    #[track_caller]
    fn ended_perhaps_with_losses(self) -> Report {
        let code = self.zctrace.wait();
        assert_eq!(code, Some(0), "{}", self.zctrace.stderr());
        self.report.read(&self.zctrace.stderr())
    }
}

/// How often a call returned in a report, and the bytes that it moved.
fn calls(report: &Report, name: &str) -> (u64, Option<u64>) {
    let call = report.syscall(name).expect("all calls are counted");
    (call.calls, call.bytes)
}

/// The process with this id in a report.
#[track_caller]
fn process(report: &Report, pid: Pid) -> &Process {
    let pid = pid.as_raw_pid().unsigned_abs();
    let mut processes = report.processes.iter();
    let found = processes.rfind(|process| process.pid == pid);
    found.unwrap_or_else(|| panic!("no process {pid}: {:?}", report.processes))
}

/// Makes sure that a process is neither stopped nor traced.
#[track_caller]
fn assert_goes_on(process: Pid) {
    assert!("SR".contains(state_of(process)), "{}", state_of(process));
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid()));
    assert!(status.expect("it lives").contains("\nTracerPid:\t0\n"));
}

#[test]
fn callers_are_known_by_the_code_that_was_mapped_before_the_attach() {
    let mut target = target();
    let pid = target.pid();
    let option = pid.as_raw_pid().to_string();
    let trace = AttachedTrace::start(&["--callers", "-p", &option]);
    tell(&mut target, "writes(5000)");
    tell(&mut target, "child(100)");
    let report = trace.end();
    let all = report.stacks.as_ref().expect("callers were sampled");
    let mut processes = 0;
    for process in &report.processes {
        let mut calls = process.syscalls.iter();
        let write = calls.find(|call| call.name == "write").expect("it writes");
        let callers = write.callers.as_ref().expect("is sampled");
        for sampled in &callers.stacks {
            let stack = &all[sampled.stack];
            assert!(stack.complete, "{stack:?}");
            let mut frames = stack.frames.iter();
            assert!(frames.all(|frame| frame.module.is_some()), "{stack:?}");
        }
        processes += 1;
    }
    assert_eq!(processes, 2, "the process and its child");
}

#[test]
fn calls_from_the_attach_on_are_counted_under_each_backend() {
    for backend in BACKENDS {
        let mut target = target();
        let trace = AttachedTrace::to(target.pid(), backend);
        tell(&mut target, "writes(5000)");
        let report = trace.end();
        // The last one tells the test.
        let written = (5001, Some(5000 * EACH + 5));
        assert_eq!(calls(&report, "write"), written, "{backend}");
        let attached = report.attached.as_ref().expect("attached");
        assert_eq!(attached.pids, [target.pid().as_raw_pid().unsigned_abs()]);
        assert_eq!((report.exit.code, report.exit.signal), (None, None));
        let process = process(&report, target.pid());
        assert_eq!(process.state, State::Running);
        assert!(
            process
                .exe
                .as_deref()
                .is_some_and(|exe| exe.contains("python"))
        );
        assert_goes_on(target.pid());
        tell(&mut target, "writes(1)");
    }
}

#[test]
fn a_call_that_is_under_way_is_counted_by_itself() {
    let mut target = target();
    // It waits for its first line.
    wait_until("it sleeps", || state_of(target.pid()) == 'S');
    let trace = AttachedTrace::to(target.pid(), "--backend=ebpf");
    let report = trace.end();
    let under_way = |report: &Report| report.attached.as_ref()?.under_way_at_attach;
    assert_eq!(under_way(&report), Some(1), "it is still under way");
    assert_eq!(calls(&report, "read").0, 0);

    let trace = AttachedTrace::to(target.pid(), "--backend=ebpf");
    tell(&mut target, "pass");
    wait_until("it sleeps", || state_of(target.pid()) == 'S');
    let report = trace.end();
    assert_eq!(under_way(&report), Some(1), "it has returned");
    let read = report.syscall("read").expect("is counted");
    assert_eq!((read.calls, read.unfinished), (0, 1));
}

#[test]
fn threads_and_children_are_followed_that_were_there_or_come_later() {
    for backend in BACKENDS {
        let mut target = target();
        tell(&mut target, WAITING_CHILD);
        let child = child_of(target.pid());
        let trace = AttachedTrace::to(target.pid(), backend);
        tell(&mut target, "os.write(opened, b'x'); os.waitpid(pid, 0)");
        tell(&mut target, "threads(20, writes, 10)");
        tell(&mut target, "[child(7) for _ in range(10)]");
        let report = trace.end();
        let own = 1 + 20 * 10 + 3;
        assert_eq!(calls(&report, "write").0, own + 30 + 10 * 7, "{backend}");
        let child = process(&report, child);
        let written = ReportRows::of_process(child).row("write").calls;
        assert_eq!(written, 30, "{backend}");
        assert_eq!(report.totals.processes, 12, "{backend}");
    }
}

/// Makes a child that waits until a byte comes, and then writes.
const WAITING_CHILD: &str = "
gate, opened = os.pipe()
pid = os.fork()
if pid == 0:
    os.read(gate, 1)
    writes(30)
    os._exit(0)
";

#[test]
fn the_trace_ends_with_the_last_process() {
    for backend in BACKENDS {
        let mut target = target();
        let trace = AttachedTrace::to(target.pid(), backend);
        target.say("writes(10); os._exit(3)");
        let report = trace.ended();
        assert_eq!(calls(&report, "write").0, 10, "{backend}");
        assert_eq!(process(&report, target.pid()).state, State::Exited);
        assert_eq!(target.wait(), Some(3));
    }
}

/// Creates a process with an id that was another's: `clone3` with `set_tid` (clone(2)). It writes so
/// often.
const REUSE: &str = "
import ctypes, signal
def reuse(pid, count):
    ids = (ctypes.c_int * 1)(pid)
    wanted = (ctypes.c_uint64 * 11)(0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(ids), 1, 0)
    found = ctypes.CDLL(None, use_errno=True).syscall(435, wanted, 88)
    if found == 0:
        writes(count)
        os._exit(0)
    assert found == pid, ctypes.get_errno()
    os.waitpid(pid, 0)
";

#[test]
fn another_process_that_gets_the_id_of_one_that_ended_is_not_traced() {
    for backend in BACKENDS {
        let (mut other, mut parent) = (target(), target());
        tell(&mut parent, REUSE);
        tell(
            &mut parent,
            "import time; pid = os.fork(); pid or time.sleep(1000)",
        );
        let child = child_of(parent.pid());
        let [first, second] = [child, other.pid()].map(Pid::as_raw_pid);
        let trace = AttachedTrace::start(&[backend, "-p", &format!("{first},{second}")]);
        tell(
            &mut parent,
            "os.kill(pid, 9); os.waitpid(pid, 0); reuse(pid, 30)",
        );
        tell(&mut other, "writes(7)");
        let report = trace.end();
        assert_eq!(calls(&report, "write").0, 7 + 1, "{backend}");
        assert_eq!(report.totals.processes, 2, "{backend}");
    }
}

#[test]
fn an_exec_begins_another_program() {
    for backend in BACKENDS {
        let mut target = target();
        let trace = AttachedTrace::to(target.pid(), backend);
        let program = "['sh', '-c', 'echo done; read line']";
        tell(
            &mut target,
            &format!("writes(10); os.execv('/bin/sh', {program})"),
        );
        let report = trace.end();
        let process = process(&report, target.pid());
        assert_eq!(process.earlier_programs.len(), 1, "{backend}: {process:?}");
        assert_eq!(process.exe.as_deref(), Some("/bin/sh"), "{backend}");
        assert_eq!(calls(&report, "write").0, 10 + 1, "{backend}");
        assert_goes_on(target.pid());
    }
}

#[test]
fn a_process_whose_first_thread_has_ended_is_followed() {
    let mut target = target();
    // The first thread ends by itself; another one goes on.
    target.say(
        "import ctypes
def on():
    while open(f'/proc/self/task/{os.getpid()}/stat').read().rsplit(') ')[1][0] != 'Z': pass
    os.write(1, b'done\\n')
    serve()
threading.Thread(target=on).start()
exit = {'x86_64': 60, 'aarch64': 93}[os.uname().machine]
ctypes.CDLL(None).syscall(exit, 0)",
    );
    target.expect("done");
    assert_eq!(state_of(target.pid()), 'Z');
    let trace = AttachedTrace::to(target.pid(), "--backend=ebpf");
    tell(&mut target, "writes(10); threads(3, writes, 10)");
    let report = trace.end();
    assert_eq!(calls(&report, "write").0, 10 + 3 * 10 + 1);
    assert_eq!(report.totals.processes, 1);
}

#[test]
fn a_crowd_of_threads_that_fork_all_the_time_is_counted_and_goes_on() {
    let mut target = target();
    // 200 threads that write when they are told to, and one that forks all the time.
    tell(&mut target, CROWD);
    for _ in 0..repetitions(5) {
        let trace = AttachedTrace::to(target.pid(), "--backend=ebpf");
        tell(&mut target, "round(5)");
        let report = trace.end();
        assert_eq!(calls(&report, "getppid").0, 200 * 5);
        assert_goes_on(target.pid());
    }
    tell(&mut target, "end = True; forker.join()");
}

const CROWD: &str = "
begin, over = threading.Barrier(201), threading.Barrier(201)
rounds, end = 0, False
def member():
    while True:
        begin.wait()
        for _ in range(rounds):
            os.getppid()
        over.wait()
def fork():
    while not end:
        child(1)
def round(count):
    global rounds
    rounds = count
    begin.wait()
    over.wait()
for _ in range(200):
    threading.Thread(target=member, daemon=True).start()
forker = threading.Thread(target=fork)
forker.start()
";

#[test]
fn the_table_says_what_was_attached_to() {
    let mut target = target();
    let pid = target.pid().as_raw_pid().to_string();
    let shown = zctrace().options(&["-p", &pid]).launch().start();
    wait_until("it is attached", || shown.stderr().contains("attached to "));
    tell(&mut target, "writes(10)");
    shown.signal(Signal::TERM);
    assert_eq!(shown.wait(), Some(0));
    let report = shown.stderr();
    let line = format!("attached to python3 ({pid}) for ");
    assert!(report.contains(&line), "no {line:?} in {report}");
    assert!(
        report.contains("1 call was under way at the attach"),
        "{report}"
    );
}
