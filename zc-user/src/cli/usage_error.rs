//! Errors of the command line as one line each.

use std::{error::Error as _, path::Path};

use clap::{
    Command,
    error::{ContextKind, ErrorKind},
};
use zctrace_core::{text::command_line, words::did_you_mean};

use super::habits::{advice, advice_for_set};

/// What `zctrace` says without any word.
pub(super) const EXAMPLES: &str = "\
no command to trace; write it last, as in:
  zctrace cp in out            which calls it makes, and which bytes go where
  zctrace --callers ./server   who in the program makes the calls
  zctrace check --expect 'write.calls == 0' -- cp in out
zctrace run --help shows all options.";

/// What to write if an argument is missing, by subcommand.
const MISSING: [(&str, &str); 6] = [
    (
        "zctrace compare",
        "no command to compare; quote each as one word, as in: zctrace compare 'cp a b' 'cat a > b'",
    ),
    (
        "zctrace check",
        "no command to check; write it after `--`, as in: zctrace check --expect 'write.calls == 0' -- cp a b",
    ),
    (
        "zctrace diff",
        "nothing to compare with; name a second report, or a command: zctrace diff A B, zctrace diff A -- CMD",
    ),
    (
        "zctrace report",
        "no report to show; name its file, or `-` for stdin: zctrace report FILE",
    ),
    (
        "zctrace top",
        "nothing to watch; name a command, a process or the whole system: zctrace top CMD, zctrace top -p PID, zctrace top -a",
    ),
    (
        "zctrace completions",
        "no shell; name yours, as in: zctrace completions bash",
    ),
];

/// Where the command has to be, by subcommand that has other words before it.
const LACKING_DASHES: [(&str, &str); 2] = [
    (
        "check",
        "a command and its options come after `--`: zctrace check --expect E -- CMD",
    ),
    (
        "diff",
        "a command and its arguments come after `--`: zctrace diff A -- CMD",
    ),
];

/// What is wrong with the command line and how to write it, in one line.
pub(super) fn one_line(error: &clap::Error, command: &Command) -> String {
    let word = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let rendered = error.render().to_string();
    let said = rendered
        .lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ");
    match error.kind() {
        ErrorKind::MissingRequiredArgument
            if word(ContextKind::InvalidArg).contains("--duration") =>
        {
            "--kill needs --duration, as in --kill --duration 10s".to_owned()
        }
        ErrorKind::MissingRequiredArgument => {
            let usage = word(ContextKind::Usage);
            let lacking = word(ContextKind::InvalidArg);
            if lacking.starts_with("--") {
                return format!("{lacking} is also needed (see {})", help_with(&usage));
            }
            let mut missing = MISSING.iter();
            let found = missing.find(|(subcommand, _)| usage.contains(subcommand));
            let otherwise = "no command to trace; write it last, as in: zctrace cp a b";
            found.map_or(otherwise, |(_, message)| message).to_owned()
        }
        ErrorKind::InvalidSubcommand => said.to_owned(),
        ErrorKind::UnknownArgument => {
            let option = word(ContextKind::InvalidArg);
            let usage = word(ContextKind::Usage);
            let subcommand = subcommand(&usage).unwrap_or("run");
            let lacks_dashes = LACKING_DASHES.iter().find(|(name, _)| *name == subcommand);
            if !option.starts_with('-') {
                let what_to_do = lacks_dashes.map_or_else(
                    || format!(" (see {})", help_with(&usage)),
                    |(_, dashes)| format!(": {dashes}"),
                );
                return format!("unexpected argument '{option}'{what_to_do}");
            }
            // Never suggests hidden options.
            let is_shown = |near: &String| {
                !command
                    .get_arguments()
                    .any(|arg| arg.is_hide_set() && arg.get_long() == near.strip_prefix("--"))
            };
            let near = Some(word(ContextKind::SuggestedArg)).filter(|near| !near.is_empty());
            let near = did_you_mean(near.filter(is_shown).as_deref());
            let help = help_with(&usage);
            if let Some(advice) = advice(subcommand, &option) {
                return format!("{option}: {advice}");
            }
            let dashes = lacks_dashes.map(|(_, dashes)| format!("; {dashes}"));
            let dashes = dashes.filter(|_| near.is_empty()).unwrap_or_default();
            format!("unknown option '{option}'{near}{dashes} (see {help})")
        }
        ErrorKind::ValueValidation => {
            let option = word(ContextKind::InvalidArg);
            if let Some(advice) = advice_for_set(&word(ContextKind::InvalidValue)) {
                return format!("-e: {advice}");
            }
            let reason = error
                .source()
                .map_or_else(|| said.to_owned(), ToString::to_string);
            format!("{}: {reason}", option.split(' ').next().unwrap_or_default())
        }
        ErrorKind::InvalidValue if !word(ContextKind::ValidValue).is_empty() => {
            format!("{said}; use one of {}", word(ContextKind::ValidValue))
        }
        _ => format!("{said} (see {})", help_with(&word(ContextKind::Usage))),
    }
}

/// The message for a subcommand after options.
pub fn misplaced(name: &str) -> String {
    format!(
        "write the subcommand '{name}' before its options: zctrace {name} ...; to trace a command of that name, write zctrace -- {name} ..."
    )
}

/// The message for a command that is not after `--`, with the words that are taken for something
/// else.
pub fn dashes_missing(words: &[String]) -> String {
    let is_file = |word: &&String| Path::new(word).extension().is_some_and(|end| end == "toml");
    if let Some(file) = words.iter().find(is_file) {
        return format!(
            "--expect and --baseline apply only to a command after `--`; for '{file}', write them in the file"
        );
    }
    format!(
        "`--` is missing before the command: zctrace check ... -- {}",
        command_line(words)
    )
}

/// The subcommand that this usage line is of.
fn subcommand(usage: &str) -> Option<&str> {
    let mut words = usage.split_whitespace();
    let name = words.find(|word| *word == "zctrace").and(words.next());
    name.filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// The command that shows the help for this usage line, which may be that of a subcommand.
fn help_with(usage: &str) -> String {
    match subcommand(usage) {
        Some(subcommand) => format!("zctrace {subcommand} --help"),
        None => "zctrace --help".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn an_error_is_one_line_and_says_what_to_do() {
        for (words, expected) in [
            (
                &["check", "--expect", "exit.code == 0"][..],
                "no command to check; ",
            ),
            (&["diff", "a.json"], "nothing to compare with; "),
            (&["report"], "no report to show; "),
            (&["top"], "nothing to watch; "),
            (&["completions"], "no shell; "),
            (
                &["--bogus"],
                "unknown option '--bogus' (see zctrace --help)",
            ),
            (
                &["--backen"],
                "unknown option '--backen'; did you mean '--backend'? (see zctrace --help)",
            ),
            (
                &["doctor", "foo"],
                "unexpected argument 'foo' (see zctrace doctor --help)",
            ),
            (
                &["diff", "r.json", "cp", "in", "out"],
                "unexpected argument 'in': a command and its arguments come after `--`: zctrace diff A -- CMD",
            ),
            (
                &[
                    "check",
                    "--expect",
                    "exit.code == 0",
                    "cp",
                    "--sparse",
                    "in",
                ],
                "unknown option '--sparse'; a command and its options come after `--`: zctrace check --expect E -- CMD \
                 (see zctrace check --help)",
            ),
            (&["check", "-o", ""], "a value is required for '--output"),
        ] {
            let error = Cli::try_parse_from([&["zctrace"], words].concat()).expect_err("an error");
            let said = one_line(&error, &Cli::command());
            assert!(said.starts_with(expected), "{said}");
        }
    }
}
