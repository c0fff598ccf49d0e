//! [`RunningSpan`]: the part of a divided trace that goes on.
//!
//! At a boundary an [epoch](crate::backend::ebpf::read::epochs) ends, so a call is in the span in which it returned. What the
//! kernel side counts without rows and the counters of live tasks are read just before; a span has the
//! difference between two readings. So every sum of the whole trace is the sum of its parts.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    mem,
};

use super::{
    counts::KernelCounts, ended::EndedTable, live_tasks::LiveTasks, process_sums::Used, seen::Seen,
    task_table::TaskTable,
};
use crate::{
    backend::{
        Recorded, RunError,
        control::TracePart,
        ebpf::{
            load::object::Loaded,
            read::{drain::Rows, totals::Totals},
        },
        spans::{OnSpan, SpanCounters, Spans},
    },
    trace::{Exit, File, FileId, Span, Trace},
};

/// The part of a divided trace that goes on.
pub struct RunningSpan {
    on_span: OnSpan,
    counters: SpanCounters,
    recorded: Recorded,
    part: TracePart,
    /// Its trace, still without anything that happened.
    begun: Trace,
    /// When the trace began, and this part: `CLOCK_MONOTONIC`.
    trace_began_ns: u64,
    began_ns: u64,
    /// The processes that have ended in it.
    ended: EndedTable,
    /// What there was when it began.
    before: Before,
    /// Whether a process may have changed its directory so far.
    directory_may_change: bool,
}

/// What is read when a part of the trace ends, besides its rows.
pub struct SpanReading {
    pub totals: Totals,
    pub live: LiveTasks,
}

/// How a part of the trace ends.
pub enum PartEnd {
    /// This part follows.
    Boundary(TracePart),
    /// With the trace, and the command may have ended like this.
    Over(Option<Exit>),
}

/// What there was when a part of the trace began.
#[derive(Default)]
struct Before {
    used: HashMap<u32, Used>,
    totals: Totals,
    calls_without_files: u64,
    unreadable: u64,
}

impl RunningSpan {
    /// The first part of a trace that begins now.
    pub fn new(spans: &Spans, recorded: Recorded, begun: &Trace, now_ns: u64) -> Self {
        Self {
            on_span: spans.on_span.clone(),
            counters: spans.counters,
            recorded,
            part: spans.boundaries.first_part(),
            begun: begun.clone(),
            trace_began_ns: now_ns,
            began_ns: now_ns,
            ended: EndedTable::default(),
            before: Before::default(),
            directory_may_change: false,
        }
    }

    /// Reads what is read at its end, besides its rows.
    pub fn reading(&self, loaded: &Loaded) -> Result<SpanReading, RunError> {
        Ok(SpanReading {
            totals: Totals::read(loaded, Rows::SoFar)?,
            live: match self.counters {
                SpanCounters::Read => LiveTasks::now(loaded)?,
                SpanCounters::Unknown => LiveTasks::without_counters(loaded)?,
            },
        })
    }

    /// Puts these programs aside, all of whose tasks have ended.
    pub fn set_aside(
        &mut self,
        programs: &BTreeSet<u32>,
        task_table: &TaskTable,
        counts: &mut KernelCounts,
    ) {
        let (used, did) = (&self.before.used, |task| counts.has_in_span(task));
        let mut part = task_table.part(programs.iter().copied(), used, u64::MAX, did);
        let programs: Vec<u32> = part.programs().collect();
        for program in programs {
            let process = part.take_ended(program, &mut |task| counts.take_in_span(task));
            self.ended.kept.insert(program, process);
        }
    }

    /// Sums processes that have ended, see [`EndedTable::sum_most`].
    pub fn sum_most(&mut self, most: usize, files: &[File], tells_files_apart: bool) {
        self.ended
            .sum_most(most, &self.begun, files, tells_files_apart);
    }

    /// The files that processes name which have ended.
    pub fn files(&self) -> HashSet<FileId> {
        self.ended.files()
    }

    /// Ends it at this moment. All of its rows and of the messages about its tasks and files have been
    /// read.
    pub fn end(
        &mut self,
        seen: &mut Seen,
        loaded: &Loaded,
        reading: SpanReading,
        ns: u64,
        end: PartEnd,
    ) {
        let (next, exit, until_ns) = match end {
            PartEnd::Boundary(next) => (next, None, ns),
            PartEnd::Over(exit) => (TracePart::Gap, exit, u64::MAX),
        };
        let SpanReading { totals, mut live } = reading;
        let after = Before {
            used: seen.task_table.used(&self.before.used, &live, until_ns),
            totals,
            calls_without_files: seen.counts.calls_without_files,
            unreadable: seen.unreadable,
        };
        let alive = after.used.iter().filter(|(_, used)| !used.has_ended);
        live.counters = alive.map(|(task, used)| (*task, used.counters)).collect();
        if until_ns == ns {
            // The calls that they are in belong to later parts.
            live.tasks.clear();
        }
        let mut trace = Trace {
            wall_ns: Some(ns.saturating_sub(self.began_ns)),
            exit,
            ..self.begun.clone()
        };
        let totals = after.totals.since(&self.before.totals);
        self.take(seen, &after, until_ns)
            .describe(loaded, &totals, &live, &mut trace, None);
        if let Some(paths) = &mut trace.failed_paths {
            self.directory_may_change |= paths.directory_may_change;
            paths.directory_may_change = self.directory_may_change;
        }
        if let TracePart::Span(name) = mem::replace(&mut self.part, next) {
            let since_trace_began = |ns: u64| ns.saturating_sub(self.trace_began_ns);
            trace.span = Some(Span {
                name,
                since_ns: since_trace_began(self.began_ns),
                until_ns: since_trace_began(ns),
            });
            self.on_span.call(trace, self.recorded);
        }
        (self.began_ns, self.before) = (ns, after);
        // What pipes and sockets hold when the next part begins is not known.
        self.begun.inherited = None;
    }

    /// What was seen in this part, up to the moment `after` it. Nothing is left of it.
    fn take(&mut self, seen: &mut Seen, after: &Before, until_ns: u64) -> Seen {
        let before = &self.before;
        let did = |task| seen.counts.has_in_span(task);
        let programs = seen.task_table.programs();
        let task_table = seen.task_table.part(programs, &before.used, until_ns, did);
        let mut counts = seen.counts.begin_span();
        counts.calls_without_files -= before.calls_without_files;
        let alive = after.used.iter().filter(|(_, used)| !used.has_ended);
        counts.set_other_calls(alive.map(|(task, used)| (*task, used.other_calls)));
        Seen {
            task_table,
            counts,
            ended: mem::take(&mut self.ended),
            unreadable: after.unreadable - before.unreadable,
        }
    }
}
