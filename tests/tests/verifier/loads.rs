//! What the verifier says of the programs that a zctrace loads.
//!
//! aya asks for the verifier's log after a failure only. So this traces zctrace (ptrace(2)) and asks in its place: when it enters
//! `bpf(BPF_PROG_LOAD)`, a buffer for the log is named in its arguments, on the part of the stack that is not in use.

use std::{
    collections::HashMap,
    fs::File,
    io,
    mem::MaybeUninit,
    os::unix::{fs::FileExt as _, process::CommandExt as _},
    process::{Command, Stdio},
};

use nix::{
    sys::{
        ptrace::{self, Options},
        signal::Signal,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// `BPF_PROG_LOAD` of the kernel's include/uapi/linux/bpf.h.
const PROG_LOAD: u64 = 5;
/// `BPF_LOG_STATS` of the kernel's `include/linux/bpf_verifier.h`.
const LOG_STATS: u32 = 4;
/// Where the fields of `union bpf_attr` for `BPF_PROG_LOAD` stand: `insn_cnt`, `log_level` (with `log_size` and `log_buf` behind it),
/// `prog_name`.
const INSN_CNT_AT: u64 = 4;
const LOG_LEVEL_AT: u64 = 24;
const PROG_NAME_AT: u64 = 48;
/// Bytes of `prog_name`, with its NUL.
const NAME_BYTES: usize = 16;
/// Room for the log, and how far below the stack pointer it begins.
const LOG_BYTES: usize = 8192;
const BELOW_STACK: u64 = 16 * 1024;

/// A program that was loaded.
#[derive(Debug)]
pub struct Load {
    /// Its name, as far as the kernel keeps it.
    name: String,
    /// How many instructions it has.
    instructions: usize,
    /// What the verifier says.
    log: String,
}

/// The verifier's own figures of a program.
#[derive(Debug, PartialEq, Eq)]
pub struct Figures {
    /// The stack that each function uses, in bytes, in the order in which they stand in the program.
    pub frames: Vec<u32>,
    /// How many instructions the verifier has gone through, on all ways.
    pub processed: u32,
}

impl Load {
    /// Whether it is the program of this name and length: the kernel cuts names, and two of ours begin alike.
    pub fn is_of(&self, name: &str, instructions: usize) -> bool {
        name.bytes().take(NAME_BYTES - 1).eq(self.name.bytes()) && self.instructions == instructions
    }

    /// The figures in what the verifier says (`print_verification_stats` of the kernel's `kernel/bpf/verifier.c`).
    pub fn figures(&self) -> Option<Figures> {
        let processed = self.log.lines().find_map(|line| line.strip_prefix("processed "))?;
        Some(Figures { frames: self.frames()?, processed: processed.split(' ').next()?.parse().ok()? })
    }

    /// The frames, which 7.3 tells in a line for each function, and kernels before it all in one.
    fn frames(&self) -> Option<Vec<u32>> {
        let after = |line: &'static str| self.log.lines().filter_map(move |found| found.strip_prefix(line));
        let mut lines = after("subprog ").peekable();
        if lines.peek().is_some() {
            return lines.map(|line| line.rsplit_once(" stack ")?.1.parse().ok()).collect();
        }
        after("stack depth ").next()?.split('+').map(|frame| frame.parse().ok()).collect()
    }
}

/// Runs this zctrace to its end, and gives back the programs that it loaded.
pub fn of(mut zctrace: Command) -> Vec<Load> {
    zctrace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: one system call.
    unsafe { zctrace.pre_exec(|| ptrace::traceme().map_err(io::Error::from)) };
    let pid = Pid::from_raw(i32::try_from(zctrace.spawn().expect("zctrace starts").id()).expect("a pid"));
    let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).expect("the memory of what is traced");
    let mut tracer = Tracer { memory, pending: HashMap::new(), loads: Vec::new() };
    waitpid(pid, None).expect("it stops at its exec");
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(pid, options).expect("it is ours");
    ptrace::syscall(pid, None).expect("it is stopped");
    loop {
        // Of this thread's children alone: other tests have children, too.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        let (task, signal) = match waitpid(None, Some(flags)).expect("there is a child") {
            WaitStatus::Exited(ended, status) if ended == pid => {
                assert_eq!(status, 0, "zctrace's exit status");
                return tracer.loads;
            }
            WaitStatus::PtraceSyscall(task) => {
                tracer.call(task);
                (task, None)
            }
            WaitStatus::PtraceEvent(task, ..) | WaitStatus::Stopped(task, Signal::SIGSTOP | Signal::SIGTRAP) => (task, None),
            WaitStatus::Stopped(task, signal) => (task, Some(signal)),
            WaitStatus::Signaled(ended, signal, _) if ended == pid => panic!("{signal} killed zctrace"),
            _ => continue,
        };
        // It may have been killed meanwhile.
        let _ = ptrace::syscall(task, signal);
    }
}

