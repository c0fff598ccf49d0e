//! The names that strace prints: what this backend knows of a call by its name, found without an
//! allocation per line, and the numbers of errnos and signals.

use std::{borrow::Cow, collections::HashMap, sync::LazyLock};

use zc_ebpf::{FIRST_BEYOND, TABLE_SLOTS};

use super::syntax::unsigned;
use crate::{
    errno, signal,
    syscalls::{Abi, BEYOND, Call, FICLONE, FICLONERANGE, Selection, Spec},
};

/// How many names that are in no table are counted. A log may come from a newer kernel, but garbage
/// must not fill the memory.
const MAX_FOREIGN: usize = 256;

/// What is known of a call.
#[derive(Debug)]
pub struct KnownCall {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What its arguments and its result mean, and what it does.
    pub spec: Spec,
    /// Whether it is counted.
    pub is_selected: bool,
    /// Whether only tables of 32-bit programs have a call of this name. A log may have been
    /// recorded on another architecture, so the tables of all architectures count.
    pub is_only_32_bit: bool,
}

/// Index of a call in [`CallNames`].
pub type NameId = u16;

/// All calls, by name.
#[derive(Debug)]
pub struct CallNames {
    by_name: HashMap<Vec<u8>, NameId, foldhash::fast::RandomState>,
    known: Vec<KnownCall>,
    native: usize,
    /// Which calls are counted.
    pub selection: Selection,
}

impl CallNames {
    /// The calls of the tables of all architectures: a log may be from another machine.
    pub fn new(selection: &Selection) -> Self {
        let mut names = Self {
            by_name: HashMap::default(),
            known: Vec::new(),
            native: 0,
            selection: selection.clone(),
        };
        for table in Abi::ALL {
            let is_32_bit = matches!(table, Abi::I386 | Abi::Arm);
            for name in (0..TABLE_SLOTS).filter_map(|number| table.call_name(number)) {
                names.add_from_table(name, is_32_bit);
            }
        }
        for variant in [FICLONE, FICLONERANGE, BEYOND] {
            names.add(variant.into(), false);
        }
        names.native = names.known.len();
        names
    }

    fn add_from_table(&mut self, name: &'static str, is_32_bit: bool) {
        match self.by_name.get(name.as_bytes()) {
            None => drop(self.add(name.into(), is_32_bit)),
            Some(&id) => self.known[usize::from(id)].is_only_32_bit &= is_32_bit,
        }
    }

    fn add(&mut self, name: Cow<'static, str>, is_only_32_bit: bool) -> NameId {
        let id = NameId::try_from(self.known.len()).unwrap_or(NameId::MAX);
        self.by_name.insert(name.as_bytes().to_vec(), id);
        self.known.push(KnownCall {
            spec: Spec::named(&name),
            is_selected: self.selection.contains(&name),
            is_only_32_bit,
            name,
        });
        id
    }

    /// The call of this name. A name that no table has may be that of a newer kernel, if strace
    /// certainly printed it.
    pub fn find(&mut self, name: &[u8], is_of_strace: bool) -> Option<NameId> {
        if let Some(id) = self.known_id(name) {
            return Some(id);
        }
        if let Some(call) = number_of_nameless(name).and_then(call_of_number) {
            return self.known_id(call.name.as_bytes());
        }
        let has_room = self.known.len() < self.native + MAX_FOREIGN;
        let may_be_new = is_of_strace || is_nameless(name);
        (has_room && may_be_new && name.len() <= 64)
            .then(|| self.add(String::from_utf8_lossy(name).into_owned().into(), false))
    }

    /// The call of this name, if a table has one, or it was found before.
    pub fn known_id(&self, name: &[u8]) -> Option<NameId> {
        self.by_name.get(name).copied()
    }

    /// What is known of the call.
    pub fn get(&self, id: NameId) -> &KnownCall {
        &self.known[usize::from(id)]
    }
}

/// The call of a number that strace had no name for: if the table here has one, or if no table can
/// have such a number. From 424 on (Linux 5.1) a number means the same call in every table of the
/// kernel's arch/*/entry/syscalls.
fn call_of_number(number: u64) -> Option<Call> {
    const SAME_FROM: u32 = 424;
    let number = u32::try_from(number).map_or(FIRST_BEYOND, |number| number.min(FIRST_BEYOND));
    let is_known = (SAME_FROM..TABLE_SLOTS).contains(&number) || number == FIRST_BEYOND;
    let call = is_known.then(|| Call::from_id(number))?;
    (!is_nameless(call.name.as_bytes())).then_some(call)
}

/// The number of `syscall_0x1c4`.
fn number_of_nameless(name: &[u8]) -> Option<u64> {
    let (number, rest) = unsigned(name.strip_prefix(b"syscall_")?)?;
    rest.is_empty().then_some(number)
}

/// Whether strace printed the number of a call because it had no name for it: `syscall_0x1c4`.
pub fn is_nameless(name: &[u8]) -> bool {
    number_of_nameless(name).is_some()
}

/// The number of an errno; `None` if the name is unknown.
pub fn errno_number(name: &[u8]) -> Option<u32> {
    static NUMBERS: LazyLock<HashMap<Vec<u8>, u32>> = LazyLock::new(|| {
        let names = (1..=1024).map(|number| (errno::name(number).into_bytes(), number));
        names.collect()
    });
    NUMBERS.get(name).copied()
}

/// The number of a signal; `SIGRT_3` is the third one after the kernel's first real-time signal.
pub fn signal_number(name: &[u8]) -> Option<i32> {
    /// Source: `SIGRTMIN` of the kernel's include/uapi/asm-generic/signal.h.
    const FIRST_REAL_TIME: i32 = 32;
    let name = std::str::from_utf8(name).ok()?;
    if let Some(number) = name.strip_prefix("SIGRT_") {
        return number
            .parse()
            .ok()
            .and_then(|number: i32| FIRST_REAL_TIME.checked_add(number));
    }
    if name == "SIGRTMIN" {
        return Some(FIRST_REAL_TIME);
    }
    signal::number(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_does_not_fill_the_memory() {
        let mut names = CallNames::new(&Selection::All);
        let found = (0..10_000)
            .filter(|number| {
                names
                    .find(format!("new_call_{number}").as_bytes(), true)
                    .is_some()
            })
            .count();
        assert_eq!(found, MAX_FOREIGN);
    }
}
