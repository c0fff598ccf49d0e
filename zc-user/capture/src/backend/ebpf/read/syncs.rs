//! [`SyncWatch`]: what the kernel side sees of changes and syncs of files.

use std::{collections::HashMap, io};

use aya::{
    Ebpf,
    maps::{Array, HashMap as KernelHashMap, MapData, RingBuf},
};
use zc_ebpf::{
    FileKey, SyncCall, SyncCounts, SyncFile, SyncSpec, SyncState, SyncTask, maps, sync_class,
    sync_event, sync_file, sync_kind,
};
use zctrace_core::durable::{Doubt, Syncs};

use super::{
    call_messages::{CallMessages, ReadText, ending_of, given_text, outside_kind},
    events::{parse_file, read, text},
    table::Table as _,
};
use crate::{
    backend::{
        RunError,
        ebpf::load::{
            call_specs::{SpecsBySlot, set_specs},
            loader::take_map,
            sync_specs::sync_specs,
            unavailable::EbpfUnavailable,
        },
        file_calls::{
            CountedWrites, Ending, FileCall, FileEvents, GivenArgument, NamedFile, SeenFiles,
            ShownFile, is_of_kernel, written,
        },
    },
    syscalls::Call,
    trace::{DELETED_SUFFIX, File},
};

/// The maps that the programs for `--syncs` fill.
pub struct SyncMaps {
    events: RingBuf<MapData>,
    tables: SyncTables,
}

/// The maps other than the one with messages.
struct SyncTables {
    specs: SyncSpecs,
    files: KernelHashMap<MapData, FileKey, SyncFile>,
    tasks: KernelHashMap<MapData, u64, SyncTask>,
    state: Array<MapData, SyncState>,
}

impl SyncMaps {
    /// Takes them, and tells the programs which calls matter.
    pub fn take_from(ebpf: &mut Ebpf) -> Result<Self, EbpfUnavailable> {
        let mut specs = SyncSpecs {
            map: take_map(ebpf, maps::SYNC_SPECS)?,
            has_aliases: false,
        };
        specs.set(false)?;
        Ok(Self {
            events: take_map(ebpf, maps::SYNC_EVENTS)?,
            tables: SyncTables {
                specs,
                files: take_map(ebpf, maps::SYNC_FILES)?,
                tasks: take_map(ebpf, maps::SYNC_TASKS)?,
                state: take_map(ebpf, maps::SYNC_STATE)?,
            },
        })
    }
}

/// The map of what is done with each call.
struct SyncSpecs {
    map: Array<MapData, SpecsBySlot<SyncSpec>>,
    has_aliases: bool,
}

impl SyncSpecs {
    /// Tells the programs which calls matter. `has_aliases`: one file may have several handles.
    fn set(&mut self, has_aliases: bool) -> Result<(), EbpfUnavailable> {
        self.has_aliases = has_aliases;
        let specs = sync_specs().map(|(slot, mut spec)| {
            if spec.kind == sync_kind::SYNC {
                spec.flags = has_aliases.into();
            }
            (slot, spec)
        });
        set_specs(&mut self.map, SyncSpec::default(), specs)
    }
}

/// Reads the messages, and has them judged.
pub struct SyncWatch {
    /// The messages.
    pub messages: CallMessages,
    tables: SyncTables,
    translation: Translation,
}

impl SyncWatch {
    /// Begins with nothing read. Call this in a tokio runtime.
    pub fn new(maps: SyncMaps) -> io::Result<Self> {
        Ok(Self {
            messages: CallMessages::new(maps.events)?,
            tables: maps.tables,
            translation: Translation {
                specs: sync_specs().collect(),
                ..Translation::default()
            },
        })
    }

    /// The command begins in this directory.
    pub fn begin_in(&mut self, directory: &str) {
        self.translation.events.begin_in(directory);
    }

    /// Reads the messages that are there. The run began at `began_ns` (`CLOCK_MONOTONIC`), if that is
    /// known.
    pub fn drain(&mut self, began_ns: Option<u64>) {
        let translation = &mut self.translation;
        translation.began_ns = began_ns;
        translation.unreadable += self.messages.drain(|bytes| translation.add(bytes));
        let (has_aliases, specs) = (translation.events.has_aliases(), &mut self.tables.specs);
        if has_aliases && !specs.has_aliases && specs.set(true).is_err() {
            translation.unreadable += 1;
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
        self.tables.tasks.for_each(|_, task| {
            if task.is_under_way != 0 {
                cut.push(task.call);
            }
        })?;
        let mut counts = Vec::new();
        let files = &self.tables.files;
        files.for_each(|_, file| counts.push(file.counts))?;
        counts.sort_by_key(|counts| counts.last_ns);
        let mut translation = self.translation;
        for counts in &counts {
            translation.count(counts);
        }
        cut.sort_by_key(|call| call.tid);
        for call in &cut {
            translation.returned(call, None);
        }
        let state = self.tables.state.get(&0, 0)?;
        let is_lossy = state.lost > 0 || translation.unreadable > 0 || !is_whole;
        let doubts = is_lossy.then_some(Doubt::Lost);
        translation.events.note_time(wall_ns);
        translation.events.look_up_files();
        Ok(translation
            .events
            .finish(is_success, doubts.into_iter().collect()))
    }
}

/// Turns the messages into calls.
#[derive(Default)]
struct Translation {
    events: FileEvents,
    /// The texts of the next call of each thread.
    texts: HashMap<u32, [Option<String>; 2]>,
    specs: HashMap<u32, SyncSpec>,
    began_ns: Option<u64>,
    unreadable: u64,
}

impl Translation {
    /// Adds a message. `None`: it cannot be read.
    fn add(&mut self, bytes: &[u8]) -> Option<()> {
        match read::<u32>(bytes)? {
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
            sync_event::TEXT => {
                let given = ReadText::parse(bytes)?;
                let place = self.texts.entry(given.tid).or_default();
                *place.get_mut(given.index)? = Some(given.text);
            }
            sync_event::ENTERED => {
                let call: SyncCall = read(bytes)?;
                self.with_call(&call, call.entered_ns, None, FileEvents::entered);
            }
            sync_event::RETURNED => {
                let call: SyncCall = read(bytes)?;
                self.returned(&call, Some(ending_of(call.result)));
            }
            sync_event::COUNTS => self.count(&read(bytes)?),
            _ => return None,
        }
        Some(())
    }

