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
    // It has the other end of the pipe, which would never be at its end.
    drop(command);
    // A signal may kill the child before it reports. Then its exit is all that is of interest.
    let _ = read_usage(&mut reader);
    let before = read_usage(&mut reader).unwrap_or_default();
    let (exit, usage) = loop {
        tokio::select! {
            // The terminal signals the command too, so both may be ready at once: look at the
            // signal first.
            biased;
            signal = signals.next() => if let Received::ToForward(signal) = signal? { child.forward(signal) },
            ended = child.wait_with_usage() => break ended?,
        }
    };
    let after = used(&usage)?;
    signals.pending()?;
    Ok(timing(before, after, exit))
}

/// Makes the child report what it has used before its exec: that belongs to zctrace, not to the
/// command. The child reports twice. The first time faults the code in, so that little happens
/// between the second report and exec.
fn report_usage_before_exec(command: &mut Command, mut writer: PipeWriter) {
    // SAFETY: the closure runs between fork and exec, and only makes plain system calls.
    unsafe {
        command.pre_exec(move || {
            writer.write_all(own_usage()?.map(u64::to_ne_bytes).as_flattened())?;
            // Fails, because there is no program without a name. This faults the code of execvp in.
            libc::execvp(c"".as_ptr(), [std::ptr::null()].as_ptr());
            writer.write_all(own_usage()?.map(u64::to_ne_bytes).as_flattened())
        });
    }
}

/// Reads what the child reported.
fn read_usage(reader: &mut PipeReader) -> io::Result<UsedResources> {
    let mut numbers = [[0; 8]; NUMBERS];
    reader.read_exact(numbers.as_flattened_mut())?;
    Ok(numbers.map(u64::from_ne_bytes))
}

fn own_usage() -> io::Result<UsedResources> {
    // SAFETY: plain numbers, for which zero is valid.
    let mut usage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is ours.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } < 0 {
        return Err(io::Error::last_os_error());
    }
    used(&usage)
}

const NUMBERS: usize = 8;
/// The resources that a process has used up to a point in time: that point on the monotonic clock,
/// user time and system time, in ns; voluntary and involuntary switches, minor and major faults;
/// the peak of its memory in KiB.
type UsedResources = [u64; NUMBERS];

/// By how much exec alone can raise the peak, in KiB: it writes the arguments into the new program's
/// memory.
const EXEC_KIB: u64 = 256;

/// What this usage says now.
fn used(usage: &libc::rusage) -> io::Result<UsedResources> {
    let now: Duration = clock_gettime(ClockId::CLOCK_MONOTONIC)?.into();
    // The kernel's counters are never negative.
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or_default();
    let time =
        |time: libc::timeval| count(time.tv_sec) * 1_000_000_000 + count(time.tv_usec) * 1000;
    Ok([
        u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        time(usage.ru_utime),
        time(usage.ru_stime),
        count(usage.ru_nvcsw),
        count(usage.ru_nivcsw),
        count(usage.ru_minflt),
        count(usage.ru_majflt),
        count(usage.ru_maxrss),
    ])
}

/// What was used between two points in time.
fn timing(before: UsedResources, after: UsedResources, exit: Exit) -> Timing {
    let [
        wall,
        user,
        system,
        voluntary_switches,
        involuntary_switches,
        minor_faults,
        major_faults,
        _,
    ] = std::array::from_fn(|number| after[number].saturating_sub(before[number]));
    let [peak_before_kib, peak_kib] = [before, after].map(|used| used[NUMBERS - 1]);
    Timing {
        wall: Duration::from_nanos(wall),
        user: Duration::from_nanos(user),
        system: Duration::from_nanos(system),
        voluntary_switches,
        involuntary_switches,
        minor_faults,
        major_faults,
        // The kernel's peak is for all programs that a process has executed, so it includes
        // zctrace before its exec.
        peak_memory_bytes: (peak_kib > peak_before_kib + EXEC_KIB).then_some(peak_kib * 1024),
        exit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_before_the_exec_is_not_counted() {
        let used = |factor: u64| [1_000_000_007, 1, 2, 3, 4, 5, 6, 1000].map(|one| one * factor);
        let expected = Timing {
            wall: Duration::from_nanos(2_000_000_014),
            user: Duration::from_nanos(2),
            system: Duration::from_nanos(4),
            voluntary_switches: 6,
            involuntary_switches: 8,
            minor_faults: 10,
            major_faults: 12,
            // A peak is not a difference.
            peak_memory_bytes: Some(3000 * 1024),
            exit: Exit::Code(0),
        };
        assert_eq!(timing(used(1), used(3), Exit::Code(0)), expected);
    }

    #[test]
    fn a_peak_that_may_be_that_of_zctrace_is_unknown() {
        let peak = |kib| {
            let [before, after] = [1000, 1000 + kib].map(|kib| [0, 0, 0, 0, 0, 0, 0, kib]);
            timing(before, after, Exit::Code(0)).peak_memory_bytes
        };
        assert_eq!(peak(EXEC_KIB), None);
        assert_eq!(peak(EXEC_KIB + 1), Some((1001 + EXEC_KIB) * 1024));
    }
}
