//! Where each program is attached on this kernel, and how often the kernel skipped it.

use std::{
    ffi::c_int,
    fs::File,
    io,
    mem::{MaybeUninit, offset_of},
    os::fd::{AsFd as _, AsRawFd as _},
    path::Path,
};

use aya::{
    Btf,
    programs::{Program, ProgramError, RawTracePoint, TracePoint},
};
use aya_obj::generated::bpf_prog_info;
use zc_ebpf::{
    programs::{self, HookSite, Hooked},
    records::{self, RecordField},
};

use crate::{
    backend::ebpf::load::{
        bpf_call::bpf,
        btf,
        unavailable::{self, EbpfUnavailable, is_interrupted, program_refused},
    },
    machine::Version,
};

/// The first version that is assumed to preempt the programs of its tracepoints.
/// Before commit a46023d5616e of January 2026, the kernel disabled preemption around them
/// (`__DECLARE_TRACE` of its include/linux/tracepoint.h). 6.18 was seen not to preempt them and 7.3
/// to do so; the versions in between were not tried.
const FIRST_WITH_PREEMPTION: Version = Version(7, 0);

/// The directories that list perf's events.
const EVENTS: [&str; 2] = [
    "/sys/kernel/tracing/events",
    "/sys/kernel/debug/tracing/events",
];

/// How often loading a program is tried if signals interrupt it. libbpf tries five times; our
/// largest program takes longer to verify than most.
const ATTEMPTS: u32 = 20;

/// The programs that take the verifier longest, by the instructions that it processes
/// (`tests/golden/verifier`).
const LARGEST_FIRST: [&str; 4] = ["sys_exit", "sys_enter", "ring_complete", "process_fork"];

/// Whether this kernel may preempt programs, and whether others can take their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// It does not.
    Never,
    /// It may; programs that are not preempted can be attached instead.
    Avoided,
    /// It may, and the other programs cannot be attached.
    Possible,
}

impl Preemption {
    /// Finds it out for the running kernel, which has these types.
    pub fn find(types: &btf::Btf<'_>) -> Self {
        let version = Version::at_start(&unavailable::release());
        if version.is_none_or(|version| version < FIRST_WITH_PREEMPTION) {
            Self::Never
        } else if has_expected_events(types) && has_readable_events() {
            Self::Avoided
        } else {
            Self::Possible
        }
    }

    /// The note about it, if there is one.
    pub fn note(self) -> Option<String> {
        const NOTE: &str = "this kernel may skip eBPF programs under load (zctrace counts how often); to prevent that, run zctrace as root with tracefs mounted on /sys/kernel/tracing";
        (self == Self::Possible).then(|| NOTE.to_owned())
    }
}

fn has_expected_events(types: &btf::Btf<'_>) -> bool {
    records::ALL.iter().all(|field: &RecordField| {
        let offset = types.offset_of(field.structure, &[field.name]);
        offset.is_some_and(|offset| offset as usize == field.offset)
    })
}

/// Whether programs can be attached to perf's events: only root can read their numbers in tracefs.
fn has_readable_events() -> bool {
    let path = |hooked: &Hooked| match hooked.not_preempted?.1 {
        HookSite::Event { category, name } => Some(Path::new(category).join(name).join("id")),
        HookSite::Tracepoint(_) => None,
    };
    EVENTS.into_iter().map(Path::new).any(|events| {
        let mut all = programs::ALL.iter().chain(&programs::RING);
        all.all(|hooked| path(hooked).is_none_or(|path| File::open(events.join(path)).is_ok()))
    })
}

/// A program and what it is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Name of the program.
    pub program: &'static str,
    /// Name of the program of [`programs`] that it is, or whose place it takes.
    pub role: &'static str,
    /// Whether it watches the end of tasks; some tasks end after the trace.
    pub watches_ends: bool,
    site: HookSite,
}

