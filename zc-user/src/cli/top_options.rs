//! Options of `zctrace top`.

use std::ffi::OsString;

use clap::{Args, ValueHint};
use zctrace::{launch::Identity, syscalls::Selection};

use super::{
    DisplayArgs, SYSCALLS_HELP, TargetArgs, syscalls_help,
    values::{LimitArgs, find_identity, variable},
};

/// Examples, shown after the options.
pub const EXAMPLES: &str = "\
Examples:
  zctrace top ./server                   what it is doing now
  zctrace top -p $(pgrep -d, nginx)      the same for running processes
  zctrace top -a                         the same for the whole system
  zctrace top sh -c './server >log 2>&1' the same, and its output is kept
  zctrace top --format json -o r.json make -j8

The view needs the terminal: redirect the command's output, or it is lost. The key ? explains the view.

When the command ends, or you press q, zctrace prints the same report as `run`. After q, the command keeps running. \
The exit status is the command's.";

/// Options of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// The command to run, with its arguments.
    #[arg(trailing_var_arg = true, required_unless_present_any = ["pids", "cgroup", "system_wide"], conflicts_with_all = ["pids", "cgroup", "system_wide"], value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// What to attach to, instead of running a command.
    #[command(flatten)]
    pub targets: TargetArgs,

    #[arg(short = 'e', long, help = SYSCALLS_HELP, long_help = syscalls_help(), value_name = "SET", default_value = "%data")]
    pub syscalls: Selection,

    /// Run the command as this user: a name, or UID[:GID].
    #[arg(long, short_alias = 'u', value_name = "USER", value_parser = find_identity, value_hint = ValueHint::Username)]
    pub user: Option<Identity>,

    /// Set an environment variable of the command (repeatable).
    #[arg(long, short_alias = 'E', value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,

    /// How the report at the end is shown.
    #[command(flatten)]
    pub display: DisplayArgs,

    /// How much is kept.
    #[command(flatten)]
    pub limits: LimitArgs,
}
