//! Stacks that strace unwound and printed (`strace -k`): finds out which of their functions are
//! true, and names them.
//!
//! strace names a place by the nearest symbol before it. In a stripped library that is another
//! function, so its names are not taken over: a file is only asked for names if strace's symbols
//! show that it is the one that was mapped.
//!
//! A step from a function to its caller is only taken for true if there is an unwind table for the
//! function. Without one, libunwind and libdw go on by frame pointers, and skip functions that have
//! none. libunwind does the same in files of lld, whose code does not begin at a page: it does not
//! find their tables (`dwarf_find_unwind_table` in libunwind `src/dwarf/Gfind_proc_info-lsb.c`,
//! 1.6).

use std::collections::BTreeMap;

use blazesym::symbolize::{
    Input, Symbolizer,
    source::{Elf, Source},
};
use zctrace_core::trace::{Stack, StackEnd};

use crate::{
    cfi::{Failure, Step, Unwinder},
    debug_files,
    elf::Module,
    file::{CodeFile, MappedFile, Unusable},
    spaces::{RawFrame, RawStack, UsedFile},
    symbols,
};

/// What strace unwinds with. It prints places in files in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracer {
    /// It prints how far a place is from the beginning of the file.
    Libunwind,
    /// It prints the address that the file states.
    Libdw,
}

/// A file with code.
#[derive(Debug, Clone)]
pub struct ListedFile {
    /// The file, as it was when it was first mentioned. `None`: it was not there.
    pub file: Option<CodeFile>,
    /// Its path.
    pub path: String,
    /// Whether it was seen to be the file that the traced process had mapped.
    pub is_known: bool,
}

/// A function of a stack, as strace prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListedFrame {
    /// The file: an index into the list of files.
    pub file: usize,
    /// The place in the file.
    pub place: u64,
    /// How far it is from the nearest symbol before it. `None`: there is no such symbol.
    pub from_symbol: Option<u64>,
}

/// A stack, as strace prints it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListedStack {
    /// The functions, from the one that made the call outwards.
    pub frames: Vec<ListedFrame>,
    /// What strace says about the end, if it does.
    pub message: Option<String>,
}

/// The stacks with the names of their functions. Without `tracer`, the symbols tell which it was.
pub fn name(stacks: &[ListedStack], files: &[ListedFile], tracer: Option<Tracer>) -> Vec<Stack> {
    let mut places: Vec<BTreeMap<u64, Option<u64>>> = vec![BTreeMap::new(); files.len()];
    for frame in stacks.iter().flat_map(|stack| &stack.frames) {
        places[frame.file].insert(frame.place, frame.from_symbol);
    }
    let mut known: Vec<Known> = files.iter().map(Known::read).collect();
    let tracer = tracer.or_else(|| recognised(&known, &places));
    for (known, places) in known.iter_mut().zip(&places) {
        known.check(places, tracer);
    }
    let raw: Vec<RawStack> = stacks
        .iter()
        .map(|stack| raw_stack(stack, &known, tracer))
        .collect();
    let mut named = symbols::name(&raw, known.iter().map(Known::used));
    named.iter_mut().for_each(end_at_main);
    named
}

/// What is known of a file.
struct Known {
    file: MappedFile,
    unwinder: Result<Unwinder, Unusable>,
    /// Whether it was seen to be the file that was mapped.
    was_seen: bool,
}

/// How the symbols that strace printed fit those of the file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fit {
    agreeing: usize,
    others: usize,
}

impl Known {
    fn read(listed: &ListedFile) -> Self {
        let gone = || CodeFile {
            path: listed.path.clone(),
            device: 0,
            inode: 0,
            filesystem: None,
        };
        // Nobody knows when it was mapped: its symbols tell whether it is the same.
        let version = listed
            .file
            .as_ref()
            .map_or(Err(Unusable::Gone), |file| file.version(None));
        let file = MappedFile {
            file: listed.file.clone().unwrap_or_else(gone),
            version,
        };
        let unwinder = Module::read(&file).map(Unwinder::new);
        Self {
            file,
            unwinder,
            was_seen: listed.is_known,
        }
    }

