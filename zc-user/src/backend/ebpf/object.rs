//! The eBPF object: embedded, loaded with what this kernel needs, attached, and taken off again.

mod scope;

use std::{
    fs, io,
    os::fd::{AsFd as _, AsRawFd as _},
    path::PathBuf,
    thread,
};

use aya::{
    Btf, Ebpf, EbpfLoader,
    maps::{Array, Map, MapData, MapError, RingBuf},
    programs::{BtfTracePoint, Program, ProgramError},
};
use nix::unistd::gettid;
use thiserror::Error;
use zc_ebpf::{ABSENT, CallSpec, Control, KernelFields, maps, programs};

use super::{
    btf::BtfError,
    drain::Maps,
    fields::{self, MissingField},
    kernel::{self, Kernel, TypesFile},
};
use crate::{backend::Limits, syscall::Selection};

/// The compiled kernel side; empty if this zctrace was built without a BPF toolchain.
pub(crate) static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/zctrace-bpf"));

/// Why the eBPF backend cannot run here. Each message says what to do.
#[derive(Debug, Error)]
pub enum EbpfUnavailable {
    /// Built without the kernel side.
    #[error("this zctrace was built without eBPF: run `cargo xtask setup`, then build it again")]
    NotBuilt,
    /// The kernel shows no BTF.
    #[error("cannot read the kernel's type information {}: {cause}{}", path.display(), if_missing(cause))]
    NoBtf {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// The kernel's BTF makes no sense.
    #[error("cannot use the kernel's type information {}: {cause}", path.display())]
    BadBtf {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: BtfError,
    },
    /// The kernel lacks a field.
    #[error("{0}: use another kernel, or --backend strace")]
    MissingField(#[from] MissingField),
    /// Not allowed to load programs.
    #[error("not allowed to load eBPF programs: run it with sudo, or give it CAP_BPF and CAP_PERFMON")]
    NotPermitted,
    /// Anything else that the kernel refuses.
    #[error("the kernel refuses the eBPF programs: {0}")]
    Refused(String),
}

/// What to do where the kernel shows no types.
fn if_missing(cause: &io::Error) -> &'static str {
    if cause.kind() == io::ErrorKind::NotFound { "; it needs a kernel built with CONFIG_DEBUG_INFO_BTF" } else { "" }
}

/// What the object is loaded with.
#[derive(Debug, Clone)]
pub struct Settings<'a> {
    /// Which calls are counted.
    pub selection: &'a Selection,
    /// How much is kept at once.
    pub limits: Limits,
    /// Whether the programs tell what they do.
    pub verbose: bool,
}

/// Programs that run in the kernel, and their maps. Dropping it takes them off.
pub struct Loaded {
    ebpf: Ebpf,
    /// The maps that are read in the end.
    pub maps: Maps,
    control: Array<MapData, Control>,
    is_over: Array<MapData, u32>,
    max_files: u32,
    /// Whether this kernel has all counters of tasks.
    pub counters_known: bool,
    /// Whether this kernel lets the programs see which buffers lie in mappings.
    pub sees_memory: bool,
    /// What this kernel lacks, each a sentence.
    pub notes: Vec<String>,
}

