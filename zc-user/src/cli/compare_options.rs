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

The commands take turns (a, b, a, b, ...), so that a slow phase of the machine affects all of them. Their standard streams \
are /dev/null. A command that fails ends the comparison.

Times, context switches, page faults and memory come from untraced runs; ± is the standard deviation. Then each command \
is traced once, to count the system calls of all its processes.";

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A command line, quoted as one word; the others are compared with the first.
    #[arg(required = true, value_name = "CMD")]
    pub commands: Vec<String>,

    /// Run each command this many times [default: at least 10 times, for at least 3 seconds].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: Option<u64>,

    /// Run each command this many times before timing it, to fill caches.
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub warmup: u64,

    /// Run this shell command before every run.
    ///
    /// Give it once for all commands, or once for each.
    #[arg(short, long, value_name = "CMD")]
    pub prepare: Vec<String>,

    /// Give a command a name, in the order of the commands.
    #[arg(short, long = "name", value_name = "NAME")]
    pub name: Vec<String>,

    /// Run the commands without a shell.
    ///
    /// By default, sh runs commands that need a shell, and its time is included.
    #[arg(short = 'N')]
    pub no_shell: bool,

    /// Also write the comparison to a file, as json or markdown. Can be given several times.
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"])]
    pub export: Vec<String>,

    /// Output format of stdout.
    #[arg(long, value_enum, default_value_t)]
    pub format: CompareFormat,

    /// Count these calls in detail, as in `run`.
    #[arg(short = 'e', long, value_name = "SET", default_value = "%data")]
    pub syscalls: Selection,

    /// Run the commands as this user: a name, or UID[:GID].
    #[arg(long, value_name = "USER", value_parser = find_identity)]
    pub user: Option<Identity>,

    /// Trace with this backend.
    #[arg(long, value_parser = one_of::<Choice>(), default_value = default_word::<Choice>())]
    pub backend: Choice,

    /// How much a traced run may keep.
    #[command(flatten)]
    pub limits: LimitArgs,

    /// When to use colour.
    ///
    /// `auto` uses it on a terminal, unless `NO_COLOR` or `TERM=dumb` is set.
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
