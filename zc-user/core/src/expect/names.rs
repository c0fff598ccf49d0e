//! The calls that a figure is about, by name.

use std::collections::BTreeSet;

use crate::{
    report::{Report, Syscall},
    syscalls::{Abi, calls_of_class, has_call, known_names},
};

/// The names of the calls that a figure sums up; `None`: those of all that were counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallSet(pub(super) Option<BTreeSet<&'static str>>);

impl CallSet {
    /// Every call that was counted.
    pub(super) const ALL: Self = Self(None);

    /// One call, whatever its ABI. `None`: 64-bit programs have none of this name.
    pub(super) fn of_call(name: &str) -> Option<Self> {
        let is_native = Abi::is_native(name);
        let known = known_names().find(|known| is_native && *known == name)?;
        Some(Self(Some(BTreeSet::from([known]))))
    }

    /// The calls of a class, by its name without `%`.
    pub(super) fn of_class(class: &str) -> Self {
        let calls = calls_of_class(class).unwrap_or_default();
        Self(Some(calls.into_iter().collect()))
    }

    /// Each by name, unless these are all.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().flatten().copied()
    }

    /// Whether they include a row of this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        let wanted = self.0.as_ref();
        wanted.is_none_or(|wanted| has_call(name, |name| wanted.contains(name)))
    }

    pub(super) fn rows_among<'a>(
        &self,
        rows: impl IntoIterator<Item = &'a Syscall>,
    ) -> impl Iterator<Item = &'a Syscall> {
        rows.into_iter().filter(|row| self.contains(&row.name))
    }

    /// Why a report that does not say what it counted may lack some of them.
    pub(super) fn may_be_uncounted(&self, report: &Report) -> Option<String> {
        let has_row = |name: &str| report.totals.syscalls.iter().any(|row| row.name == name);
        let lacks = report.counted.is_none()
            && report.totals.other_syscalls.is_none()
            && (self.0.is_none() || !self.iter().all(has_row));
        lacks.then_some("the report does not say which calls were counted".to_owned())
    }
}
