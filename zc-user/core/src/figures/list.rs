//! The one list of figures: their groups, names and units, and which of them are steady.

use crate::report::{Report, Syscall, Usage};

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FigureUnit {
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

impl FigureUnit {
    /// Its name in messages.
    pub(crate) const fn name(self) -> &'static str {
        self.name_and_example().0
    }

    /// An example.
    pub(crate) const fn example(self) -> &'static str {
        self.name_and_example().1
    }

    const fn name_and_example(self) -> (&'static str, &'static str) {
        match self {
            Self::Count => ("a count", "100"),
            Self::Bytes => ("a size", "64KiB"),
            Self::Time => ("a time", "10ms"),
            Self::Status => ("an exit status", "0"),
            Self::Signal => ("a signal", "SIGKILL"),
            Self::Api => ("the name of an API", "sendfile"),
            Self::Function => ("the name of a library function", "\"std::io::copy\""),
        }
    }

    /// Whether its figures are words, which are only equal or not.
    pub(crate) const fn is_of_words(self) -> bool {
        matches!(self, Self::Api | Self::Function | Self::Signal)
    }
}

/// What a figure counts or measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FigureField {
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
    Wasted,
    Failed,
    SyncNs,
    Unsynced,
    Outside,
    SizeP50,
    SizeP90,
    SizeP99,
    SizeMax,
    LeftOpen,
}

impl FigureField {
    /// Whether it is about the bytes of single calls.
    pub(crate) const fn is_of_sizes(self) -> bool {
        matches!(
            self,
            Self::SizeP50 | Self::SizeP90 | Self::SizeP99 | Self::SizeMax
        )
    }
}

/// A figure: what stands after the dot.
#[derive(Debug)]
pub(crate) struct NamedField {
    pub(crate) field: FigureField,
    pub(crate) name: &'static str,
    pub(crate) unit: FigureUnit,
}

/// What a figure is of: what stands before the dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FigureGroup {
    /// System calls.
    Calls,
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
    /// Transfers between two ends.
    Transfers,
    /// Syncs of files.
    Syncs,
    /// What was touched. It has no figures.
    Touches,
    /// The descriptors that the command left open.
    Descriptors,
}

/// The figures of a group.
macro_rules! figures {
    ($($field:ident $name:literal $unit:ident),* $(,)?) => {
        &[$(NamedField { field: FigureField::$field, name: $name, unit: FigureUnit::$unit }),*]
    };
}

impl FigureGroup {
    /// The groups of the run as a whole, by name. `time` and `exit` are calls as well: the figure
    /// after the dot decides.
    pub(crate) const OF_RUN: [(&str, Self); 5] = [
        ("faults", Self::Faults),
        ("switches", Self::Switches),
        ("time", Self::Time),
        ("exit", Self::Exit),
        ("processes", Self::Processes),
    ];

    /// The group of the run as a whole with this name.
    pub(crate) fn of_run_called(name: &str) -> Option<Self> {
        let mut groups = Self::OF_RUN.into_iter();
        groups.find_map(|(known, group)| (known == name).then_some(group))
    }

    /// Its figures.
    pub(crate) const fn figures(self) -> &'static [NamedField] {
        match self {
            Self::Calls => figures![
                Calls "calls" Count,
                Errors "errors" Count,
                Unfinished "unfinished" Count,
                Bytes "bytes" Bytes,
                RequestedBytes "requested_bytes" Bytes,
                AvgSize "avg_size" Bytes,
                Total "total" Time,
                Min "min" Time,
                Avg "avg" Time,
                Max "max" Time,
                P50 "p50" Time,
                P90 "p90" Time,
                P99 "p99" Time,
                SizeP50 "size.p50" Bytes,
                SizeP90 "size.p90" Bytes,
                SizeP99 "size.p99" Bytes,
                SizeMax "size.max" Bytes,
            ],
            Self::Faults => figures![Minor "minor" Count, Major "major" Count],
            Self::Switches => figures![
                Voluntary "voluntary" Count,
                Involuntary "involuntary" Count,
            ],
            Self::Time => figures![Wall "wall" Time, User "user" Time, System "system" Time],
            Self::Exit => figures![Code "code" Status, Signal "signal" Signal],
            Self::Processes => figures![Count "count" Count, Threads "threads" Count],
            Self::Transfers => figures![
                Api "api" Api,
                Via "via" Function,
                Bytes "bytes" Bytes,
                Calls "calls" Count,
                Count "count" Count,
                AvgSize "avg_size" Bytes,
                Attempts "attempts" Count,
                Crossings "crossings" Count,
                UserMemory "user_memory" Bytes,
                Total "total" Time,
            ],
            Self::Syncs => figures![
                Count "count" Count,
                Wasted "wasted" Count,
                Failed "failed" Count,
                SyncNs "ns" Time,
            ],
            Self::Touches => &[],
            Self::Descriptors => figures![LeftOpen "open" Count],
        }
    }

    /// The figure of this name.
    pub(crate) fn figure_called(self, name: &str) -> Option<&'static NamedField> {
        self.figures().iter().find(|figure| figure.name == name)
    }

    /// The figure that counts or measures this.
    pub(crate) fn figure_of(self, field: FigureField) -> Option<&'static NamedField> {
        self.figures().iter().find(|figure| figure.field == field)
    }

    /// How a figure of it with this unit varies.
    pub(crate) fn steadiness(self, unit: FigureUnit) -> Steadiness {
        match self {
            Self::Time | Self::Switches => Steadiness::WithLoad,
            _ if unit == FigureUnit::Time => Steadiness::WithLoad,
            Self::Faults => Steadiness::Noisy,
            _ => Steadiness::Steady,
        }
    }
}

