//! Options of `zctrace compare`. Where hyperfine has the same option, it has the same name.

use std::path::PathBuf;

use clap::Args;
use zctrace::{
    backend::Choice,
    compare::{HookLines, Input, OnFailure, Order, Output, Runs, Shell},
    render::CompareFormat,
    syscalls::Selection,
};

use super::values::{ColorWhen, LimitArgs, default_word, one_of};

/// Examples, shown after the options.
pub const EXAMPLES: &str = "\
Examples:
  zctrace compare 'cp in out' 'cat in > out'
  zctrace compare -N --warmup 3 -n 4k -n 64k 'dd bs=4k if=in of=out' 'dd bs=64k if=in of=out'
  zctrace compare --prepare 'echo 3 > /proc/sys/vm/drop_caches' --export csv t.csv 'cp in out'

The commands take turns (a, b, a, b, ...), so that a slow phase of the machine slows all of them; \
hyperfine runs them one after the other, as --sequential does. Times, switches, faults and memory are those of untraced runs; \
± is the standard deviation of the runs. Then each command is traced once, and that run counts its system calls: \
those of all its processes, including the shell.

These options of hyperfine are missing: --parameter-scan (-P), --parameter-list (-L), --time-unit (-u), --style, \
--export-asciidoc and --export-orgmode.";

/// Options of `compare`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub struct CompareArgs {
    /// A command line, quoted as one word.
    #[arg(required = true, value_name = "CMD")]
    pub commands: Vec<String>,

    /// Run each command this many times; without it, at least 10 times, and until 3 seconds are
    /// measured.
    #[arg(short, long, value_name = "N", conflicts_with_all = ["min_runs", "max_runs"], value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: Option<u64>,

    /// Run each command at least this many times [default: 10].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub min_runs: Option<u64>,

    /// Run each command at most this many times.
    #[arg(short = 'M', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_runs: Option<u64>,

    /// Run each command this many times before it is timed, to fill caches.
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub warmup: u64,

    /// Run this before every run of a command; given once for all commands, or once for each.
    #[arg(short, long, value_name = "CMD")]
    pub prepare: Vec<String>,

    /// Run this after every run of a command; given once for all commands, or once for each.
    #[arg(short = 'C', long, value_name = "CMD")]
    pub conclude: Vec<String>,

    /// Run this before the first run of each command.
    #[arg(short, long, value_name = "CMD")]
    pub setup: Option<String>,

    /// Run this after the last run of each command.
    #[arg(short, long, value_name = "CMD")]
    pub cleanup: Option<String>,

    /// The name of a command; the first name is for the first command.
    #[arg(
        short,
        long = "name",
        visible_alias = "command-name",
        value_name = "NAME"
    )]
    pub name: Vec<String>,

    /// The command that the others are compared with, by its name or as it is written; without it,
    /// the first one.
    #[arg(long, value_name = "NAME")]
    pub reference: Option<String>,

    /// Continue if a command fails.
    #[arg(short, long)]
    pub ignore_failure: bool,

    /// What runs the commands: a shell with its options, `default` (sh), or `none`.
    #[arg(short = 'S', long, value_name = "SHELL", default_value = "default")]
    pub shell: Shell,

    /// The same as --shell=none: no shell, and no time of a shell to subtract. --prepare and its
    /// like still use one.
    #[arg(short = 'N', conflicts_with = "shell")]
    pub no_shell: bool,

    /// Run one command to the end of its runs before the next one, as hyperfine does.
    #[arg(long)]
    pub sequential: bool,

    /// What the commands read: `null` or a file.
    #[arg(long, value_name = "WHERE", default_value = "null")]
    pub input: String,

    /// Where the commands write: `null`, `pipe`, `inherit` (shows stderr, too), or a file with a
    /// `/` in its name.
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "null",
        conflicts_with = "show_output"
    )]
    pub output: String,

    /// The same as --output=inherit.
    #[arg(long, hide = true)]
    pub show_output: bool,

    /// Also write the comparison to a file, as json, csv or markdown. Can be given several times.
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"])]
    pub export: Vec<String>,

    /// `--export json FILE`, as hyperfine spells it.
    #[arg(long, hide = true, value_name = "FILE")]
    pub export_json: Option<PathBuf>,

    /// `--export csv FILE`, as hyperfine spells it.
    #[arg(long, hide = true, value_name = "FILE")]
    pub export_csv: Option<PathBuf>,

    /// `--export markdown FILE`, as hyperfine spells it.
    #[arg(long, hide = true, value_name = "FILE")]
    pub export_markdown: Option<PathBuf>,

    /// Output format of what is shown on stdout.
    #[arg(long, value_enum, default_value_t)]
    pub format: CompareFormat,

    /// Calls to count, as for `run`.
    #[arg(short = 'e', long, value_name = "SET", default_value = "%data")]
    pub syscalls: Selection,

    /// Run the commands as this user: a name, or UID[:GID].
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,

    /// The backend that traces the commands.
    #[arg(long, value_parser = one_of::<Choice>(), default_value = default_word::<Choice>())]
    pub backend: Choice,

    /// How much a traced run may keep.
    #[command(flatten)]
    pub limits: LimitArgs,

    /// When to use colour.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorWhen,

    /// Log what the backend does.
    #[arg(short, long)]
    pub verbose: bool,
}

