//! Which paths and addresses calls touch.

use zc_ebpf::is_restart;
use zctrace_core::{
    durable::{Names, Resolved},
    errno,
    text::relative_to,
    touched::{FirstTouch, TouchAction, TouchEnding, TouchingCall},
};

use super::{
    call::{Ending, FileCall, GivenArgument},
    events::FileEvents,
    flag,
    kinds::{is_read_only, open_arguments},
    names::descriptor_in,
    shown::{ShownFile, SocketAddress},
    touches::{Touches, is_of_process},
};
use crate::syscalls::{Returned, Spec, Touching};

/// Why files that were open before are unknown.
const UNNAMED: &str =
    "a call named a descriptor whose file the calls do not show: record with strace -yy";

/// Why an executed file is unknown.
const UNNAMED_PROGRAM: &str = "the command executed a file without a name";
/// Why the file behind a handle is.
const UNKNOWN_HANDLE: &str = "the command opened a file by a handle whose path is not seen";
/// Why the file behind a path is.
const OF_PROCESS: &str =
    "a path led through links in /proc or /dev that differ in each process, such as /proc/self/cwd";
/// Why the file behind a relative path is.
const LEFT_DIRECTORY: &str = "a relative path left a directory by .., which may be a symbolic link";
/// Why a file may be there although its call failed: the filesystem refuses `O_DIRECT` after it.
const FAILED_LATE: &str = "a call with O_CREAT and O_DIRECT failed, which may have made a file";
/// Why the receiver of a message is unknown.
const UNSPECIFIED: &str = "a message was sent to an address of the family AF_UNSPEC";
/// Why relative paths may start elsewhere.
const SHARED_DIRECTORY: &str = "processes shared a working directory, or threads did not, so relative paths may mean other files";

fn first_touch(call: FileCall<'_>) -> FirstTouch {
    let program = Some(call.program).filter(|name| !name.is_empty());
    FirstTouch {
        program: program.map(str::to_owned),
        tid: call.tid,
        at_ns: call.at_ns,
        stack: None,
    }
}

impl FileEvents {
    /// Notes what a call touched, before it is judged: a relative path starts in the directory that its
    /// caller had before.
    pub(super) fn touched(&mut self, call: FileCall<'_>) {
        if let Some(touches) = &mut self.touches {
            touches.last.clear();
            let touching = Spec::named(call.name).touching();
            self.touched_as(touching, call);
        }
    }

    /// What the last call touched.
    pub fn last_touched(&self) -> Vec<(TouchAction, Box<str>)> {
        let touches = self.touches.as_ref();
        touches.map_or(Vec::new(), |touches| touches.last.clone())
    }

    /// Further calls touched this, just as a call before did.
    pub fn touched_again(&mut self, calls: TouchingCall<'_>) {
        if let Some(touches) = &mut self.touches {
            touches.sums.add(calls);
        }
    }

    fn touched_as(&mut self, touching: Touching, call: FileCall<'_>) {
        use TouchAction::{Read, SentTo, Written};
        match touching {
            Touching::Opened => self.touched_by_open(call),
            Touching::OpenedByHandle => {
                if let Some(path) = call.opened.and_then(ShownFile::path) {
                    self.add_opened(path, call.number(2).unwrap_or_default(), call);
                } else if call.has_succeeded() {
                    self.doubt_touches(UNKNOWN_HANDLE);
                }
            }
            Touching::Path(action) => drop(self.touched_path(action, 0, call)),
            Touching::TwoPaths(first, second) => {
                let from = self.touched_path(first, 0, call);
                let to = self.touched_path(second, 1, call);
                if let (Some(from), Some(to)) = (from, to) {
                    self.note_two_names(first, &from, &to, call);
                }
            }
            Touching::File(action, argument) => {
                let request = call.number(1);
                let is_clone = matches!(request, Some(flag::FICLONE | flag::FICLONERANGE));
                if is_clone || call.name != "ioctl" {
                    self.touched_file(action, argument, call);
                }
                if call.name == "ioctl" && request == Some(flag::FICLONE) {
                    self.touched_file(Read, 2, call);
                }
            }
            Touching::Copied { from, to } => {
                self.touched_file(Read, from, call);
                self.touched_file(Written, to, call);
            }
            Touching::Mapped => {
                let action = if call.maps_for_writing() {
                    Written
                } else {
                    Read
                };
                if !call.has_any(3, flag::MAP_ANONYMOUS) {
                    self.touched_file(action, 4, call);
                }
            }
            Touching::Address(action, argument) => self.touched_addresses(action, argument, call),
            Touching::Sent => self.touched_addresses(SentTo, 1, call),
            Touching::Family => {
                let family = call.number(0).filter(|_| call.has_succeeded());
                if let (Some(family), Some(touches)) = (family, &mut self.touches) {
                    let family = flag::family(family);
                    touches.sums.add_family(family, first_touch(call));
                }
            }
            Touching::Shared => {
                if call.has_succeeded() && call.shares_otherwise() {
                    self.doubt_touches(SHARED_DIRECTORY);
                }
            }
            Touching::Unseen(why) => {
                if call.has_succeeded() {
                    self.doubt_touches(why);
                }
            }
            Touching::Nothing => {}
        }
    }

