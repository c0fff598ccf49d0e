//! What people type who come from strace and perf: options that zctrace does not have, and what to do
//! instead. Those that it has under another name are aliases of its own options.

/// Options of strace and perf, and what to do instead.
const HABITS: [(&[&str], &str); 11] = [
    (
        &["-f"],
        "zctrace always follows children: leave it out; --by process shows each by itself",
    ),
    (
        &["-c", "--summary", "-C"],
        "zctrace always prints a summary, and no line for each call: leave it out",
    ),
    (
        &["-y"],
        "zctrace always names files: leave it out; --files lists them",
    ),
    (
        &["-T", "-w"],
        "zctrace always measures times, which are wall times: leave it out",
    ),
    (
        &["-t", "-r"],
        "zctrace prints no line for each call: --callers=all --format firefox has the time of each",
    ),
    (
        &["-s", "-x"],
        "zctrace prints no strings, and always a summary: leave it out",
    ),
    (
        &["-z", "-Z"],
        "calls that succeed and calls that fail are always told apart: leave it out; --sort errors shows the latter first",
    ),
    (
        &["-i", "-g", "--call-graph"],
        "--callers shows who made the calls",
    ),
    (
        &["-n", "-b"],
        "zctrace shows calls by name, and follows a program through exec: leave it out",
    ),
    (
        &["-q"],
        "zctrace prints no lines about processes: leave it out; -o writes the report to a file",
    ),
    (
        &["-a"],
        "zctrace traces a command, not the whole machine: perf trace -a does that",
    ),
];

/// What to do instead of an option that zctrace does not have; `None`: nobody is known to type it.
pub(super) fn advice(option: &str) -> Option<&'static str> {
    let name = option.split(['=', ' ']).next().unwrap_or_default();
    let mut habits = HABITS.iter();
    let found = habits.find(|(options, _)| options.contains(&name));
    found.map(|(_, advice)| *advice)
}

/// What to do instead of a value that strace's `-e` takes, if it is none of calls.
pub(super) fn advice_for_set(value: &str) -> Option<&'static str> {
    match value.split_once('=')?.0 {
        "inject" | "fault" => {
            Some("zctrace changes nothing of what a program does: strace injects")
        }
        "signal" | "status" | "decode-fd" | "decode-fds" | "read" | "write" | "abbrev"
        | "verbose" | "raw" | "quiet" => {
            Some("-e chooses the calls that have rows, and nothing else")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, usage_error::one_line};

    #[test]
    fn each_habit_is_answered_in_one_line() {
        let values = ["inject=read:error=EIO", "signal=none"].map(|value| ("-e", value));
        let options = HABITS.iter().flat_map(|(options, _)| *options);
        let options = options.map(|option| (*option, "true"));
        for (option, value) in options.chain(values) {
            let error = Cli::try_parse_from(["zctrace", option, value, "true"]);
            let said = one_line(&error.expect_err(option), &Cli::command());
            let advice = advice(option)
                .or_else(|| advice_for_set(value))
                .expect(option);
            assert_eq!(said, format!("{option}: {advice}"));
        }
    }

    #[test]
    fn options_that_are_typed_together_or_with_their_value_are_answered() {
        for (typed, option) in [("-ff", "-f"), ("-yy", "-y"), ("-ttt", "-t"), ("-s99", "-s")] {
            let error = Cli::try_parse_from(["zctrace", typed, "true"]);
            let said = one_line(&error.expect_err(typed), &Cli::command());
            assert_eq!(said, format!("{option}: {}", advice(option).expect(option)));
        }
    }

    #[test]
    fn options_that_zctrace_has_work_by_their_names_in_strace() {
        for words in [
            "-e trace=read,write",
            "-e trace=%network",
            "-k",
            "-S calls",
            "-E A=1",
            "-u root",
            "-o out",
            "-P in -P /tmp/out",
        ] {
            let words: Vec<&str> = ["zctrace"].into_iter().chain(words.split(' ')).collect();
            let parsed = Cli::try_parse_from([&words[..], &["true"]].concat());
            assert!(parsed.is_ok(), "{words:?}");
        }
    }
}