impl Hook {
    /// The programs for a kernel in the order in which they are attached: those of all calls, and
    /// then these for `io_uring`, each with its tracepoint.
    pub fn choose(rings: &[(Hooked, &'static str)], preemption: Preemption) -> Vec<Self> {
        let own = programs::ALL.map(|hooked| (hooked, hooked.tracepoints[0]));
        let hook = |&(hooked, tracepoint): &(Hooked, &'static str)| {
            Self::new(hooked, tracepoint, preemption)
        };
        own.iter().chain(rings).map(hook).collect()
    }

    /// The programs that see changes and syncs of files.
    pub fn for_syncs(preemption: Preemption) -> [Self; programs::SYNCS.len()] {
        programs::SYNCS.map(|hooked| Self::new(hooked, hooked.tracepoints[0], preemption))
    }

    /// The programs that see what calls touch.
    pub fn for_touches(preemption: Preemption) -> [Self; programs::TOUCHES.len()] {
        programs::TOUCHES.map(|hooked| Self::new(hooked, hooked.tracepoints[0], preemption))
    }

    fn new(hooked: Hooked, tracepoint: &'static str, preemption: Preemption) -> Self {
        let own = (hooked.name, HookSite::Tracepoint(tracepoint));
        let (program, site) = match preemption {
            Preemption::Avoided => hooked.not_preempted.unwrap_or(own),
            Preemption::Never | Preemption::Possible => own,
        };
        Self {
            program,
            role: hooked.name,
            watches_ends: ["sched_switch", "process_exit"].contains(&hooked.name),
            site,
        }
    }

    /// The programs that see which threads a closure wakes.
    pub fn for_closures() -> [Self; 2] {
        programs::WAKES.map(Self::preemptible)
    }

    /// The program that sees which tasks enter a cgroup.
    pub fn for_cgroup() -> Self {
        Self::preemptible(programs::CGROUP)
    }

    fn preemptible(hooked: Hooked) -> Self {
        Self::new(hooked, hooked.tracepoints[0], Preemption::Never)
    }

    /// The tracepoint; `None` for a perf event.
    pub fn tracepoint(&self) -> Option<&'static str> {
        match self.site {
            HookSite::Tracepoint(name) => Some(name),
            HookSite::Event { .. } => None,
        }
    }

    /// Its place in the order of loading: those that take the verifier longest come first, so that
    /// no thread has only them left.
    pub fn load_order(&self) -> usize {
        let place = LARGEST_FIRST.iter().position(|&role| role == self.role);
        place.unwrap_or(LARGEST_FIRST.len())
    }

    /// Loads the program, which has the kernel verify it.
    pub fn verify(self, program: &mut Program, types: &Btf) -> Result<(), EbpfUnavailable> {
        let mut loaded = self.load(program, types);
        for _ in 1..ATTEMPTS {
            if !loaded.as_ref().is_err_and(is_interrupted) {
                break;
            }
            loaded = self.load(program, types);
        }
        loaded.map_err(|error| program_refused(self.program, &error))
    }

    fn load(self, program: &mut Program, types: &Btf) -> Result<(), ProgramError> {
        match (self.site, program) {
            (HookSite::Tracepoint(name), Program::BtfTracePoint(program)) => {
                program.load(name, types)
            }
            (HookSite::Tracepoint(_), program) => <&mut RawTracePoint>::try_from(program)?.load(),
            (HookSite::Event { .. }, program) => <&mut TracePoint>::try_from(program)?.load(),
        }
    }

    /// Attaches the program, until the link is dropped.
    pub fn attach(self, program: &mut Program) -> Result<Link, EbpfUnavailable> {
        self.try_to_attach(program)
            .map_err(|error| program_refused(self.program, &error))
    }

    fn try_to_attach(self, program: &mut Program) -> Result<Link, ProgramError> {
        Ok(match (self.site, program) {
            (HookSite::Tracepoint(_), Program::BtfTracePoint(program)) => {
                let link = program.attach()?;
                Box::new(program.take_link(link)?)
            }
            (HookSite::Tracepoint(name), program) => {
                let program = <&mut RawTracePoint>::try_from(program)?;
                let link = program.attach(name)?;
                Box::new(program.take_link(link)?)
            }
            (HookSite::Event { category, name }, program) => {
                let program = <&mut TracePoint>::try_from(program)?;
                let link = program.attach(category, name)?;
                Box::new(program.take_link(link)?)
            }
        })
    }
}

/// Keeps a program attached: one of aya's links.
pub type Link = Box<dyn Send>;

/// `BPF_OBJ_GET_INFO_BY_FD` of the kernel's include/uapi/linux/bpf.h.
const GET_INFO: c_int = 15;

/// The member `info` of the kernel's `union bpf_attr`.
#[repr(C)]
struct InfoRequest {
    fd: u32,
    /// Of `info`, in bytes; the kernel stores how many it filled in.
    length: u32,
    info: u64,
}

/// How often the kernel skipped this program, which it says since 5.12; 0 if it is not loaded.
pub fn missed_runs(program: &Program) -> io::Result<u64> {
    let Ok(fd) = program.fd() else { return Ok(0) };
    let mut info = MaybeUninit::<bpf_prog_info>::zeroed();
    let mut request = InfoRequest {
        fd: fd.as_fd().as_raw_fd().unsigned_abs(),
        length: u32::try_from(size_of_val(&info)).map_err(io::Error::other)?,
        info: info.as_mut_ptr().expose_provenance() as u64,
    };
    // SAFETY: the kernel writes at most `length` bytes of `info`.
    unsafe { bpf(GET_INFO, &mut request) }?;
    let end = offset_of!(bpf_prog_info, recursion_misses) + size_of::<u64>();
    if (request.length as usize) < end {
        let unknown = "the kernel does not report how often it skipped a program";
        return Err(io::Error::other(unknown));
    }
    // SAFETY: plain numbers, for which zero is valid.
    Ok(unsafe { info.assume_init() }.recursion_misses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_may_be_preempted_are_replaced() {
        let rings = [(programs::RING[3], "io_uring_submit_sqe")];
        let programs = |preemption| -> Vec<_> {
            let hooks = Hook::choose(&rings, preemption).into_iter();
            hooks
                .map(|hook| (hook.program, hook.tracepoint()))
                .collect()
        };
        let not_preempted = [
            ("sched_switch", Some("sched_switch")),
            ("exit_event", None),
            ("signal_delivered", Some("signal_deliver")),
            ("exec_event", None),
            ("task_woken", Some("sched_wakeup_new")),
            ("sys_exit_event", None),
            ("sys_enter_event", None),
            ("ring_submit_event", None),
        ];
        assert_eq!(programs(Preemption::Avoided), not_preempted);
        let own = programs::ALL.map(|hooked| (hooked.name, Some(hooked.tracepoints[0])));
        let own = [&own[..], &[("ring_submit", Some("io_uring_submit_sqe"))]].concat();
        for preemption in [Preemption::Never, Preemption::Possible] {
            assert_eq!(programs(preemption), own, "{preemption:?}");
        }
    }
}
