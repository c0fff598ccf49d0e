//! Joins the line where a call begins with the one where it returns.

use super::names::NameId;

/// The call that a thread is in, if its line ended before the call returned.
#[derive(Debug, Default)]
pub struct Pending {
    entry: Option<Entry>,
    // Reused, so that a call needs no allocation.
    args: Vec<u8>,
}

/// The entry of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Which call.
    pub name: NameId,
    /// Number of the line.
    pub line: u64,
    /// Whether the arguments are complete and have no foreign output in them.
    pub has_all_args: bool,
}

/// A call that has returned, or never will.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    /// Its entry.
    pub entry: Entry,
    /// Its arguments, as far as the log has them.
    pub args: Vec<u8>,
}

impl Left {
    /// Adds more of the arguments.
    pub fn extend(&mut self, args: &[u8]) {
        extend(&mut self.args, args);
    }
}

/// How many bytes of arguments are kept. strace cuts strings and arrays, so real ones are far shorter.
const MAX_ARGS: usize = 1 << 20;

fn extend(all: &mut Vec<u8>, args: &[u8]) {
    let room = MAX_ARGS.saturating_sub(all.len());
    all.extend_from_slice(&args[..args.len().min(room)]);
}

impl Pending {
    /// The call that the thread is in.
    pub fn entry(&self) -> Option<Entry> {
        self.entry
    }

    /// The thread enters a call. Returns the one that it was in before, if the log does not show its return.
    pub fn enter(&mut self, entry: Entry, args: &[u8]) -> Option<Left> {
        let left = self.leave();
        self.args.clear();
        self.extend(args);
        self.entry = Some(entry);
        left
    }

    /// Adds more of the arguments.
    pub fn extend(&mut self, args: &[u8]) {
        extend(&mut self.args, args);
    }

    /// The arguments so far.
    pub fn args(&self) -> &[u8] {
        &self.args
    }

    /// The call returns, or never will: the thread is no longer in it.
    pub fn leave(&mut self) -> Option<Left> {
        self.entry.take().map(|entry| Left { entry, args: std::mem::take(&mut self.args) })
    }

    /// Gives the memory of the arguments back for the next call.
    pub fn give_back(&mut self, args: Vec<u8>) {
        self.args = args;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_before_and_after_the_pause_are_one_list() {
        let mut pending = Pending::default();
        let entry = Entry { name: 7, line: 1, has_all_args: true };
        assert_eq!(pending.enter(entry, b"3, "), None);
        pending.extend(b"\"ab\", 10");
        assert_eq!(pending.args(), b"3, \"ab\", 10");
        let mut left = pending.leave().expect("is in a call");
        left.extend(b", 0");
        assert_eq!((left.entry, left.args.as_slice()), (entry, b"3, \"ab\", 10, 0".as_slice()));
        assert_eq!(pending.leave(), None);
    }

    #[test]
    fn a_call_without_a_return_is_given_back() {
        let mut pending = Pending::default();
        let first = Entry { name: 7, line: 1, has_all_args: true };
        pending.enter(first, b"3");
        let left = pending.enter(Entry { name: 8, line: 2, has_all_args: true }, b"4");
        assert_eq!(left, Some(Left { entry: first, args: b"3".to_vec() }));
        assert_eq!(pending.args(), b"4");
    }
}
