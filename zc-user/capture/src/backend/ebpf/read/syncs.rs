//! [`SyncWatch`]: what the kernel side sees of changes and syncs of files. Each call becomes what strace
//! would print, and goes to the same judge.

use std::{collections::HashMap, io};

use aya::{
    Ebpf,
    maps::{Array, HashMap as KernelHashMap, MapData, RingBuf},
};
use tokio::io::unix::AsyncFd;
use zc_ebpf::{
    FileKey, SPEC_SLOTS, SyncCall, SyncCounts, SyncFile, SyncSpec, SyncState, SyncTask, SyncText,
    errno_of, maps, sync_class, sync_event, sync_kind,
};
use zctrace_core::durable::{Doubt, Syncs};

use super::{
    events::{parse_file, read, text},
    table::Table as _,
};
use crate::{
    async_fd::watch_readable,
    backend::{
        RunError,
        ebpf::load::{
            loader::take,
            sync_specs::sync_specs,
            unavailable::{EbpfUnavailable, refused},
        },
        strace::syncs::{
            Called, CountedWrites, Ending, FileEvents, NamedFile, Outcome, SeenFiles, is_of_kernel,
            written,
        },
    },
    syscalls::Call,
    trace::{DELETED_SUFFIX, File, FileKind},
};

/// The maps that the programs for `--syncs` fill.
pub struct SyncMaps {
    events: RingBuf<MapData>,
    specs: SyncSpecs,
    files: KernelHashMap<MapData, FileKey, SyncFile>,
    tasks: KernelHashMap<MapData, u64, SyncTask>,
    state: Array<MapData, SyncState>,
}

impl SyncMaps {
    /// Takes them, and tells the programs which calls matter.
    pub fn take(ebpf: &mut Ebpf) -> Result<Self, EbpfUnavailable> {
        let mut specs = SyncSpecs {
            map: take(ebpf, maps::SYNC_SPECS)?,
            has_aliases: false,
        };
        specs.set(false)?;
        Ok(Self {
            specs,
            events: take(ebpf, maps::SYNC_EVENTS)?,
            files: take(ebpf, maps::SYNC_FILES)?,
            tasks: take(ebpf, maps::SYNC_TASKS)?,
            state: take(ebpf, maps::SYNC_STATE)?,
        })
    }
}

/// What is done with each call, by slot.
type SpecsBySlot = [SyncSpec; SPEC_SLOTS as usize];

/// The map of what is done with each call.
struct SyncSpecs {
    map: Array<MapData, SpecsBySlot>,
    has_aliases: bool,
}

impl SyncSpecs {
    /// Tells the programs which calls matter. `has_aliases`: one file may have several handles.
    fn set(&mut self, has_aliases: bool) -> Result<(), EbpfUnavailable> {
        let mut all = vec![SyncSpec::default(); SPEC_SLOTS as usize];
        for (slot, mut spec) in sync_specs() {
            if spec.kind == sync_kind::SYNC {
                spec.flags = has_aliases.into();
            }
            all[slot as usize] = spec;
        }
        self.has_aliases = has_aliases;
        let all: &SpecsBySlot = all.as_slice().try_into().map_err(|error| refused(&error))?;
        self.map.set(0, all, 0).map_err(|error| refused(&error))
    }
}

/// Reads the messages, and has them judged.
pub struct SyncWatch {
    events: AsyncFd<RingBuf<MapData>>,
    files: KernelHashMap<MapData, FileKey, SyncFile>,
    tasks: KernelHashMap<MapData, u64, SyncTask>,
    state: Array<MapData, SyncState>,
    specs: SyncSpecs,
    translation: Translation,
}

impl SyncWatch {
    /// Begins with nothing read. Call this in a tokio runtime.
    pub fn new(maps: SyncMaps) -> io::Result<Self> {
        Ok(Self {
            events: watch_readable(maps.events)?,
            files: maps.files,
            tasks: maps.tasks,
            state: maps.state,
            specs: maps.specs,
            translation: Translation::default(),
        })
    }

    /// The command begins in this directory.
    pub fn begin_in(&mut self, directory: &str) {
        self.translation.events.begin_in(directory);
    }

    /// Waits until there are many messages.
    pub async fn more(&mut self) -> io::Result<()> {
        self.events.readable_mut().await?.clear_ready();
        Ok(())
    }

    /// Reads the messages that are there. The run began at `began_ns` (`CLOCK_MONOTONIC`), if that is
    /// known.
    pub fn drain(&mut self, began_ns: Option<u64>) {
        self.translation.began_ns = began_ns;
        while let Some(bytes) = self.events.get_mut().next() {
            self.translation.add(&bytes);
        }
        let has_aliases = self.translation.events.has_aliases();
        if has_aliases && !self.specs.has_aliases && self.specs.set(true).is_err() {
            self.translation.unreadable += 1;
        }
    }

