//! Options of `zctrace compare`.

use clap::{Args, ColorChoice};
use zctrace::{
    backend::Choice,
    compare::{PlanError, Runs, Shell},
    launch::Identity,
    render::CompareFormat,
    syscalls::Selection,
};

use super::values::{LimitArgs, default_word, find_identity, one_of};

/// Examples, shown after the options.
pub const EXAMPLES: &str = "\
Examples:
  zctrace compare 'cp in out' 'cat in > out'
  zctrace compare -N --warmup 3 -n 4k -n 64k 'dd bs=4k if=in of=out' 'dd bs=64k if=in of=out'
  zctrace compare -L size 4k,64k,1M 'dd bs={size} if=in of=out'
  zctrace compare --prepare 'echo 3 > /proc/sys/vm/drop_caches' --export json t.json 'cp in out'

The commands take turns (a, b, a, b, ...). Their standard streams are /dev/null. A command that fails ends the \
comparison, unless you use --ignore-failure.

Times, context switches, page faults and memory come from untraced runs; ± is the standard deviation. Calls come from \
one traced run of each command.";

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A command line, quoted as one word; the others are compared with the first.
    #[arg(required = true, value_name = "CMD")]
    pub commands: Vec<String>,

    /// Run each command this many times [default: at least 10 times, for at least 3 seconds].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: Option<u64>,

    /// Run each command at least this many times [default: 10].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "runs")]
    pub min_runs: Option<u64>,

    /// Run each command at most this many times.
    #[arg(short = 'M', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "runs")]
    pub max_runs: Option<u64>,

    /// Run each command this many times before timing it, to fill caches.
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub warmup: u64,

    /// Run this shell command before every run.
    ///
    /// Give it once for all commands, or once for each.
    #[arg(short, long, value_name = "CMD")]
    pub prepare: Vec<String>,

    /// Run this shell command once for each command, before the first run of all.
    #[arg(short, long, value_name = "CMD")]
    pub setup: Option<String>,

    /// Run this shell command once for each command, after the last run of all or after a failure.
    #[arg(short, long, value_name = "CMD")]
    pub cleanup: Option<String>,

    /// Run each command with each of these comma-separated values instead of {NAME}.
    ///
    /// Repeat it for all combinations.
    #[arg(short = 'L', long, num_args = 2, value_names = ["NAME", "VALUES"])]
    pub parameter_list: Vec<String>,

    /// Go on if a command fails.
    #[arg(short, long)]
    pub ignore_failure: bool,

    /// Give a command a name, in the order of the commands.
    #[arg(short, long = "name", value_name = "NAME")]
    pub name: Vec<String>,

    /// Run the commands in this shell, as in `bash --norc`, or without one: `none`.
    ///
    /// By default, sh runs commands that need a shell. The shell's time is included.
    #[arg(short = 'S', long, value_name = "SHELL")]
    pub shell: Option<String>,

    /// Run the commands without a shell.
    #[arg(short = 'N', conflicts_with = "shell")]
    pub no_shell: bool,

    /// Also write the comparison to a file, as json or markdown (repeatable).
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"])]
    pub export: Vec<String>,

    /// Short for `--export json`.
    #[arg(long, value_name = "FILE")]
    pub export_json: Option<String>,

    /// Short for `--export markdown`.
    #[arg(long, value_name = "FILE")]
    pub export_markdown: Option<String>,

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
    pub fn shell(&self) -> Result<Shell, PlanError> {
        match &self.shell {
            Some(shell) => Shell::from_words(shell),
            None if self.no_shell => Ok(Shell::None),
            None => Ok(Shell::Sh),
        }
    }

    /// How often each command is timed.
    pub fn runs(&self) -> Result<Runs, PlanError> {
        match self.runs {
            Some(runs) => Ok(Runs::exactly(runs)),
            None => Runs::between(self.min_runs, self.max_runs),
        }
    }

    /// The formats and files of all exports, in turn.
    pub fn exports(&self) -> Vec<String> {
        let mut exports = self.export.clone();
        for (format, file) in [
            ("json", &self.export_json),
            ("markdown", &self.export_markdown),
        ] {
            exports.extend(
                file.iter()
                    .flat_map(|file| [format.to_owned(), file.clone()]),
            );
        }
        exports
    }
}
