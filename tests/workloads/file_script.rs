//! `file-script`: makes the calls of a script that change, sync and name files.
//!
//! `file-script 'open 0 a cx; write 0; fsync 0; rename a b; syncdir .'` makes them in its working
//! directory. The steps are those of [`Machine::perform`]. Descriptors are in slots, `0` to `3`. A
//! path that begins with `/` is an absolute path below the working directory. A step that begins with
//! `!` must fail, all others must succeed. The steps from `fork` or `thread` to `join` are made in
//! another process or thread.

use std::{
    io::IoSlice,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    ptr, thread,
};

use anyhow::{Context as _, Result, ensure};
use io_uring::{
    IoUring, opcode, squeue,
    types::{Fd, FsyncFlags},
};
use rustix::{
    fs::{self, AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom, ftruncate},
    io::{self, Errno, ReadWriteFlags},
    mm::{MapFlags, MprotectFlags, MsyncFlags, ProtFlags, mmap, mprotect, msync, munmap},
    process::chdir,
};
use zc_tests::{fork, ring::complete};

/// How many descriptors a script has.
const SLOTS: usize = 4;
/// How much of a file is mapped.
const PAGE_BYTES: usize = 4096;

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

    fn slot(&self, slot: &str) -> Result<BorrowedFd<'_>, Errno> {
        let fd = self.slots[index(slot)].as_ref();
        fd.map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    /// Makes the step of this number, which is in the content that it writes.
    fn perform(&mut self, number: usize, words: &[&str]) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(0o644);
        match *words {
            ["open", slot, path, flags] => {
                let file = fs::openat(CWD, self.path(path), open_flags(flags), mode)?;
                self.slots[index(slot)] = Some(file);
            }
            ["tmpfile", slot, directory] => {
                let flags = OFlags::TMPFILE | OFlags::RDWR;
                let file = fs::openat(CWD, self.path(directory), flags, mode)?;
                self.slots[index(slot)] = Some(file);
            }
            ["linkfd", slot, path] => {
                let fd = format!("/proc/self/fd/{}", self.slot(slot)?.as_raw_fd());
                fs::linkat(CWD, fd, CWD, self.path(path), AtFlags::SYMLINK_FOLLOW)?;
            }
            ["close", slot] => self.slots[index(slot)] = None,
            ["dup", from, to] => self.slots[index(to)] = Some(io::dup(self.slot(from)?)?),
            ["mkdir", path] => fs::mkdirat(CWD, self.path(path), Mode::from_raw_mode(0o755))?,
            ["rmdir", path] => fs::unlinkat(CWD, self.path(path), AtFlags::REMOVEDIR)?,
            ["unlink", path] => fs::unlinkat(CWD, self.path(path), AtFlags::empty())?,
            ["link", old, new] => {
                fs::linkat(CWD, self.path(old), CWD, self.path(new), AtFlags::empty())?;
            }
            ["symlink", target, path] => fs::symlinkat(target, CWD, self.path(path))?,
            ["rename", old, new] => fs::renameat(CWD, self.path(old), CWD, self.path(new))?,
            ["exchange", old, new] => {
                let flags = RenameFlags::EXCHANGE;
                fs::renameat_with(CWD, self.path(old), CWD, self.path(new), flags)?;
            }
            ["truncate", path, bytes] => {
                let bytes = bytes.parse().expect("is a number");
                let done = nix::unistd::truncate(&self.path(path), bytes);
                done.map_err(|errno| Errno::from_raw_os_error(errno as i32))?;
            }
            ["chdir", path] => chdir(self.path(path))?,
            ["mark", name] => zctrace::mark(name),
            ["tell"] => drop(io::write(rustix::stdio::stdout(), b"saved\n")?),
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
            ("dsync-write", []) => {
                let content = [IoSlice::new(&content)];
                io::pwritev2(file, &content, end()?, ReadWriteFlags::DSYNC)?;
            }
            ("copy", [to]) => {
                let to = self.slot(to)?;
                let mut at = fs::seek(to, SeekFrom::End(0))?;
                fs::copy_file_range(file, Some(&mut 0), to, Some(&mut at), 10)?;
            }
            ("store", flags) => store(file, &content, flags)?,
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
        _ => panic!("{letter} is no flag"),
    };
    letters.chars().map(flag).collect()
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

/// Stores to a file through a shared mapping.
fn store(file: BorrowedFd<'_>, content: &[u8], flags: &[&str]) -> Result<(), Errno> {
    let has = |flag| flags.contains(&flag);
    let both = ProtFlags::READ | ProtFlags::WRITE;
    let first = if has("late") { ProtFlags::READ } else { both };
    // SAFETY: the kernel chooses the address, and nothing else uses it.
    let page = unsafe {
        mmap(
            ptr::null_mut(),
            PAGE_BYTES,
            first,
            MapFlags::SHARED,
            file,
            0,
        )?
    };
    // SAFETY: this is that mapping. The file has at least one byte, so its first page can be
    // written to, and the content is shorter than a page.
    unsafe {
        if has("late") {
            mprotect(page, PAGE_BYTES, MprotectFlags::READ | MprotectFlags::WRITE)?;
        }
        page.cast::<u8>().copy_from(content.as_ptr(), 10);
        if has("msync") {
            msync(page, PAGE_BYTES, MsyncFlags::SYNC)?;
        }
        munmap(page, PAGE_BYTES)
    }
}
