//! What runs before and after the commands.

use super::{CompareError, Plan, Timing, streams, timed};
use crate::{
    launch::{Bond, Manner, Signals, signal_name},
    trace::Exit,
};

/// Runs the command line of this option in a shell, if there is one. Gives back what it took.
pub(super) async fn run(
    option: &'static str,
    line: Option<&String>,
    plan: &Plan,
    signals: &Signals,
) -> Result<Option<Timing>, CompareError> {
    let Some(line) = line else { return Ok(None) };
    let manner =
        Manner { identity: plan.identity, bond: Bond::DiesWithUs, streams: streams::of_hooks(plan)?, ..Manner::default() };
    let timing = timed::time(&plan.shell.script(line), &manner, signals).await?;
    match how_it_failed(timing.exit) {
        None => Ok(Some(timing)),
        Some(how) => Err(CompareError::HookFailed { option, command: line.clone(), how }),
    }
}

/// How a command failed, as in "it failed with exit status 1"; `None` if it did not.
pub(super) fn how_it_failed(exit: Exit) -> Option<String> {
    match exit {
        Exit::Code(0) => None,
        Exit::Code(code) => Some(format!("failed with exit status {code}")),
        Exit::Signal(signal) => Some(format!("was killed by {}", signal_name(signal))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_command_failed_is_a_phrase() {
        assert_eq!(how_it_failed(Exit::Code(0)), None);
        assert_eq!(how_it_failed(Exit::Code(3)).as_deref(), Some("failed with exit status 3"));
        assert_eq!(how_it_failed(Exit::Signal(11)).as_deref(), Some("was killed by SIGSEGV"));
        assert_eq!(how_it_failed(Exit::Signal(40)).as_deref(), Some("was killed by signal 40"));
    }
}
