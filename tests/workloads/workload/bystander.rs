//! `bystander`: the same calls as the traced workloads, by a process that must not be counted.

use std::fs::File;
use std::io;

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{read, write};
use rustix::process::{Signal, set_parent_process_death_signal};
use zc_tests::print_line;

use crate::parameters::Parameters;

/// Calls of each kind between two looks at stdin.
const ROUND: usize = 64;

/// Says `ready`, then reads from `/dev/zero` and writes to `/dev/null` until stdin has something or closes (so stdin should be a
/// pipe), or the parent ends.
pub(crate) fn run(parameters: Parameters) -> Result<()> {
    parameters.end()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let (zero, null) = (File::open("/dev/zero")?, File::options().write(true).open("/dev/null")?);
    let stdin = io::stdin();
    let mut buffer = [0; 100];
    print_line("ready")?;
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    while poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&at_once))? == 0 {
        for _ in 0..ROUND {
            read(&zero, &mut buffer)?;
            write(&null, &buffer[..64])?;
        }
    }
    Ok(())
}
