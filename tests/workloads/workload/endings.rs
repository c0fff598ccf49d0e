//! How a process can end.

use std::process;
use std::str::FromStr;

use anyhow::{Context, Result};
use nix::sys::signal::{SigHandler, Signal, raise, signal};

use crate::parameters::Parameters;

/// Exits with the given status.
pub(crate) fn exit_code(mut parameters: Parameters) -> Result<()> {
    let code: u8 = parameters.text().context("which status?")?.parse().context("a status is 0 to 255")?;
    parameters.end()?;
    process::exit(code.into())
}

/// Ends by a signal, with its default action.
pub(crate) fn kill_self(mut parameters: Parameters) -> Result<()> {
    let name = parameters.text().context("which signal?")?;
    parameters.end()?;
    let by_number = name.parse().ok().and_then(|number: i32| Signal::try_from(number).ok());
    let chosen = by_number.or_else(|| Signal::from_str(&format!("SIG{}", name.trim_start_matches("SIG"))).ok());
    let chosen = chosen.with_context(|| format!("{name:?} is not a signal; write SIGTERM, TERM or 15"))?;
    if !matches!(chosen, Signal::SIGKILL | Signal::SIGSTOP) {
        // SAFETY: the default action is no handler at all.
        unsafe { signal(chosen, SigHandler::SigDfl) }?;
    }
    raise(chosen)?;
    Ok(())
}
