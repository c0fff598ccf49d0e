//! The calls that a figure is about, by name.

use std::collections::BTreeSet;

use super::ast::FigureSubject;
use crate::{
    report::{Counted, Report},
    syscalls::{self, covers},
};

/// The names of the calls that a figure sums up.
pub(super) struct Names<'a> {
    /// `None`: those of all calls.
    pub(super) wanted: Option<BTreeSet<&'a str>>,
}

impl<'a> Names<'a> {
    pub(super) fn of_subject(subject: &'a FigureSubject) -> Self {
        let wanted = match subject {
            FigureSubject::Call(name) => Some(BTreeSet::from([name.as_str()])),
            FigureSubject::Class(class) => Some(
                syscalls::calls_of_class(class)
                    .unwrap_or_default()
                    .into_iter()
                    .collect(),
            ),
            _ => None,
        };
        Self { wanted }
    }

    /// Whether they include a row of this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.wanted
            .as_ref()
            .is_none_or(|wanted| covers(name, |name| wanted.contains(name)))
    }

    /// Those that were not counted.
    pub(super) fn uncounted(&self, counted: &Counted) -> Vec<String> {
        self.wanted
            .iter()
            .flatten()
            .filter(|name| !counted.contains(name))
            .map(|&name| name.to_owned())
            .collect()
    }

    /// Why a report that does not say what it counted may lack some of them.
    pub(super) fn may_be_uncounted(&self, report: &Report) -> Option<String> {
        let has_row = |name: &str| report.totals.syscalls.iter().any(|row| row.name == name);
        let lacks = report.counted.is_none()
            && report.totals.other_syscalls.is_none()
            && self
                .wanted
                .as_ref()
                .is_none_or(|wanted| !wanted.iter().all(|name| has_row(name)));
        lacks.then(|| "the report does not say which calls were counted".to_owned())
    }
}
