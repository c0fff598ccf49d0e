//! The command line that strace is called with.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use super::{file_table::FILE_CALLS, names::FILLING};
use crate::{backend::RunOptions, syscall::Selection, trace::Head};

/// Calls that show which task created which, and which program runs. They are always traced, as are those that show files.
const TASK_CALLS: [&str; 6] = ["execve", "execveat", "clone", "clone3", "fork", "vfork"];

/// The command line that runs the command under strace with its log in `log`, through `shell` if the program is a script that needs one.
///
/// It has no `--seccomp-bpf`: a process that outlives strace, or whose strace is killed, keeps the filter without its tracer, and then
/// every traced call fails with ENOSYS.
pub(super) fn command(
    strace: &Path,
    log: &Path,
    shell: Option<&'static str>,
    program: &Path,
    options: &RunOptions,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![strace.into()];
    // Follow children; print durations, the name of each process and its id in strace's PID namespace, the file behind each descriptor,
    // and the first of the bytes that are read and written.
    words.extend(["--follow-forks", "-T", "--decode-pids=comm,pidns", "--decode-fds=all"].map(Into::into));
    words.push(format!("--string-limit={}", Head::MOST_BYTES).into());
    // Print vectors whole, since their sizes count, and say which process is in 32-bit mode. If a signal is not shown, strace does not show
    // that it killed a process, either; so all are shown but SIGCHLD, which is frequent and cannot kill.
    words.extend(["--abbrev=execve,execveat", "--signal=!SIGCHLD", "--quiet=attach"].map(Into::into));
    words.push(format!("--trace={}", trace_set(&options.selection)).into());
    words.push("--output".into());
    words.push(log.into());
    for (name, value) in options.launch.environment.differences() {
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
    // strace looks for the program in the PATH of its own environment.
    let found = options.launch.environment.changes_path().then(|| program.as_os_str().to_owned());
    words.extend(found.or_else(|| name.cloned()));
    words.extend(arguments.iter().cloned());
    words
}

/// The set of calls in strace's syntax. With the `?`, strace accepts calls that this machine does not have.
fn trace_set(selection: &Selection) -> String {
    match selection {
        Selection::All => "all".into(),
        Selection::Names(names) => {
            let bare = names.iter().map(|name| name.split('(').next().unwrap_or_default());
            let of_files = FILE_CALLS.iter().map(|(name, _)| *name);
            let mut words: Vec<String> =
                bare.chain(TASK_CALLS).chain(of_files).chain(FILLING).map(|name| format!("?{name}")).collect();
            words.sort_unstable();
            words.dedup();
            words.join(",")
        }
    }
}

/// The shell that runs a script without a `#!` line, as with `execvp`.
const SHELL: &str = "/bin/sh";
/// How much of a file the kernel reads to find its format: `BINPRM_BUF_SIZE` of its include/uapi/linux/binfmts.h.
const HEAD_BYTES: u64 = 256;

/// The shell that a program needs; `None` if the kernel can run it. strace only calls exec, while a shell (or libc's `execvp`) runs a script
/// without a `#!` line in a shell; so that is done here. It is an error if the interpreter of a script is missing.
pub(super) fn shell_of(program: &Path) -> io::Result<Option<&'static str>> {
    let mut head = Vec::new();
    // A program may be executable without being readable.
    let Ok(file) = File::open(program) else { return Ok(None) };
    file.take(HEAD_BYTES).read_to_end(&mut head)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_start();
        let interpreter = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        std::fs::metadata(OsStr::from_bytes(interpreter))?;
        return Ok(None);
    }
    Ok(is_text(&head).then_some(SHELL))
}

/// Whether the file is text, judging by its first line.
fn is_text(head: &[u8]) -> bool {
    let first_line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    !head.starts_with(b"\x7fELF") && !first_line.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_create_tasks_or_show_files_are_always_traced() {
        let set = trace_set(&"read".parse().expect("a call"));
        for name in ["clone", "clone3", "execve", "execveat", "fork", "read", "vfork", "openat", "connect"] {
            assert!(set.split(',').any(|word| word.strip_prefix('?') == Some(name)), "{name}: {set}");
        }
    }

    #[test]
    fn variants_of_ioctl_are_traced_as_ioctl() {
        assert!(trace_set(&Selection::default()).split(',').any(|name| name == "?ioctl"));
    }

    fn shell_of_file(content: &[u8]) -> io::Result<Option<&'static str>> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), content)?;
        shell_of(file.path())
    }

    #[test]
    fn a_script_without_an_interpreter_needs_the_shell() {
        assert_eq!(shell_of_file(b"echo hello\n").expect("is read"), Some(SHELL));
        assert_eq!(shell_of_file(b"").expect("is read"), Some(SHELL));
    }

    #[test]
    fn a_program_that_the_kernel_can_run_needs_no_shell() {
        assert_eq!(shell_of_file(b"#!/bin/sh -e\n").expect("is read"), None);
        assert_eq!(shell_of_file(b"\x7fELF\x02\x01").expect("is read"), None);
        assert_eq!(shell_of_file(b"MZ\0\0").expect("is read"), None);
    }

    #[test]
    fn a_missing_interpreter_is_an_error() {
        assert_eq!(shell_of_file(b"#! /no/such/thing x\n").map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
    }
}
