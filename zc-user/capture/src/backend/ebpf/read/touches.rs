//! [`TouchWatch`]: what the kernel side sees of the paths and addresses that calls touch.

use std::{collections::HashMap, io, mem::offset_of};

use aya::{
    Ebpf,
    maps::{Array, HashMap as KernelHashMap, MapData, RingBuf},
};
use zc_ebpf::{
    FileSeen, TABLE_SLOTS, Task, TouchCall, TouchCounts, TouchKey, TouchSpec, TouchState,
    is_restart, maps, touch_event, touch_kind, touch_part,
};
use zctrace_core::{
    durable::Doubt,
    errno,
    touched::{FirstTouch, TouchAction, TouchEnding, Touched, TouchingCall},
};
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::{
    call_messages::{CallMessages, ReadText, ending_of},
    events::{ListedCallers, read, text},
    table::Table as _,
    touch_parts::CallParts,
};
use crate::{
    backend::{
        RunError,
        ebpf::load::{
            call_specs::set_specs,
            loader::take_map,
            touch_specs::{touch_specs, unfollowed},
            unavailable::EbpfUnavailable,
        },
        file_calls::{FileCall, FileEvents, ShownFile},
    },
    syscalls::{self, Call, Spec},
};

/// Why the last calls may have touched more.
const NOT_RETURNED: &str = "a call on a path or an address had not returned when the trace ended";

/// The maps that the programs for `--paths` fill.
pub struct TouchMaps {
    events: RingBuf<MapData>,
    calls: KernelHashMap<MapData, TouchKey, TouchCounts>,
    state: Array<MapData, TouchState>,
}

impl TouchMaps {
    /// Takes them, and tells the programs which calls matter.
    pub fn take_from(ebpf: &mut Ebpf) -> Result<Self, EbpfUnavailable> {
        let mut specs = take_map(ebpf, maps::TOUCH_SPECS)?;
        set_specs(&mut specs, TouchSpec::default(), touch_specs())?;
        Ok(Self {
            events: take_map(ebpf, maps::TOUCH_EVENTS)?,
            calls: take_map(ebpf, maps::TOUCH_CALLS)?,
            state: take_map(ebpf, maps::TOUCH_STATE)?,
        })
    }
}

/// Reads the messages, and lists what was touched.
pub struct TouchWatch {
    /// The messages.
    pub messages: CallMessages,
    calls: KernelHashMap<MapData, TouchKey, TouchCounts>,
    state: Array<MapData, TouchState>,
    translation: Box<TouchTranslation>,
}

