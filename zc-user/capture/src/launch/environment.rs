//! The environment of a command, where it differs from zctrace's own.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    process::Command,
};

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