    /// The verdicts. Call this when nothing runs that could send messages. `is_whole`: no task and no
    /// run of a program is missing.
    pub fn finish(
        self,
        wall_ns: Option<u64>,
        is_success: bool,
        is_whole: bool,
    ) -> Result<Syncs, RunError> {
        let mut cut = Vec::new();
        self.tasks.for_each(|_, task| {
            if task.is_under_way != 0 {
                cut.push(task.call);
            }
        })?;
        let mut counts = Vec::new();
        self.files.for_each(|_, file| counts.push(file.counts))?;
        counts.sort_by_key(|counts| counts.last_ns);
        let mut translation = self.translation;
        for counts in &counts {
            translation.count(counts);
        }
        cut.sort_by_key(|call| call.tid);
        for call in &cut {
            translation.cut_off(call);
        }
        let state = self.state.get(&0, 0)?;
        let is_lossy = state.lost > 0 || translation.unreadable > 0 || !is_whole;
        let doubts = is_lossy.then_some(Doubt::Lost);
        translation.events.note_time(wall_ns);
        translation.events.look_up_links();
        Ok(translation
            .events
            .finish(is_success, doubts.into_iter().collect()))
    }
}

/// Turns the messages into calls as strace would print them.
#[derive(Default)]
struct Translation {
    events: FileEvents,
    /// The texts of the next call of each thread.
    texts: HashMap<u32, [Option<Vec<u8>>; 2]>,
    specs: HashMap<u32, SyncSpec>,
    began_ns: Option<u64>,
    unreadable: u64,
}

impl Translation {
    fn add(&mut self, bytes: &[u8]) {
        if self.add_known(bytes).is_none() {
            self.unreadable += 1;
        }
    }

    fn add_known(&mut self, bytes: &[u8]) -> Option<()> {
        match u32::from_ne_bytes(*bytes.first_chunk()?) {
            sync_event::FILE => {
                let (handle, file) = parse_file(bytes)?;
                let class = class_of(bytes)?;
                let is_opened = class & sync_class::OPENED != 0;
                if let Some(path) = path_of_stream(&file, class) {
                    self.events.introduce_stream(handle, path);
                }
                let named = name_of(&file, class & !sync_class::OPENED);
                self.events.introduce(handle, named, is_opened);
            }
            sync_event::TEXT => self.keep_text(bytes)?,
            sync_event::ENTERED => self.enter(&read(bytes)?),
            sync_event::RETURNED => self.end(&read(bytes)?),
            sync_event::COUNTS => self.count(&read(bytes)?),
            _ => return None,
        }
        Some(())
    }

    fn keep_text(&mut self, bytes: &[u8]) -> Option<()> {
        let (head, text) = bytes.split_at_checked(std::mem::offset_of!(SyncText, bytes))?;
        let field = |index: usize| {
            let bytes = head.get(4 * index..)?.first_chunk()?;
            Some(u32::from_ne_bytes(*bytes))
        };
        let (tid, index, length) = (field(1)?, field(2)?, field(3)?);
        let text = text.get(..usize::try_from(length).ok()?)?.to_vec();
        let place = self.texts.entry(tid).or_default();
        *place.get_mut(usize::try_from(index).ok()?)? = Some(text);
        Some(())
    }

    fn at_ns(&self, at_ns: u64) -> Option<u64> {
        at_ns.checked_sub(self.began_ns?)
    }

    fn enter(&mut self, call: &SyncCall) {
        self.with_call(call, call.entered_ns, FileEvents::entered);
    }

    fn end(&mut self, call: &SyncCall) {
        let errno = errno_of(call.result);
        let ending = if errno == 0 {
            Ending::Value(call.result)
        } else {
            Ending::Error(Some(errno))
        };
        let took = call.at_ns.saturating_sub(call.entered_ns);
        let ns = Some(took).filter(|_| call.entered_ns != 0);
        self.returned(call, ending, ns);
    }

    /// The call did not return.
    fn cut_off(&mut self, call: &SyncCall) {
        self.returned(call, Ending::UnderWay, None);
    }

    fn returned(&mut self, call: &SyncCall, ending: Ending, ns: Option<u64>) {
        let outcome = Outcome {
            ending,
            descriptor: b"",
            duration_ns: ns,
        };
        self.with_call(call, call.at_ns, |events, called| {
            events.returned(called, outcome);
        });
        self.texts.remove(&call.tid);
    }

