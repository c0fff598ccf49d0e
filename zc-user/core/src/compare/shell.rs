//! What a command line means: words for a shell, or for nobody.

use std::{ffi::OsString, str::FromStr};

use super::PlanError;

/// What runs the command lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shell {
    /// Nothing: a command line is split into words, the first of them names the program.
    None,
    /// A shell with its options, which gets `-c` and the command line.
    Words(Vec<String>),
}

impl Default for Shell {
    fn default() -> Self {
        Self::Words(vec!["sh".to_owned()])
    }
}

impl FromStr for Shell {
    type Err = PlanError;

    /// `none`, `default`, or a shell with its options, like `bash --norc`.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        match text {
            "none" => Ok(Self::None),
            "default" => Ok(Self::default()),
            line => split(line).map(Self::Words),
        }
    }
}

impl Shell {
    /// The program and its arguments that this command line means.
    pub fn words_of(&self, line: &str) -> Result<Vec<OsString>, PlanError> {
        match self {
            Self::None => Ok(split(line)?.into_iter().map(OsString::from).collect()),
            Self::Words(_) => Ok(self.script(line)),
        }
    }

    /// The words that run this line in a shell; without one, in the default one.
    pub fn script(&self, line: &str) -> Vec<OsString> {
        match self {
            Self::None => Self::default().script(line),
            Self::Words(shell) => shell.iter().map(String::as_str).chain(["-c", line]).map(OsString::from).collect(),
        }
    }
}

/// The words of a line, quoted as for a shell; there is at least one.
fn split(line: &str) -> Result<Vec<String>, PlanError> {
    let unreadable = |why: &str| PlanError::Unreadable { line: line.to_owned(), why: why.to_owned() };
    let words = shell_words::split(line).map_err(|error| unreadable(&error.to_string()))?;
    if words.first().is_none_or(String::is_empty) { Err(unreadable("it names no program")) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(shell: &str, line: &str) -> Vec<String> {
        let words = shell.parse::<Shell>().and_then(|shell| shell.words_of(line)).expect("can be read");
        words.into_iter().map(|word| word.into_string().expect("text")).collect()
    }

    #[test]
    fn a_shell_gets_the_line_as_it_is() {
        assert_eq!(words("default", "a 'b c'; d"), ["sh", "-c", "a 'b c'; d"]);
        assert_eq!(words("bash --norc", "a"), ["bash", "--norc", "-c", "a"]);
    }

    #[test]
    fn without_a_shell_quotes_still_hold_words_together() {
        assert_eq!(words("none", r#"a 'b c' d\ e "$F;""#), ["a", "b c", "d e", "$F;"]);
    }

    #[test]
    fn a_line_that_is_no_command_says_why() {
        let error = Shell::None.words_of("a 'b").expect_err("a quote is open");
        assert_eq!(error.to_string(), "cannot read the command \"a 'b\": missing closing quote");
        let error = Shell::None.words_of(" ").expect_err("no word");
        assert_eq!(error.to_string(), "cannot read the command \" \": it names no program");
        assert!("''".parse::<Shell>().is_err());
    }
}
