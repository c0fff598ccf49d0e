//! What a run touched: the paths and addresses that its calls were about, by what they did with them.
//!
//! [`TouchedSums`] gets one touch after the other, whatever they were recorded with, and
//! [`finish`](TouchedSums::finish) makes [`Touched`] of them, which the report shows.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Not,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    units::is_zero,
    words::{names, words},
};

names! {
    /// What a call did with a path or an address.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum TouchAction {
        /// It opened for reading, read, mapped or listed a file or directory.
        Read = "read",
        /// It opened a file for writing or with `O_CREAT`, wrote to it, changed its length, or mapped it
        /// shared and writable.
        Written = "written",
        /// It changed mode, owner, times or extended attributes.
        Changed = "attributes changed",
        /// It made a name that had not been there.
        Created = "created",
        /// It removed a name.
        Removed = "removed",
        /// It moved a file from this name, or to it.
        Renamed = "renamed",
        /// It executed a program.
        Executed = "executed",
        /// It looked a path up, such as `stat`, `access`, `readlink`, `chdir`.
        LookedUp = "looked up",
        /// It asked for a connection to an address.
        Connected = "connected",
        /// It named the address that a message goes to.
        SentTo = "sent to",
        /// It gave a socket an address.
        Bound = "bound",
        /// It accepted a connection from an address.
        Accepted = "accepted",
    }
}

impl TouchAction {
    /// Whether it is about the address of a socket.
    #[must_use]
    pub const fn is_of_address(self) -> bool {
        matches!(
            self,
            Self::Connected | Self::SentTo | Self::Bound | Self::Accepted
        )
    }

    /// Whether a call that failed counts: an attempt to reach somebody.
    const fn counts_attempts(self) -> bool {
        matches!(self, Self::Connected | Self::SentTo)
    }
}

words! {
    /// What an allow-list is about: the word in `touches(write)`, and in a lock file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum TouchKind {
        /// Files and directories that were read.
        Read = "read",
        /// Files that were written, created, removed or renamed, or whose attributes were changed.
        Write = "write",
        /// Names that were removed.
        Remove = "remove",
        /// Names that were moved, and those that they were moved to.
        Rename = "rename",
        /// Programs that were executed.
        Exec = "exec",
        /// Paths that were looked up.
        Lookup = "lookup",
        /// Addresses that were connected or sent to.
        Connect = "connect",
        /// Addresses that sockets were given.
        Bind = "bind",
    }
}

impl TouchKind {
    /// Whether it is about such an action.
    #[must_use]
    pub const fn includes(self, action: TouchAction) -> bool {
        use TouchAction::{
            Bound, Changed, Connected, Created, Executed, LookedUp, Read, Removed, Renamed, SentTo,
            Written,
        };
        match self {
            Self::Read => matches!(action, Read),
            Self::Write => matches!(action, Written | Changed | Created | Removed | Renamed),
            Self::Remove => matches!(action, Removed),
            Self::Rename => matches!(action, Renamed),
            Self::Exec => matches!(action, Executed),
            Self::Lookup => matches!(action, LookedUp),
            Self::Connect => matches!(action, Connected | SentTo),
            Self::Bind => matches!(action, Bound),
        }
    }

    /// Whether it is about addresses of sockets.
    #[must_use]
    pub const fn is_of_addresses(self) -> bool {
        matches!(self, Self::Connect | Self::Bind)
    }
}

/// What a run touched (`--paths`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Touched {
    /// Paths and addresses, most calls first.
    pub paths: Vec<TouchedPath>,
    /// The families of the sockets that were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<SocketFamily>,
    /// Calls on paths for which there was no room.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Why more may have been touched, each a clause.
    pub doubts: Vec<String>,
}

/// A family of sockets made by `socket`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SocketFamily {
    /// Its name, such as `AF_UNIX`, or else its number.
    pub family: String,
    /// The first one.
    pub first: FirstTouch,
}

/// A path or an address, and what was done with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TouchedPath {
    /// The path, relative to the command's working directory if below. Or an address:
    /// `tcp:127.0.0.1:80`, `unix:/run/x`, `unix:@abstract`; `ip:` if the protocol is unknown.
    pub path: String,
    /// Whether it was changed, and gone at the end.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub gone: bool,
    /// What was done with it, by action and call. A call that did two things has an entry for each.
    pub touches: Vec<Touch>,
}