struct Tracer {
    memory: File,
    /// The loads under way, by task, each with the address of its log.
    pending: HashMap<Pid, (Load, u64)>,
    loads: Vec<Load>,
}

impl Tracer {
    /// A task enters a call, or leaves one.
    fn call(&mut self, task: Pid) {
        let info = syscall_info(task);
        if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
            // SAFETY: that is the union's part for an entry.
            let entry = unsafe { info.u.entry };
            if entry.nr == libc::SYS_bpf as u64 && entry.args[0] == PROG_LOAD {
                self.enter(task, entry.args[1], info.stack_pointer);
            }
        } else if let Some((mut load, log_at)) = self.pending.remove(&task) {
            load.log = text(&self.read::<LOG_BYTES>(log_at));
            self.loads.push(load);
        }
    }

    /// Has the kernel write a log for a load that did not ask for one.
    fn enter(&mut self, task: Pid, attributes: u64, stack: u64) {
        let name = text(&self.read::<NAME_BYTES>(attributes + PROG_NAME_AT));
        let asked = u32::from_ne_bytes(self.read(attributes + LOG_LEVEL_AT));
        if asked != 0 || name.is_empty() {
            return;
        }
        let log_at = stack - BELOW_STACK;
        let log_bytes = u32::try_from(LOG_BYTES).expect("small");
        let wanted = [LOG_STATS.to_ne_bytes(), log_bytes.to_ne_bytes()].concat();
        self.memory.write_all_at(&[0; LOG_BYTES], log_at).expect("room on the stack");
        self.memory
            .write_all_at(&[wanted, log_at.to_ne_bytes().to_vec()].concat(), attributes + LOG_LEVEL_AT)
            .expect("its arguments");
        let instructions = u32::from_ne_bytes(self.read(attributes + INSN_CNT_AT)) as usize;
        self.pending.insert(task, (Load { name, instructions, log: String::new() }, log_at));
    }

    fn read<const N: usize>(&self, address: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.memory.read_exact_at(&mut bytes, address).expect("the memory of what is traced");
        bytes
    }
}

/// The text before the first NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The call that a stopped task enters or leaves.
fn syscall_info(task: Pid) -> libc::ptrace_syscall_info {
    let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    // SAFETY: the kernel writes no more than the size that is passed; zeroes are valid for what it does not write.
    unsafe {
        let size = size_of::<libc::ptrace_syscall_info>();
        assert!(
            libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, task.as_raw(), size, info.as_mut_ptr()) > 0,
            "it is stopped at a call"
        );
        info.assume_init()
    }
}

#[test]
fn figures_of_a_log() {
    let load = |log: &str| Load { name: "sched_process_e".into(), instructions: 15, log: log.into() };
    // Linux 6.1.
    let log = "verification time 339530 usec\nstack depth 264+48+0\n\
               processed 15688 insns (limit 1000000) max_states_per_insn 6 total_states 806 peak_states 653 mark_read 26\n";
    assert_eq!(load(log).figures(), Some(Figures { frames: vec![264, 48, 0], processed: 15_688 }));
    // Linux 7.3.
    let log = "verification time 1384453 usec\nstack depth max 160\n\
               subprog 0 (ring_complete) main insns_self 1254 insns_total 1418 stack 152\n\
               subprog 1 (unknown_completed) static insns_self 164 insns_total 164 stack 32\n\
               processed 18424 insns (limit 1000000) max_states_per_insn 17 total_states 4869 peak_states 1322 mark_read 0\n";
    assert_eq!(load(log).figures(), Some(Figures { frames: vec![152, 32], processed: 18_424 }));
    assert_eq!(load("").figures(), None);
    assert_eq!(load("stack depth 8+x\nprocessed 1 insns").figures(), None);
    assert!(
        load("").is_of("sched_process_exec", 15)
            && !load("").is_of("sched_process_exec", 16)
            && !load("").is_of("sched_process_fork", 15)
    );
}
