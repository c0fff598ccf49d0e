//! How much stack and how many instructions each eBPF program takes: the kernel's verifier limits
//! both. Nothing here depends on time.
//!
//! `golden/verifier/kernels.md` has the verifier's own figures on each kernel. To update it:
//!
//! - this kernel's part: `ZC_UPDATE_GOLDEN=1 cargo xtask test verifier`
//! - every kernel's part: `cargo xtask vm --test verifier | cargo xtask stack --record`

use std::{
    collections::{BTreeSet, HashMap},
    env,
    fs::{self, File},
    io::{self, Write as _, stderr},
    os::unix::{fs::FileExt as _, process::CommandExt as _},
    process::{Command, Stdio},
};

use nix::{
    sys::{
        ptrace::{self, Options},
        signal::Signal,
        utsname::uname,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use zc_ebpf::programs::{ALL, RING};
use zc_tests::bpf::{
    Function, LIMIT_BYTES, LOOP, Row, Rows, deepest_chain, deepest_chain_with, programs_of,
};
use zctrace::backend::ebpf::embedded_object;

use crate::harness::{program, zctrace};

/// How many percent more instructions the verifier may process than the table says: kernels of one
/// series differ a little.
const TOLERANCE: u32 = 10;

fn programs() -> Vec<Vec<Function>> {
    programs_of(embedded_object()).expect("our own object")
}

/// The path of the golden table.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/verifier/kernels.md");

/// The size of a function's frame when the verifier checks the limit. What the verifier logs at the
/// end may be larger: after the check it inlines the call of `bpf_loop` and saves three registers
/// for that (`optimize_bpf_loop` of the kernel's `kernel/bpf/verifier.c`).
fn checked_frame(function: &Function, logged_bytes: u32) -> u32 {
    let is_inlined =
        function.helpers.contains(&LOOP) && logged_bytes > function.stack_bytes.next_multiple_of(8);
    if is_inlined {
        logged_bytes.saturating_sub(3 * 8)
    } else {
        logged_bytes
    }
}

#[test]
fn every_program_stays_within_the_stack_limit() {
    for program in programs() {
        let bytes = deepest_chain(&program).bytes;
        let name = &program[0].name;
        // `cargo xtask stack` shows the calls.
        assert!(bytes <= LIMIT_BYTES, "{name} takes {bytes} bytes of stack");
    }
}

/// The version and the machine of this kernel, as in the table.
fn this_kernel() -> String {
    let system = uname().expect("a name");
    let release = system.release().to_string_lossy();
    let mut numbers = release.split('.');
    let mut number = || numbers.next().expect("a version");
    let (major, minor) = (number(), number());
    let machine = system.machine().to_string_lossy();
    format!("{major}.{minor} {machine}")
}

/// The figures of a program that was loaded.
fn row(program: &[Function], load: &Load) -> Row {
    let (frames, processed) = load.figures().expect("a log of figures");
    assert_eq!(frames.len(), program.len(), "functions of {load:?}");
    let frame = |function: usize| checked_frame(&program[function], frames[function]);
    let stack_bytes = deepest_chain_with(program, &frame).bytes;
    assert!(stack_bytes <= LIMIT_BYTES, "{stack_bytes}: {load:?}");
    Row {
        stack_bytes,
        processed,
    }
}

#[test]
fn the_figures_of_this_kernels_verifier_are_within_the_golden_table() {
    let programs = programs();
    // The verifier removes what is not recorded, so everything is.
    let everything = zctrace().ebpf().syscalls("all");
    let options = ["--callers", "--succeeded-paths", "--output=/dev/null"];
    let launch = everything.options(&options).launch_of(&program("true"));
    let loads = loads_of(launch.command());
    let (mut found, mut unloaded) = (Rows::default(), BTreeSet::new());
    for program in &programs {
        let instructions = program.iter().map(|function| function.instructions);
        let (instructions, name) = (instructions.sum(), &program[0].name);
        match loads.iter().find(|load| load.is_of(name, instructions)) {
            Some(load) => found.insert(&this_kernel(), name, row(program, load)),
            None => _ = unloaded.insert(name.as_str()),
        }
    }
    // The program that only closures need is not loaded here. Of two programs that do the same,
    // only one is loaded.
    let mut ones = BTreeSet::from(["scope"]);
    let mut others = ones.clone();
    for hooked in ALL.iter().chain(&RING) {
        if let Some((other, _)) = hooked.not_preempted {
            ones.insert(hooked.name);
            others.insert(other);
        }
    }
    let is_right = unloaded == ones || unloaded == others;
    assert!(is_right, "not loaded: {unloaded:?} of {loads:?}");
    // libtest captures the output of println.
    let shown = stderr().write_all(found.to_string().as_bytes());
    shown.expect("stderr");
    let mut table = Rows::parse(&fs::read_to_string(GOLDEN).unwrap_or_default());
    if env::var_os("ZC_UPDATE_GOLDEN").is_some() {
        table.record(found);
        return fs::write(GOLDEN, table.to_string()).expect("the table can be written");
    }
    let grown = table.grown(&found, TOLERANCE);
    assert_eq!(grown, [""; 0], "grown; ZC_UPDATE_GOLDEN=1 accepts it");
}

/// `BPF_PROG_LOAD` of the kernel's include/uapi/linux/bpf.h.
const PROG_LOAD: u64 = 5;
/// `BPF_LOG_STATS` of the kernel's `include/linux/bpf_verifier.h`.
const LOG_STATS: u32 = 4;
/// The offsets of fields of `union bpf_attr` for `BPF_PROG_LOAD`: `insn_cnt`, `log_level` (followed
/// by `log_size` and `log_buf`), `prog_name`.
const INSN_CNT_AT: u64 = 4;
const LOG_LEVEL_AT: u64 = 24;
const PROG_NAME_AT: u64 = 48;
/// Bytes of `prog_name`, with its NUL.
const NAME_BYTES: usize = 16;
/// The size of the log, and how far below the stack pointer it begins.
const LOG_BYTES: usize = 8192;
const BELOW_STACK: u64 = 16 * 1024;

/// A program that was loaded.
#[derive(Debug)]
struct Load {
    /// Its name, as far as the kernel keeps it.
    name: String,
    /// How many instructions it has.
    instructions: usize,
    /// The verifier's log.
    log: String,
}

impl Load {
    /// Whether it is the program of this name and length. The kernel cuts names, and two of ours
    /// begin with the same letters.
    fn is_of(&self, name: &str, instructions: usize) -> bool {
        name.bytes().take(NAME_BYTES - 1).eq(self.name.bytes()) && self.instructions == instructions
    }

    /// The stack of each function in bytes, in the order of the functions in the program, and how
    /// many instructions the verifier has processed over all paths (`print_verification_stats` of
    /// the kernel's `kernel/bpf/verifier.c`).
    fn figures(&self) -> Option<(Vec<u32>, u32)> {
        let mut lines = self.log.lines();
        let processed = lines.find_map(|line| line.strip_prefix("processed "))?;
        let processed = processed.split(' ').next()?.parse().ok()?;
        Some((self.frames()?, processed))
    }

    /// The frames. 7.3 logs a line for each function, older kernels one line for all.
    fn frames(&self) -> Option<Vec<u32>> {
        let after = |start| {
            self.log
                .lines()
                .filter_map(move |line: &str| line.strip_prefix(start))
        };
        let mut lines = after("subprog ").peekable();
        if lines.peek().is_some() {
            let frame = |line: &str| line.rsplit_once(" stack ")?.1.parse().ok();
            return lines.map(frame).collect();
        }
        let frames = after("stack depth ").next()?.split('+');
        frames.map(|frame| frame.parse().ok()).collect()
    }
}

/// Runs this zctrace to its end under ptrace, and returns the programs that it loaded.
fn loads_of(mut zctrace: Command) -> Vec<Load> {
    zctrace.stdin(Stdio::null()).stdout(Stdio::null());
    zctrace.stderr(Stdio::null());
    // SAFETY: one system call.
    unsafe { zctrace.pre_exec(|| ptrace::traceme().map_err(io::Error::from)) };
    let id = zctrace.spawn().expect("zctrace starts").id();
    let pid = Pid::from_raw(i32::try_from(id).expect("a pid"));
    let mut memory = File::options();
    let memory = memory.read(true).write(true);
    let memory = memory.open(format!("/proc/{pid}/mem"));
    let mut tracer = LoadTracer {
        memory: memory.expect("the memory of what is traced"),
        pending: HashMap::new(),
        loads: Vec::new(),
    };
    waitpid(pid, None).expect("it stops at its exec");
    let options =
        Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(pid, options).expect("it is ours");
    ptrace::syscall(pid, None).expect("it is stopped");
    loop {
        // Only for children of this thread, because other tests have children, too.
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
            WaitStatus::PtraceEvent(task, ..)
            | WaitStatus::Stopped(task, Signal::SIGSTOP | Signal::SIGTRAP) => (task, None),
            WaitStatus::Stopped(task, signal) => (task, Some(signal)),
            WaitStatus::Signaled(ended, signal, _) if ended == pid => {
                panic!("{signal} killed zctrace")
            }
            _ => continue,
        };
        // The task may have been killed since then.
        let _ = ptrace::syscall(task, signal);
    }
}

struct LoadTracer {
    memory: File,
    /// The loads under way, by task, each with the address of its log.
    pending: HashMap<Pid, (Load, u64)>,
    loads: Vec<Load>,
}

impl LoadTracer {
    /// Handles a task that enters or leaves a call.
    fn call(&mut self, task: Pid) {
        let info = ptrace::syscall_info(task).expect("it is stopped at a call");
        if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
            // SAFETY: this is the part of the union for an entry.
            let entry = unsafe { info.u.entry };
            if entry.nr == libc::SYS_bpf as u64 && entry.args[0] == PROG_LOAD {
                self.enter(task, entry.args[1], info.stack_pointer);
            }
        } else if let Some((mut load, log_at)) = self.pending.remove(&task) {
            load.log = text(&self.read::<LOG_BYTES>(log_at));
            self.loads.push(load);
        }
    }

    /// Makes the kernel write a log for a load that does not ask for one.
    fn enter(&mut self, task: Pid, attributes: u64, stack: u64) {
        let name = text(&self.read::<NAME_BYTES>(attributes + PROG_NAME_AT));
        let asked = u32::from_ne_bytes(self.read(attributes + LOG_LEVEL_AT));
        if asked != 0 || name.is_empty() {
            return;
        }
        let log_at = stack - BELOW_STACK;
        let log_bytes = u32::try_from(LOG_BYTES).expect("small");
        let [low, high] = [LOG_STATS, log_bytes].map(u32::to_ne_bytes);
        let wanted = [&low[..], &high, &log_at.to_ne_bytes()].concat();
        self.write(log_at, &[0; LOG_BYTES]);
        self.write(attributes + LOG_LEVEL_AT, &wanted);
        let instructions = u32::from_ne_bytes(self.read(attributes + INSN_CNT_AT)) as usize;
        let load = Load {
            name,
            instructions,
            log: String::new(),
        };
        self.pending.insert(task, (load, log_at));
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        self.memory
            .write_all_at(bytes, address)
            .expect("its memory");
    }

    fn read<const N: usize>(&self, address: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.memory
            .read_exact_at(&mut bytes, address)
            .expect("its memory");
        bytes
    }
}