/// How a figure varies between runs of a command that always does the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steadiness {
    /// Not at all: counts and bytes.
    Steady,
    /// It varies: page faults, and calls by which threads wait for each other.
    Noisy,
    /// It varies with the load of the machine.
    WithLoad,
}

/// Calls by which threads wait for each other: how often depends on which comes first.
const WAITING_FOR_THREADS: [&str; 7] = [
    "futex",
    "futex_requeue",
    "futex_wait",
    "futex_waitv",
    "futex_wake",
    "restart_syscall",
    "sched_yield",
];

/// The figures of a call that two reports are compared by.
const COMPARED: [FigureField; 4] = [
    FigureField::Calls,
    FigureField::Errors,
    FigureField::Unfinished,
    FigureField::Bytes,
];

/// The names of the figures of a call that two reports are compared by.
pub(crate) fn compared_names(call: &str) -> impl Iterator<Item = String> {
    COMPARED
        .into_iter()
        .map(move |field| call_name(call, field))
}

/// The name of a figure of a call: `read.calls`.
pub(crate) fn call_name(call: &str, field: FigureField) -> String {
    let figure = FigureGroup::Calls.figure_of(field);
    format!("{call}.{}", figure.map_or("", |figure| figure.name))
}

/// The name of the number of a call's errors with this errno: `read.errors.EAGAIN`.
pub(crate) fn errno_name(call: &str, errno: &str) -> String {
    format!("{}.{errno}", call_name(call, FigureField::Errors))
}

/// The figures of a whole run: their names and what they measure.
pub(crate) fn run_figures() -> impl Iterator<Item = (FigureField, String)> {
    FigureGroup::OF_RUN.into_iter().flat_map(|(name, group)| {
        let named = move |figure: &NamedField| (figure.field, format!("{name}.{}", figure.name));
        group.figures().iter().map(named)
    })
}

/// The figure of a whole run with this name; `None` for one of a call. `time.wall` is of the run,
/// but `time.calls` is of the system call.
fn run_figure(name: &str) -> Option<(FigureGroup, &'static NamedField)> {
    let (of, name) = name.split_once('.')?;
    let group = FigureGroup::of_run_called(of)?;
    Some((group, group.figure_called(name)?))
}

/// How the figure of this name varies.
pub(crate) fn steadiness_of(name: &str) -> Steadiness {
    let call = name.split('.').next().unwrap_or_default();
    match run_figure(name) {
        Some((group, figure)) => group.steadiness(figure.unit),
        None if WAITING_FOR_THREADS.contains(&call) => Steadiness::Noisy,
        None => Steadiness::Steady,
    }
}

/// Whether the figure of this name is the number of calls of one system call.
pub(crate) fn is_number_of_calls(name: &str) -> bool {
    let calls = FigureGroup::Calls.figure_of(FigureField::Calls);
    let field = name.split_once('.').map(|(_, field)| field);
    field == calls.map(|figure| figure.name)
}

/// Whether the figure of this name is of the run as a whole, and not of a call.
pub(crate) fn is_of_run(name: &str) -> bool {
    run_figure(name).is_some()
}

/// Whether the figure of this name is the exit status or the signal of the run: it is known even if
/// counts are lower bounds.
pub(crate) fn is_exit(name: &str) -> bool {
    run_figure(name).is_some_and(|(group, _)| group == FigureGroup::Exit)
}

/// Whether the figure of this name is a time of the run, in nanoseconds.
pub fn is_time(name: &str) -> bool {
    run_figure(name).is_some_and(|(_, figure)| figure.unit == FigureUnit::Time)
}

/// A figure of a whole run; `None`: unknown, or, for the exit status and the signal, absent.
pub(crate) fn of_run(field: FigureField, report: &Report) -> Option<u64> {
    let unsigned = |number: i32| u64::try_from(number).unwrap_or_default();
    match field {
        FigureField::Code => report.exit.code.map(unsigned),
        FigureField::Signal => report.exit.signal.map(unsigned),
        FigureField::Wall => report.wall_ns,
        FigureField::Count => Some(report.totals.processes),
        FigureField::Threads => Some(report.totals.threads),
        field => of_usage(field, &report.totals.usage),
    }
}

/// A figure of what a process used, or all of them; `None`: unknown.
pub(crate) fn of_usage(field: FigureField, usage: &Usage) -> Option<u64> {
    match field {
        FigureField::User => usage.user_ns,
        FigureField::System => usage.system_ns,
        FigureField::Voluntary => usage.context_switches.voluntary,
        FigureField::Involuntary => usage.context_switches.involuntary,
        FigureField::Minor => usage.page_faults.minor,
        FigureField::Major => usage.page_faults.major,
        _ => None,
    }
}

/// A figure of a row that is the sum of its calls; `None`: unknown. Calls that all failed moved no
/// bytes, even if their results do not tell.
pub(crate) fn of_row(field: FigureField, row: &Syscall) -> Option<u64> {
    match field {
        FigureField::Calls => Some(row.calls),
        FigureField::Errors => Some(row.errors),
        FigureField::Unfinished => Some(row.unfinished),
        FigureField::Bytes if row.calls == row.errors => Some(0),
        FigureField::Bytes => row.bytes,
        FigureField::RequestedBytes => row.requested_bytes,
        FigureField::Total => row.total_ns,
        _ => None,
    }
}
