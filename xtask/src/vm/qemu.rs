//! Booting a guest, and reading its output.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    arch::Arch,
    command::{Words as _, end_with_us, show},
};

/// How a guest's machine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuestEnd {
    /// It was turned off, by its script or by a kernel panic.
    Off,
    /// It was still running at the end of its time.
    OutOfTime {
        /// Time since its last line of output.
        silent: Duration,
    },
}

/// A machine to boot.
pub(super) struct EmulatedMachine<'a> {
    /// The architecture.
    pub(super) arch: Arch,
    /// The kernel.
    pub(super) kernel: &'a Path,
    /// The initramfs.
    pub(super) initramfs: &'a Path,
    /// The disk; changes to it are not kept.
    pub(super) disk: &'a Path,
}

impl EmulatedMachine<'_> {
    /// Runs the machine to its end, and calls `on_line` with each line from its serial port.
    pub(super) fn boot(&self, limit: Duration, on_line: impl FnMut(&str)) -> Result<GuestEnd> {
        to_end_of(&self.command(), limit, on_line)
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
fn to_end_of(
    command: &Command,
    limit: Duration,
    mut on_line: impl FnMut(&str),
) -> Result<GuestEnd> {
    // To `timeout`, 0 is no limit.
    let limit = limit.as_secs_f64().max(1.0).to_string();
    let mut limited = Command::new("timeout");
    limited.words("--foreground -k 5").arg(&limit);
    limited.arg(command.get_program()).args(command.get_args());
    let mut program = end_with_us(&mut limited)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start timeout")?;
    let stdout = program.stdout.take().context("it has a pipe")?;
    let mut last_line = Instant::now();
    // A read error ends the output like the end of the pipe: the guest's last line is then missing.
    for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
        last_line = Instant::now();
        on_line(String::from_utf8_lossy(&line).trim_end_matches('\r'));
    }
    let silent = last_line.elapsed();
    // What `timeout` says if it has ended the program, and what if it had to kill it.
    Ok(match program.wait()?.code() {
        Some(124 | 137) => GuestEnd::OutOfTime { silent },
        Some(126 | 127) => bail!("cannot start {}", show(command)),
        _ => GuestEnd::Off,
    })
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
        let end = to_end_of(&printf, minute, |line| heard.push(line.to_owned()));
        assert_eq!(end.expect("it starts"), GuestEnd::Off);

        let mut endless = Command::new("sh");
        endless.args(["-c", "echo here; exec sleep 1000"]);
        let second = Duration::from_secs(1);
        let end = to_end_of(&endless, second, |line| heard.push(line.to_owned()));
        assert!(matches!(end, Ok(GuestEnd::OutOfTime { .. })), "{end:?}");
        assert_eq!(heard, ["one", "", "two", "here"]);
    }
}
