//! `file-script`: makes the calls of a script that change, sync and name files.
//!
//! `file-script 'open 0 a cx; write 0; fsync 0; rename a b; syncdir .'` makes them in its working
//! directory. The steps are those of [`Machine::perform`]. Descriptors are in slots, `0` to `3`. A
//! path that begins with `/` is an absolute path below the working directory, one that begins with
//! `0:` starts in the directory that is open in that slot. A step that begins with `!` must fail, all
//! others must succeed. The steps from `fork` or `thread` to `join` are made in
//! another process or thread.

#[path = "file_script/mapping.rs"]
mod mapping;
#[path = "file_script/raw.rs"]
mod raw;

use std::{
    io::IoSlice,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    thread,
};

use anyhow::{Context as _, Result, ensure};
use io_uring::{
    IoUring, opcode, squeue,
    types::{Fd, FsyncFlags},
};
use rustix::{
    fs::{self, AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom, ftruncate},
    io::{self, Errno, ReadWriteFlags},
    pipe::{SpliceFlags, pipe, splice},
    process::chdir,
    stdio::{dup2_stderr, dup2_stdout, stderr, stdout},
};
use zc_tests::{fork, ring::complete};

/// How many descriptors a script has.
const SLOTS: usize = 4;
/// A descriptor that whoever runs a script leaves open.
const INHERITED: i32 = 7;

fn main() -> Result<()> {
    let script = std::env::args().nth(1).context("file-script SCRIPT")?;
    let steps = script.split(';').map(str::trim).enumerate();
    let steps: Vec<(usize, &str)> = steps.filter(|(_, step)| !step.is_empty()).collect();
    let mut machine = Machine {
        base: std::env::current_dir()?,
        slots: [const { None }; SLOTS],
    };
    machine.run(&steps)
}

struct Machine {
    base: PathBuf,
    slots: [Option<OwnedFd>; SLOTS],
}

impl Machine {
    fn run(&mut self, mut steps: &[(usize, &str)]) -> Result<()> {
        while let Some(((number, step), rest)) = steps.split_first() {
            let is_process = *step == "fork";
            if is_process || *step == "thread" {
                let end = rest.iter().position(|(_, step)| *step == "join");
                let (inner, after) = rest.split_at(end.context("no join")?);
                self.run_apart(inner, is_process)?;
                steps = &after[1..];
                continue;
            }
            let (words, has_to_fail) = match step.strip_prefix('!') {
                Some(words) => (words, true),
                None => (*step, false),
            };
            let words: Vec<&str> = words.split(' ').collect();
            let done = self.perform(*number, &words);
            ensure!(
                done.is_err() == has_to_fail,
                "step {number}, {step}: {done:?}"
            );
            steps = rest;
        }
        Ok(())
    }

    /// Makes steps in a child, or in a thread, and waits for its end.
    fn run_apart(&mut self, steps: &[(usize, &str)], is_process: bool) -> Result<()> {
        if !is_process {
            let run = || self.run(steps);
            let done = thread::scope(|scope| scope.spawn(run).join());
            return done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        let child = fork(|| match self.run(steps) {
            Ok(()) => true,
            Err(error) => {
                eprintln!("{error:#}");
                false
            }
        })?;
        let status = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty())?;
        let status = status.context("it has ended")?.1;
        ensure!(status.exit_status() == Some(0), "the child: {status:?}");
        Ok(())
    }

    fn path(&self, path: &str) -> PathBuf {
        match path.strip_prefix('/') {
            Some(below) => self.base.join(below),
            None => path.into(),
        }
    }

