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

/// The interpreter that a script names after `#!`, or a dynamic executable in its headers. `None` if
/// there is none, or the file cannot be read.
fn interpreter(program: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
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
    let interpreter = interpreter(program).filter(|path| !path.exists())?;
    let interpreter = from_os(interpreter);
    Some(format!("its interpreter '{interpreter}' is not there"))
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
                Some("its interpreter '/nosuch/sh' is not there"),
            ),
            (
                "#! /nosuch/sh",
                Some("its interpreter '/nosuch/sh' is not there"),
            ),
            ("#!/bin/sh\n", None),
            ("#!\n", None),
            ("", None),
        ] {
            fs::write(&script, content).expect("is written");
            assert_eq!(missing_interpreter(&script).as_deref(), said, "{content:?}");
        }
        let shell = interpreter(Path::new("/bin/sh")).expect("it is dynamic");
        assert!(shell.exists(), "{shell:?}");
    }
}