/// The text before the first NUL.
fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

#[test]
fn figures_are_read_from_a_verifier_log() {
    let load = |log: &str| Load {
        name: "sched_process_e".into(),
        instructions: 15,
        log: log.into(),
    };
    let linux_6_1 = "verification time 339530 usec\nstack depth 264+48+0\n\
                     processed 15688 insns (limit 1000000) max_states_per_insn 6 total_states 806 peak_states 653 mark_read 26\n";
    let linux_7_3 = "verification time 1384453 usec\nstack depth max 160\n\
               subprog 0 (ring_complete) main insns_self 1254 insns_total 1418 stack 152\n\
               subprog 1 (unknown_completed) static insns_self 164 insns_total 164 stack 32\n\
               processed 18424 insns (limit 1000000) max_states_per_insn 17 total_states 4869 peak_states 1322 mark_read 0\n";
    for (log, figures) in [
        (linux_6_1, Some((vec![264, 48, 0], 15_688))),
        (linux_7_3, Some((vec![152, 32], 18_424))),
        ("", None),
        ("stack depth 8+x\nprocessed 1 insns", None),
    ] {
        assert_eq!(load(log).figures(), figures, "{log}");
    }
    assert!(load("").is_of("sched_process_exec", 15));
    assert!(!load("").is_of("sched_process_exec", 16));
    assert!(!load("").is_of("sched_process_fork", 15));
}
