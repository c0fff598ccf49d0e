//! What runs before and after the commands.

use super::{CompareError, Plan, Timing, how_it_failed, streams, timed};
use crate::launch::{LaunchOptions, OnTracerExit, Signals};

/// Runs the command line of this option in a shell, if there is one. Gives back what it took.
pub(super) async fn run(
    option: &'static str,
    line: Option<&String>,
    plan: &Plan,
    signals: &Signals,
) -> Result<Option<Timing>, CompareError> {
    let Some(line) = line else { return Ok(None) };
    let launch = LaunchOptions {
        identity: plan.identity,
        on_tracer_exit: OnTracerExit::Kill,
        streams: streams::of_hooks(plan)?,
        ..LaunchOptions::default()
    };
    let timing = timed::time(&plan.shell.script(line), &launch, signals).await?;
    match how_it_failed(timing.exit) {
        None => Ok(Some(timing)),
        Some(how) => Err(CompareError::HookFailed { option, command: line.clone(), how }),
    }
}
