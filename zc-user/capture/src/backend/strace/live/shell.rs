//! Which programs need a shell to run.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

/// The shell that runs a script without a `#!` line, as with `execvp`.
const SHELL: &str = "/bin/sh";
/// How much of a file the kernel reads to find its format: `BINPRM_BUF_SIZE` of its
/// include/uapi/linux/binfmts.h.
const HEAD_BYTES: u64 = 256;

/// The shell that a program needs; `None` if the kernel can run it. strace only calls exec, while a
/// shell (or libc's `execvp`) runs a script without a `#!` line in a shell; so that is done here.
/// It is an error if the interpreter of a script is missing.
pub fn shell_of(program: &Path) -> io::Result<Option<&'static str>> {
    let mut head = Vec::new();
    // A program may be executable without being readable.
    let Ok(file) = File::open(program) else {
        return Ok(None);
    };
    file.take(HEAD_BYTES).read_to_end(&mut head)?;
    let first_line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if let Some(line) = first_line.strip_prefix(b"#!") {
        let mut words = line.trim_ascii_start().split(u8::is_ascii_whitespace);
        fs::metadata(OsStr::from_bytes(words.next().unwrap_or_default()))?;
        return Ok(None);
    }
    let is_text = !head.starts_with(b"\x7fELF") && !first_line.contains(&0);
    Ok(is_text.then_some(SHELL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell_of_file(content: &[u8]) -> io::Result<Option<&'static str>> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), content)?;
        shell_of(file.path())
    }

    #[test]
    fn only_a_script_without_an_interpreter_needs_the_shell() {
        for (content, shell) in [
            (&b"echo hello\n"[..], Some(SHELL)),
            (b"", Some(SHELL)),
            (b"#!/bin/sh -e\n", None),
            (b"\x7fELF\x02\x01", None),
            (b"MZ\0\0", None),
        ] {
            assert_eq!(shell_of_file(content).expect("is read"), shell);
        }
        let missing = shell_of_file(b"#! /no/such/thing x\n").map_err(|error| error.kind());
        assert_eq!(missing, Err(io::ErrorKind::NotFound));
    }
}
