//! How strace is called.

use std::{ffi::OsString, path::Path};

use super::{files, names::FILLING};
use crate::{backend::RunOptions, syscall::Selection, trace::Head};

/// Calls that tell who begot whom and which program runs. They are traced also when nobody asked for them, as are those that tell
/// of files.
const FAMILY: [&str; 6] = ["execve", "execveat", "clone", "clone3", "fork", "vfork"];

/// The command that runs another under strace, with the log going to `log`; `shell` runs it if it is a script for that.
///
/// Not with `--seccomp-bpf`: a process that outlives strace, or whose strace is killed, keeps the filter without its tracer,
/// and then every traced call fails with ENOSYS.
pub(super) fn command(
    strace: &Path,
    log: &Path,
    shell: Option<&'static str>,
    program: &Path,
    options: &RunOptions,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![strace.into()];
    // Children too; durations; the name of each process, and its id as strace sees it, also where its parent has another for it; what
    // is behind each descriptor; of the bytes that are read and written, the first ones.
    words.extend(["--follow-forks", "-T", "--decode-pids=comm,pidns", "--decode-fds=all"].map(Into::into));
    words.push(format!("--string-limit={}", Head::MOST_BYTES).into());
    // Vectors whole, since their sizes count; and do say who runs in 32-bit mode. Of a signal that is not shown, strace does not
    // show either that it killed: all are shown but the one that cannot kill and comes often.
    words.extend(["--abbrev=execve,execveat", "--signal=!SIGCHLD", "--quiet=attach"].map(Into::into));
    words.push(format!("--trace={}", trace_set(&options.selection)).into());
    words.push("--output".into());
    words.push(log.into());
    for (name, value) in options.manner.environment.differences() {
        let mut word = OsString::from("--env=");
        word.push(name);
        if let Some(value) = value {
            word.push("=");
            word.push(value);
        }
        words.push(word);
    }
    words.push("--".into());
    words.extend(shell.map(OsString::from));
    let (name, arguments) = options.command.split_first().map_or((None, &[][..]), |(name, rest)| (Some(name), rest));
    // strace looks for the program itself, where its own environment says.
    let found = options.manner.environment.changes_path().then(|| program.as_os_str().to_owned());
    words.extend(found.or_else(|| name.cloned()));
    words.extend(arguments.iter().cloned());
    words
}

/// strace's own name of the set of calls. The `?` makes it accept calls that this machine does not have.
fn trace_set(selection: &Selection) -> String {
    match selection {
        Selection::All => "all".into(),
        Selection::Names(names) => {
            let bare = names.iter().map(|name| name.split('(').next().unwrap_or_default());
            let of_files = files::CALLS.iter().map(|(name, _)| *name);
            let mut words: Vec<String> =
                bare.chain(FAMILY).chain(of_files).chain(FILLING).map(|name| format!("?{name}")).collect();
            words.sort_unstable();
            words.dedup();
            words.join(",")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_is_always_traced() {
        let set = trace_set(&"read".parse().expect("a call"));
        for name in ["clone", "clone3", "execve", "execveat", "fork", "read", "vfork", "openat", "connect"] {
            assert!(set.split(',').any(|word| word.strip_prefix('?') == Some(name)), "{name}: {set}");
        }
    }

    #[test]
    fn variants_of_ioctl_are_ioctl_to_strace() {
        assert!(trace_set(&Selection::default()).split(',').any(|name| name == "?ioctl"));
    }
}
