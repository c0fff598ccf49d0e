//! How a command is started: what becomes of it without zctrace, its streams, environment, working directory and identity.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

pub use zctrace_core::options::Identity;

/// What becomes of a child if zctrace is killed, or gets a signal that ends it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnTracerExit {
    /// It goes on if zctrace is killed; signals are handed on to it, and it decides.
    #[default]
    KeepRunning,
    /// It is of no use alone: it is killed with zctrace, and a signal ends both.
    Kill,
    /// It is killed with the thread that started it. Signals are none of our business: the process is somebody else's, a test runner say.
    KillInHost,
}

/// How a command is started.
#[derive(Debug, Clone, Default)]
pub struct LaunchOptions {
    /// Whose identity it has; zctrace's own without.
    pub identity: Option<Identity>,
    /// What becomes of it without zctrace.
    pub on_tracer_exit: OnTracerExit,
    /// Its standard streams.
    pub streams: Streams,
    /// Its environment, where it differs from zctrace's own.
    pub environment: Environment,
    /// Its working directory; zctrace's own without.
    pub directory: Option<PathBuf>,
}

impl LaunchOptions {
    /// The path of a file that the command would call so, for zctrace itself.
    pub(crate) fn locate(&self, path: &Path) -> PathBuf {
        self.directory.as_deref().unwrap_or(Path::new("")).join(path)
    }
}

/// Where a command reads from and writes to. By default it shares zctrace's own streams, so that it behaves as without zctrace.
#[derive(Debug, Clone, Default)]
pub struct Streams {
    /// Standard input.
    pub stdin: Stream,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
}

/// One standard stream.
#[derive(Debug, Clone, Default)]
pub enum Stream {
    /// As zctrace has it.
    #[default]
    Inherited,
    /// An open file.
    Open(Arc<OwnedFd>),
}

impl Stream {
    /// `/dev/null`, for reading and writing.
    pub fn null() -> io::Result<Self> {
        Ok(File::options().read(true).write(true).open("/dev/null")?.into())
    }

    fn to_stdio(&self) -> io::Result<Stdio> {
        Ok(match self {
            Self::Inherited => Stdio::inherit(),
            Self::Open(fd) => fd.try_clone()?.into(),
        })
    }
}

impl<F: Into<OwnedFd>> From<F> for Stream {
    fn from(file: F) -> Self {
        Self::Open(Arc::new(file.into()))
    }
}

impl Streams {
    pub(super) fn apply_to(&self, command: &mut Command) -> io::Result<()> {
        command.stdin(self.stdin.to_stdio()?).stdout(self.stdout.to_stdio()?).stderr(self.stderr.to_stdio()?);
        Ok(())
    }
}

/// Where libc looks for a program if there is no `PATH`.
const USUAL_PATH: &str = "/bin:/usr/bin";

/// The environment of a command, as changes to zctrace's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Whether nothing is taken over.
    cleared: bool,
    /// Variables with their values; `None`: it is not there.
    changes: BTreeMap<OsString, Option<OsString>>,
}

impl Environment {
    /// Gives a variable this value.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.changes.insert(name.into(), Some(value.into()));
    }

    /// Takes a variable away.
    pub fn remove(&mut self, name: impl Into<OsString>) {
        self.changes.insert(name.into(), None);
    }

    /// Takes all variables away, those that were set here included.
    pub fn clear(&mut self) {
        self.cleared = true;
        self.changes.clear();
    }

    /// The folders that programs are looked for in.
    pub(super) fn path(&self) -> OsString {
        let inherited = || env::var_os("PATH").filter(|_| !self.cleared);
        self.changes.get(OsStr::new("PATH")).cloned().unwrap_or_else(inherited).unwrap_or_else(|| USUAL_PATH.into())
    }

    /// Whether programs may be found in other places than zctrace's own.
    pub(crate) fn changes_path(&self) -> bool {
        self.cleared || self.changes.contains_key(OsStr::new("PATH"))
    }

    pub(super) fn apply_to(&self, command: &mut Command) {
        if self.cleared {
            command.env_clear();
        }
        for (name, value) in &self.changes {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }

    /// Each variable that differs from zctrace's own, with its value; `None`: it is not there.
    pub(crate) fn differences(&self) -> BTreeMap<OsString, Option<OsString>> {
        let gone = env::vars_os().filter(|_| self.cleared).map(|(name, _)| (name, None));
        gone.chain(self.changes.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for_where_the_command_would() {
        let mut environment = Environment::default();
        assert_eq!((environment.path(), environment.changes_path()), (env::var_os("PATH").expect("is set"), false));
        environment.set("PATH", "/opt/bin");
        assert_eq!((environment.path(), environment.changes_path()), ("/opt/bin".into(), true));
        environment.clear();
        assert_eq!((environment.path(), environment.changes_path()), (USUAL_PATH.into(), true));
    }

    #[test]
    fn what_was_cleared_is_a_difference_too() {
        let mut environment = Environment::default();
        environment.set("A", "1");
        environment.clear();
        environment.set("B", "2");
        environment.remove("C");
        let differences = environment.differences();
        let of = |name: &str| differences.get(OsStr::new(name)).cloned();
        assert_eq!((of("A"), of("B"), of("C"), of("PATH")), (None, Some(Some("2".into())), Some(None), Some(None)));
    }
}
