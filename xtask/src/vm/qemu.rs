//! Booting a guest, and reading its output.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::arch::Arch;
use crate::command::{Words as _, end_with_us};

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
        let mut qemu = Command::new(format!("qemu-system-{}", self.arch.name()));
        // Emulation works everywhere; KVM is missing in many containers. One thread runs both
        // processors in turn: with a thread for each, a processor may still meet the breakpoint of
        // a code patch that the other has completed, which ends the kernel with "Oops: int3" (seen
        // with QEMU 7.2 and Linux 6.18, in __schedule).
        qemu.words(self.arch.machine());
        qemu.words("-accel tcg,thread=single -smp 2 -m 2048 -nodefaults -no-user-config");
        qemu.words("-display none -no-reboot -serial stdio");
        qemu.arg("-kernel").arg(self.kernel);
        qemu.arg("-initrd").arg(self.initramfs);
        // A guest whose kernel panics must end; its missing last line shows the failure.
        let options = self.arch.kernel_options();
        let line = format!("{options} quiet loglevel=4 panic=-1 oops=panic");
        qemu.args(["-append", &line]);
        let disk = self.disk.display();
        let drive = format!("file={disk},format=raw,if=virtio,snapshot=on");
        qemu.args(["-drive", &drive]);
        qemu
    }
}

/// Runs a program until it ends or its time is over, and calls `on_line` with each line that it
/// prints.
fn to_end_of(command: &mut Command, limit: Duration, mut on_line: impl FnMut(&str)) -> Result<End> {
    let deadline = Instant::now() + limit;
    let name = command.get_program().to_string_lossy().into_owned();
    let mut program = end_with_us(command)
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
        while matches!(stdout.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line);
            if sender
                .send(text.trim_end_matches(['\r', '\n']).to_owned())
                .is_err()
            {
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
    fn all_lines_are_read_and_a_program_that_does_not_end_is_killed() {
        let mut heard = Vec::new();
        let mut printf = Command::new("printf");
        printf.arg(r"one\r\n\ntwo");
        let minute = Duration::from_mins(1);
        let end = to_end_of(&mut printf, minute, |line| heard.push(line.to_owned()));
        assert_eq!(end.expect("it starts"), End::Off);

        let mut endless = Command::new("sh");
        endless.args(["-c", "echo here; exec sleep 1000"]);
        let second = Duration::from_secs(1);
        let end = to_end_of(&mut endless, second, |line| heard.push(line.to_owned()));
        assert!(matches!(end, Ok(End::OutOfTime { .. })), "{end:?}");
        assert_eq!(heard, ["one", "", "two", "here"]);
    }
}
