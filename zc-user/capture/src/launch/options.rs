//! How a command is started: what becomes of it without zctrace, its streams, environment, working
//! directory and identity.

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

use nix::unistd::User;
pub use zctrace_core::options::Identity;

/// What happens to the command if zctrace is killed, or gets a signal that would end it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnTracerExit {
    /// It keeps running if zctrace is killed. Signals are forwarded to it, and it decides.
    #[default]
    KeepRunning,
    /// It is killed with zctrace, and a signal ends both.
    Kill,
    /// It is killed with the thread that started it. zctrace leaves signals alone: the process is
    /// somebody else's, such as a test runner.
    KillInHost,
}

/// How a command is started.
#[derive(Debug, Clone, Default)]
pub struct LaunchOptions {
    /// The user and group that it runs as; `None`: those of zctrace.
    pub identity: Option<Identity>,
    /// What happens to it if zctrace ends first.
    pub on_tracer_exit: OnTracerExit,
    /// Its standard streams.
    pub streams: Streams,
    /// Its environment, as changes to that of zctrace.
    pub environment: Environment,
    /// Its working directory; `None`: that of zctrace.
    pub directory: Option<PathBuf>,
}

impl LaunchOptions {
    /// The user that it runs as, if that is another one who has a name here.
    pub(crate) fn user(&self) -> Option<User> {
        User::from_uid(self.identity?.uid.into()).ok().flatten()
    }

    /// Its environment: for another user, `HOME`, `USER` and `LOGNAME` are those of that user, as
    /// sudo sets them, unless they are set here.
    pub(crate) fn environment(&self) -> Environment {
        let mut environment = self.environment.clone();
        if let Some(user) = self.user() {
            for (name, value) in [
                ("HOME", user.dir.into_os_string()),
                ("LOGNAME", OsString::from(&user.name)),
                ("USER", OsString::from(&user.name)),
            ] {
                let changes = &mut environment.changes;
                changes.entry(name.into()).or_insert(Some(value));
            }
        }
        environment
    }

    /// Resolves a path of the command for zctrace itself.
    pub(crate) fn locate(&self, path: &Path) -> PathBuf {
        let directory = self.directory.as_deref();
        directory.unwrap_or(Path::new("")).join(path)
    }
}

/// The standard streams of a command. By default they are those of zctrace, so that the command
/// behaves as without it.
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
    /// That of zctrace.
    #[default]
    Inherited,
    /// An open file.
    Open(Arc<OwnedFd>),
}

impl Stream {
    /// `/dev/null`, for reading and writing.
    pub fn null() -> io::Result<Self> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        Ok(null.into())
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
    /// Which of them are those of zctrace, in the order of their descriptors.
    pub(super) fn inherited(&self) -> [bool; 3] {
        [&self.stdin, &self.stdout, &self.stderr].map(|stream| matches!(stream, Stream::Inherited))
    }

    pub(super) fn apply_to(&self, command: &mut Command) -> io::Result<()> {
        command
            .stdin(self.stdin.to_stdio()?)
            .stdout(self.stdout.to_stdio()?)
            .stderr(self.stderr.to_stdio()?);
        Ok(())
    }
}

/// Where libc looks for programs if there is no `PATH`.
const USUAL_PATH: &str = "/bin:/usr/bin";

/// The environment of a command, as changes to that of zctrace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Whether nothing is inherited.
    cleared: bool,
    /// Variables with their values; `None` if the variable is removed.
    changes: BTreeMap<OsString, Option<OsString>>,
}

impl Environment {
    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.changes.insert(name.into(), Some(value.into()));
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: impl Into<OsString>) {
        self.changes.insert(name.into(), None);
    }

    /// Removes all variables, including those that were set here.
    pub fn clear(&mut self) {
        self.cleared = true;
        self.changes.clear();
    }

    /// The value of `PATH`, by which programs are found.
    pub(super) fn path(&self) -> OsString {
        let inherited = || env::var_os("PATH").filter(|_| !self.cleared);
        self.changes
            .get(OsStr::new("PATH"))
            .cloned()
            .unwrap_or_else(inherited)
            .unwrap_or_else(|| USUAL_PATH.into())
    }

    /// Whether `PATH` may differ from that of zctrace.
    pub(crate) fn changes_path(&self) -> bool {
        self.cleared || self.changes.contains_key(OsStr::new("PATH"))
    }

    pub(super) fn apply_to(&self, command: &mut Command) {
        for (name, value) in self.differences() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }

    /// Each variable that differs from that of zctrace, with its value; `None` if it is removed.
    pub(crate) fn differences(&self) -> BTreeMap<OsString, Option<OsString>> {
        let gone = env::vars_os()
            .filter(|_| self.cleared)
            .map(|(name, _)| (name, None));
        gone.chain(self.changes.clone()).collect()
    }
}