    fn build_id(&self) -> Option<&[u8]> {
        self.module()?.build_id.as_deref()
    }

    /// The file, as the search for names takes it.
    fn used(&self) -> UsedFile<'_> {
        UsedFile {
            file: &self.file,
            build_id: self.build_id(),
        }
    }

    fn module(&self) -> Option<&Module> {
        self.unwinder.as_ref().ok().map(Unwinder::module)
    }

    /// The address that the file states for a place.
    fn address(&self, place: u64, tracer: Option<Tracer>) -> Option<u64> {
        let by_offset = || self.module()?.address_at(place);
        match tracer {
            Some(Tracer::Libdw) => Some(place),
            Some(Tracer::Libunwind) => by_offset(),
            None => by_offset().filter(|address| *address == place),
        }
    }

    /// How the symbols fit if this tracer printed the places. If it is unknown, only places that
    /// all tracers print alike count.
    fn fit(&self, places: &BTreeMap<u64, Option<u64>>, tracer: Option<Tracer>) -> Fit {
        // The function that begins there, and one of its addresses.
        let begins = |(&place, from_symbol): (&u64, &Option<u64>)| {
            let (address, from_symbol) = (self.address(place, tracer)?, (*from_symbol)?);
            Some((
                address.checked_sub(from_symbol)?,
                looked_up(address, from_symbol),
            ))
        };
        let (starts, addresses): (Vec<u64>, Vec<u64>) = places.iter().filter_map(begins).unzip();
        let opened = self.file.open(self.build_id()).ok();
        let path = opened.as_ref().and_then(debug_files::path_of);
        let source = path.map(|path| {
            Source::Elf(Elf {
                debug_syms: false,
                ..Elf::new(path)
            })
        });
        // It remembers files by their paths, and those of open files are used again.
        let symbolizer = Symbolizer::builder().enable_auto_reload(false).build();
        let found = source.and_then(|source| {
            symbolizer
                .symbolize(&source, Input::VirtOffset(&addresses))
                .ok()
        });
        let found = found.unwrap_or_default();
        let found = found
            .iter()
            .map(|symbol| symbol.as_sym().map(|symbol| symbol.addr));
        let mut fit = Fit::default();
        for (start, found) in starts.iter().zip(found) {
            match found {
                Some(found) if found == *start => fit.agreeing += 1,
                Some(_) => fit.others += 1,
                // Behind the end of the nearest symbol.
                None => {}
            }
        }
        fit
    }

    /// Forgets the file if the symbols that strace printed do not show that it is the one that was
    /// mapped.
    fn check(&mut self, places: &BTreeMap<u64, Option<u64>>, tracer: Option<Tracer>) {
        if self.unwinder.is_err() {
            return;
        }
        let fit = self.fit(places, tracer);
        let is_same = if fit == Fit::default() {
            self.was_seen
        } else {
            fit.agreeing > fit.others
        };
        if !is_same {
            self.unwinder = Err(Unusable::Replaced);
            self.file.version = Err(Unusable::Replaced);
        }
    }
}

/// An address within the instruction that calls the next function, or that made the call.
fn looked_up(address: u64, from_symbol: u64) -> u64 {
    // At the first byte of a function no call has returned: a signal came there.
    if from_symbol == 0 {
        address
    } else {
        address.wrapping_sub(1)
    }
}

