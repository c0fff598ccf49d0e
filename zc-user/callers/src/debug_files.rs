//! Finds the file with the debug information of a program.
//!
//! blazesym can find it, too, but opens what the program names: a pipe there would block zctrace,
//! and with root's rights it would open any file for a hostile program. It also looks for
//! `PROGRAM.dwp`. So the candidates are checked here, and blazesym gets the file itself
//! (`/proc/self/fd/N`), which names no further ones.

use std::{
    fmt::Write as _,
    fs::File,
    io::{Read as _, Seek as _},
    os::{
        fd::AsRawFd as _,
        unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    },
    path::{Component, Path, PathBuf},
};

use object::{Object as _, ObjectSection as _, ReadCache, read::elf::ElfFile64};

use crate::file::open_regular;

/// Where distributions put debug files. Only root can write there.
pub const DIRECTORIES: &[&str] = &["/usr/lib/debug", "/lib/debug"];
/// A build ID has at least so many bytes: two directory levels are made of it.
const MIN_ID_BYTES: usize = 8;

/// What a file says of its debug information.
#[derive(Debug, Default)]
struct DebugLinks {
    has_debug_info: bool,
    build_id: Option<Vec<u8>>,
    /// The name and the checksum of the separate file.
    debug_link: Option<(Vec<u8>, u32)>,
    /// Whether a part of the debug information is in one more file, which this one names (`dwz`).
    has_supplement: bool,
}

impl DebugLinks {
    fn in_file(file: &File) -> Option<Self> {
        let cache = ReadCache::new(file.try_clone().ok()?);
        let elf = ElfFile64::<object::Endianness, _>::parse(&cache).ok()?;
        let has = |name: &str| elf.section_by_name(name).is_some();
        let with_bytes = |name: &str| {
            elf.section_by_name(name)
                .is_some_and(|section| section.file_range().is_some())
        };
        Some(Self {
            has_debug_info: with_bytes(".debug_info") || with_bytes(".debug_line"),
            build_id: elf
                .build_id()
                .ok()
                .flatten()
                .filter(|id| id.len() >= MIN_ID_BYTES)
                .map(<[u8]>::to_vec),
            debug_link: elf
                .gnu_debuglink()
                .ok()
                .flatten()
                .map(|(name, checksum)| (name.to_vec(), checksum)),
            has_supplement: has(".gnu_debugaltlink") || has(".debug_sup"),
        })
    }

    /// Whether blazesym would open no other file.
    fn is_whole(&self) -> bool {
        self.debug_link.is_none() && !self.has_supplement
    }
}

/// The file with the debug information of the program that is open and has this path, if there is
/// any: the program itself, or a separate file with its build ID in one of the directories, or one
/// that its debug link names.
pub fn find_debug_file(program: &File, path: &Path, directories: &[&Path]) -> Option<File> {
    let links = DebugLinks::in_file(program)?;
    if links.has_debug_info && links.is_whole() {
        return program.try_clone().ok();
    }
    by_build_id(&links, directories).or_else(|| by_debug_link(&links, path, directories))
}

/// `DIRECTORY/.build-id/xx/yyyy.debug`
fn by_build_id(links: &DebugLinks, directories: &[&Path]) -> Option<File> {
    let (first, rest) = links.build_id.as_ref()?.split_first()?;
    let name = format!(".build-id/{first:02x}/{}.debug", hex_digits(rest));
    directories.iter().find_map(|directory| {
        open_checked(&directory.join(&name), links, DebugFilePlace::OfTheSystem)
    })
}

fn hex_digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The file of this name beside the program, in `.debug` there, or below a directory with debug
/// files.
fn by_debug_link(links: &DebugLinks, path: &Path, directories: &[&Path]) -> Option<File> {
    let (name, _) = links.debug_link.as_ref()?;
    let name = Path::new(std::ffi::OsStr::from_bytes(name));
    // Not a path: the file could lead anywhere.
    let is_plain = matches!(
        name.components().collect::<Vec<_>>().as_slice(),
        [Component::Normal(_)]
    );
    let parent = path.parent().filter(|_| is_plain)?;
    let beside = [parent.to_owned(), parent.join(".debug")]
        .map(|directory| (directory, DebugFilePlace::OfTheProgram));
    let below = |directory: &&Path| {
        (
            directory.join(parent.strip_prefix("/").unwrap_or(parent)),
            DebugFilePlace::OfTheSystem,
        )
    };
    let places = beside.into_iter().chain(directories.iter().map(below));
    places
        .into_iter()
        .find_map(|(directory, place)| open_checked(&directory.join(name), links, place))
}

/// Where a debug file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DebugFilePlace {
    /// Where only root can write.
    OfTheSystem,
    /// Beside the program.
    OfTheProgram,
}

/// Opens a candidate, if it is a debug file of this program.
fn open_checked(candidate: &Path, program: &DebugLinks, place: DebugFilePlace) -> Option<File> {
    let mut file = open_regular(candidate)?;
    let own = DebugLinks::in_file(&file)?;
    let is_of_the_program = match (&program.build_id, &own.build_id) {
        (Some(program), Some(own)) => program == own,
        _ => program
            .debug_link
            .as_ref()
            .is_some_and(|(_, expected)| link_checksum(&mut file) == Some(*expected)),
    };
    let names_no_other =
        own.is_whole() || (place == DebugFilePlace::OfTheSystem && own.debug_link.is_none());
    (is_of_the_program && names_no_other).then_some(file)
}

