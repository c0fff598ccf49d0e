//! Options of `zctrace compare`.

use clap::{Args, ColorChoice};
use zctrace::{
    backend::Choice, compare::Shell, launch::Identity, render::CompareFormat, syscalls::Selection,
};

use super::values::{LimitArgs, default_word, find_identity, one_of};

/// Examples, shown after the options.
pub const EXAMPLES: &str = "\
Examples:
  zctrace compare 'cp in out' 'cat in > out'
  zctrace compare -N --warmup 3 -n 4k -n 64k 'dd bs=4k if=in of=out' 'dd bs=64k if=in of=out'
  zctrace compare --prepare 'echo 3 > /proc/sys/vm/drop_caches' --export json t.json 'cp in out'

The commands take turns (a, b, a, b, ...), so that a slow phase of the machine slows all of them. Their standard streams \
are /dev/null, and one that fails ends the comparison. Times, switches, faults and memory are those of untraced runs; \
± is the standard deviation of the runs. Then each command is traced once, and that run counts its system calls: \
those of all its processes, as a run of `zctrace CMD` does.";

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A command line, quoted as one word. The first one is what the others are compared with.
    #[arg(required = true, value_name = "CMD")]
    pub commands: Vec<String>,

    /// Run each command this many times; without it, at least 10 times, and until 3 seconds are
    /// measured.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: Option<u64>,

    /// Run each command this many times before it is timed, to fill caches.
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub warmup: u64,

    /// Run this before every run of a command, in a shell; given once for all commands, or once for
    /// each.
    #[arg(short, long, value_name = "CMD")]
    pub prepare: Vec<String>,

    /// The name of a command; the first name is for the first command.
    #[arg(short, long = "name", value_name = "NAME")]
    pub name: Vec<String>,

    /// Run all commands without a shell. Otherwise sh runs those that need one, and its time is
    /// part of theirs.
    #[arg(short = 'N')]
    pub no_shell: bool,

    /// Also write the comparison to a file, as json or markdown. Can be given several times.
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"])]
    pub export: Vec<String>,

    /// Output format of what is shown on stdout.
    #[arg(long, value_enum, default_value_t)]
    pub format: CompareFormat,

    /// Calls to count, as for `run`.
    #[arg(short = 'e', long, value_name = "SET", default_value = "%data")]
    pub syscalls: Selection,

    /// Run the commands as this user: a name, or UID[:GID].
    #[arg(long, value_name = "USER", value_parser = find_identity)]
    pub user: Option<Identity>,

    /// The backend that traces the commands.
    #[arg(long, value_parser = one_of::<Choice>(), default_value = default_word::<Choice>())]
    pub backend: Choice,

    /// How much a traced run may keep.
    #[command(flatten)]
    pub limits: LimitArgs,

    /// When to use colour; `auto`: on a terminal, unless `NO_COLOR` or `TERM=dumb` is set.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,
}

impl CompareArgs {
    /// What runs the commands.
    pub fn shell(&self) -> Shell {
        if self.no_shell {
            Shell::None
        } else {
            Shell::Sh
        }
    }
}
