//! Names the stacks that strace prints. Without the feature `callers` nothing names them, and then
//! they are not asked for.

use std::path::Path;

use super::{stacks::Stacks, unavailable};
use crate::trace::Stack;

/// What strace unwinds stacks with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwinder {
    /// libunwind.
    Libunwind,
    /// libdw, of elfutils.
    Libdw,
    /// Something else.
    Other,
}

impl Unwinder {
    /// What this strace unwinds stacks with, if it prints them and this zctrace can name them. It
    /// takes a few milliseconds.
    pub fn of(strace: &Path) -> Option<Self> {
        if cfg!(feature = "callers") {
            Self::parse(&unavailable::about(strace).ok()?)
        } else {
            None
        }
    }

    /// Parses the features in the output of `strace --version`: `stack-trace=libunwind`.
    fn parse(about: &str) -> Option<Self> {
        match about
            .split_ascii_whitespace()
            .find_map(|word| word.strip_prefix("stack-trace="))?
        {
            "libunwind" => Some(Self::Libunwind),
            "libdw" => Some(Self::Libdw),
            _ => Some(Self::Other),
        }
    }
}

/// The stacks with the names of their functions, in the order of their ids. `None`: nothing can
/// name them.
#[cfg(feature = "callers")]
#[expect(
    clippy::unnecessary_wraps,
    reason = "without the feature nothing can name them"
)]
pub fn name(stacks: Stacks, unwinder: Option<Unwinder>) -> Option<Vec<Stack>> {
    use zctrace_callers::{CodeFile, ListedFile, ListedFrame, ListedStack, Tracer};

    use super::stacks::{LoggedStack, StackFile, StackFrame};

    let frame = |&StackFrame {
                     file,
                     from_symbol,
                     place,
                 }: &StackFrame| ListedFrame {
        file,
        place,
        from_symbol,
    };
    let stack = |LoggedStack { frames, message }| ListedStack {
        frames: frames.iter().map(frame).collect::<Vec<_>>(),
        message,
    };
    let file = |StackFile {
                    path,
                    identity,
                    is_known,
                }| {
        let code = |identity: crate::trace::FileIdentity| CodeFile {
            path: Clone::clone(&path),
            device: identity.device,
            inode: identity.inode,
            filesystem: None,
        };
        ListedFile {
            file: identity.map(code),
            path,
            is_known,
        }
    };
    let tracer = unwinder.and_then(|unwinder| match unwinder {
        Unwinder::Libunwind => Some(Tracer::Libunwind),
        Unwinder::Libdw => Some(Tracer::Libdw),
        Unwinder::Other => None,
    });
    let (stacks, files) = stacks.into_parts();
    let stacks: Vec<ListedStack> = stacks.into_iter().map(stack).collect();
    let files: Vec<ListedFile> = files.into_iter().map(file).collect();
    Some(zctrace_callers::listed::name(&stacks, &files, tracer))
}

/// The same without the feature: nothing can name them.
#[cfg(not(feature = "callers"))]
pub fn name(stacks: Stacks, _unwinder: Option<Unwinder>) -> Option<Vec<Stack>> {
    drop(stacks.into_parts());
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_says_whether_there_are_stacks() {
        let about = |features: &str| {
            format!(
                "strace -- version 6.1\nThere is NO warranty.\n\nOptional features enabled: {features}\n"
            )
        };
        assert_eq!(
            Unwinder::parse(&about("stack-trace=libunwind stack-demangle m32-mpers")),
            Some(Unwinder::Libunwind)
        );
        assert_eq!(
            Unwinder::parse(&about("stack-trace=libdw")),
            Some(Unwinder::Libdw)
        );
        assert_eq!(
            Unwinder::parse(&about("stack-trace=other")),
            Some(Unwinder::Other)
        );
        assert_eq!(Unwinder::parse(&about("no-m32-mpers")), None);
    }
}
