//! Which paths and addresses calls touch.

use zc_ebpf::is_restart;
use zctrace_core::{
    durable::{Names, Resolved},
    errno,
    text::from_bytes,
    touched::{FirstTouch, TouchAction, TouchEnding, TouchingCall},
};

use super::{
    addresses::{address, addresses_of_messages},
    calls::{has_open_flag, is_read_only, open_arguments},
    events::{Called, FileEvents},
    touches::{Touches, is_of_process, relative},
    touching::{Touching, follows_links, shares_otherwise},
};
use crate::{
    backend::strace::{
        args::{Args, Descriptor},
        decode::{has_flag, ioctl_variant, is_anonymous, maps_for_writing, quoted},
        file_name,
        line::{Ending, Outcome},
        syntax::unsigned,
    },
    syscalls::{Returned, Spec},
};

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
/// Why the receiver of a message is unknown.
const UNSPECIFIED: &str = "a message was sent to an address of the family AF_UNSPEC";
/// Why relative paths may start elsewhere.
const SHARED_DIRECTORY: &str = "processes shared a working directory, or threads did not, so relative paths may mean other files";

/// The path in an annotation of a descriptor; `None`: the file has none, or lost it.
fn shown(name: &[u8]) -> Option<String> {
    let parsed = file_name::parse(name, file_name::Devices::default());
    let path = parsed.path.filter(|_| !parsed.is_deleted)?;
    path.starts_with(b"/").then(|| from_bytes(&path))
}

impl FileEvents {
    /// Notes what a call touched, before it is judged: a relative path starts in the directory that its
    /// caller had before.
    pub(super) fn touched(&mut self, call: Called<'_>, how: Outcome<'_>) {
        if let Some(touches) = &mut self.touches {
            touches.last.clear();
            let touching = Touching::new(call.name);
            self.touched_as(touching, call, how);
        }
    }