    /// A call moved a file, or gave it a second name.
    fn note_two_names(&mut self, action: TouchAction, from: &str, to: &str, call: FileCall<'_>) {
        let Some(Touches { names, .. }) = &mut self.touches else {
            return;
        };
        if action == TouchAction::LookedUp {
            names.link(from, to);
        } else if call.swaps_names() {
            names.remove(from);
            names.remove(to);
        } else {
            names.rename(from, to);
        }
    }

    /// More may have been touched, for this reason.
    pub fn doubt_touches(&mut self, why: &str) {
        if let Some(touches) = &mut self.touches {
            touches.sums.doubt(why);
        }
    }

    /// Adds a call on a path. One that a signal interrupted is made again, or never ends; but somebody
    /// may have been reached.
    fn add_touch(&mut self, action: TouchAction, path: &str, call: FileCall<'_>) {
        let errno;
        let ending = match call.ending {
            Ending::Value(value) => {
                let moves = Spec::named(call.name).returned == Returned::Bytes;
                let bytes = u64::try_from(value).ok().filter(|_| moves);
                TouchEnding::Done(bytes.unwrap_or_default())
            }
            Ending::Error(Some(number)) if is_restart(number) => {
                if !action.is_of_address() {
                    return;
                }
                TouchEnding::Unfinished
            }
            Ending::Error(number) => {
                errno = number.map_or("?".to_owned(), errno::name);
                TouchEnding::Failed(&errno)
            }
            Ending::Never | Ending::UnderWay => TouchEnding::Unfinished,
        };
        let Some(touches) = &mut self.touches else {
            return;
        };
        let path = relative_to(&touches.directory, path);
        let is_counted_elsewhere = touches.last.iter().any(|(_, known)| **known == *path);
        touches.last.push((action, path.into()));
        touches.sums.add(TouchingCall {
            calls: 1,
            is_counted_elsewhere,
            action,
            path,
            call: call.name,
            ending,
            ns: call.duration_ns,
            by: first_touch(call),
        });
    }

    fn touched_addresses(&mut self, action: TouchAction, argument: u8, call: FileCall<'_>) {
        for address in call.addresses(argument) {
            if action == TouchAction::SentTo && *address == SocketAddress::Unspecified {
                self.doubt_touches(UNSPECIFIED);
            }
            if let Some(address) = address.with_protocol(call.shown_file(0)) {
                self.touched_address(action, &address, call);
            }
        }
    }

    fn touched_address(&mut self, action: TouchAction, address: &str, call: FileCall<'_>) {
        let path = address
            .strip_prefix("unix:")
            .filter(|path| !path.is_empty() && !path.starts_with('@'));
        let Some(path) = path else {
            return self.add_touch(action, address, call);
        };
        let directory = self.table(call).directory;
        let follows = action != TouchAction::Bound;
        let at = self.judge.names.resolve_path(directory, path, follows);
        let path = self.path_of(at);
        if is_of_process(&path) {
            return self.doubt_touches(OF_PROCESS);
        }
        self.add_touch(action, &format!("unix:{path}"), call);
        if follows {
            self.passed(action, &path, true, call);
        }
        if action == TouchAction::Bound {
            self.add_touch(TouchAction::Created, &path, call);
            self.passed(action, &path, false, call);
        }
    }

