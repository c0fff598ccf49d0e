//! The tree of an expectation.

use std::ops::Bound;

use super::{
    allow::{AddressPattern, AllowPattern},
    function::FunctionPattern,
    names::CallSet,
    pattern::{EndPattern, Glob, KindPattern},
};
use crate::{
    figures::list::{FigureField, FigureGroup, FigureUnit},
    touched::TouchKind,
};

/// A condition. What `not` stands before is turned into its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expr {
    /// All of these hold.
    All(Vec<Expr>),
    /// One of these holds.
    Any(Vec<Expr>),
    /// A figure and what it is compared with.
    Comparison(Box<ComparisonExpr>),
}

impl Expr {
    pub(super) fn all_figures(&self) -> Vec<&FigureExpr> {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().flat_map(Self::all_figures).collect()
            }
            Self::Comparison(comparison) => vec![&comparison.figure],
        }
    }
}

/// A figure and what it is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ComparisonExpr {
    /// As it was written, on one line, with its `not` if it has one.
    pub(super) text: String,
    pub(super) figure: FigureExpr,
    pub(super) wanted: Wanted,
    /// Whether anything else is wanted: by `!=`, or behind `not`.
    pub(super) is_negated: bool,
}

/// What a figure is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// One of these numbers.
    Within(Bound<u64>, Bound<u64>),
    /// The name of an API or of a function, or [`NONE`].
    Word(String),
}

/// The word for no exit status and no signal.
pub(super) const NONE: &str = "none";

/// A figure of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FigureExpr {
    /// As it was written, on one line.
    pub(super) text: String,
    /// Where, in bytes.
    pub(super) at: usize,
    pub(super) subject: FigureSubject,
    pub(super) selectors: Selectors,
    pub(super) field: FigureField,
    pub(super) unit: FigureUnit,
    /// The errno, if the figure has one.
    pub(super) errno: Option<String>,
}

impl FigureExpr {
    /// The patterns of files and paths that it has.
    pub(super) fn globs_of_files(&self) -> impl Iterator<Item = &Glob> {
        let Selectors { file, path, .. } = &self.selectors;
        let ends = match &self.subject {
            FigureSubject::Transfer(from, to) => [from.path.as_ref(), to.path.as_ref()],
            FigureSubject::Syncs(glob) | FigureSubject::Durable(glob, _) => [Some(glob), None],
            _ => [None, None],
        };
        [file.as_ref(), path.as_ref()]
            .into_iter()
            .chain(ends)
            .flatten()
    }

    /// The same for a report whose relative paths start in this directory.
    pub(super) fn in_directory(&self, directory: &str) -> Self {
        let mut figure = self.clone();
        let Selectors { file, path, .. } = &mut figure.selectors;
        let mut globs: Vec<&mut Glob> = [file, path].into_iter().flatten().collect();
        match &mut figure.subject {
            FigureSubject::Transfer(from, to) => {
                globs.extend([from, to].into_iter().filter_map(|end| end.path.as_mut()));
            }
            FigureSubject::Syncs(glob) | FigureSubject::Durable(glob, _) => globs.push(glob),
            FigureSubject::Touches(_, allowed) => {
                for one in allowed {
                    one.start_in(directory);
                }
            }
            FigureSubject::Calls(_) | FigureSubject::Run(_) | FigureSubject::Descriptors => {}
        }
        for glob in globs {
            glob.start_in(directory);
        }
        figure
    }
}

/// The subject of a figure, which is named before the dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FigureSubject {
    /// Sums over calls.
    Calls(CallSet),
    /// A group of figures of the run as a whole.
    Run(FigureGroup),
    /// Transfers between these ends.
    Transfer(EndPattern, EndPattern),
    /// The syncs of these files.
    Syncs(Glob),
    /// Whether these files were synced in order then: how many of them were not.
    Durable(Glob, SyncPoint),
    /// The descriptors that the command left open.
    Descriptors,
    /// Whether only these paths were touched so: how many others were.
    Touches(TouchKind, Vec<AllowPattern>),
}

/// When files must have been synced in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SyncPoint {
    /// When the run ends.
    End,
    /// At every mark of this name.
    Mark(String),
    /// Before each write that others see: to `stdout`, to `tcp`.
    Told(&'static str),
}

impl SyncPoint {
    /// To whom a program can write.
    pub(super) const READERS: [&str; 7] =
        ["stdout", "terminal", "pipe", "tcp", "udp", "unix", "socket"];
}

pub(super) const TRANSFER: &str = "transfer";

/// The word for syncs of files.
pub(super) const SYNCS: &str = "syncs";

/// The word for what was synced in order.
pub(super) const DURABLE: &str = "durable";

/// The word for what was touched.
pub(super) const TOUCHES: &str = "touches";

/// The word for the descriptors that the command left open.
pub(super) const DESCRIPTORS: &str = "fds";

const ALL_CALLS: &str = "syscalls";

/// The names of the subjects that are neither calls nor transfers.
pub(super) fn aggregate_names() -> impl Iterator<Item = &'static str> {
    let of_run = FigureGroup::OF_RUN.into_iter().map(|(name, _)| name);
    std::iter::once(ALL_CALLS).chain(of_run)
}

impl FigureSubject {
    pub(super) fn aggregate_named(name: &str) -> Option<Self> {
        if name == ALL_CALLS {
            return Some(Self::Calls(CallSet::ALL));
        }
        FigureGroup::of_run_called(name).map(Self::Run)
    }

    /// Whether it is compared with nothing: it holds or not.
    pub(super) const fn is_a_condition(&self) -> bool {
        matches!(self, Self::Durable(..) | Self::Touches(..))
    }

    pub(super) const fn figure_group(&self) -> FigureGroup {
        match self {
            Self::Calls(_) => FigureGroup::Calls,
            Self::Run(group) => *group,
            Self::Transfer(..) => FigureGroup::Transfers,
            Self::Syncs(_) | Self::Durable(..) => FigureGroup::Syncs,
            Self::Touches(..) => FigureGroup::Touches,
            Self::Descriptors => FigureGroup::Descriptors,
        }
    }
}

/// The part of a report that a figure is read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Selectors {
    /// Processes of this name, or with this program.
    pub(super) process: Option<Glob>,
    /// Calls of threads of this name.
    pub(super) thread: Option<Glob>,
    /// Calls on this file.
    pub(super) file: Option<Glob>,
    /// Calls on files of this kind.
    pub(super) kind: Option<KindPattern>,
    /// Calls that were given this path.
    pub(super) path: Option<Glob>,
    /// Calls that were made within a function of this name.
    pub(super) caller: Option<FunctionPattern>,
    /// Calls in spans of this name.
    pub(super) span: Option<String>,
    /// Calls that named this address.
    pub(super) to: Option<AddressPattern>,
}

impl Selectors {
    /// By this file alone.
    pub(super) fn of_file(file: Option<Glob>) -> Self {
        Self {
            file,
            ..Self::default()
        }
    }

    pub(super) fn are_by_file(&self) -> bool {
        self.file.is_some() || self.kind.is_some()
    }

    pub(super) fn file_pattern(&self) -> EndPattern {
        EndPattern {
            kind: self.kind,
            path: self.file.clone(),
        }
    }
}