/// The checksum that debug links have.
fn link_checksum(file: &mut File) -> Option<u32> {
    let (mut hasher, mut buffer) = (crc32fast::Hasher::new(), vec![0; 1 << 16]);
    file.rewind().ok()?;
    loop {
        match file.read(&mut buffer).ok()? {
            0 => break,
            bytes => hasher.update(&buffer[..bytes]),
        }
    }
    Some(hasher.finalize())
}

/// A path that leads to the open file, whatever has become of its name. `None`: `/proc` belongs to
/// another PID namespace.
pub fn path_of(file: &File) -> Option<PathBuf> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let (there, own) = (path.metadata().ok()?, file.metadata().ok()?);
    ((there.dev(), there.ino()) == (own.dev(), own.ino())).then_some(path)
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;

    /// A program whose debug information is in a file of its own, in a directory that is removed in
    /// the end.
    struct Split {
        dir: tempfile::TempDir,
        program: PathBuf,
        debug: PathBuf,
    }

    /// Runs a command in this directory.
    fn run_tool(directory: &Path, words: &[&str]) {
        let status = Command::new(words[0])
            .args(&words[1..])
            .current_dir(directory)
            .status();
        assert!(
            status.expect("gcc and binutils are there").success(),
            "{words:?}"
        );
    }

    impl Split {
        /// `link` is the name in its debug link, if it is to have one.
        fn new(link: Option<&str>, compile: &[&str]) -> Self {
            let dir = tempfile::tempdir().expect("there is room");
            let bin = dir.path().join("bin");
            fs::create_dir(&bin).expect("there is room");
            fs::write(bin.join("main.c"), "int main(void) { return 0; }").expect("there is room");
            run_tool(
                &bin,
                &[&["gcc", "-g", "-o", "program", "main.c"], compile].concat(),
            );
            run_tool(
                &bin,
                &["objcopy", "--only-keep-debug", "program", "program.debug"],
            );
            run_tool(&bin, &["strip", "program"]);
            if let Some(link) = link {
                fs::copy(bin.join("program.debug"), bin.join(link)).expect("there is room");
                run_tool(
                    &bin,
                    &["objcopy", &format!("--add-gnu-debuglink={link}"), "program"],
                );
                fs::remove_file(bin.join(link)).expect("it is there");
            }
            Self {
                program: bin.join("program"),
                debug: bin.join("program.debug"),
                dir,
            }
        }

        fn find(&self, directories: &[&Path]) -> Option<File> {
            find_debug_file(
                &open_regular(&self.program).expect("it is there"),
                &self.program,
                directories,
            )
        }

        /// Puts the debug file into a place below the directory.
        fn put(&self, place: &str) {
            let to = self.dir.path().join(place);
            fs::create_dir_all(to.parent().expect("it has one")).expect("there is room");
            fs::rename(&self.debug, to).expect("both are ours");
        }
    }

    #[test]
    fn a_file_in_a_directory_of_debug_files_is_found_by_its_build_id() {
        let split = Split::new(None, &["-Wl,--build-id"]);
        let id = crate::file::build_id_of(&File::open(&split.program).expect("it is there"))
            .expect("it has one");
        let hex = hex_digits(&id);
        assert!(split.find(&[&split.dir.path().join("debug")]).is_none());
        split.put(&format!(
            "debug/.build-id/{}/{}.debug",
            &hex[..2],
            &hex[2..]
        ));
        assert!(split.find(&[&split.dir.path().join("debug")]).is_some());
    }

    #[test]
    fn a_file_of_another_program_is_not_used() {
        let (split, other) = (Split::new(Some("linked"), &[]), Split::new(None, &["-O2"]));
        fs::copy(&other.debug, split.dir.path().join("bin/linked")).expect("there is room");
        assert!(split.find(&[]).is_none());
    }

    #[test]
    fn a_debug_link_leads_beside_the_program_and_below_it() {
        for place in ["bin/linked", "bin/.debug/linked"] {
            let split = Split::new(Some("linked"), &["-Wl,--build-id=none"]);
            assert!(split.find(&[]).is_none());
            split.put(place);
            assert!(split.find(&[]).is_some(), "{place}");
        }
        let split = Split::new(Some("linked"), &[]);
        let debug = split.dir.path().join("system");
        split.put(&format!("system{}/bin/linked", split.dir.path().display()));
        assert!(split.find(&[&debug]).is_some());
    }

    #[test]
    fn a_debug_link_to_a_pipe_does_not_block() {
        let split = Split::new(Some("linked"), &[]);
        crate::file::tests::make_pipe(&split.dir.path().join("bin/linked"));
        assert!(split.find(&[]).is_none());
    }

    #[test]
    fn a_debug_link_with_a_directory_is_not_followed() {
        let split = Split::new(Some("linked"), &["-Wl,--build-id=none"]);
        let bytes = fs::read(&split.program).expect("it is there");
        let at = bytes
            .windows(6)
            .rposition(|word| word == b"linked")
            .expect("it has a debug link");
        let mut changed = bytes;
        changed[at..at + 6].copy_from_slice(b"../lin");
        fs::write(&split.program, changed).expect("it is ours");
        split.put("lin");
        assert!(split.find(&[]).is_none());
    }

    #[test]
    fn a_program_with_its_debug_information_needs_no_other_file() {
        let split = Split::new(None, &[]);
        run_tool(
            &split.dir.path().join("bin"),
            &["gcc", "-g", "-o", "program", "main.c"],
        );
        let found = split.find(&[]).expect("it has debug information");
        assert!(path_of(&found).is_some_and(|path| path.starts_with("/proc/self/fd")));
    }
}
