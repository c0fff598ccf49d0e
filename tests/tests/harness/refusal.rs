//! What zctrace cannot do, and how it says so.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::{Launch, Program, Zctrace, program};

/// How zctrace refused: in one line, leaving nothing behind.
pub struct Refusal {
    status: Option<i32>,
    message: String,
}

/// A command that leaves a file behind if it runs.
fn trespass() -> Program {
    program("touch").arg("it-ran")
}

impl Zctrace {
    /// Makes sure that this is refused, whatever the command is.
    #[track_caller]
    pub fn refuses(self) -> Refusal {
        self.refuses_to_run(&trespass())
    }

    /// Makes sure that this command is refused.
    #[track_caller]
    pub fn refuses_to_run(self, program: &Program) -> Refusal {
        Refusal::of(self.with_output().launch_of(program))
    }

    /// Makes sure that a command line with these words at its end is refused.
    #[track_caller]
    pub fn refuses_words(self, words: &[&str]) -> Refusal {
        Refusal::of(self.with_output().launch_with(words))
    }

    fn with_output(self) -> Self {
        if self.has_option("--output") { self } else { self.option("--output=report.json") }
    }
}

impl Refusal {
    #[track_caller]
    fn of(launch: Launch) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        // The user may be another one.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
        let finished = launch.dir(dir.path()).finish();
        let message = finished.stderr;
        assert!(message.starts_with("zctrace: ") && message.lines().count() == 1, "not one line of zctrace's: {message:?}");
        assert!(message.ends_with('\n') && !message.contains("panicked"), "not a message: {message:?}");
        assert!(finished.stdout.is_empty(), "stdout: {:?}", finished.stdout);
        let left: Vec<_> =
            fs::read_dir(dir.path()).expect("ours").filter_map(Result::ok).map(|entry| entry.file_name()).collect();
        assert!(left.is_empty(), "left behind: {left:?} ({message:?})");
        Self { status: finished.code, message }
    }

    /// With this exit status.
    #[track_caller]
    pub fn with_status(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "exit status of {:?}", self.message);
        self
    }

    /// The message, without the program's name.
    pub fn sentence(&self) -> &str {
        self.message.trim_end().trim_start_matches("zctrace: ")
    }

    /// With these words in the message, in capitals or not.
    #[track_caller]
    pub fn saying(self, words: &str) -> Self {
        assert!(self.message.to_lowercase().contains(&words.to_lowercase()), "no {words:?} in {:?}", self.message);
        self
    }
}
