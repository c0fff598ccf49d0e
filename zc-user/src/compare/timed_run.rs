//! One timed run without tracing: its time and the resources it used.

use std::{
    ffi::OsString,
    io::{self, PipeReader, PipeWriter, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::Command,
    time::Duration,
};

use nix::time::{ClockId, clock_gettime};

use zctrace_core::compare::Timing;

use super::error::CompareError;
use crate::{
    launch::{Child, LaunchError, LaunchOptions, Received, Signals, find_program, prepare},
    trace::Exit,
};

/// Runs this command to its end. A signal to zctrace is an error; the caller then has to end the
/// command.
pub(super) async fn time(
    words: &[OsString],
    launch: &LaunchOptions,
    signals: &Signals,
) -> Result<Timing, CompareError> {
    let program = find_program(words, launch)?;
    let (mut reader, writer) = io::pipe()?;
    let failed = |cause| LaunchError::new(words.first().cloned().unwrap_or_default(), cause);
    let mut command = prepare(&program, words, launch, signals).map_err(failed)?;
    report_usage_before_exec(&mut command, writer);
    let child = Child::spawn(&mut command).map_err(failed)?;
    Usage::read_from(&mut reader)?;
    let before = Usage::read_from(&mut reader)?;
    let (exit, usage) = loop {
        tokio::select! {
            // The terminal signals the command too, so both may be ready at once: look at the
            // signal first.
            biased;
            signal = signals.next() => if let Received::ToForward(signal) = signal? { child.forward(signal) },
            ended = child.wait_with_usage() => break ended?,
        }
    };
    let after = Usage::now(&usage)?;
    signals.pending()?;
    Ok(after.since(&before, exit))
}

/// Makes the child report what it has used before its exec: that belongs to zctrace, not to the
/// command. The child reports twice. The first time faults the code in, so that little happens
/// between the second report and exec.
fn report_usage_before_exec(command: &mut Command, mut writer: PipeWriter) {
    // SAFETY: the closure runs between fork and exec, and only makes plain system calls.
    unsafe {
        command.pre_exec(move || {
            writer.write_all(&own_usage()?.to_bytes())?;
            // Fails, because there is no program without a name. This faults the code of execvp in.
            libc::execvp(c"".as_ptr(), [std::ptr::null()].as_ptr());
            writer.write_all(&own_usage()?.to_bytes())
        });
    }
}

fn own_usage() -> io::Result<Usage> {
    // SAFETY: plain numbers, for which zero is valid.
    let mut usage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is ours.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Usage::now(&usage)
}

/// The resources that a process has used up to a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Usage {
    /// That point, on the monotonic clock.
    at: Duration,
    user: Duration,
    system: Duration,
    voluntary_switches: u64,
    involuntary_switches: u64,
    minor_faults: u64,
    major_faults: u64,
    peak_memory_kib: u64,
}

impl Usage {
    /// By how much exec alone can raise the peak: it writes the arguments into the new program's
    /// memory.
    const EXEC_KIB: u64 = 256;
    const NUMBERS: usize = 8;

    fn now(usage: &libc::rusage) -> io::Result<Self> {
        let at = clock_gettime(ClockId::CLOCK_MONOTONIC)?.into();
        // The kernel's counters are never negative.
        let count = |number: libc::c_long| u64::try_from(number).unwrap_or_default();
        let time = |time: libc::timeval| {
            Duration::from_secs(count(time.tv_sec)) + Duration::from_micros(count(time.tv_usec))
        };
        Ok(Self {
            at,
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
            voluntary_switches: count(usage.ru_nvcsw),
            involuntary_switches: count(usage.ru_nivcsw),
            minor_faults: count(usage.ru_minflt),
            major_faults: count(usage.ru_majflt),
            peak_memory_kib: count(usage.ru_maxrss),
        })
    }

    fn since(&self, before: &Self, exit: Exit) -> Timing {
        Timing {
            wall: self.at.saturating_sub(before.at),
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            voluntary_switches: self
                .voluntary_switches
                .saturating_sub(before.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(before.involuntary_switches),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            // The kernel's peak is for all programs that a process has executed, so it includes
            // zctrace before its exec.
            peak_memory_bytes: (self.peak_memory_kib > before.peak_memory_kib + Self::EXEC_KIB)
                .then_some(self.peak_memory_kib * 1024),
            exit,
        }
    }

    fn to_bytes(self) -> [u8; Self::NUMBERS * 8] {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let numbers: [u64; Self::NUMBERS] = [
            nanoseconds(self.at),
            nanoseconds(self.user),
            nanoseconds(self.system),
            self.voluntary_switches,
            self.involuntary_switches,
            self.minor_faults,
            self.major_faults,
            self.peak_memory_kib,
        ];
        let mut bytes = [0; Self::NUMBERS * 8];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    /// Reads what the child reported.
    fn read_from(reader: &mut PipeReader) -> io::Result<Self> {
        let mut numbers = [0; Self::NUMBERS];
        for number in &mut numbers {
            let mut bytes = [0; 8];
            reader.read_exact(&mut bytes)?;
            *number = u64::from_ne_bytes(bytes);
        }
        let [
            at,
            user,
            system,
            voluntary_switches,
            involuntary_switches,
            minor_faults,
            major_faults,
            peak_memory_kib,
        ] = numbers;
        let [at, user, system] = [at, user, system].map(Duration::from_nanos);
        Ok(Self {
            at,
            user,
            system,
            voluntary_switches,
            involuntary_switches,
            minor_faults,
            major_faults,
            peak_memory_kib,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(factor: u64) -> Usage {
        Usage {
            at: Duration::from_nanos(1_000_000_007 * factor),
            user: Duration::from_micros(factor),
            system: Duration::from_micros(2 * factor),
            voluntary_switches: 3 * factor,
            involuntary_switches: 4 * factor,
            minor_faults: 5 * factor,
            major_faults: 6 * factor,
            peak_memory_kib: 1000 * factor,
        }
    }

    #[test]
    fn usage_survives_the_pipe() {
        let (mut reader, mut writer) = io::pipe().expect("a pipe");
        writer
            .write_all(&used(3).to_bytes())
            .expect("the pipe has room");
        assert_eq!(
            Usage::read_from(&mut reader).expect("it was written"),
            used(3)
        );
    }

    #[test]
    fn usage_before_the_exec_is_not_counted() {
        let timing = used(3).since(&used(1), Exit::Code(0));
        assert_eq!(timing.wall, Duration::from_nanos(2_000_000_014));
        assert_eq!(
            (timing.user, timing.system),
            (Duration::from_micros(2), Duration::from_micros(4))
        );
        assert_eq!(
            (timing.voluntary_switches, timing.involuntary_switches),
            (6, 8)
        );
        assert_eq!((timing.minor_faults, timing.major_faults), (10, 12));
        assert_eq!(
            timing.peak_memory_bytes,
            Some(3000 * 1024),
            "a peak is not a difference"
        );
    }

    #[test]
    fn a_peak_that_may_be_that_of_zctrace_is_unknown() {
        let after = |kib| {
            Usage {
                peak_memory_kib: 1000 + kib,
                ..used(3)
            }
            .since(&used(1), Exit::Code(0))
            .peak_memory_bytes
        };
        assert_eq!(after(Usage::EXEC_KIB), None);
        assert_eq!(
            after(Usage::EXEC_KIB + 1),
            Some((1001 + Usage::EXEC_KIB) * 1024)
        );
    }
}