    /// The file of a descriptor.
    fn touched_file(&mut self, action: TouchAction, argument: u8, call: FileCall<'_>) {
        // Others have touched nothing that opening the file has not.
        if !call.has_succeeded() {
            return;
        }
        if let Some(file) = call.shown_file(argument) {
            match file.path() {
                Some(path) => self.add_touch(action, path, call),
                None if action == TouchAction::Executed => self.doubt_touches(UNNAMED_PROGRAM),
                None => {}
            }
            return;
        }
        let fd = call.descriptor(argument);
        let is_known = fd.is_some_and(|fd| self.table(call).shows_file_of(fd));
        if !is_known {
            self.doubt_touches(UNNAMED);
        }
    }

    /// The first or the second path of a call; `None`: it is unknown, or the call failed.
    fn touched_path(
        &mut self,
        action: TouchAction,
        index: usize,
        call: FileCall<'_>,
    ) -> Option<String> {
        let spec = Spec::named(call.name);
        let argument = [spec.path, spec.second_path()][index]?;
        let text = call.text(argument.index).unwrap_or_default();
        if text.is_empty() {
            // It is about the file of the descriptor, or fails, or its arguments are cut.
            match argument.directory {
                _ if action == TouchAction::LookedUp => {}
                Some(directory) => self.touched_file(action, directory, call),
                None => self.note_unknown_path(call),
            }
            return None;
        }
        let follows = match action {
            TouchAction::Executed => true,
            TouchAction::Changed | TouchAction::Written => call.follows_links(),
            _ => false,
        };
        let opened = self.opened_before(call, text).filter(|_| follows);
        let follows = follows && opened.is_none();
        let at = opened.or_else(|| self.resolve(call, argument.directory, argument.index, follows));
        let Some(at) = at else {
            self.note_unknown_path(call);
            return None;
        };
        if action != TouchAction::LookedUp && !call.has_failed() {
            self.note_climb(text);
        }
        let path = self.path_of(at);
        if action != TouchAction::LookedUp && is_of_process(&path) {
            if !call.has_failed() {
                self.doubt_touches(OF_PROCESS);
            }
            return None;
        }
        self.passed(action, &path, follows, call);
        self.add_touch(action, &path, call);
        let directory = &self.touches.as_ref()?.directory;
        call.has_succeeded()
            .then(|| relative_to(directory, &path).to_owned())
    }

    /// Notes the directories that this path leaves by `..`: behind a link, that is another directory.
    fn note_climb(&mut self, path: &str) {
        for (at, _) in path.match_indices("/..") {
            let (directory, rest) = (&path[..at], &path[at + 3..]);
            let is_up = rest.is_empty() || rest.starts_with('/');
            let is_relative = directory.split('/').all(|name| matches!(name, "." | ".."));
            let Some(touches) = self.touches.as_mut().filter(|_| is_up && !is_relative) else {
                continue;
            };
            if directory.starts_with('/') {
                touches.climbed.insert(directory.into());
            } else {
                self.doubt_touches(LEFT_DIRECTORY);
            }
        }
    }

    /// The file of a descriptor that a path in /proc names, as the C library does for `fchmodat` with
    /// `AT_SYMLINK_NOFOLLOW`.
    fn opened_before(&mut self, call: FileCall<'_>, path: &str) -> Option<Resolved> {
        let fd = descriptor_in(path)?;
        let file = self.table(call).known(fd)?.target.file()?;
        let has_name = !self.judge.names.places(file).is_empty();
        has_name.then_some(Resolved::Directory(file))
    }

