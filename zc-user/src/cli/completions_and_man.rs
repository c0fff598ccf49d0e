//! Texts generated from the command line's definition: shell completions, the manual page, the long
//! version.

use std::{fmt::Write as _, io::Write as _};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use zctrace::{backend::ebpf, doctor};

const NAME: &str = "zctrace";

/// The version, and a line for each backend.
pub(super) fn long_version() -> String {
    let ebpf = match ebpf::embedded_object().len() {
        0 => "not in it (built without a BPF toolchain)".to_owned(),
        bytes => format!("in it ({} KiB)", bytes.div_ceil(1024)),
    };
    format!(
        "{}\nebpf: {ebpf}\nstrace: {}",
        env!("CARGO_PKG_VERSION"),
        doctor::describe_strace()
    )
}

/// The script that makes a shell complete options and subcommands.
pub(super) fn completions(full: &Command, shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut completable(full), NAME, &mut script);
    text(script)
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
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .about(full.get_about().cloned().unwrap_or_default())
        .args(options)
        .subcommands(full.get_subcommands().map(subcommand))
}

/// The manual page in roff: the program, then its subcommands.
pub(super) fn manual(mut command: Command) -> std::io::Result<String> {
    command.build();
    let page = Man::new(command.clone());
    let mut roff = Vec::new();
    // Written here because clap_mangen omits an empty date, so that readers take the next word for
    // the date.
    writeln!(
        roff,
        ".TH {NAME} 1 \"\" \"{NAME} {}\" \"User commands\"",
        env!("CARGO_PKG_VERSION")
    )?;
    page.render_name_section(&mut roff)?;
    page.render_synopsis_section(&mut roff)?;
    page.render_description_section(&mut roff)?;
    page.render_options_section(&mut roff)?;
    let mut page = text(roff) + &examples(&command, ".SH");
    // The options of `run` are those of the program.
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !["run", "help"].contains(&subcommand.get_name()))
    {
        page += &section(subcommand)?;
    }
    page += SEE_ALSO;
    Ok(page)
}

/// A subcommand as one section, with parts.
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

/// The text below the options in `--help`: examples stay as they are, sentences become paragraphs.
fn examples(command: &Command, heading: &str) -> String {
    let help = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let blocks = help
        .split("\n\n")
        .filter(|block| !block.is_empty())
        .map(|block| match block.split_once(":\n") {
            Some(("Examples", examples)) => {
                format!("{heading} EXAMPLES\n.EX\n{}\n.EE\n", verbatim(examples))
            }
            // Indented lines stay as they are.
            Some((title, lines)) if lines.starts_with("  ") => {
                format!(".PP\n{title}:\n.EX\n{}\n.EE\n", verbatim(lines))
            }
            _ => format!(".PP\n{}\n", verbatim(block)),
        });
    blocks.collect()
}

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

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("clap writes text")
}
