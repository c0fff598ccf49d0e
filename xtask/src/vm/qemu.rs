//! Booting a guest, and reading its output.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::arch::Arch;

/// How a guest's machine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was turned off, by its script or by a kernel panic.
    Off,
    /// It was still running at the end of its time.
    OutOfTime {
        /// Time since its last line of output.
        silent: Duration,
    },
}

/// A machine to boot.
pub(super) struct Machine<'a> {
    /// The architecture.
    pub(super) arch: Arch,
    /// The kernel.
    pub(super) kernel: &'a Path,
    /// The initramfs.
    pub(super) initramfs: &'a Path,
    /// The disk; changes to it are not kept.
    pub(super) disk: &'a Path,
}

impl Machine<'_> {
    /// Runs the machine to its end, and calls `on_line` with each line from its serial port.
    pub(super) fn boot(&self, limit: Duration, on_line: impl FnMut(&str)) -> Result<End> {
        to_end_of(&mut self.command(), limit, on_line)
    }

    fn command(&self) -> Command {
        let mut qemu = Command::new(self.arch.qemu());
        // Emulation works everywhere; KVM is missing in many containers. One thread runs both
        // processors in turn: with a thread for each, a processor may still meet the breakpoint of
        // a code patch that the other has completed, which ends the kernel with "Oops: int3" (seen
        // with QEMU 7.2 and Linux 6.18, in __schedule).
        qemu.args(self.arch.machine()).args([
            "-accel",
            "tcg,thread=single",
            "-smp",
            "2",
            "-m",
            "2048",
        ]);
        qemu.args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-serial",
            "stdio",
        ]);
        qemu.arg("-kernel")
            .arg(self.kernel)
            .arg("-initrd")
            .arg(self.initramfs);
        // A guest whose kernel panics must end; its missing last line shows the failure.
        let options = self.arch.kernel_options();
        let line = format!(
            "console={} quiet loglevel=4 panic=-1 oops=panic{options}",
            self.arch.console()
        );
        qemu.args(["-append", &line]);
        qemu.arg("-drive").arg(format!(
            "file={},format=raw,if=virtio,snapshot=on",
            self.disk.display()
        ));
        qemu
    }
}

/// Runs a program until it ends or its time is over, and calls `on_line` with each line that it
/// prints.
fn to_end_of(command: &mut Command, limit: Duration, mut on_line: impl FnMut(&str)) -> Result<End> {
    let deadline = Instant::now() + limit;
    let end_with_us = || {
        // SAFETY: plain numbers.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
        Ok(())
    };
    // SAFETY: between fork and exec only one system call is made.
    unsafe { command.pre_exec(end_with_us) };
    let name = command.get_program().to_string_lossy().into_owned();
    let mut program = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let lines = lines_of(program.stdout.take().context("it has a pipe")?);
    let mut last_line = Instant::now();
    let end = loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                last_line = Instant::now();
                on_line(&line);
            }
            Err(RecvTimeoutError::Disconnected) => break End::Off,
            Err(RecvTimeoutError::Timeout) => {
                program
                    .kill()
                    .with_context(|| format!("cannot end {name}"))?;
                break End::OutOfTime {
                    silent: last_line.elapsed(),
                };
            }
        }
    };
    program.wait()?;
    Ok(end)
}

/// The lines of a pipe as they come, without line ends.
fn lines_of(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        // A read error ends the output like the end of the pipe: the guest's last line is then
        // missing.
        while stdout
            .read_until(b'\n', &mut line)
            .is_ok_and(|bytes| bytes > 0)
        {
            let text = String::from_utf8_lossy(&line)
                .trim_end_matches(['\r', '\n'])
                .to_owned();
            if sender.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_are_read() {
        let mut heard = Vec::new();
        let end = to_end_of(
            Command::new("printf").arg(r"one\r\n\ntwo"),
            Duration::from_mins(1),
            |line| heard.push(line.to_owned()),
        );
        assert_eq!(end.expect("it starts"), End::Off);
        assert_eq!(heard, ["one", "", "two"]);
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let mut heard = Vec::new();
        let mut endless = Command::new("sh");
        endless.args(["-c", "echo here; exec sleep 1000"]);
        let end = to_end_of(&mut endless, Duration::from_secs(1), |line| {
            heard.push(line.to_owned())
        });
        assert!(matches!(end, Ok(End::OutOfTime { .. })), "{end:?}");
        assert_eq!(heard, ["here"]);
    }
}