    /// More may have been touched, for this reason.
    pub fn doubt_touches(&mut self, why: &str) {
        self.doubt(why);
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

    fn touched_as(&mut self, touching: Touching, call: Called<'_>, how: Outcome<'_>) {
        use TouchAction::{Read, SentTo, Written};
        let args = Args::new(call.args);
        let sends = matches!(touching, Touching::Address(SentTo, _) | Touching::Sent);
        if sends && call.args.windows(9).any(|part| part == b"AF_UNSPEC") {
            self.doubt(UNSPECIFIED);
        }
        match touching {
            Touching::Opened => self.touched_by_open(call, how),
            Touching::OpenedByHandle(flags) => {
                let flags = args.nth(flags).unwrap_or_default();
                if let Some(path) =
                    Descriptor::leading(how.descriptor).and_then(|one| shown(one.name))
                {
                    self.add_opened(&path, flags, call, how);
                } else if matches!(how.ending, Ending::Value(_)) {
                    self.doubt(UNKNOWN_HANDLE);
                }
            }
            Touching::Path(action) => drop(self.touched_path(action, 0, call, how)),
            Touching::TwoPaths(first, second) => {
                let from = self.touched_path(first, 0, call, how);
                let to = self.touched_path(second, 1, call, how);
                if let (Some(from), Some(to)) = (from, to) {
                    self.note_two_names(first, &from, &to, &args);
                }
            }
            Touching::File(action, argument) => {
                let is_clone = call.name != "ioctl" || ioctl_variant(call.args).is_some();
                if is_clone {
                    self.touched_file(action, argument, call, how);
                }
            }
            Touching::Copied { from, to } => {
                self.touched_file(Read, from, call, how);
                self.touched_file(Written, to, call, how);
            }
            Touching::Mapped => {
                let action = if maps_for_writing(&args) {
                    Written
                } else {
                    Read
                };
                if !is_anonymous(&args) {
                    self.touched_file(action, 4, call, how);
                }
            }
            Touching::Address(action, argument) => {
                let named = args.nth(argument).and_then(|text| address(text, &args));
                self.touched_address(action, named, call, how);
            }
            Touching::Sent => {
                for named in addresses_of_messages(args.nth(1).unwrap_or_default(), &args) {
                    self.touched_address(SentTo, Some(named), call, how);
                }
            }
            Touching::Shared => {
                if matches!(how.ending, Ending::Value(_)) && shares_otherwise(call.name, call.args)
                {
                    self.doubt(SHARED_DIRECTORY);
                }
            }
            Touching::Unseen(why) => {
                if matches!(how.ending, Ending::Value(_)) {
                    self.doubt(why);
                }
            }
            Touching::Nothing => {}
        }
    }

    /// A call moved a file, or gave it a second name.
    fn note_two_names(&mut self, action: TouchAction, from: &str, to: &str, args: &Args<'_>) {
        let Some(Touches { names, .. }) = &mut self.touches else {
            return;
        };
        // RENAME_EXCHANGE of the kernel's include/uapi/linux/fs.h.
        let flags = args.nth(4).unwrap_or_default();
        if action == TouchAction::LookedUp {
            names.link(from, to);
        } else if has_flag(flags, 2, b"RENAME_EXCHANGE") {
            names.remove(from);
            names.remove(to);
        } else {
            names.rename(from, to);
        }
    }

    fn doubt(&mut self, why: &str) {
        if let Some(touches) = &mut self.touches {
            touches.sums.doubt(why);
        }
    }

    /// Adds a call on a path. One that a signal interrupted is made again, or never ends; but somebody
    /// may have been reached.
    fn add_touch(&mut self, action: TouchAction, path: &str, call: Called<'_>, how: Outcome<'_>) {
        let errno;
        let ending = match how.ending {
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
        let path = relative(&touches.directory, path);
        touches.last.push((action, path.into()));
        touches.sums.add(TouchingCall {
            calls: 1,
            action,
            path,
            call: call.name,
            ending,
            ns: how.duration_ns,
            by: FirstTouch {
                program: Some(call.program)
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned),
                tid: call.tid,
                at_ns: call.at_ns,
            },
        });
    }

    fn touched_address(
        &mut self,
        action: TouchAction,
        address: Option<String>,
        call: Called<'_>,
        how: Outcome<'_>,
    ) {
        let Some(address) = address else {
            return;
        };
        let path = address
            .strip_prefix("unix:")
            .filter(|path| !path.is_empty() && !path.starts_with('@'));
        let Some(path) = path else {
            return self.add_touch(action, &address, call, how);
        };
        let directory = self.table(call).directory;
        let follows = action != TouchAction::Bound;
        let at = self.judge.names.resolve(directory, path, follows);
        let path = self.path_of(at);
        if is_of_process(&path) {
            return self.doubt(OF_PROCESS);
        }
        self.add_touch(action, &format!("unix:{path}"), call, how);
        if action == TouchAction::Bound {
            self.add_touch(TouchAction::Created, &path, call, how);
            self.passed(action, &path, false, call, how);
        }
    }

    /// The file of a descriptor.
    fn touched_file(
        &mut self,
        action: TouchAction,
        argument: u8,
        call: Called<'_>,
        how: Outcome<'_>,
    ) {
        // Others have touched nothing that opening the file has not.
        let Ending::Value(_) = how.ending else {
            return;
        };
        let args = Args::new(call.args);
        let text = args.nth(argument).unwrap_or_default();
        if let Some(named) = Descriptor::whole(text) {
            match shown(named.name) {
                Some(path) => self.add_touch(action, &path, call, how),
                None if action == TouchAction::Executed => self.doubt(UNNAMED_PROGRAM),
                None => {}
            }
            return;
        }
        let fd = unsigned(text).and_then(|(fd, _)| u32::try_from(fd).ok());
        let is_shown = fd.is_some_and(|fd| self.table(call).shows(fd));
        if !is_shown {
            self.doubt(UNNAMED);
        }
    }

    /// The first or the second path of a call; `None`: it is unknown, or the call failed.
    fn touched_path(
        &mut self,
        action: TouchAction,
        index: usize,
        call: Called<'_>,
        how: Outcome<'_>,
    ) -> Option<String> {
        let spec = Spec::named(call.name);
        let argument = [spec.path, spec.second_path()][index]?;
        let args = Args::new(call.args);
        let text = args.nth(argument.index).unwrap_or_default();
        let is_given = quoted(text).is_some_and(|(text, _)| !text.is_empty());
        if !is_given {
            // It is about the file of the descriptor, or fails, or its arguments are cut.
            match argument.directory {
                _ if action == TouchAction::LookedUp => {}
                Some(directory) => self.touched_file(action, directory, call, how),
                None => self.note_unknown_path(how),
            }
            return None;
        }
        let follows = match action {
            TouchAction::Executed => true,
            TouchAction::Changed | TouchAction::Written => follows_links(call.name, call.args),
            _ => false,
        };
        let opened = self.opened_before(call, text).filter(|_| follows);
        let follows = follows && opened.is_none();
        let at = opened.or_else(|| self.resolve(call, argument.directory, argument.index, follows));
        let Some(at) = at else {
            self.note_unknown_path(how);
            return None;
        };
        if action != TouchAction::LookedUp && !matches!(how.ending, Ending::Error(_)) {
            self.note_climb(text);
        }
        let path = self.path_of(at);
        if action != TouchAction::LookedUp && is_of_process(&path) {
            if !matches!(how.ending, Ending::Error(_)) {
                self.doubt(OF_PROCESS);
            }
            return None;
        }
        self.passed(action, &path, follows, call, how);
        self.add_touch(action, &path, call, how);
        let directory = &self.touches.as_ref()?.directory;
        matches!(how.ending, Ending::Value(_)).then(|| relative(directory, &path).to_owned())
    }

    /// Notes the directories that this path leaves by `..`: behind a link, that is another directory.
    fn note_climb(&mut self, path: &[u8]) {
        let Some((path, _)) = quoted(path) else {
            return;
        };
        let path = from_bytes(&path);
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
                self.doubt(LEFT_DIRECTORY);
            }
        }
    }

    /// The file of a descriptor that a path in /proc names, as the C library does for `fchmodat` with
    /// `AT_SYMLINK_NOFOLLOW`.
    fn opened_before(&mut self, call: Called<'_>, path: &[u8]) -> Option<Resolved> {
        let (path, _) = quoted(path)?;
        let (fd, rest) = unsigned(path.strip_prefix(b"/proc/self/fd/")?)?;
        let fd = u32::try_from(fd).ok().filter(|_| rest.is_empty())?;
        let file = self.table(call).known(fd)?.target.file()?;
        let has_name = !self.judge.names.places(file).is_empty();
        has_name.then_some(Resolved::Directory(file))
    }

    /// Notes the names on the path of a call, and what the call shows about the last one.
    fn passed(
        &mut self,
        action: TouchAction,
        path: &str,
        follows: bool,
        call: Called<'_>,
        how: Outcome<'_>,
    ) {
        let Some(touches) = &mut self.touches else {
            return;
        };
        let path = relative(&touches.directory, path);
        if matches!(how.ending, Ending::Error(_)) {
            return;
        }
        let has = |text: &[u8]| call.args.windows(text.len()).any(|part| part == text);
        if action == TouchAction::LookedUp {
            let is_of_link = call.name.starts_with("lstat") || has(b"AT_SYMLINK_NOFOLLOW");
            if is_of_link && has(b"mode=S_IF") && !has(b"S_IFLNK") {
                touches.names.know(path);
            }
            return;
        }
        touches.names.pass(path, follows);
        match action {
            TouchAction::Created if call.name.starts_with("link") => {}
            TouchAction::Created | TouchAction::Bound => touches.names.know(path),
            TouchAction::Removed => {
                if call.name == "rmdir" || has(b"AT_REMOVEDIR") {
                    touches.names.know(path);
                }
                touches.names.remove(path);
            }
            _ => {}
        }
        let path = path.to_owned();
        touches.note_named(action, call.name, &path, follows);
    }

    fn note_unknown_path(&mut self, how: Outcome<'_>) {
        if !matches!(how.ending, Ending::Error(_)) {
            self.doubt("the calls do not show all paths: record with strace -yy");
        }
    }

    fn path_of(&self, at: Resolved) -> String {
        let names = &self.judge.names;
        match at {
            Resolved::Place(place) => names.path(&place),
            Resolved::Directory(directory) => match names.place_above(directory) {
                Some(place) => names.path(place),
                None if directory == Names::ROOT => "/".to_owned(),
                None => ".".to_owned(),
            },
        }
    }

    fn touched_by_open(&mut self, call: Called<'_>, how: Outcome<'_>) {
        let args = Args::new(call.args);
        let Some((directory, path, flags)) = open_arguments(call.name, &args) else {
            return self.note_unknown_path(how);
        };
        let has = |bit, name| has_open_flag(flags, bit, name);
        let opened = Descriptor::leading(how.descriptor);
        let is_nameless = has_flag(flags, 0x0040_0000, b"O_TMPFILE");
        let path = match opened.map(|opened| shown(opened.name)) {
            Some(Some(path)) => {
                if let Some(touches) = &mut self.touches {
                    let path = relative(&touches.directory, &path);
                    // It opens a link itself.
                    let may_be_link =
                        has(libc::O_NOFOLLOW, b"O_NOFOLLOW") && has(libc::O_PATH, b"O_PATH");
                    let directory = path.rsplit_once('/').map(|(directory, _)| directory);
                    let shown = if may_be_link { directory } else { Some(path) };
                    touches.names.know_all(shown.unwrap_or_default());
                }
                path
            }
            given => {
                let Some(at) = self.resolve(call, directory, path, true) else {
                    return self.note_unknown_path(how);
                };
                let path = self.path_of(at);
                // The kernel shows the file, and it has no name: it never had, or lost it meanwhile.
                match given {
                    Some(None) if is_nameless => {
                        format!("{}/(unnamed)", path.trim_end_matches('/'))
                    }
                    _ => path,
                }
            }
        };
        self.add_opened(&path, flags, call, how);
    }

    fn add_opened(&mut self, path: &str, flags: &[u8], call: Called<'_>, how: Outcome<'_>) {
        let has = |bit, name| has_open_flag(flags, bit, name);
        if has(libc::O_PATH, b"O_PATH") {
            return self.add_touch(TouchAction::LookedUp, path, call, how);
        }
        let creates = has(libc::O_CREAT, b"O_CREAT");
        if creates && has(libc::O_EXCL, b"O_EXCL") {
            self.add_touch(TouchAction::Created, path, call, how);
        } else if creates || has(libc::O_TRUNC, b"O_TRUNC") || !is_read_only(flags) {
            self.add_touch(TouchAction::Written, path, call, how);
        }
        if is_read_only(flags) || has(libc::O_RDWR, b"O_RDWR") {
            self.add_touch(TouchAction::Read, path, call, how);
        }
    }
}
