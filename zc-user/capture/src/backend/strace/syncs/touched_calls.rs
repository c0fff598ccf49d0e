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
    calls::is_read_only,
    events::{Called, FileEvents, Returned},
    touches::relative,
    touching::{Touching, follows_links},
};
use crate::{
    backend::strace::{
        args::{Args, Descriptor},
        decode::{has_flag, ioctl_variant, is_anonymous, maps_for_writing, quoted},
        file_name,
        line::Ending,
        syntax::unsigned,
    },
    syscalls::{self, Spec},
};

/// Why files that were open before are unknown.
const UNNAMED: &str =
    "a call named a descriptor whose file the calls do not show: record with strace -yy";

/// The path in an annotation of a descriptor; `None`: the file has none, or lost it.
fn shown(name: &[u8]) -> Option<String> {
    let parsed = file_name::parse(name, file_name::Devices::default());
    let path = parsed.path.filter(|_| !parsed.is_deleted)?;
    path.starts_with(b"/").then(|| from_bytes(&path))
}

impl FileEvents {
    /// Notes what a call touched, before it is judged: a relative path starts in the directory that its
    /// caller had before.
    pub(super) fn touched(&mut self, call: Called<'_>, how: Returned<'_>) {
        if self.touches.is_some() {
            let touching = Touching::new(call.name);
            self.touched_as(touching, call, how);
        }
    }

    fn touched_as(&mut self, touching: Touching, call: Called<'_>, how: Returned<'_>) {
        use TouchAction::{Read, SentTo, Written};
        let args = Args::new(call.args);
        match touching {
            Touching::Opened => self.touched_by_open(call, how),
            Touching::OpenedByHandle(flags) => {
                let flags = args.nth(flags).unwrap_or_default();
                if let Some(path) =
                    Descriptor::leading(how.descriptor).and_then(|one| shown(one.name))
                {
                    self.add_opened(&path, flags, call, how);
                }
            }
            Touching::Path(action) => self.touched_path(action, 0, call, how),
            Touching::TwoPaths(first, second) => {
                self.touched_path(first, 0, call, how);
                self.touched_path(second, 1, call, how);
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
            Touching::Sent(argument) => {
                let named = args.nth(argument).and_then(|text| address(text, &args));
                self.touched_address(SentTo, named, call, how);
            }
            Touching::SentMessage | Touching::SentMessages => {
                for named in addresses_of_messages(args.nth(1).unwrap_or_default(), &args) {
                    self.touched_address(SentTo, Some(named), call, how);
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

    fn doubt(&mut self, why: &str) {
        if let Some(touches) = &mut self.touches {
            touches.sums.doubt(why);
        }
    }

    /// Adds a call on a path. One that a signal interrupted is made again, or never ends; but somebody
    /// may have been reached.
    fn add_touch(&mut self, action: TouchAction, path: &str, call: Called<'_>, how: Returned<'_>) {
        let errno;
        let ending = match how.ending {
            Ending::Value(value) => {
                let moves = Spec::named(call.name).returned == syscalls::Returned::Bytes;
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
        touches.sums.add(TouchingCall {
            action,
            path: relative(&touches.directory, path),
            call: call.name,
            ending,
            ns: how.ns,
            by: FirstTouch {
                program: Some(call.program)
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned),
                tid: call.tid,
                at_ns: how.at_ns,
            },
        });
    }

    fn touched_address(
        &mut self,
        action: TouchAction,
        address: Option<String>,
        call: Called<'_>,
        how: Returned<'_>,
    ) {
        let Some(address) = address else {
            return;
        };
        self.add_touch(action, &address, call, how);
        let path = address
            .strip_prefix("unix:")
            .filter(|path| !path.starts_with('@'));
        if let (TouchAction::Bound, Some(path)) = (action, path.filter(|path| !path.is_empty())) {
            let directory = self.table(call).directory;
            let at = self.judge.names.resolve(directory, path, false);
            let path = self.path_of(at);
            self.add_touch(TouchAction::Created, &path, call, how);
        }
    }

    /// The file of a descriptor.
    fn touched_file(
        &mut self,
        action: TouchAction,
        argument: u8,
        call: Called<'_>,
        how: Returned<'_>,
    ) {
        // Others have touched nothing that opening the file has not.
        let Ending::Value(_) = how.ending else {
            return;
        };
        let args = Args::new(call.args);
        let text = args.nth(argument).unwrap_or_default();
        if let Some(named) = Descriptor::whole(text) {
            if let Some(path) = shown(named.name) {
                self.add_touch(action, &path, call, how);
            }
            return;
        }
        let fd = unsigned(text).and_then(|(fd, _)| u32::try_from(fd).ok());
        let is_known = fd.is_some_and(|fd| self.table(call).files.contains_key(&fd));
        if !is_known {
            self.doubt(UNNAMED);
        }
    }

    /// The first or the second path of a call.
    fn touched_path(
        &mut self,
        action: TouchAction,
        index: usize,
        call: Called<'_>,
        how: Returned<'_>,
    ) {
        let spec = Spec::named(call.name);
        let Some(argument) = [spec.path, spec.second_path()][index] else {
            return;
        };
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
            return;
        }
        let Some(at) = self.resolve(call, argument.directory, argument.index, false) else {
            self.note_unknown_path(how);
            return;
        };
        let path = self.path_of(at);
        let is_of_name = matches!(action, TouchAction::Changed | TouchAction::Written);
        if let Some(touches) = &mut self.touches
            && is_of_name
            && follows_links(call.name, call.args)
        {
            let path = relative(&touches.directory, &path);
            touches.followed.insert(path.into());
        }
        self.add_touch(action, &path, call, how);
    }

    fn note_unknown_path(&mut self, how: Returned<'_>) {
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

    fn touched_by_open(&mut self, call: Called<'_>, how: Returned<'_>) {
        let args = Args::new(call.args);
        let (directory, path, flags) = match call.name {
            "open" => (None, 0, args.nth(1)),
            "creat" => (None, 0, Some(b"O_WRONLY|O_CREAT|O_TRUNC".as_slice())),
            "openat2" => (Some(0), 1, args.field(2, b"flags=")),
            _ => (Some(0), 1, args.nth(2)),
        };
        let flags = flags.unwrap_or_default();
        let opened = Descriptor::leading(how.descriptor);
        let is_nameless = has_flag(flags, 0x0040_0000, b"O_TMPFILE");
        let path = match opened.map(|opened| shown(opened.name)) {
            Some(Some(path)) => path,
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

    fn add_opened(&mut self, path: &str, flags: &[u8], call: Called<'_>, how: Returned<'_>) {
        let has = |bit: i32, name: &[u8]| has_flag(flags, u64::from(bit.unsigned_abs()), name);
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
