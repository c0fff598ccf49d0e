//! What people type who come from strace, perf, hyperfine and the like: options of strace that `run`
//! accepts although they change nothing, and what to write instead of options that a subcommand does
//! not have. Options that zctrace has under another name are aliases of its own.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// Options of strace that ask for what zctrace does anyway, or that concern strace's lines.
const ACCEPTED: &str = "fcCyTwqzZtrnx";

/// The option of strace that is accepted with a value.
const STRING_SIZE: char = 's';

/// The accepted options of strace that were given.
#[derive(Debug, Clone, Default)]
pub struct StraceArgs {
    given: Vec<char>,
}

impl StraceArgs {
    /// Why they change nothing, in one line; `None` if there are none.
    pub fn note(&self) -> Option<String> {
        let letters: String = self.given.iter().collect();
        (!letters.is_empty()).then(|| {
            format!(
                "ignored -{letters}: the report always follows children and sums up calls; -o writes it to a file, \
                 --callers=all --format firefox has the time of each call"
            )
        })
    }
}

impl FromArgMatches for StraceArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let is_given = |letter: &char| matches.get_count(&letter.to_string()) > 0;
        let mut given: Vec<char> = ACCEPTED.chars().filter(is_given).collect();
        given.extend(Some(STRING_SIZE).filter(|size| matches.contains_id(&size.to_string())));
        Ok(Self { given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for StraceArgs {
    fn augment_args(command: Command) -> Command {
        let option = |letter: char| Arg::new(letter.to_string()).short(letter).hide(true);
        let counted = ACCEPTED
            .chars()
            .map(|letter| option(letter).action(ArgAction::Count));
        command.args(counted).arg(option(STRING_SIZE))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Options that a subcommand does not have, and what to do instead.
const ADVICE: [(&str, &[&str], &str); 11] = [
    (
        "run",
        &["--summary", "--summary-only", "--follow-forks"],
        "zctrace always follows children and prints a summary: leave it out",
    ),
    (
        "run",
        &["-i", "-g", "--call-graph"],
        "--callers shows who made the calls",
    ),
    (
        "run",
        &["-b"],
        "zctrace follows a program through exec: leave it out",
    ),
    (
        "top",
        &["-b", "--batch", "-d", "--delay", "-n", "--iterations"],
        "the view lasts until q; zctrace --interval 1s CMD prints a report each second, zctrace --duration 1s CMD prints one",
    ),
    (
        "top",
        &["-H", "--threads"],
        "the key t shows threads: leave it out",
    ),
    (
        "compare",
        &["-P", "--parameter-scan", "-D", "--parameter-step-size"],
        "list the values: -L NAME 1,2,4",
    ),
    (
        "check",
        &["-f", "--file", "-c", "--config"],
        "name the file without an option: zctrace check FILE",
    ),
    (
        "check",
        &["-k", "-t", "--filter", "--name"],
        "name the checks without an option: zctrace check 'copy *'",
    ),
    (
        "check",
        &["-q", "--quiet"],
        "the exit status is the result; hide the rest with -o /dev/null",
    ),
    (
        "diff",
        &["-q", "--quiet", "--brief"],
        "the exit status is 1 if anything changed; hide the rest with -o /dev/null",
    ),
    (
        "diff",
        &["-u", "-y", "--unified", "--side-by-side"],
        "use --format markdown or json",
    ),
];

/// What to do instead of an option that a subcommand does not have; `None`: nobody is known to type
/// it.
pub(super) fn advice(subcommand: &str, option: &str) -> Option<&'static str> {
    let name = option.split(['=', ' ']).next().unwrap_or_default();
    let mut rows = ADVICE.iter();
    let found = rows.find(|(of, options, _)| *of == subcommand && options.contains(&name));
    found.map(|(_, _, advice)| *advice)
}

/// What to do instead of a value that strace's `-e` takes, if it is none of calls.
pub(super) fn advice_for_set(value: &str) -> Option<&'static str> {
    match value.split_once('=')?.0 {
        "inject" | "fault" => {
            Some("zctrace never changes what a program does: use strace to inject")
        }
        "signal" | "status" | "decode-fd" | "decode-fds" | "read" | "write" | "abbrev"
        | "verbose" | "raw" | "quiet" => Some("-e only selects the calls that have rows"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, usage_error::one_line};

    fn parse(words: &str) -> Result<Cli, Error> {
        Cli::try_parse_from(["zctrace"].into_iter().chain(words.split(' ')))
    }

    #[test]
    fn options_of_strace_that_change_nothing_are_accepted_with_one_note() {
        for (words, letters) in [
            ("-f -c ls", "fc"),
            ("-cf ls", "fc"),
            ("-ff -yy ls", "fy"),
            ("-fp 1", "f"),
            ("-fttTqz -s 99 -o out -e trace=file ls", "fTqzts"),
            ("run -Cwx ls", "Cwx"),
        ] {
            let cli = parse(words).expect(words);
            let run = match &cli.action {
                Some(crate::cli::Action::Run(run)) => run,
                _ => &cli.run,
            };
            let note = run.strace.note().expect(words);
            assert!(note.starts_with(&format!("ignored -{letters}: ")), "{note}");
            assert_eq!(note.lines().count(), 1);
        }
        let without = parse("ls -f").expect("options after the command are its own");
        assert_eq!(without.run.strace.note(), None);
    }

    #[test]
    fn each_habit_is_answered_in_one_line_by_its_subcommand() {
        let said = |words: &str| one_line(&parse(words).expect_err(words), &Cli::command());
        for (subcommand, options, advice) in ADVICE {
            for option in options {
                let words = format!("{subcommand} {option} true true");
                assert_eq!(said(&words), format!("{option}: {advice}"));
            }
        }
        assert!(said("-b ls").starts_with("-b: zctrace follows"));
        assert!(said("diff -g a b").starts_with("unknown option '-g'"));
        for value in ["inject=read:error=EIO", "signal=none"] {
            let advice = advice_for_set(value).expect(value);
            assert_eq!(said(&format!("-e {value} true")), format!("-e: {advice}"));
        }
    }

    #[test]
    fn options_that_zctrace_has_work_by_their_names_in_strace() {
        for words in [
            "-e trace=read,write",
            "-e trace=%network",
            "-e trace=file",
            "-e /^open",
            "-k",
            "-S calls",
            "-E A=1",
            "-u root",
            "-o out",
            "-P in -P /tmp/out",
            "--duration 2",
        ] {
            assert!(parse(&format!("{words} true")).is_ok(), "{words}");
        }
    }
}