    /// Notes the names on the path of a call, and what the call shows about the last one.
    fn passed(&mut self, action: TouchAction, path: &str, follows: bool, call: FileCall<'_>) {
        let Some(touches) = &mut self.touches else {
            return;
        };
        let path = relative_to(&touches.directory, path);
        if call.has_failed() {
            return;
        }
        if action == TouchAction::LookedUp {
            let mut status = call.args.iter();
            let is_no_link =
                status.any(|found| matches!(found, GivenArgument::Status { is_link: false }));
            if is_no_link && (call.name.starts_with("lstat") || call.is_of_link()) {
                touches.names.know_no_link(path);
            }
            return;
        }
        touches.names.pass(path, follows);
        match action {
            TouchAction::Created if call.name.starts_with("link") => {}
            TouchAction::Created | TouchAction::Bound => touches.names.know_no_link(path),
            TouchAction::Removed => {
                if call.removes_directory() {
                    touches.names.know_no_link(path);
                }
                touches.names.remove(path);
            }
            _ => {}
        }
        let path = path.to_owned();
        touches.note_named(action, call.name, &path, follows);
    }

    fn note_unknown_path(&mut self, call: FileCall<'_>) {
        if !call.has_failed() {
            self.doubt_touches("the calls do not show all paths: record with strace -yy");
        }
    }

    fn path_of(&self, at: Resolved) -> String {
        let names = &self.judge.names;
        match at {
            Resolved::Place(place) => names.path_of_place(&place),
            Resolved::Directory(directory) => match names.place_above(directory) {
                Some(place) => names.path_of_place(place),
                None if directory == Names::ROOT => "/".to_owned(),
                None => ".".to_owned(),
            },
        }
    }

    fn touched_by_open(&mut self, call: FileCall<'_>) {
        let Some((directory, path, flags)) = open_arguments(call) else {
            return self.note_unknown_path(call);
        };
        if !call.has_failed() && self.is_below_root(call, directory, path) {
            self.doubt_touches(OF_PROCESS);
        }
        let path = match call.opened.map(ShownFile::path) {
            Some(Some(path)) => {
                if let Some(touches) = &mut self.touches {
                    let path = relative_to(&touches.directory, path);
                    // It opens a link itself.
                    let may_be_link = flags & flag::O_NOFOLLOW != 0 && flags & flag::O_PATH != 0;
                    let directory = path.rsplit_once('/').map(|(directory, _)| directory);
                    let shown = if may_be_link { directory } else { Some(path) };
                    touches.names.know_no_links(shown.unwrap_or_default());
                }
                path.to_owned()
            }
            given => {
                let Some(at) = self.resolve(call, directory, path, true) else {
                    return self.note_unknown_path(call);
                };
                let path = self.path_of(at);
                // The kernel shows the file, and it has no name: it never had, or lost it meanwhile.
                match given {
                    Some(None) if flags & flag::O_TMPFILE != 0 => {
                        format!("{}/(unnamed)", path.trim_end_matches('/'))
                    }
                    _ => path,
                }
            }
        };
        self.add_opened(&path, flags, call);
    }

    /// Whether a path leads through the root of a process in /proc. The name of its file does not say
    /// below which root that is.
    fn is_below_root(&mut self, call: FileCall<'_>, directory: Option<u8>, path: u8) -> bool {
        const ROOT: &str = "root";
        // A call by a handle has no path.
        let has_path = usize::from(path) < call.args.len();
        if !has_path || !call.text(path).is_some_and(|text| text.contains(ROOT)) {
            return false;
        }
        let at = self.resolve(call, directory, path, true);
        let path = at.map(|at| self.path_of(at)).unwrap_or_default();
        is_of_process(&path) && path.split('/').any(|name| name == ROOT)
    }

    fn add_opened(&mut self, path: &str, flags: u64, call: FileCall<'_>) {
        let has = |flag| flags & flag != 0;
        if has(flag::O_PATH) {
            return self.add_touch(TouchAction::LookedUp, path, call);
        }
        let creates = has(flag::O_CREAT);
        let is_invalid = call.ending == Ending::Error(Some(libc::EINVAL.unsigned_abs()));
        if creates && is_invalid && has(flag::O_DIRECT) {
            self.doubt_touches(FAILED_LATE);
        }
        if creates && has(flag::O_EXCL) {
            self.add_touch(TouchAction::Created, path, call);
        } else if creates || has(flag::O_TRUNC) || !is_read_only(flags) {
            self.add_touch(TouchAction::Written, path, call);
        }
        if is_read_only(flags) || has(flag::O_RDWR) {
            self.add_touch(TouchAction::Read, path, call);
        }
    }
}