    fn with_call(
        &mut self,
        call: &SyncCall,
        at_ns: u64,
        tell: impl FnOnce(&mut FileEvents, Called<'_>),
    ) {
        let name = Call::from_slot(call.slot).name;
        if self.specs.is_empty() {
            self.specs.extend(sync_specs());
        }
        let spec = self.specs.get(&call.slot).copied().unwrap_or_default();
        let args = arguments(&name, call, spec, self.texts.get(&call.tid));
        let program = text(&call.comm);
        let seen = SeenFiles {
            spec,
            files: call.files,
            is_synced: call.is_synced != 0,
            is_written: call.is_written != 0,
        };
        let called = Called {
            // The threads of a process share what it has open.
            task: call.pid as usize,
            tid: Some(call.tid),
            creator: None,
            program: &program,
            name: &name,
            args: &args,
            seen: Some(&seen),
            at_ns: self.at_ns(at_ns),
        };
        tell(&mut self.events, called);
    }

    fn count(&mut self, counts: &SyncCounts) {
        if counts.calls == 0 && counts.synced_calls == 0 {
            return;
        }
        let last = Call::from_slot(counts.last_slot).name;
        let writes = CountedWrites {
            program: &text(&counts.last_comm),
            last: written(&last).map(|(_, name)| name),
            at_ns: self.at_ns(counts.last_ns),
            cached: [counts.calls, counts.bytes],
            synced: [counts.synced_calls, counts.synced_bytes],
        };
        self.events.counted(counts.handle, writes);
    }
}

/// The class of a file, which its message has in place of its flags.
fn class_of(bytes: &[u8]) -> Option<u32> {
    let at = std::mem::offset_of!(zc_ebpf::FileSeen, open_flags);
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The path of a stream that the command was given, if that is a file.
fn path_of_stream(file: &File, class: u32) -> Option<&str> {
    let streams = [sync_class::STDOUT, sync_class::STDERR];
    let is_stream = streams.contains(&(class & !sync_class::OPENED));
    let path = file.path.as_deref().filter(|_| is_stream)?;
    let is_file = path.starts_with('/') && !is_of_kernel(path) && !path.ends_with(DELETED_SUFFIX);
    is_file.then_some(path)
}

/// What a file is for the judge.
fn name_of(file: &File, class: u32) -> NamedFile {
    use FileKind::{Netlink, Pipe, Socket, Tcp, Udp, UnixDatagram, UnixSeqpacket, UnixStream};
    let path = file.path.as_deref().filter(|path| path.starts_with('/'));
    match (class, file.kind) {
        (sync_class::STDOUT, _) => NamedFile::Others("stdout"),
        (sync_class::OTHERS, Some(Pipe)) => NamedFile::Others("pipe"),
        (sync_class::OTHERS, Some(Tcp)) => NamedFile::Others("tcp"),
        (sync_class::OTHERS, Some(Udp)) => NamedFile::Others("udp"),
        (sync_class::OTHERS, Some(UnixStream | UnixDatagram | UnixSeqpacket)) => {
            NamedFile::Others("unix")
        }
        (sync_class::OTHERS, Some(Socket | Netlink)) => NamedFile::Others("socket"),
        (sync_class::OTHERS, _) if path.is_some_and(|path| path.starts_with("/dev/pts/")) => {
            NamedFile::Others("terminal")
        }
        (sync_class::FILE, _) => path.map_or(NamedFile::Nothing, |path| {
            NamedFile::at(path.to_owned(), path.ends_with(DELETED_SUFFIX))
        }),
        _ => NamedFile::Nothing,
    }
}

/// The arguments of a call as strace prints them with numbers for all flags.
fn arguments(
    name: &str,
    call: &SyncCall,
    spec: SyncSpec,
    texts: Option<&[Option<Vec<u8>>; 2]>,
) -> Vec<u8> {
    // Other registers have arbitrary values. These calls have variants with flags.
    let count = match name {
        "unlink" | "rmdir" => 1,
        "rename" => 2,
        "renameat" => 4,
        _ => 6_u8,
    };
    let [first, second] = texts.map_or([None, None], |texts| texts.each_ref().map(Option::as_ref));
    let mut words: Vec<Vec<u8>> = Vec::new();
    for (number, value) in (1..=count).zip(call.arguments.values) {
        // Descriptors and flags are 32-bit numbers.
        let low = value & u64::from(u32::MAX);
        let word = match number {
            _ if number == spec.path => quoted(first),
            _ if number == spec.second => quoted(second),
            _ if [spec.file, spec.directory, spec.second_directory].contains(&number) => {
                format!("{low}").into_bytes()
            }
            // Its position has two registers.
            5 if spec.kind == sync_kind::WRITE && spec.flags == 6 => continue,
            2 if spec.kind == sync_kind::SETUP => format!("{{flags={value:#x}}}").into_bytes(),
            3 if spec.kind == sync_kind::OPEN_HOW => format!("{{flags={value:#x}}}").into_bytes(),
            2 if spec.kind == sync_kind::COMMAND => format!("{low:#x}").into_bytes(),
            _ => format!("{value:#x}").into_bytes(),
        };
        words.push(word);
    }
    words.join(&b", "[..])
}

/// A text in quotation marks, escaped; `NULL` if there is none.
fn quoted(text: Option<&Vec<u8>>) -> Vec<u8> {
    let Some(text) = text else {
        return b"NULL".to_vec();
    };
    let mut quoted = vec![b'"'];
    for &byte in text {
        match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f.. => quoted.extend(format!("\\x{byte:02x}").bytes()),
            _ => quoted.push(byte),
        }
    }
    quoted.push(b'"');
    quoted
}
