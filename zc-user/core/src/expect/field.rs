//! The list of all figures: the subjects, the fields of each, and their names. Parser, printer and
//! evaluation read it, and so do baselines ([`crate::check`]).

use std::fmt::{self, Display, Formatter};

use super::pattern::EndPattern;

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dimension {
    /// A count.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Time,
    /// An exit status.
    Status,
    /// A signal, or none.
    Signal,
    /// The name of a kernel interface.
    Api,
    /// The name of a library function.
    Function,
}

impl Dimension {
    /// Its name in messages.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Count => "a count",
            Self::Bytes => "a size",
            Self::Time => "a time",
            Self::Status => "an exit status",
            Self::Signal => "a signal",
            Self::Api => "the name of an API",
            Self::Function => "the name of a library function",
        }
    }

    /// The largest valid number; `None`: no limit.
    pub(super) const fn most(self) -> Option<u64> {
        match self {
            Self::Status => Some(255),
            Self::Signal => Some(64),
            _ => None,
        }
    }

    /// An example.
    pub(super) const fn example(self) -> &'static str {
        match self {
            Self::Count => "100",
            Self::Bytes => "64KiB",
            Self::Time => "10ms",
            Self::Status => "0",
            Self::Signal => "9",
            Self::Api => "sendfile",
            Self::Function => "\"std::io::copy\"",
        }
    }
}

/// The subject of a figure, which is named before the dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// One system call, whatever its ABI.
    Call(String),
    /// A class of calls, without its `%`.
    Class(String),
    /// Every call that was counted.
    AllCalls,
    /// Page faults.
    Faults,
    /// Context switches.
    Switches,
    /// Time of the run.
    Time,
    /// How the command ended.
    Exit,
    /// The processes.
    Processes,
    /// Transfers between these ends.
    Transfer(EndPattern, EndPattern),
}

/// What a figure counts or measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Calls,
    Errors,
    Unfinished,
    Bytes,
    RequestedBytes,
    AvgSize,
    Total,
    Min,
    Avg,
    Max,
    P50,
    P90,
    P99,
    Minor,
    Major,
    Voluntary,
    Involuntary,
    Wall,
    User,
    System,
    Code,
    Signal,
    Count,
    Threads,
    Api,
    Via,
    Attempts,
    Crossings,
    UserMemory,
}

impl Field {
    /// Whether it is read from a histogram.
    pub(super) const fn is_percentile(self) -> bool {
        matches!(self, Self::P50 | Self::P90 | Self::P99)
    }
}

/// A figure's name and dimension.
pub(super) struct Line {
    pub(super) field: Field,
    pub(super) name: &'static str,
    pub(super) dimension: Dimension,
}

const fn line(field: Field, name: &'static str, dimension: Dimension) -> Line {
    Line {
        field,
        name,
        dimension,
    }
}

const OF_CALLS: &[Line] = &[
    line(Field::Calls, "calls", Dimension::Count),
    line(Field::Errors, "errors", Dimension::Count),
    line(Field::Unfinished, "unfinished", Dimension::Count),
    line(Field::Bytes, "bytes", Dimension::Bytes),
    line(Field::RequestedBytes, "requested_bytes", Dimension::Bytes),
    line(Field::AvgSize, "avg_size", Dimension::Bytes),
    line(Field::Total, "total", Dimension::Time),
    line(Field::Min, "min", Dimension::Time),
    line(Field::Avg, "avg", Dimension::Time),
    line(Field::Max, "max", Dimension::Time),
    line(Field::P50, "p50", Dimension::Time),
    line(Field::P90, "p90", Dimension::Time),
    line(Field::P99, "p99", Dimension::Time),
];
const OF_FAULTS: &[Line] = &[
    line(Field::Minor, "minor", Dimension::Count),
    line(Field::Major, "major", Dimension::Count),
];
const OF_SWITCHES: &[Line] = &[
    line(Field::Voluntary, "voluntary", Dimension::Count),
    line(Field::Involuntary, "involuntary", Dimension::Count),
];
const OF_TIME: &[Line] = &[
    line(Field::Wall, "wall", Dimension::Time),
    line(Field::User, "user", Dimension::Time),
    line(Field::System, "system", Dimension::Time),
];
const OF_EXIT: &[Line] = &[
    line(Field::Code, "code", Dimension::Status),
    line(Field::Signal, "signal", Dimension::Signal),
];
const OF_PROCESSES: &[Line] = &[
    line(Field::Count, "count", Dimension::Count),
    line(Field::Threads, "threads", Dimension::Count),
];
const OF_TRANSFERS: &[Line] = &[
    line(Field::Api, "api", Dimension::Api),
    line(Field::Via, "via", Dimension::Function),
    line(Field::Bytes, "bytes", Dimension::Bytes),
    line(Field::Calls, "calls", Dimension::Count),
    line(Field::Count, "count", Dimension::Count),
    line(Field::AvgSize, "avg_size", Dimension::Bytes),
    line(Field::Attempts, "attempts", Dimension::Count),
    line(Field::Crossings, "crossings", Dimension::Count),
    line(Field::UserMemory, "user_memory", Dimension::Bytes),
    line(Field::Total, "total", Dimension::Time),
];

/// The word for transfers.
pub(super) const TRANSFER: &str = "transfer";