impl Loaded {
    /// Loads the programs for a kernel of these types and attaches them. Gives back the kernel side's events, too.
    pub fn new(settings: &Settings<'_>, types: TypesFile) -> Result<(Self, RingBuf<MapData>), EbpfUnavailable> {
        if OBJECT.is_empty() {
            return Err(EbpfUnavailable::NotBuilt);
        }
        // To make a loader is to parse the whole of the kernel's BTF (~25 ms); there is no way around that, but beside it.
        let (loader, kernel) = thread::scope(|scope| {
            let loader = thread::Builder::new().spawn_scoped(scope, EbpfLoader::new);
            let kernel = kernel::read(types);
            // aya tries out what the kernel can do as soon as somebody asks.
            let _ = aya::features();
            (loader.map(joined), kernel)
        });
        let kernel = kernel?;
        let mut loader = loader.map_err(refused)??;
        let mut ebpf = thread::scope(|scope| {
            let mut ebpf = load(&mut loader, &kernel.fields, settings)?;
            // Hundreds of thousands of types take 5 ms to free; without another thread, here.
            let _ = thread::Builder::new().spawn_scoped(scope, move || drop(loader));
            attach(&mut ebpf, &kernel, settings.selection)?;
            Ok::<_, EbpfUnavailable>(ebpf)
        })?;
        let mut specs: Array<_, CallSpec> = take(&mut ebpf, maps::SPECS)?;
        for (slot, spec) in settings.selection.kernel_specs() {
            specs.set(slot, spec, 0).map_err(refused)?;
        }
        let events = take(&mut ebpf, maps::EVENTS)?;
        let this = Self {
            maps: Maps {
                tasks: take(&mut ebpf, maps::TASKS)?,
                rows: [take(&mut ebpf, maps::ROWS)?, take(&mut ebpf, maps::FILE_ROWS)?],
                parts: take(&mut ebpf, maps::PARTS)?,
                errnos: [take(&mut ebpf, maps::ERRNOS)?, take(&mut ebpf, maps::FILE_ERRNOS)?],
                losses: take(&mut ebpf, maps::LOSSES)?,
            },
            control: take(&mut ebpf, maps::CONTROL)?,
            is_over: take(&mut ebpf, maps::IS_OVER)?,
            max_files: settings.limits.max_files,
            counters_known: fields::has_counters(&kernel.fields),
            sees_memory: kernel.fields.vma_file != ABSENT,
            notes: kernel.notes,
            ebpf,
        };
        Ok((this, events))
    }

    /// Makes the next process that this thread forks the root of the trace.
    pub fn arm(&mut self) -> Result<(), EbpfUnavailable> {
        use std::os::unix::fs::MetadataExt as _;
        let namespace = fs::metadata("/proc/self/ns/pid").map_err(refused)?;
        let control = Control {
            pidns_device: namespace.dev(),
            pidns_inode: namespace.ino(),
            tracer_pid: std::process::id(),
            // A thread's id is positive.
            tracer_tid: gettid().as_raw().unsigned_abs(),
            armed: 1,
            max_files: self.max_files,
            ..Control::default()
        };
        self.control.set(0, control, 0).map_err(refused)
    }

    /// Ends the trace for all programs at once, then takes off those that count, and those that follow new tasks: that takes some
    /// milliseconds for each. What watches the end of tasks stays on.
    pub fn stop_counting(&mut self) -> Result<(), MapError> {
        self.is_over.set(0, 1, 0)?;
        let rings = programs::RING.map(|(name, _)| name);
        for name in ["sys_enter", "sys_exit", "sched_process_fork", "sched_process_exec"].into_iter().chain(rings) {
            self.unload(name);
        }
        Ok(())
    }

    fn unload(&mut self, name: &str) {
        if let Some(Ok(program)) = self.ebpf.program_mut(name).map(<&mut BtfTracePoint>::try_from) {
            // Fails only if it is not loaded.
            let _ = program.unload();
        }
    }

    /// How often the kernel skipped a program of ours because another run of it was under way on that CPU.
    pub fn missed(&self) -> u64 {
        self.ebpf.programs().filter_map(|(_, program)| program.fd().ok().map(|fd| recursion_misses(fd.as_fd().as_raw_fd()))).sum()
    }

    /// The object itself, for the programs' own diagnostics.
    pub fn ebpf_mut(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }
}

/// Loads the object, its maps as large as the settings say.
fn load<'a>(loader: &mut EbpfLoader<'a>, fields: &'a KernelFields, settings: &Settings<'_>) -> Result<Ebpf, EbpfUnavailable> {
    let limits = settings.limits;
    loader
        .override_global(maps::FIELDS, fields, true)
        .override_global(aya_log::LEVEL, if settings.verbose { &DEBUG_LEVEL } else { &SILENT_LEVEL }, true)
        .map_max_entries(maps::TASKS, limits.max_tasks)
        .map_max_entries(maps::ROWS, limits.max_rows)
        .map_max_entries(maps::FILE_ROWS, limits.max_rows)
        .map_max_entries(maps::PARTS, limits.max_rows)
        .map_max_entries(maps::MEMORIES, limits.max_tasks)
        .map_max_entries(maps::ERRNOS, limits.max_rows)
        .map_max_entries(maps::FILE_ERRNOS, limits.max_rows)
        .map_max_entries(maps::FILES, files_entries(limits.max_files))
        .map_max_entries(maps::EVENTS, events_bytes(limits.max_tasks))
        .load(OBJECT)
        .map_err(|error| if is_denied(&error) { EbpfUnavailable::NotPermitted } else { refused(error) })
}