/// What printed these places, by the symbols of files where that makes a difference.
fn recognised(known: &[Known], places: &[BTreeMap<u64, Option<u64>>]) -> Option<Tracer> {
    let (mut libunwind, mut libdw) = (0, 0);
    for (known, places) in known.iter().zip(places) {
        let Some(module) = known.module() else {
            continue;
        };
        if places
            .keys()
            .any(|&place| module.address_at(place) != Some(place))
        {
            libunwind += known.fit(places, Some(Tracer::Libunwind)).agreeing;
            libdw += known.fit(places, Some(Tracer::Libdw)).agreeing;
        }
    }
    match libunwind.cmp(&libdw) {
        std::cmp::Ordering::Greater => Some(Tracer::Libunwind),
        std::cmp::Ordering::Less => Some(Tracer::Libdw),
        // It makes no difference for files whose addresses are offsets, and for the others it stays
        // unknown.
        std::cmp::Ordering::Equal => {
            (libunwind == 0 && same_either_way(known, places)).then_some(Tracer::Libunwind)
        }
    }
}

/// Whether all places are the same for either tracer.
fn same_either_way(known: &[Known], places: &[BTreeMap<u64, Option<u64>>]) -> bool {
    let mut all = known
        .iter()
        .zip(places)
        .filter_map(|(known, places)| Some((known.module()?, places)));
    all.all(|(module, places)| {
        places
            .keys()
            .all(|&place| module.address_at(place) == Some(place))
    })
}

/// The stack up to the first function from which a wrong step may have led on.
fn raw_stack(stack: &ListedStack, known: &[Known], tracer: Option<Tracer>) -> RawStack {
    let mut frames = Vec::new();
    for frame in &stack.frames {
        let known = &known[frame.file];
        let address = known.address(frame.place, tracer);
        let looked_up = address.map(|address| looked_up(address, frame.from_symbol.unwrap_or(1)));
        frames.push(RawFrame {
            file: Some(frame.file),
            address: looked_up.unwrap_or(frame.place),
            is_by_frame_pointer: false,
        });
        if let Err(end) = caller_is_known(known, looked_up, tracer) {
            return RawStack { frames, end };
        }
    }
    let end = match &stack.message {
        Some(message) => format!("strace says \"{message}\""),
        None => "strace found no further caller".to_owned(),
    };
    RawStack {
        frames,
        end: StackEnd::Other(end),
    }
}

/// Whether strace finds the caller of the function at this address by its unwind table. If not, or
/// if there is none, the stack ends.
fn caller_is_known(
    known: &Known,
    address: Option<u64>,
    tracer: Option<Tracer>,
) -> Result<(), StackEnd> {
    let path = || known.file.file.path.clone();
    let unwinder = known.unwinder.as_ref().map_err(|why| match why {
        Unusable::Gone => StackEnd::FileGone(path()),
        Unusable::Replaced => {
            StackEnd::Other(format!("{} may not be the file that was mapped", path()))
        }
    })?;
    let Some(address) = address else {
        return Err(StackEnd::Other(format!(
            "it is not known how strace printed the addresses of {}",
            path()
        )));
    };
    match unwinder.kind_of(address) {
        Ok(Step::Root) => return Err(StackEnd::Root),
        Err(Failure::NoTable) if unwinder.module().begins_at(address) => {
            return Err(StackEnd::Root);
        }
        Err(Failure::NoTable) => return Err(StackEnd::NoUnwindTable(path())),
        Err(Failure::BadTable) => return Err(StackEnd::BadUnwindTable(path())),
        Ok(Step::Caller { .. }) | Err(Failure::Unreadable(_)) => {}
    }
    if tracer != Some(Tracer::Libdw) && !unwinder.module().begins_at_pages() {
        let why = "libunwind, which this strace unwinds with, skips functions of programs that lld linked";
        return Err(StackEnd::Other(format!("{why}, such as {}", path())));
    }
    Ok(())
}

