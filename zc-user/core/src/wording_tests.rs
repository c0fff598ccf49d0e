//! What small functions of text and numbers say, by a golden file: a function on each line, and
//! what it is given.

use crate::{
    check,
    compare::{self, GivenLines, Shell},
    errno,
    figures::value::{duration_ns, size_bytes},
    golden::{GoldenCase, check_golden, known_text},
    syscalls::{Abi, Selection, meant_by},
    text,
    trace::{Exit, Frame},
    units, words,
};

#[test]
fn small_functions_say_what_the_golden_file_says() {
    check_golden("wording_functions.txt", GoldenCase::Line, |line| {
        let (function, given) = line.split_once(": ").expect("a function");
        of_numbers(function, given).unwrap_or_else(|| of_text(function, given))
    });
}

/// What the function says, if it is one of numbers.
fn of_numbers(function: &str, given: &str) -> Option<String> {
    let numbers = given.split(' ').map(|number| number.parse().ok());
    let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
    Some(match (function, numbers.as_slice()) {
        ("mean", &[sum, count]) => known_text(units::mean(sum, count)),
        ("bytes", &[count]) => [units::bytes(count), units::short_bytes(count)].join(", short "),
        ("duration", &[ns]) => units::duration(ns),
        ("percent", &[part, whole]) => units::percent(part, whole),
        ("share", &[part, whole]) => units::share(part, whole),
        ("errno", &[errno]) => errno::name(parse_number(errno)),
        ("exit code", &[code]) => exit_failure(Exit::Code(parse_number(code))),
        ("exit signal", &[signal]) => exit_failure(Exit::Signal(parse_number(signal))),
        _ => return None,
    })
}

fn of_text(function: &str, given: &str) -> String {
    let (first, rest) = given.split_once(": ").unwrap_or((given, ""));
    match function {
        "errno by name" => known_text(errno::canonical_name(given)),
        "size" => size_bytes(given).map_or_else(|why| why, |size| size.to_string()),
        "time" => duration_ns(given).map_or_else(|why| why, |ns| ns.to_string()),
        "escape" => text::escape(&parse_json::<String>(given)),
        "command line" => text::command_line(&parse_json::<Vec<String>>(given)),
        "near" => words::did_you_mean(words::nearest_name(given, ["calls", "bytes"])),
        "place" => {
            let mut parts = given
                .split(' ')
                .map(|part| Some(part).filter(|&part| part != "-"));
            let mut part = || parts.next().flatten();
            let frame = Frame {
                function: part().map(Into::into),
                file: part().map(str::to_owned),
                line: part().map(|line| line.parse().expect("a number")),
                module: Some("/bin/copier".into()),
                address: 0x4f2a,
                ..Frame::default()
            };
            frame.shown_place(part())
        }
        "is native" => Abi::is_native(given).to_string(),
        "selection" => match first.parse::<Selection>() {
            Err(error) => error.to_string(),
            Ok(selection) => {
                let names = rest.split(", ").filter(|name| selection.contains(name));
                names.collect::<Vec<_>>().join(", ")
            }
        },
        "selection in JSON" => {
            let selection: Selection = given.parse().expect("a selection");
            serde_json::to_string(&selection).expect("is data")
        }
        "meant by" => known_text(meant_by(given)),
        "checks" => {
            let all = ["cp small", "cp large", "mv"];
            let all = all.map(|name| check::sample_checks::check(name, &[]));
            match check::choose_checks(all.into(), &split_parts(given, ", ")) {
                Err(why) => why,
                Ok(checks) => {
                    let names: Vec<String> = checks.into_iter().map(|one| one.name).collect();
                    names.join(", ")
                }
            }
        }
        "commands" => shown_commands(&Shell::None, given),
        "commands of sh" => shown_commands(&Shell::Sh, given),
        _ => panic!("{function} is no function"),
    }
}

fn parse_number<T: TryFrom<u64>>(given: u64) -> T {
    let fitting = T::try_from(given).ok();
    fitting.expect("is small enough")
}

fn exit_failure(exit: Exit) -> String {
    known_text(compare::how_it_failed(exit))
}

fn parse_json<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).expect("is JSON")
}

/// The parts; `-` is none.
fn split_parts(text: &str, by: &str) -> Vec<String> {
    let parts = text.split(by).filter(|part| !["", "-"].contains(part));
    parts.map(str::to_owned).collect()
}

/// The commands of a comparison, `cp in out & cat in`, behind `named` with their names, and behind
/// `after` with the lines that prepare them: what is run by `shell`.
fn shown_commands(shell: &Shell, given: &str) -> String {
    let (given, prepare) = given.split_once(" after ").unwrap_or((given, ""));
    let (lines, names) = given.split_once(" named ").unwrap_or((given, ""));
    let [lines, names, prepare] = [lines, names, prepare].map(|texts| split_parts(texts, " & "));
    let given = GivenLines {
        commands: &lines,
        names: &names,
        prepare: &prepare,
        ..GivenLines::default()
    };
    let subjects = match given.make_subjects(shell) {
        Err(error) => return error.to_string(),
        Ok(subjects) => subjects,
    };
    let mut lines = Vec::new();
    for one in subjects {
        let words = one.words.join("|".as_ref());
        let prepared = one.prepare.map(|line| format!(", after {line}"));
        let prepared = prepared.unwrap_or_default();
        lines.push(format!("{}: {}{prepared}", one.name, words.display()));
    }
    lines.join("\n")
}
