//! The figures that there are, by their names. This is the one list: parser, printer and evaluation read it.

use super::ast::Subject;

/// What a figure is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dimension {
    /// A number of things.
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
}

impl Dimension {
    /// What it is called in messages.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Count => "a count",
            Self::Bytes => "a size",
            Self::Time => "a time",
            Self::Status => "an exit status",
            Self::Signal => "a signal",
            Self::Api => "the name of an API",
        }
    }

    /// The largest that there is; `None`: any number.
    pub(super) const fn most(self) -> Option<u64> {
        match self {
            Self::Status => Some(255),
            Self::Signal => Some(64),
            _ => None,
        }
    }

    /// An example of it.
    pub(super) const fn example(self) -> &'static str {
        match self {
            Self::Count => "100",
            Self::Bytes => "64KiB",
            Self::Time => "10ms",
            Self::Status => "0",
            Self::Signal => "9",
            Self::Api => "sendfile",
        }
    }
}

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
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
    Line { field, name, dimension }
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
const OF_FAULTS: &[Line] = &[line(Field::Minor, "minor", Dimension::Count), line(Field::Major, "major", Dimension::Count)];
const OF_SWITCHES: &[Line] =
    &[line(Field::Voluntary, "voluntary", Dimension::Count), line(Field::Involuntary, "involuntary", Dimension::Count)];
const OF_TIME: &[Line] = &[
    line(Field::Wall, "wall", Dimension::Time),
    line(Field::User, "user", Dimension::Time),
    line(Field::System, "system", Dimension::Time),
];
const OF_EXIT: &[Line] = &[line(Field::Code, "code", Dimension::Status), line(Field::Signal, "signal", Dimension::Signal)];
const OF_PROCESSES: &[Line] = &[line(Field::Count, "count", Dimension::Count), line(Field::Threads, "threads", Dimension::Count)];
const OF_TRANSFERS: &[Line] = &[
    line(Field::Api, "api", Dimension::Api),
    line(Field::Bytes, "bytes", Dimension::Bytes),
    line(Field::Calls, "calls", Dimension::Count),
    line(Field::Count, "count", Dimension::Count),
    line(Field::AvgSize, "avg_size", Dimension::Bytes),
    line(Field::Attempts, "attempts", Dimension::Count),
    line(Field::Crossings, "crossings", Dimension::Count),
    line(Field::UserMemory, "user_memory", Dimension::Bytes),
    line(Field::Total, "total", Dimension::Time),
];

/// The words before the dot that are no calls. `time` and `exit` are calls as well: the figure tells which is meant.
pub(super) const AGGREGATES: [&str; 6] = ["syscalls", "faults", "switches", "time", "exit", "processes"];

impl Subject {
    /// The aggregate of this name.
    pub(super) fn aggregate(name: &str) -> Option<Self> {
        Some(match name {
            "syscalls" => Self::AllCalls,
            "faults" => Self::Faults,
            "switches" => Self::Switches,
            "time" => Self::Time,
            "exit" => Self::Exit,
            "processes" => Self::Processes,
            _ => return None,
        })
    }

    /// The figures of it.
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