    /// The directory in which a path starts, and the path.
    fn at<'a>(&'a self, path: &str) -> Result<(BorrowedFd<'a>, PathBuf), Errno> {
        match path.split_once(':') {
            Some((slot, rest)) => Ok((self.slot(slot)?, rest.into())),
            None => Ok((CWD, self.path(path))),
        }
    }

    fn slot(&self, slot: &str) -> Result<BorrowedFd<'_>, Errno> {
        let fd = self.slots[index(slot)].as_ref();
        fd.map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    /// Makes the step of this number, which is in the content that it writes.
    fn perform(&mut self, number: usize, words: &[&str]) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(0o644);
        match *words {
            ["open", slot, path, flags] => {
                let (directory, path) = self.at(path)?;
                let file = fs::openat(directory, path, open_flags(flags), mode)?;
                self.slots[index(slot)] = Some(file);
            }
            ["handle", slot, path, flags] => {
                let file = raw::open_by_handle(&self.path(path), open_flags(flags))?;
                self.slots[index(slot)] = Some(file);
            }
            ["take", slot] => {
                // SAFETY: it stays open as long as the program runs.
                let inherited = unsafe { BorrowedFd::borrow_raw(INHERITED) };
                self.slots[index(slot)] = Some(io::dup(inherited)?);
            }
            ["redirect", "1", slot] => dup2_stdout(self.slot(slot)?)?,
            ["redirect", "2", slot] => dup2_stderr(self.slot(slot)?)?,
            ["complain"] => tell(stderr())?,
            ["fsync-stderr"] => fs::fsync(stderr())?,
            ["tmpfile", slot, directory] => {
                let flags = OFlags::TMPFILE | OFlags::RDWR;
                let file = fs::openat(CWD, self.path(directory), flags, mode)?;
                self.slots[index(slot)] = Some(file);
            }
            ["linkfd", slot, path] => {
                let fd = format!("/proc/self/fd/{}", self.slot(slot)?.as_raw_fd());
                let (directory, path) = self.at(path)?;
                fs::linkat(CWD, fd, directory, path, AtFlags::SYMLINK_FOLLOW)?;
            }
            ["linkempty", slot, path] => {
                let (directory, path) = self.at(path)?;
                fs::linkat(self.slot(slot)?, "", directory, path, AtFlags::EMPTY_PATH)?;
            }
            ["close", slot] => self.slots[index(slot)] = None,
            ["dup", from, to] => self.slots[index(to)] = Some(io::dup(self.slot(from)?)?),
            [
                "mkdir" | "rmdir" | "unlink" | "symlink" | "link" | "rename" | "exchange",
                ..,
            ] => {
                self.change_names(words)?;
            }
            ["truncate", path, bytes] => {
                let bytes = bytes.parse().expect("is a number");
                let done = nix::unistd::truncate(&self.path(path), bytes);
                done.map_err(|errno| Errno::from_raw_os_error(errno as i32))?;
            }
            ["chdir", path] => chdir(self.path(path))?,
            ["mark", name] => zctrace::mark(name),
            ["tell"] => tell(stdout())?,
            ["sync"] => fs::sync(),
            ["syncdir", path] => {
                let directory = fs::openat(CWD, self.path(path), OFlags::RDONLY, mode)?;
                fs::fsync(directory)?;
            }
            [call, slot, ref rest @ ..] => self.perform_on(call, self.slot(slot)?, rest, number)?,
            _ => panic!("{words:?} is no step"),
        }
        Ok(())
    }

    /// Makes a call that makes, moves or removes a name.
    fn change_names(&self, words: &[&str]) -> Result<(), Errno> {
        let (directory, path) = self.at(words.last().expect("has a path"))?;
        match words[0] {
            "mkdir" => return fs::mkdirat(directory, path, Mode::from_raw_mode(0o755)),
            "rmdir" => return fs::unlinkat(directory, path, AtFlags::REMOVEDIR),
            "unlink" => return fs::unlinkat(directory, path, AtFlags::empty()),
            "symlink" => return fs::symlinkat(words[1], directory, path),
            _ => {}
        }
        let (from, old) = self.at(words[1])?;
        match words[0] {
            "link" => fs::linkat(from, old, directory, path, AtFlags::empty()),
            "rename" => fs::renameat(from, old, directory, path),
            _ => fs::renameat_with(from, old, directory, path, RenameFlags::EXCHANGE),
        }
    }

    /// Makes a call on an open file.
    fn perform_on(
        &self,
        call: &str,
        file: BorrowedFd<'_>,
        rest: &[&str],
        number: usize,
    ) -> Result<(), Errno> {
        let content = content(number);
        let end = || fs::seek(file, SeekFrom::End(0));
        match (call, rest) {
            ("write", []) => {
                end()?;
                io::write(file, &content)?;
            }
            ("writev", []) => {
                end()?;
                io::writev(file, &[IoSlice::new(&content)])?;
            }
            ("pwrite", []) => drop(io::pwrite(file, &content, 0)?),
            ("dsync-write" | "sync-write" | "append-write", []) => {
                let (flags, at) = match call {
                    "dsync-write" => (ReadWriteFlags::DSYNC, end()?),
                    "sync-write" => (ReadWriteFlags::SYNC, end()?),
                    _ => (ReadWriteFlags::APPEND, 0),
                };
                io::pwritev2(file, &[IoSlice::new(&content)], at, flags)?;
            }
            ("copy", [to]) => {
                let to = self.slot(to)?;
                let mut at = fs::seek(to, SeekFrom::End(0))?;
                fs::copy_file_range(file, Some(&mut 0), to, Some(&mut at), 10)?;
            }
            ("sendfile", [to]) => {
                let to = self.slot(to)?;
                fs::seek(to, SeekFrom::End(0))?;
                fs::sendfile(to, file, Some(&mut 0), 10)?;
            }
            ("clone", [to]) => fs::ioctl_ficlone(self.slot(to)?, file)?,
            ("clone-range", [to]) => raw::clone_range(file, self.slot(to)?)?,
            ("splice", []) => {
                let (from, into) = pipe()?;
                io::write(into, &content[..10])?;
                let at = Some(&mut end()?);
                splice(from, None, file, at, 10, SpliceFlags::empty())?;
            }
            ("store", flags) => mapping::store(file, &content, flags)?,
            ("range-sync", []) => raw::sync_range(file)?,
            ("aio-write", []) => raw::aio_write(file, &content, end()?)?,
            ("ftruncate", [bytes]) => ftruncate(file, bytes.parse().expect("is a number"))?,
            ("fallocate", ["grow"]) => fs::fallocate(file, FallocateFlags::empty(), end()?, 20)?,
            ("fallocate", ["within"]) => fs::fallocate(file, FallocateFlags::empty(), 0, 1)?,
            ("fallocate", ["keep"]) => fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, 9999)?,
            ("fallocate", ["punch"]) => {
                let flags = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE;
                fs::fallocate(file, flags, 0, 9999)?;
            }
            ("fsync", []) => fs::fsync(file)?,
            ("fdatasync", []) => fs::fdatasync(file)?,
            ("syncfs", []) => fs::syncfs(file)?,
            ("ring-write", []) => {
                let length = u32::try_from(content.len()).expect("is short");
                let write = opcode::Write::new(Fd(file.as_raw_fd()), content.as_ptr(), length);
                request(&write.offset(end()?).build())?;
            }
            ("ring-fsync", []) => request(&opcode::Fsync::new(Fd(file.as_raw_fd())).build())?,
            ("ring-fdatasync", []) => {
                let sync = opcode::Fsync::new(Fd(file.as_raw_fd()));
                request(&sync.flags(FsyncFlags::DATASYNC).build())?;
            }
            _ => panic!("{call} {rest:?} is no step"),
        }
        Ok(())
    }
}