/// Nothing of the program calls `main`: what strace does not find there are only the first
/// functions of the C library.
fn end_at_main(stack: &mut Stack) {
    let is_start = |name: &str| matches!(name, "main" | "_start");
    let ends_there = stack
        .frames
        .last()
        .and_then(|frame| frame.function.as_deref())
        .is_some_and(is_start);
    if ends_there && stack.end == StackEnd::Other("strace found no further caller".to_owned()) {
        stack.end = StackEnd::Root;
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt as _};

    use object::{Object as _, ObjectSymbol as _};

    use super::*;

    /// This test's own program, as strace would mention it.
    fn own(is_known: bool) -> ListedFile {
        let path = std::env::current_exe()
            .expect("this test is a program")
            .to_str()
            .expect("a plain path")
            .to_owned();
        let metadata = fs::metadata(&path).expect("it is there");
        let file = CodeFile {
            path: path.clone(),
            device: metadata.dev(),
            inode: metadata.ino(),
            filesystem: None,
        };
        ListedFile {
            file: Some(file),
            path,
            is_known,
        }
    }

    /// The address of a function of this test, and its offset in the file.
    fn function(name: &str) -> (u64, u64) {
        let bytes = fs::read(own(true).path).expect("it is there");
        let elf = object::File::parse(&*bytes).expect("it is a program");
        let is_it = |symbol: &object::Symbol<'_, '_>| {
            symbol.name().is_ok_and(|found| found.contains(name)) && symbol.size() > 8
        };
        let found = elf.symbols().find(is_it).expect("there is such a function");
        let known = Known::read(&own(true));
        let module = known.module().expect("it is a program");
        let offset = (0..bytes.len() as u64)
            .find(|&offset| module.address_at(offset) == Some(found.address()));
        (found.address(), offset.expect("it has code"))
    }

    fn stack(frames: &[(u64, Option<u64>)]) -> ListedStack {
        let frame = |&(place, from_symbol): &(u64, Option<u64>)| ListedFrame {
            file: 0,
            place,
            from_symbol,
        };
        ListedStack {
            frames: frames.iter().map(frame).collect(),
            message: None,
        }
    }

    fn named(stack: ListedStack, file: ListedFile, tracer: Option<Tracer>) -> Stack {
        name(&[stack], &[file], tracer).remove(0)
    }

    const FUNCTION: &str = "a_place_in_a_file_is_named_by_the_file_itself";

    #[test]
    fn a_place_in_a_file_is_named_by_the_file_itself() {
        let (address, offset) = function(FUNCTION);
        for (place, tracer) in [(offset, Tracer::Libunwind), (address, Tracer::Libdw)] {
            let stack = named(stack(&[(place + 4, Some(4))]), own(false), Some(tracer));
            let innermost = stack.frames.last().expect("one frame");
            assert!(
                innermost
                    .function
                    .as_deref()
                    .is_some_and(|function| function.contains(FUNCTION)),
                "{stack:?}"
            );
            assert!(stack.end.why().is_some(), "it has no caller");
        }
    }

    #[test]
    fn a_file_whose_symbols_are_elsewhere_is_not_asked_for_names() {
        let (address, _) = function(FUNCTION);
        let other = named(
            stack(&[(address + 4, Some(3))]),
            own(true),
            Some(Tracer::Libdw),
        );
        assert_eq!(other.frames[0].function, None);
        assert!(
            other
                .end
                .why()
                .is_some_and(|why| why.ends_with("may not be the file that was mapped")),
            "{other:?}"
        );
        let nameless = |is_known| {
            named(
                stack(&[(address + 4, None)]),
                own(is_known),
                Some(Tracer::Libdw),
            )
        };
        assert!(
            nameless(true).frames[0].function.is_some(),
            "it was seen to be the same"
        );
        assert_eq!(nameless(false).frames[0].function, None);
    }

    #[test]
    fn a_file_that_is_gone_ends_a_stack() {
        let gone = ListedFile {
            file: None,
            path: "/no/such".to_owned(),
            is_known: false,
        };
        let stack = named(stack(&[(16, Some(4)), (32, Some(4))]), gone, None);
        assert_eq!(
            (stack.frames.len(), &stack.end),
            (1, &StackEnd::FileGone("/no/such".to_owned()))
        );
        assert_eq!(stack.frames[0].module.as_deref(), Some("/no/such"));
    }
}
