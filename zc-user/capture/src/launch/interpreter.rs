//! Which other program the kernel starts to run a program.

use std::{
    fs,
    path::{Path, PathBuf},
};

use object::{
    Endianness,
    read::elf::{ElfFile64, ProgramHeader as _},
};
use zctrace_core::text::from_os;

use crate::trace::{FailedPath, Trace};

/// The interpreter that a script names after `#!`, or a dynamic executable in its headers. `None` if
/// there is none, or the file cannot be read.
fn script_interpreter(program: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    // To read a FIFO or a device may take for ever.
    fs::metadata(program).ok().filter(fs::Metadata::is_file)?;
    let content = fs::read(program).ok()?;
    let path = if let Some(line) = content.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next()?.trim_ascii();
        line.split(u8::is_ascii_whitespace).next()?
    } else {
        let file = ElfFile64::<Endianness>::parse(&*content).ok()?;
        let mut headers = file.elf_program_headers().iter();
        headers.find_map(|header| header.interpreter(file.endian(), file.data()).ok()?)?
    };
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}

/// If this program is there, but not its interpreter: what to say instead of the kernel's "No such
/// file or directory".
pub(super) fn missing_interpreter(program: &Path) -> Option<String> {
    let interpreter = script_interpreter(program).filter(|path| !path.exists())?;
    let interpreter = from_os(interpreter);
    Some(format!("its interpreter '{interpreter}' does not exist"))
}

/// Why programs could not be executed in a trace although they are there, each a sentence: the kernel
/// says of such a program what it says of one that is not there.
pub(crate) fn missing_interpreters(trace: &Trace) -> Vec<String> {
    let directory = Path::new(trace.directory.as_deref().unwrap_or_default());
    let known = trace.failed_paths.iter();
    let known = known.filter(|failed| !failed.directory_may_change);
    let why = |tried: &FailedPath| {
        let is_meant =
            tried.errno == libc::ENOENT.unsigned_abs() && tried.call.name.starts_with("execve");
        let given = tried.paths[0].as_ref().filter(|_| is_meant)?;
        let is_whole = !given.is_cut && !given.is_below_descriptor;
        let path = Some(&given.text).filter(|_| is_whole)?;
        let why = missing_interpreter(&directory.join(path))?;
        Some(format!("'{path}' could not be executed: {why}"))
    };
    let tried = known.flat_map(|failed| failed.calls.keys());
    tried.filter_map(why).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_and_an_executable_name_their_interpreter() {
        let directory = tempfile::tempdir().expect("a directory");
        let script = directory.path().join("script");
        for (content, said) in [
            (
                "#!/nosuch/sh -e\n",
                Some("its interpreter '/nosuch/sh' does not exist"),
            ),
            (
                "#! /nosuch/sh",
                Some("its interpreter '/nosuch/sh' does not exist"),
            ),
            ("#!/bin/sh\n", None),
            ("#!\n", None),
            ("", None),
        ] {
            fs::write(&script, content).expect("is written");
            assert_eq!(missing_interpreter(&script).as_deref(), said, "{content:?}");
        }
        assert_eq!(missing_interpreter(Path::new("/dev/zero")), None);
        let shell = script_interpreter(Path::new("/bin/sh")).expect("it is dynamic");
        assert!(shell.exists(), "{shell:?}");
    }
}