impl CompareArgs {
    /// How often each command runs.
    pub fn runs(&self) -> anyhow::Result<Runs> {
        match (self.runs, self.min_runs, self.max_runs) {
            (Some(runs), _, _) => Ok(Runs {
                min: runs,
                max: Some(runs),
            }),
            (None, Some(min), Some(max)) if min > max => {
                anyhow::bail!("--min-runs {min} is more than --max-runs {max}")
            }
            (None, min, max) => {
                let usual = Runs::DEFAULT_MIN.min(max.unwrap_or(u64::MAX));
                Ok(Runs {
                    min: min.unwrap_or(usual),
                    max,
                })
            }
        }
    }

    /// The commands that run before and after them.
    pub fn hooks(&self) -> HookLines {
        HookLines {
            setup: self.setup.clone(),
            prepare: self.prepare.clone(),
            conclude: self.conclude.clone(),
            cleanup: self.cleanup.clone(),
        }
    }

    /// What runs the commands.
    pub fn shell(&self) -> &Shell {
        if self.no_shell {
            &Shell::None
        } else {
            &self.shell
        }
    }

    /// The order in which they run.
    pub fn order(&self) -> Order {
        if self.sequential {
            Order::Sequential
        } else {
            Order::Interleaved
        }
    }

    /// What to do if one fails.
    pub fn on_failure(&self) -> OnFailure {
        if self.ignore_failure {
            OnFailure::Ignore
        } else {
            OnFailure::Stop
        }
    }

    /// What they read.
    pub fn input(&self) -> Input {
        if self.input == "null" {
            Input::Null
        } else {
            Input::File(self.input.clone().into())
        }
    }

    /// Where they write.
    pub fn output(&self) -> anyhow::Result<Output> {
        match self.output.as_str() {
            _ if self.show_output => Ok(Output::Inherit),
            "null" => Ok(Output::Null),
            "pipe" => Ok(Output::Pipe),
            "inherit" => Ok(Output::Inherit),
            // Any other word may be a typing error.
            path if path.contains('/') => Ok(Output::File(path.into())),
            word => anyhow::bail!(
                "--output: '{word}' is not null, pipe or inherit; for a file of that name write ./{word}"
            ),
        }
    }

    /// The files to write, each with its format.
    pub fn exports(&self) -> anyhow::Result<Vec<(CompareFormat, PathBuf)>> {
        let as_hyperfine = [
            (CompareFormat::Json, &self.export_json),
            (CompareFormat::Csv, &self.export_csv),
            (CompareFormat::Markdown, &self.export_markdown),
        ];
        let pairs = self
            .export
            .chunks_exact(2)
            .map(|pair| Ok((export_format(&pair[0])?, PathBuf::from(&pair[1]))));
        let own = pairs.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(own
            .into_iter()
            .chain(
                as_hyperfine
                    .into_iter()
                    .filter_map(|(format, path)| Some((format, path.clone()?))),
            )
            .collect())
    }
}

fn export_format(word: &str) -> anyhow::Result<CompareFormat> {
    match word {
        "json" => Ok(CompareFormat::Json),
        "csv" => Ok(CompareFormat::Csv),
        "markdown" => Ok(CompareFormat::Markdown),
        other => anyhow::bail!(
            "--export: '{other}' is not json, csv or markdown; write it as in: --export json FILE"
        ),
    }
}
