//! `--pager`: shows a report through the user's pager. Without the option there is none: the
//! command's own output is above the report, and a pager would hide it.

use std::{
    env,
    io::{self, Write as _},
    process::{Command, ExitStatus, Stdio},
};

use nix::sys::signal::{SigSet, Signal};

use crate::{output::ReportOutput, say};

/// The pager if `PAGER` names none.
const DEFAULT: &str = "less";
/// What `less` does unless `LESS` says otherwise, as for git: it ends at once if the text fits on
/// the screen (F), shows colours (R) and leaves the text on the screen (X).
const LESS: &str = "FRX";

/// Shows a text through the pager, on the terminal that it would be written to. If that fails, says
/// so in one line and writes the text.
pub fn show(text: &str, output: &ReportOutput) -> anyhow::Result<()> {
    let pager = env::var("PAGER")
        .ok()
        .filter(|pager| !pager.trim().is_empty())
        .unwrap_or_else(|| DEFAULT.to_owned());
    let problem = match page(&pager, text, output) {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    say(format_args!(
        "the pager '{pager}' failed ({problem}): set PAGER to another one; here is the report without it"
    ));
    output.write(text)
}

/// Runs the pager until the user leaves it.
fn page(pager: &str, text: &str, output: &ReportOutput) -> io::Result<ExitStatus> {
    // Keys that send these signals are for the pager.
    [Signal::SIGINT, Signal::SIGQUIT]
        .into_iter()
        .collect::<SigSet>()
        .thread_block()?;
    let terminal = output.terminal().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(pager);
    command.stdin(Stdio::piped()).stdout(terminal);
    if env::var_os("LESS").is_none() {
        command.env("LESS", LESS);
    }
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(text.as_bytes()) {
            // The user need not read all of it.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    child.wait()
}