/// What calls of one name did with a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Touch {
    /// What they did, or tried to do.
    pub action: TouchAction,
    /// The call.
    pub call: String,
    /// How many there were.
    pub calls: u64,
    /// Whether another entry of the path counts these calls, too: opening with `O_RDWR` also wrote.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub is_counted_elsewhere: bool,
    /// How many of them failed, by errno.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// How many did not return: what they did is unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unfinished: u64,
    /// Bytes that they moved.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// How long they took. `None`: unknown.
    pub ns: Option<u64>,
    /// The first one that succeeded, else the first one.
    pub first: FirstTouch,
}

/// The first call that touched a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirstTouch {
    /// The program that made it. `None`: unknown.
    pub program: Option<String>,
    /// Thread id. `None`: unknown.
    pub tid: Option<u32>,
    /// When it returned, from the beginning of the run. `None`: unknown.
    pub at_ns: Option<u64>,
    /// Who made it: an index into [`Report::stacks`](crate::report::Report::stacks). `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<usize>,
}

impl Touch {
    /// How many calls failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// How many calls certainly did what they were asked for. Of connections, the attempts count.
    #[must_use]
    pub fn done(&self) -> u64 {
        if self.action.counts_attempts() {
            return self.calls;
        }
        self.calls - self.failed() - self.unfinished
    }
}

/// One call on one path, or several that ended alike.
#[derive(Debug, Clone)]
pub struct TouchingCall<'a> {
    /// How many.
    pub calls: u64,
    /// As [`Touch::is_counted_elsewhere`].
    pub is_counted_elsewhere: bool,
    /// What it did.
    pub action: TouchAction,
    /// The path or address.
    pub path: &'a str,
    /// The call.
    pub call: &'a str,
    /// How it ended.
    pub ending: TouchEnding<'a>,
    /// How long they took together; `None`: unknown.
    pub ns: Option<u64>,
    /// Who made it, or the first one.
    pub by: FirstTouch,
}

/// How a call on a path ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TouchEnding<'a> {
    /// They succeeded. Together they moved this number of bytes.
    Done(u64),
    /// It failed with this errno.
    Failed(&'a str),
    /// It did not return.
    Unfinished,
}

/// Sums up touches.
#[derive(Debug, Default)]
pub struct TouchedSums {
    paths: HashMap<Box<str>, Vec<Touch>>,
    families: Vec<SocketFamily>,
    left_out: u64,
    doubts: Vec<String>,
}

impl TouchedSums {
    /// How many paths are kept.
    pub const MAX_PATHS: usize = 1 << 18;

    /// Adds a call.
    pub fn add(&mut self, call: TouchingCall<'_>) {
        if !self.paths.contains_key(call.path) {
            if self.paths.len() == Self::MAX_PATHS {
                self.left_out += call.calls;
                return;
            }
            self.paths.insert(call.path.into(), Vec::new());
        }
        if let Some(touches) = self.paths.get_mut(call.path) {
            add_call(touches, call);
        }
    }

    /// A socket of this family was made.
    pub fn add_family(&mut self, family: String, first: FirstTouch) {
        if !self.families.iter().any(|known| known.family == family) {
            self.families.push(SocketFamily { family, first });
        }
    }

    /// More may have been touched, for this reason, a clause.
    pub fn doubt(&mut self, why: &str) {
        if !self.doubts.iter().any(|known| known == why) {
            self.doubts.push(why.to_owned());
        }
    }

    /// All of it, with the path that `rename` gives each one.
    #[must_use]
    pub fn finish(self, mut rename: impl FnMut(&str, &Touch) -> Option<String>) -> Touched {
        let mut paths: BTreeMap<String, Vec<Touch>> = BTreeMap::new();
        for (path, touches) in self.paths {
            for touch in touches {
                let path = rename(&path, &touch).unwrap_or_else(|| path.clone().into());
                merge(paths.entry(path).or_default(), touch);
            }
        }
        let paths = paths.into_iter().map(|(path, mut touches)| {
            let key = |one: &Touch| (one.action, one.call.clone(), one.is_counted_elsewhere);
            touches.sort_by_cached_key(key);
            TouchedPath {
                path,
                gone: false,
                touches,
            }
        });
        let mut paths: Vec<TouchedPath> = paths.collect();
        paths.sort_by_key(|path| std::cmp::Reverse(path.calls()));
        Touched {
            paths,
            families: self.families,
            left_out: self.left_out,
            doubts: self.doubts,
        }
    }
}

impl TouchedPath {
    /// How many calls were about it.
    #[must_use]
    pub fn calls(&self) -> u64 {
        let each_once = self.touches.iter().filter(|one| !one.is_counted_elsewhere);
        each_once.map(|touch| touch.calls).sum()
    }

