//! The options that name what to attach to, instead of a command.

use std::str::FromStr;

use clap::Args;
use zctrace::attach::Targets;

/// What to attach to.
#[derive(Debug, Clone, Args)]
pub struct TargetArgs {
    /// Attach to running processes and their descendants, until Ctrl-C (repeatable).
    ///
    /// The processes keep running afterwards.
    #[arg(short = 'p', long = "pid", alias = "attach", value_name = "PID[,PID...]", conflicts_with_all = ["cgroup", "user", "env"])]
    pids: Vec<PidList>,

    /// Attach to every process in a cgroup, until Ctrl-C: its directory, or a container id.
    ///
    /// This needs cgroup version 2.
    #[arg(long, value_name = "CGROUP", conflicts_with_all = ["user", "env"])]
    cgroup: Option<String>,

    /// Attach to all processes, until Ctrl-C, and to those that start later.
    #[arg(short = 'a', long, conflicts_with_all = ["pids", "cgroup", "user", "env"])]
    system_wide: bool,
}

impl TargetArgs {
    /// What to attach to, if anything.
    pub fn targets(&self) -> Option<Targets> {
        let cgroup = self.cgroup.clone().map(Targets::Cgroup);
        let pids: Vec<u32> = self.pids.iter().flat_map(|list| list.0.clone()).collect();
        let system = self.system_wide.then_some(Targets::System);
        let processes = (!pids.is_empty()).then_some(Targets::Processes(pids));
        cgroup.or(system).or(processes)
    }
}

/// Process ids that `--pid` takes, with commas or spaces between them: pidof(1) and pgrep(1) print
/// them so.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PidList(Vec<u32>);

impl FromStr for PidList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words = text.split(|c: char| c == ',' || c.is_ascii_whitespace());
        let words = words.filter(|word| !word.is_empty());
        let pid = |word: &str| match word.parse() {
            Ok(pid @ 1..=MAX_PIDS) => Ok(pid),
            _ => Err(format!("'{word}' is not a process id")),
        };
        let pids: Vec<u32> = words.map(pid).collect::<Result<_, _>>()?;
        if pids.is_empty() {
            return Err("no process id is given".to_owned());
        }
        Ok(Self(pids))
    }
}

/// No process id is larger: `PID_MAX_LIMIT` of the kernel's include/linux/threads.h.
const MAX_PIDS: u32 = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_ids_are_separated_by_commas_or_spaces() {
        for (text, pids) in [("7", &[7][..]), ("7,8", &[7, 8]), ("9 10\n", &[9, 10])] {
            assert_eq!(text.parse(), Ok(PidList(pids.to_vec())), "{text}");
        }
        for text in ["0", "-1", "nginx", "1;2", "4194305", ""] {
            assert!(text.parse::<PidList>().is_err(), "{text}");
        }
    }
}