impl TouchWatch {
    /// Begins with nothing read. Call this in a tokio runtime.
    pub fn new(maps: TouchMaps) -> io::Result<Self> {
        Ok(Self {
            messages: CallMessages::new(maps.events)?,
            calls: maps.calls,
            state: maps.state,
            translation: Box::new(TouchTranslation::new()),
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
    }

    /// The list. Nothing runs any more that could send messages; these tasks are alive. `is_whole`: no
    /// task and no run of a program is missing. `callers` are those that were sampled.
    pub fn finish(
        self,
        alive: &[Task],
        is_whole: bool,
        callers: &ListedCallers,
    ) -> Result<Touched, RunError> {
        let mut translation = self.translation;
        self.calls
            .for_each(|key, counts| translation.count(&key, counts))?;
        for task in alive.iter().filter(|task| task.is_in_call()) {
            translation.cut_off(task.slot);
        }
        let state = self.state.get(&0, 0)?;
        let is_lossy = state.lost > 0 || translation.unreadable > 0 || !is_whole;
        let doubts: Vec<Doubt> = is_lossy.then_some(Doubt::Lost).into_iter().collect();
        let touched = translation.events.take_touched(&doubts, true);
        let mut touched = touched.unwrap_or_default();
        for touch in touched.paths.iter_mut().flat_map(|path| &mut path.touches) {
            let first = &mut touch.first;
            let since = first.at_ns.zip(translation.began_ns);
            let call = first.tid.zip(since.map(|(at, began)| began + at));
            let stack = call.and_then(|call| callers.get(&call));
            first.stack = stack.map(|stack| stack.0 as usize);
        }
        Ok(touched)
    }
}

/// Turns the messages into calls.
struct TouchTranslation {
    events: FileEvents,
    /// What belongs to the next call of each thread.
    parts: HashMap<u32, CallParts>,
    specs: HashMap<u32, TouchSpec>,
    /// What was touched by calls whose repetitions are counted.
    first: HashMap<TouchKey, TouchingEntry>,
    began_ns: Option<u64>,
    unreadable: u64,
}

/// A call whose repetitions are counted.
struct TouchingEntry {
    touched: Vec<(TouchAction, Box<str>)>,
    by: FirstTouch,
    has_time: bool,
}

impl TouchTranslation {
    fn new() -> Self {
        Self {
            events: FileEvents::new(true),
            parts: HashMap::new(),
            specs: touch_specs().collect(),
            first: HashMap::new(),
            began_ns: None,
            unreadable: 0,
        }
    }

    /// Adds a message. `None`: it cannot be read.
    fn add(&mut self, bytes: &[u8]) -> Option<()> {
        let field = |at: usize| read::<u32>(bytes.get(at..)?);
        match field(0)? {
            touch_event::FILE => {
                let tid = field(offset_of!(FileSeen, number))?;
                let part = field(offset_of!(FileSeen, open_flags))?;
                self.parts.entry(tid).or_default().keep_file(part, bytes)
            }
            touch_event::TEXT => {
                let given = ReadText::parse(bytes)?;
                self.parts.entry(given.tid).or_default().keep_text(given)
            }
            touch_event::CALL => self.end(&parse_call(bytes)?),
            _ => None,
        }
    }

    /// A call returned. `None`: it is left out, because a part of it is missing.
    fn end(&mut self, call: &TouchCall) -> Option<()> {
        let mut parts = self.parts.remove(&call.tid).unwrap_or_default();
        if !parts.has_all(call.parts) {
            return None;
        }
        parts.keep_only(call.parts);
        let spec = self.specs.get(&call.key.slot).copied().unwrap_or_default();
        let name = Call::from_slot(call.key.slot).name;
        if let Some(why) = unfollowed(&name, call.key.slot >= TABLE_SLOTS) {
            self.events.doubt_touches(why);
            return Some(());
        }
        let program = text(&call.comm);
        let at_ns = self
            .began_ns
            .and_then(|began| call.at_ns.checked_sub(began));
        let ns = Some(call.took_ns).filter(|ns| *ns != 0);
        let called = FileCall {
            task: call.pid as usize,
            tid: Some(call.tid),
            creator: None,
            program: &program,
            name: &name,
            args: &parts.arguments(&name, call, spec),
            seen: None,
            ending: ending_of(call.result),
            opened: parts.file(touch_part::OTHER_FILE),
            at_ns,
            duration_ns: ns,
        };
        let directory = parts.file(touch_part::DIRECTORY);
        let directory = directory.and_then(ShownFile::path_now_or_before);
        let open = parts.descriptor().zip(directory);
        let working = directory.filter(|_| open.is_none() && spec.directory == 0);
        self.events.begin_call(called, working, open);
        self.events.returned(called);
        let by = FirstTouch {
            program: Some(program.clone()).filter(|name| !name.is_empty()),
            tid: Some(call.tid),
            at_ns,
            stack: None,
        };
        if call.parts >> touch_part::COUNTED & 1 != 0 {
            let first = TouchingEntry {
                touched: self.events.last_touched(),
                by,
                has_time: ns.is_some(),
            };
            self.first.insert(call.key, first);
        }
        Some(())
    }

    /// Adds calls that had no message.
    fn count(&mut self, key: &TouchKey, counts: &TouchCounts) {
        if counts.calls == 0 {
            return;
        }
        let Some(first) = self.first.get(key) else {
            self.unreadable += 1;
            return;
        };
        let call = Call::from_slot(key.slot).name;
        let moves = Spec::named(&call).returned == syscalls::Returned::Bytes;
        let errno = errno::name(key.errno);
        let ending = match key.errno {
            0 => TouchEnding::Done(if moves { counts.results } else { 0 }),
            number if is_restart(number) => TouchEnding::Unfinished,
            _ => TouchEnding::Failed(&errno),
        };
        for (index, (action, path)) in first.touched.iter().enumerate() {
            let mut before = first.touched[..index].iter();
            self.events.touched_again(TouchingCall {
                calls: counts.calls,
                is_counted_elsewhere: before.any(|(_, known)| known == path),
                action: *action,
                path,
                call: &call,
                ending,
                ns: Some(counts.ns).filter(|_| first.has_time),
                by: first.by.clone(),
            });
        }
    }

    /// A call in this slot had not returned.
    fn cut_off(&mut self, slot: u32) {
        let kind = self
            .specs
            .get(&slot)
            .map_or(touch_kind::NONE, |spec| spec.kind);
        let waits = matches!(
            kind,
            touch_kind::NONE | touch_kind::FILES | touch_kind::ACCEPT | touch_kind::NOTED
        );
        if !waits {
            self.events.doubt_touches(NOT_RETURNED);
        }
    }
}

/// A call. `None`: its message is too short.
fn parse_call(bytes: &[u8]) -> Option<TouchCall> {
    let mut call = TouchCall::new_zeroed();
    // Only the bytes that the address has were sent.
    let length = bytes.len().min(size_of::<TouchCall>());
    call.as_mut_bytes()[..length].copy_from_slice(&bytes[..length]);
    (length >= offset_of!(TouchCall, address)).then_some(call)
}

#[cfg(test)]
mod tests {
    use zc_ebpf::{Arguments, spec_slot};

    use super::*;
    use crate::syscalls::Abi;

    fn slot(name: &str) -> u32 {
        let mut numbers = 0..TABLE_SLOTS;
        let number = numbers.find(|&number| Abi::NATIVE.call_name(number) == Some(name));
        spec_slot(number.expect("a call of every architecture"), false)
    }

    fn text(path: &str) -> Vec<u8> {
        let length = u32::try_from(path.len()).expect("is short");
        let numbers = [touch_event::TEXT, 7, touch_part::PATH, length];
        [numbers.as_bytes(), path.as_bytes()].concat()
    }

    /// An `openat` of thread 7 for reading, which fails with this errno and has these parts.
    fn open(parts: u32, errno: u32) -> TouchCall {
        let key = TouchKey {
            hash: [1, 2],
            slot: slot("openat"),
            errno,
        };
        TouchCall {
            kind: touch_event::CALL,
            tid: 7,
            parts,
            key,
            result: -i64::from(errno),
            arguments: Arguments::default(),
            ..TouchCall::new_zeroed()
        }
    }

    #[test]
    fn a_call_without_its_path_makes_the_list_incomplete() {
        let mut translation = TouchTranslation::new();
        let call = open(1 << touch_part::PATH, 2);
        assert_eq!(translation.add(call.as_bytes()), None);
        assert_eq!(translation.add(&text("/x")[..17]), None);
        assert_eq!(translation.add(&text("/x")), Some(()));
        assert_eq!(translation.add(call.as_bytes()), Some(()));
        let touched = translation.events.take_touched(&[], false);
        let paths = touched.expect("it was asked for").paths;
        assert_eq!(paths[0].path, "/x");
    }

    #[test]
    fn further_calls_touch_what_the_first_one_touched() {
        let mut translation = TouchTranslation::new();
        let call = open(1 << touch_part::PATH | 1 << touch_part::COUNTED, 2);
        let counts = TouchCounts {
            calls: 4,
            ..TouchCounts::default()
        };
        translation.count(&call.key, &counts);
        assert_eq!(translation.unreadable, 1, "nothing is known of the first");
        translation.add(&text("/x"));
        translation.add(call.as_bytes());
        translation.count(&call.key, &counts);
        let touched = translation.events.take_touched(&[], false);
        let paths = touched.expect("it was asked for").paths;
        let touch = &paths[0].touches[0];
        assert_eq!((touch.calls, touch.errors["ENOENT"]), (5, 5));
    }
}
