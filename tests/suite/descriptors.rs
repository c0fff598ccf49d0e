//! `--fds` and `fds.open`: which descriptors a command leaves open, against /proc just before it exits.

use std::collections::BTreeSet;

use crate::harness::{BACKENDS, Program, TestDir, python, shell, zctrace};

/// Runs a program, stops it when it exits, and prints what it has open then, and had when it began.
/// The numbers are of the kernel's include/uapi/linux/ptrace.h.
const STOP_AT_EXIT: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
def ptrace(request, pid, data=0):
    assert libc.ptrace(request, pid, None, data) == 0, os.strerror(ctypes.get_errno())
TRACEME, CONT, SETOPTIONS, TRACEEXIT, EVENT_EXIT = 0, 7, 0x4200, 0x40, 6
def open_now(pid): return sorted(int(fd) for fd in os.listdir(f'/proc/{pid}/fd'))
pid = os.fork()
if pid == 0:
    ptrace(TRACEME, 0)
    os.dup2(2, 1)
    os.execvp(sys.argv[1], sys.argv[1:])
os.waitpid(pid, 0)
ptrace(SETOPTIONS, pid, TRACEEXIT)
print(*open_now(pid))
ptrace(CONT, pid)
while True:
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status): break
    if status >> 8 == 5 | EVENT_EXIT << 8:
        print(*open_now(pid))
        ptrace(CONT, pid)
    else:
        signal = os.WSTOPSIG(status)
        ptrace(CONT, pid, 0 if signal == 5 else signal)
";

/// The descriptors that the program had not had when it began, and has when it exits.
fn left_open(program: &Program, dir: &TestDir) -> BTreeSet<u32> {
    let supervised = python(STOP_AT_EXIT).args(program.words()).dir(dir.path());
    let finished = supervised.finish();
    let numbers = |line: &str| -> BTreeSet<u32> {
        let words = line.split_whitespace();
        words.map(|fd| fd.parse().expect("a number")).collect()
    };
    let mut lines = finished.successful().lines().map(numbers);
    let start = lines.next().expect("it began");
    let end = lines.next_back().expect("it exited");
    end.difference(&start).copied().collect()
}

/// What `--fds` says: the descriptors and why there may be others.
fn reported(program: &Program, dir: &TestDir, backend: &str) -> (BTreeSet<u32>, Vec<String>) {
    let run = zctrace().options(&["--fds", backend]).dir(dir.path());
    let left = run.run(program).report.left_open.expect("it was asked for");
    let fds = left.descriptors.iter().map(|one| one.fd);
    (fds.collect(), left.doubts)
}

const IN_MANY_WAYS: &str = "
import os, socket, select, fcntl
kept = os.open('in', os.O_RDONLY)
closed = os.open('in', os.O_RDONLY)
os.pipe()
a, b = socket.socketpair()
a.detach(); b.detach()
s = socket.socket(); s.detach()
e = select.epoll(); fcntl.fcntl(e.fileno(), fcntl.F_DUPFD, 40)
os.dup2(kept, 30)
os.eventfd(0); os.memfd_create('m'); os.pidfd_open(os.getpid())
left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
socket.send_fds(left, [b'x'], [kept, closed])
received = socket.recv_fds(right, 1, 2)[1]
os.close(received[0])
os.close(closed)
os.closerange(50, 60)
os._exit(0)";

const THREADS: &str = "
import os, threading
def work(): os.open('in', os.O_RDONLY)
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
if os.fork() == 0:
    os.open('in', os.O_RDONLY)
    os._exit(0)
os.wait()
os._exit(0)";

#[test]
fn what_is_left_open_is_what_proc_shows_before_the_exit() {
    let dir = TestDir::with("in", "x");
    let programs = [
        python(IN_MANY_WAYS),
        python(THREADS),
        python("import os; os.kill(os.getpid(), 9)"),
        // The exec closes the first one.
        python(
            "import os; os.open('in', os.O_RDONLY); f = os.open('in', os.O_RDONLY); os.set_inheritable(f, True); os.execvp('sleep', ['sleep', '0'])",
        ),
        shell("exec 7<in 8>out 7<&-; exec cat in"),
        shell("cat in; true"),
    ];
    for program in programs {
        let expected = left_open(&program, &dir);
        for backend in BACKENDS {
            let (found, doubts) = reported(&program, &dir, backend);
            assert_eq!(doubts, [""; 0], "{backend}: {:?}", program.words());
            assert_eq!(found, expected, "{backend}: {:?}", program.words());
        }
    }
}

#[test]
fn inherited_descriptors_do_not_count() {
    let dir = TestDir::with("in", "x");
    // It closes an inherited one, and opens another file in its place.
    let script = "import os; os.close(9); a = os.open('in', os.O_RDONLY); os.dup2(a, 9); os.close(a); os._exit(0)";
    for backend in BACKENDS {
        for (script, expected) in [("pass", 0), (script, 1)] {
            let run = zctrace().options(&["--fds", backend]).dir(dir.path());
            let run = run
                .by_script("exec 9</dev/null; exec \"$@\"")
                .run(&python(script));
            let left = run.report.left_open.expect("it was asked for");
            assert_eq!(left.descriptors.len(), expected, "{backend}: {left:?}");
            assert_eq!(left.doubts, [""; 0]);
        }
    }
}

#[test]
fn a_log_has_what_was_left_open() {
    let dir = TestDir::with("in", "x");
    let program = python(IN_MANY_WAYS);
    let expected = left_open(&program, &dir);
    let judged = |options: &[&str]| {
        program.log_in(&dir, options);
        let report = zctrace().option("--fds").report_on_log(&dir);
        report.left_open.expect("it was asked for")
    };
    for options in [&["-f", "-y"][..], &["-f"]] {
        let left = judged(options);
        let found: BTreeSet<u32> = left.descriptors.iter().map(|one| one.fd).collect();
        assert_eq!(found, expected, "{options:?}");
        assert_eq!(left.doubts, [""; 0]);
    }
    // Not all calls that open and close descriptors are there.
    let part = judged(&["-f", "-e", "trace=openat,dup2"]);
    assert!(!part.doubts.is_empty(), "{part:?}");
}