/// The subjects that are not calls, by name. `time` and `exit` are calls as well: the figure after
/// the dot decides.
const AGGREGATES: [(&str, Subject); 6] = [
    ("syscalls", Subject::AllCalls),
    ("faults", Subject::Faults),
    ("switches", Subject::Switches),
    ("time", Subject::Time),
    ("exit", Subject::Exit),
    ("processes", Subject::Processes),
];

/// The names of the subjects that are not calls.
pub(super) fn aggregates() -> impl Iterator<Item = &'static str> {
    AGGREGATES.into_iter().map(|(name, _)| name)
}

/// How a figure varies between runs of a command that always does the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variation {
    /// Not at all: counts and bytes.
    Never,
    /// It varies.
    Varies,
    /// It varies with the load of the machine.
    WithLoad,
}

/// The figures of a whole run that baselines compare: subject, field and name.
pub(crate) fn run_figures() -> impl Iterator<Item = (Field, String)> {
    let subjects = AGGREGATES
        .into_iter()
        .filter(|(_, subject)| *subject != Subject::AllCalls);
    subjects.flat_map(|(name, subject)| {
        subject
            .fields()
            .iter()
            .map(move |line| (line.field, format!("{name}.{}", line.name)))
    })
}

/// The figures of a call that baselines compare.
const COMPARED_OF_CALLS: [Field; 4] =
    [Field::Calls, Field::Errors, Field::Unfinished, Field::Bytes];

/// The names of the figures of a call that baselines compare.
pub(crate) fn call_figures(call: &str) -> impl Iterator<Item = String> {
    COMPARED_OF_CALLS
        .into_iter()
        .map(move |field| call_figure(call, field))
}

/// The name of a figure of a call: `read.calls`.
pub(crate) fn call_figure(call: &str, field: Field) -> String {
    let name = OF_CALLS
        .iter()
        .find(|line| line.field == field)
        .map_or("", |line| line.name);
    format!("{call}.{name}")
}

/// The name of the number of a call's errors with this errno: `read.errors.EAGAIN`.
pub(crate) fn errno_figure(call: &str, errno: &str) -> String {
    format!("{}.{errno}", call_figure(call, Field::Errors))
}

/// The figure of a whole run with this name; `None` for one of a call. `time.wall` is of the run,
/// but `time.calls` is of the system call.
fn run_figure(name: &str) -> Option<(Subject, &'static Line)> {
    let (subject, field) = name.split_once('.')?;
    let subject = Subject::aggregate(subject).filter(|subject| *subject != Subject::AllCalls)?;
    let line = subject.field(field)?;
    Some((subject, line))
}

/// How the figure of this name varies, as baselines name it.
pub(crate) fn variation_of(name: &str) -> Variation {
    run_figure(name).map_or(Variation::Never, |(subject, line)| {
        subject.variation(line.dimension)
    })
}

/// Whether the figure of this name, as baselines name it, is of the run as a whole, and not of a
/// call.
pub(crate) fn is_of_run(name: &str) -> bool {
    run_figure(name).is_some()
}

/// Whether the figure of this name, as baselines name it, is the exit status or the signal of the
/// run.
pub(crate) fn is_exit(name: &str) -> bool {
    run_figure(name).is_some_and(|(subject, _)| subject == Subject::Exit)
}

/// Whether the figure of this name, as baselines name it, is a time of the run, in nanoseconds.
pub fn is_time(name: &str) -> bool {
    run_figure(name).is_some_and(|(_, line)| line.dimension == Dimension::Time)
}

impl Subject {
    /// The aggregate of this name.
    pub(super) fn aggregate(name: &str) -> Option<Self> {
        AGGREGATES
            .into_iter()
            .find(|(known, _)| *known == name)
            .map(|(_, subject)| subject)
    }

    /// The name of an aggregate.
    pub(super) fn aggregate_name(&self) -> Option<&'static str> {
        AGGREGATES
            .into_iter()
            .find(|(_, subject)| subject == self)
            .map(|(name, _)| name)
    }

    /// How a figure of it with this dimension varies.
    pub(super) fn variation(&self, dimension: Dimension) -> Variation {
        match self {
            Self::Time | Self::Switches => Variation::WithLoad,
            _ if dimension == Dimension::Time => Variation::WithLoad,
            Self::Faults => Variation::Varies,
            _ => Variation::Never,
        }
    }

    /// Its figures.
    pub(super) const fn fields(&self) -> &'static [Line] {
        match self {
            Self::Call(_) | Self::Class(_) | Self::AllCalls => OF_CALLS,
            Self::Faults => OF_FAULTS,
            Self::Switches => OF_SWITCHES,
            Self::Time => OF_TIME,
            Self::Exit => OF_EXIT,
            Self::Processes => OF_PROCESSES,
            Self::Transfer(..) => OF_TRANSFERS,
        }
    }

    /// The figure of this name.
    pub(super) fn field(&self, name: &str) -> Option<&'static Line> {
        self.fields().iter().find(|line| line.name == name)
    }

    /// The line of a field.
    pub(super) fn line(&self, field: Field) -> Option<&'static Line> {
        self.fields().iter().find(|line| line.field == field)
    }
}

impl Display for Subject {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(name) => f.write_str(name),
            Self::Class(name) => write!(f, "%{name}"),
            Self::Transfer(from, to) => write!(f, "{TRANSFER}({from} -> {to})"),
            aggregate => f.write_str(aggregate.aggregate_name().unwrap_or_default()),
        }
    }
}
