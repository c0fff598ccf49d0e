//! Texts generated from the command line's definition: shell completions, the manual page, the long
//! version.

use clap::Command;
use clap_complete::Shell;
use zctrace::backend::ebpf;

use super::Cli;

const NAME: &str = "zctrace";

/// The version, and whether the eBPF backend is in the program.
pub(super) fn long_version() -> String {
    let ebpf = match ebpf::object_origin() {
        None => "not in it (built with the feature without-ebpf)".to_owned(),
        Some(object) => {
            let kib = ebpf::embedded_object().len().div_ceil(1024);
            format!("in it ({kib} KiB, {})", object.origin)
        }
    };
    format!("{}\nebpf: {ebpf}", env!("CARGO_PKG_VERSION"))
}

impl Cli {
    /// The script that makes a shell complete options and subcommands.
    pub fn completions(shell: Shell) -> String {
        let mut script = Vec::new();
        let mut completable = completable(&Self::command());
        clap_complete::generate(shell, &mut completable, NAME, &mut script);
        String::from_utf8(script).expect("clap writes text")
    }

    /// The manual page in roff: the help of each subcommand, as it is.
    pub fn manual() -> String {
        let mut command = Self::command().term_width(MANUAL_COLUMNS);
        command.build();
        let about = command.get_about().map(ToString::to_string);
        let about = verbatim(about.unwrap_or_default().trim_end_matches('.'));
        let version = env!("CARGO_PKG_VERSION");
        let mut page = format!(
            ".TH {NAME} 1 \"\" \"{NAME} {version}\" \"User commands\"\n.SH NAME\n{NAME} \\- {about}\n"
        );
        let documented = |command: &&mut Command| command.get_name() != "help";
        for subcommand in command.get_subcommands_mut().filter(documented) {
            let title = format!("{NAME} {}", subcommand.get_name()).to_uppercase();
            let help = verbatim(&subcommand.render_long_help().to_string());
            page.extend([".SH \"", &title, "\"\n.EX\n", &help, "\n.EE\n"]);
        }
        page + SEE_ALSO
    }
}

/// The command line without hidden options, and without the command to trace before a subcommand:
/// zsh would take every word for it.
fn completable(full: &Command) -> Command {
    let options = full
        .get_arguments()
        .filter(|arg| !arg.is_positional() && !arg.is_hide_set());
    let subcommand = |command: &Command| match command.get_name() {
        // The only subcommand with hidden options.
        "run" => {
            let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
            Command::new("run")
                .about(command.get_about().cloned().unwrap_or_default())
                .args(shown)
        }
        _ => command.clone(),
    };
    let shown = full.get_subcommands().filter(|one| !one.is_hide_set());
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .about(full.get_about().cloned().unwrap_or_default())
        .args(options)
        .subcommands(shown.map(subcommand))
}

/// How wide the manual page is beside its margins.
const MANUAL_COLUMNS: usize = 72;

/// Escapes roff.
fn verbatim(text: &str) -> String {
    let line = |line: &str| {
        let line = line.replace('\\', r"\e").replace('-', r"\-");
        if line.starts_with(['.', '\'']) {
            format!(r"\&{line}")
        } else {
            line
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

const SEE_ALSO: &str = ".SH \"SEE ALSO\"
.BR strace (1),
.BR perf\\-trace (1),
.BR bpf (2)
";
