//! What the program tells of itself: completions, the manual page, its version.

use std::{ffi::OsString, fmt::Write as _, io::Write as _};

use clap::{Command, CommandFactory as _, Parser as _, ValueEnum as _, error::ErrorKind};
use clap_complete::Shell;
use clap_mangen::Man;
use zctrace::{backend::ebpf, doctor};

use super::{Cli, mistake::misplaced};

const NAME: &str = "zctrace";

impl Cli {
    /// What the command line says; what is to be printed instead is an error.
    pub fn read() -> Result<Self, clap::Error> {
        let with_backends = |error: clap::Error| {
            // To ask strace for its version takes a moment: only if somebody wants to know.
            if error.kind() == ErrorKind::DisplayVersion {
                Cli::command().long_version(long_version()).try_get_matches()?;
            }
            Err(error)
        };
        let cli = Cli::try_parse().or_else(with_backends)?;
        match cli.misplaced_subcommand(&std::env::args_os().collect::<Vec<_>>()) {
            Some(name) => Err(Cli::command().error(ErrorKind::InvalidSubcommand, misplaced(&name))),
            None => Ok(cli),
        }
    }

    /// The command to trace, if it is called like a subcommand and no `--` says that it is none: the options were to come behind it.
    fn misplaced_subcommand(&self, words: &[OsString]) -> Option<String> {
        let command = &self.run.command;
        let name = command.first().filter(|_| self.action.is_none())?.to_str()?;
        let before = words.len().checked_sub(command.len() + 1).and_then(|place| words.get(place))?;
        (before != "--" && Self::command().find_subcommand(name).is_some()).then(|| name.to_owned())
    }
}

/// Version and backends, a line each.
fn long_version() -> String {
    let ebpf = match ebpf::embedded_object().len() {
        0 => "not in it (built without a BPF toolchain)".to_owned(),
        bytes => format!("in it ({} KiB)", bytes.div_ceil(1024)),
    };
    format!("{}\nebpf: {ebpf}\nstrace: {}", env!("CARGO_PKG_VERSION"), doctor::describe_strace())
}

/// The script that makes a shell complete the options.
pub fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut completable(), NAME, &mut script);
    text(script) + &if shell == Shell::Fish { shells_for_fish() } else { String::new() }
}

/// The command line as a shell is to complete it: without what is hidden, and without a command to trace in the place of a subcommand,
/// for zsh would take every word for it.
fn completable() -> Command {
    let full = Cli::command();
    let options = full.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set());
    let subcommand = |command: &Command| match command.get_name() {
        // The only one that hides something.
        "run" => {
            let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
            Command::new("run").about(command.get_about().cloned().unwrap_or_default()).args(shown)
        }
        _ => command.clone(),
    };
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .about(full.get_about().cloned().unwrap_or_default())
        .args(options)
        .subcommands(full.get_subcommands().map(subcommand))
}

/// What clap leaves out for fish: the values of an argument that is no option.
fn shells_for_fish() -> String {
    let shells: Vec<String> =
        Shell::value_variants().iter().filter_map(|shell| Some(shell.to_possible_value()?.get_name().to_owned())).collect();
    format!("complete -c {NAME} -n \"__fish_{NAME}_using_subcommand completions\" -f -a \"{}\"\n", shells.join(" "))
}

/// The manual page, in roff: the program, and below it each of its subcommands.
pub fn manual() -> std::io::Result<String> {
    let mut command = Cli::command();
    command.build();
    let page = Man::new(command.clone());
    let mut roff = Vec::new();
    // clap leaves out a date that there is not, and what follows is taken for it.
    writeln!(roff, ".TH {NAME} 1 \"\" \"{NAME} {}\" \"User commands\"", env!("CARGO_PKG_VERSION"))?;
    page.render_name_section(&mut roff)?;
    page.render_synopsis_section(&mut roff)?;
    page.render_description_section(&mut roff)?;
    page.render_options_section(&mut roff)?;
    let mut page = text(roff) + &examples(&command, ".SH");
    // `run` is the program itself.
    for subcommand in command.get_subcommands().filter(|subcommand| !["run", "help"].contains(&subcommand.get_name())) {
        page += &section(subcommand)?;
    }
    page += SEE_ALSO;
    Ok(page)
}

/// A subcommand: its sections are parts of one.
fn section(command: &Command) -> std::io::Result<String> {
    let man = Man::new(command.clone());
    let mut roff = Vec::new();
    man.render_synopsis_section(&mut roff)?;
    man.render_description_section(&mut roff)?;
    man.render_options_section(&mut roff)?;
    let mut section = String::new();
    let title = format!("{NAME} {}", command.get_name()).to_uppercase();
    writeln!(section, ".SH \"{title}\"").expect("a string takes everything");
    section += &text(roff).replace("\n.SH ", "\n.SS ");
    Ok(section + &examples(command, ".SS"))
}

/// What stands below the options in `--help`: examples as they are, and sentences.
fn examples(command: &Command, heading: &str) -> String {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let blocks = help.split("\n\n").filter(|block| !block.is_empty()).map(|block| match block.split_once(":\n") {
        Some(("Examples", examples)) => format!("{heading} EXAMPLES\n.EX\n{}\n.EE\n", verbatim(examples)),
        // What is indented is shown as it is.
        Some((title, lines)) if lines.starts_with("  ") => format!(".PP\n{title}:\n.EX\n{}\n.EE\n", verbatim(lines)),
        _ => format!(".PP\n{}\n", verbatim(block)),
    });
    blocks.collect()
}

/// Text of which nothing is a request of roff's.
fn verbatim(text: &str) -> String {
    let line = |line: &str| {
        let line = line.replace('\\', r"\e").replace('-', r"\-");
        if line.starts_with(['.', '\'']) { format!(r"\&{line}") } else { line }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

const SEE_ALSO: &str = ".SH \"SEE ALSO\"
.BR strace (1),
.BR perf\\-trace (1),
.BR bpf (2)
";

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("clap writes text")
}
