//! The commands of a comparison, from what is said of them.

use std::ffi::OsString;

use super::{PlanError, Shell};

/// One command of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// What it is called.
    pub name: String,
    /// Its command line, as it was given.
    pub line: String,
    /// The program and its arguments, the shell's included.
    pub words: Vec<OsString>,
    /// What runs around it.
    pub hooks: Hooks,
}

/// Command lines that run around those that are compared. They are for a shell, also where the compared ones are not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Before the first run.
    pub setup: Option<String>,
    /// Before every run.
    pub prepare: Option<String>,
    /// After every run.
    pub conclude: Option<String>,
    /// After the last run.
    pub cleanup: Option<String>,
}

/// What is said of the [`Hooks`] of all commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookLines {
    /// Before the first run of each command.
    pub setup: Option<String>,
    /// Before every run: one for all commands, or one for each.
    pub prepare: Vec<String>,
    /// After every run: one for all commands, or one for each.
    pub conclude: Vec<String>,
    /// After the last run of each command.
    pub cleanup: Option<String>,
}

/// The commands of a plan. Those without a name are called by their command lines.
pub fn subjects(lines: &[String], names: &[String], shell: &Shell, hooks: &HookLines) -> Result<Vec<Subject>, PlanError> {
    if names.len() > lines.len() {
        return Err(PlanError::TooManyNames { names: names.len(), commands: lines.len() });
    }
    let prepare = one_each("--prepare", &hooks.prepare, lines.len())?;
    let conclude = one_each("--conclude", &hooks.conclude, lines.len())?;
    let around = prepare.into_iter().zip(conclude).map(|(prepare, conclude)| Hooks {
        setup: hooks.setup.clone(),
        prepare,
        conclude,
        cleanup: hooks.cleanup.clone(),
    });
    let names = names.iter().chain(lines.get(names.len()..).unwrap_or_default());
    let subject = |((line, name), hooks): ((&String, &String), Hooks)| {
        Ok(Subject { name: name.clone(), line: line.clone(), words: shell.words_of(line)?, hooks })
    };
    lines.iter().zip(names).zip(around).map(subject).collect()
}

/// What each command gets of an option that is given once for all, or once for each.
fn one_each(option: &'static str, given: &[String], commands: usize) -> Result<Vec<Option<String>>, PlanError> {
    match given {
        [] => Ok(vec![None; commands]),
        [for_all] => Ok(vec![Some(for_all.clone()); commands]),
        each if each.len() == commands => Ok(each.iter().cloned().map(Some).collect()),
        other => Err(PlanError::NotOneEach { option, times: other.len(), commands }),
    }
}

/// Which command is called so.
pub fn reference_among(subjects: &[Subject], name: &str) -> Result<usize, PlanError> {
    let found = subjects.iter().position(|subject| subject.name == name);
    found.or_else(|| subjects.iter().position(|subject| subject.line == name)).ok_or_else(|| PlanError::NoSuchReference {
        name: name.to_owned(),
        names: subjects.iter().map(|subject| subject.name.clone()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    fn planned(lines: &[&str], names: &[&str], prepare: &[&str]) -> Result<Vec<Subject>, PlanError> {
        let hooks = HookLines { prepare: texts(prepare), ..HookLines::default() };
        subjects(&texts(lines), &texts(names), &Shell::default(), &hooks)
    }

    fn names(subjects: &[Subject]) -> Vec<&str> {
        subjects.iter().map(|subject| subject.name.as_str()).collect()
    }

    #[test]
    fn a_command_without_a_name_is_called_by_its_line() {
        let found = planned(&["cp a b", "cat a"], &["copy"], &[]).expect("a plan");
        assert_eq!(names(&found), ["copy", "cat a"]);
    }

    #[test]
    fn more_names_than_commands_are_a_mistake() {
        let error = planned(&["a"], &["x", "y"], &[]).expect_err("too many");
        assert_eq!(error.to_string(), "too many --name options: 2 names for 1 commands");
    }

    #[test]
    fn prepare_is_one_for_all_or_one_for_each() {
        let prepares = |given: &[&str]| {
            let found = planned(&["a", "b", "c"], &[], given)?;
            Ok(found.into_iter().map(|subject| subject.hooks.prepare.unwrap_or_default()).collect::<Vec<_>>())
        };
        assert_eq!(prepares(&[]), Ok(texts(&["", "", ""])));
        assert_eq!(prepares(&["p"]), Ok(texts(&["p", "p", "p"])));
        assert_eq!(prepares(&["p", "q", "r"]), Ok(texts(&["p", "q", "r"])));
        let error: PlanError = prepares(&["p", "q"]).expect_err("neither");
        assert_eq!(error.to_string(), "--prepare is given 2 times: give it once for all commands, or once for each of the 3");
    }

    #[test]
    fn a_reference_is_a_name_or_a_command_line() {
        let found = planned(&["cp a b", "cat a"], &["cat a", "other"], &[]).expect("a plan");
        assert_eq!(reference_among(&found, "cat a"), Ok(0), "names come first");
        assert_eq!(reference_among(&found, "cp a b"), Ok(0));
        assert_eq!(reference_among(&found, "other"), Ok(1));
        let error = reference_among(&found, "ohter").expect_err("no such name");
        assert_eq!(error.to_string(), "--reference: no command is called 'ohter'; there is 'cat a', 'other'");
    }
}