    fn at_ns(&self, at_ns: u64) -> Option<u64> {
        at_ns.checked_sub(self.began_ns?)
    }

    /// A call ended. `None`: it did not return.
    fn returned(&mut self, call: &SyncCall, ending: Option<Ending>) {
        self.with_call(call, call.at_ns, ending, FileEvents::returned);
        self.texts.remove(&call.tid);
    }

    fn with_call(
        &mut self,
        call: &SyncCall,
        at_ns: u64,
        ending: Option<Ending>,
        tell: impl FnOnce(&mut FileEvents, FileCall<'_>),
    ) {
        let took = call.at_ns.saturating_sub(call.entered_ns);
        let spec = self.specs.get(&call.slot).copied().unwrap_or_default();
        let called = FileCall {
            // The threads of a process share what it has open.
            task: call.pid as usize,
            tid: Some(call.tid),
            creator: None,
            program: &text(&call.comm),
            name: &Call::from_slot(call.slot).name,
            args: &arguments(call, spec, self.texts.get(&call.tid)),
            seen: Some(&SeenFiles {
                about: call.files[sync_file::ABOUT],
                working_directory: call.files[sync_file::WORKING],
                opened: call.files[sync_file::OPENED],
                is_synced: call.is_synced != 0,
                is_created: call.is_created != 0,
                is_written: call.is_written != 0,
            }),
            ending: ending.unwrap_or(Ending::UnderWay),
            opened: None,
            at_ns: self.at_ns(at_ns),
            duration_ns: ending.and((call.entered_ns != 0).then_some(took)),
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
        self.events.add_counted_writes(counts.handle, writes);
    }
}

/// The class of a file, which its message has in place of its flags.
fn class_of(bytes: &[u8]) -> Option<u32> {
    let at = std::mem::offset_of!(zc_ebpf::FileSeen, open_flags);
    read(bytes.get(at..)?)
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
    let path = file.path.as_deref().filter(|path| path.starts_with('/'));
    let is_terminal = path.is_some_and(|path| path.starts_with("/dev/pts/"));
    match class {
        sync_class::STDOUT => NamedFile::Others("stdout"),
        sync_class::OTHERS if is_terminal => NamedFile::Others("terminal"),
        sync_class::OTHERS => ShownFile::Outside(outside_kind(file.kind)).as_judged(),
        sync_class::FILE => path.map_or(NamedFile::Nothing, |path| {
            NamedFile::at_path(path.to_owned(), path.ends_with(DELETED_SUFFIX))
        }),
        _ => NamedFile::Nothing,
    }
}

/// The arguments of a call.
fn arguments(
    call: &SyncCall,
    spec: SyncSpec,
    texts: Option<&[Option<String>; 2]>,
) -> [GivenArgument; 6] {
    let [first, second] = texts.map_or([None, None], |texts| texts.each_ref().map(Option::as_ref));
    let mut values = call.arguments.values;
    // The position of `pwritev2` has two registers.
    if spec.kind == sync_kind::WRITE && spec.flags == 6 {
        values[4] = values[5];
    }
    // A command is a 32-bit number.
    if spec.kind == sync_kind::COMMAND {
        values[1] &= u64::from(u32::MAX);
    }
    let mut numbered = (1..).zip(values);
    std::array::from_fn(|_| match numbered.next() {
        Some((number, _)) if number == spec.path => given_text(first),
        Some((number, _)) if number == spec.second => given_text(second),
        Some((number, _)) if number == spec.file => {
            GivenArgument::Handle(call.files[sync_file::ABOUT])
        }
        Some((number, _)) if number == spec.directory => {
            GivenArgument::Handle(call.files[sync_file::DIRECTORY])
        }
        Some((number, _)) if number == spec.second_directory => {
            GivenArgument::Handle(call.files[sync_file::SECOND_DIRECTORY])
        }
        Some((_, value)) => GivenArgument::Number(value),
        None => GivenArgument::Unknown,
    })
}