    /// Whether it is the address of a socket.
    #[must_use]
    pub fn is_address(&self) -> bool {
        let mut touches = self.touches.iter();
        touches.any(|touch| touch.action.is_of_address())
    }
}

fn add_call(touches: &mut Vec<Touch>, call: TouchingCall<'_>) {
    let mut touch = Touch {
        action: call.action,
        call: call.call.to_owned(),
        calls: call.calls,
        is_counted_elsewhere: call.is_counted_elsewhere,
        errors: BTreeMap::new(),
        unfinished: 0,
        bytes: 0,
        ns: call.ns,
        first: call.by,
    };
    match call.ending {
        TouchEnding::Done(bytes) => touch.bytes = bytes,
        TouchEnding::Failed(errno) => drop(touch.errors.insert(errno.to_owned(), call.calls)),
        TouchEnding::Unfinished => touch.unfinished = call.calls,
    }
    merge(touches, touch);
}

/// Adds what later calls did.
fn merge(touches: &mut Vec<Touch>, more: Touch) {
    let key = |one: &Touch| (one.action, one.is_counted_elsewhere);
    let is_same = |one: &&mut Touch| key(one) == key(&more) && one.call == more.call;
    let Some(one) = touches.iter_mut().find(is_same) else {
        touches.push(more);
        return;
    };
    let is_earlier = more.first.at_ns.is_some() && more.first.at_ns < one.first.at_ns;
    if (one.done() == 0 && more.done() > 0) || (is_earlier && (more.done() > 0) == (one.done() > 0))
    {
        one.first = more.first;
    }
    one.calls += more.calls;
    for (errno, count) in more.errors {
        *one.errors.entry(errno).or_default() += count;
    }
    one.unfinished += more.unfinished;
    one.bytes = one.bytes.saturating_add(more.bytes);
    one.ns = one.ns.zip(more.ns).map(|(sum, ns)| sum.saturating_add(ns));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call<'a>(path: &'a str, ending: TouchEnding<'a>, at_ns: u64) -> TouchingCall<'a> {
        TouchingCall {
            calls: 1,
            is_counted_elsewhere: false,
            action: TouchAction::Written,
            path,
            call: "openat",
            ending,
            ns: Some(5),
            by: FirstTouch {
                at_ns: Some(at_ns),
                ..FirstTouch::default()
            },
        }
    }

    #[test]
    fn calls_on_a_path_are_one_touch_and_the_first_is_the_first_that_succeeded() {
        let mut sums = TouchedSums::default();
        for (path, ending, at) in [
            ("a", TouchEnding::Failed("EACCES"), 1),
            ("b", TouchEnding::Unfinished, 2),
            ("a", TouchEnding::Done(3), 3),
            ("link", TouchEnding::Done(4), 4),
        ] {
            sums.add(call(path, ending, at));
        }
        let found = sums.finish(|path, _| (path == "link").then(|| "a".to_owned()));
        let [a, b] = found.paths.as_slice() else {
            panic!("{found:?}");
        };
        let touch = &a.touches[0];
        assert_eq!(
            (touch.calls, touch.failed(), touch.done(), touch.bytes),
            (3, 1, 2, 7)
        );
        assert_eq!((touch.first.at_ns, touch.ns), (Some(3), Some(15)));
        assert_eq!((b.touches[0].unfinished, b.touches[0].done()), (1, 0));
    }

    #[test]
    fn a_call_that_did_two_things_with_a_path_is_counted_once() {
        let mut sums = TouchedSums::default();
        sums.add(call("a", TouchEnding::Done(0), 1));
        sums.add(TouchingCall {
            action: TouchAction::Read,
            is_counted_elsewhere: true,
            ..call("a", TouchEnding::Done(0), 1)
        });
        let found = sums.finish(|_, _| None);
        assert_eq!(
            (found.paths[0].touches.len(), found.paths[0].calls()),
            (2, 1)
        );
    }

    #[test]
    fn calls_on_too_many_paths_are_counted_and_left_out() {
        let mut sums = TouchedSums::default();
        for number in 0..=TouchedSums::MAX_PATHS {
            sums.add(call(&number.to_string(), TouchEnding::Done(0), 0));
        }
        sums.add(call("0", TouchEnding::Done(0), 0));
        let found = sums.finish(|_, _| None);
        assert_eq!(found.paths.len(), TouchedSums::MAX_PATHS);
        assert_eq!((found.left_out, found.paths[0].calls()), (1, 2));
    }
}