/// `aya_log::Level::Debug`, and the level below all.
static DEBUG_LEVEL: u8 = aya_log::Level::Debug as u8;
static SILENT_LEVEL: u8 = 0;

/// Room for the events of as many tasks as may live at once (an exec's event is the largest), within reason, and as much again for
/// those of files.
fn events_bytes(max_tasks: u32) -> u32 {
    2 * max_tasks.saturating_mul(256).clamp(1 << 13, 1 << 23).next_power_of_two()
}

/// One more than files: what `anon_inode`s have in common has an entry, too.
const fn files_entries(max_files: u32) -> u32 {
    max_files.saturating_add(1)
}

/// Loads the programs, side by side since most of the time of a start is the verifier's, and attaches them in their order.
fn attach(ebpf: &mut Ebpf, kernel: &Kernel, selection: &Selection) -> Result<(), EbpfUnavailable> {
    let rings = if selection.contains_rings() { kernel.rings.as_slice() } else { &[] };
    let wanted = || programs::ALL.iter().chain(rings);
    thread::scope(|scope| {
        let loads = ebpf.programs_mut().map(|(name, program)| {
            let (_, tracepoint) = *wanted().find(|(known, _)| *known == name)?;
            Some(thread::Builder::new().spawn_scoped(scope, move || verify(program, tracepoint, &kernel.types)))
        });
        let loads: Vec<_> = loads.flatten().collect();
        loads.into_iter().try_for_each(|load| joined(load.map_err(refused)?)?)
    })?;
    for (name, _) in wanted() {
        program(ebpf, name)?.attach().map_err(program_refused)?;
    }
    Ok(())
}

/// Has the kernel verify a program.
fn verify(program: &mut Program, tracepoint: &str, types: &Btf) -> Result<(), EbpfUnavailable> {
    let program: &mut BtfTracePoint = program.try_into().map_err(refused)?;
    program.load(tracepoint, types).map_err(program_refused)
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint, EbpfUnavailable> {
    let program = ebpf.program_mut(name).ok_or_else(|| EbpfUnavailable::Refused(format!("the object has no program {name}")))?;
    program.try_into().map_err(refused)
}

/// What a thread came to.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> Result<T, EbpfUnavailable> {
    thread.join().map_err(|_| EbpfUnavailable::Refused("a thread that loads them panicked".into()))
}

fn take<T: TryFrom<Map, Error = MapError>>(ebpf: &mut Ebpf, name: &str) -> Result<T, EbpfUnavailable> {
    let map = ebpf.take_map(name).ok_or_else(|| EbpfUnavailable::Refused(format!("the object has no map {name}")))?;
    T::try_from(map).map_err(refused)
}

fn refused(error: impl std::error::Error + 'static) -> EbpfUnavailable {
    EbpfUnavailable::Refused(one_line(&error))
}

fn program_refused(error: ProgramError) -> EbpfUnavailable {
    if is_denied(&error) { EbpfUnavailable::NotPermitted } else { refused(error) }
}

/// The error with its causes, without the verifier's log.
fn one_line(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let parts: Vec<String> = chain.filter_map(|error| error.to_string().lines().next().map(str::to_owned)).collect();
    parts.join(": ")
}

/// Whether the cause at the bottom is that this is not allowed.
fn is_denied(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// From the kernel's own figures of a program (`/proc/self/fdinfo`).
fn recursion_misses(fd: i32) -> u64 {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    info.lines().find_map(|line| line.strip_prefix("recursion_misses:")?.trim().parse().ok()).unwrap_or(0)
}