fn index(slot: &str) -> usize {
    slot.parse().expect("is the number of a slot")
}

fn open_flags(letters: &str) -> OFlags {
    let flag = |letter| match letter {
        'r' => OFlags::RDONLY,
        'w' => OFlags::RDWR,
        'c' => OFlags::CREATE,
        'x' => OFlags::EXCL,
        't' => OFlags::TRUNC,
        's' => OFlags::SYNC,
        'd' => OFlags::DSYNC,
        'p' => OFlags::PATH,
        'a' => OFlags::APPEND,
        'D' => OFlags::DIRECTORY,
        _ => panic!("{letter} is no flag"),
    };
    letters.chars().map(flag).collect()
}

/// Writes to the end of a stream.
fn tell(stream: BorrowedFd<'_>) -> Result<(), Errno> {
    match fs::seek(stream, SeekFrom::End(0)) {
        Ok(_) | Err(Errno::SPIPE) => io::write(stream, b"saved\n").map(drop),
        Err(errno) => Err(errno),
    }
}

/// What the step of this number writes. No two steps write the same.
fn content(number: usize) -> Vec<u8> {
    format!("step {number:4} ").repeat(1 + number % 3).into()
}

/// Makes a request to a ring of io_uring. What it writes must live until then.
fn request(request: &squeue::Entry) -> Result<(), Errno> {
    let done = IoUring::new(1).and_then(|mut ring| {
        // SAFETY: the memory that it names outlives this call, which waits for it.
        unsafe { complete(&mut ring, request) }
    });
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    done.map(drop).map_err(errno)
}
