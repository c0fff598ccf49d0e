//! [`RunningSpan`]: when the part of a divided trace began that goes on, and who gets its trace.
//!
//! At a boundary an [epoch](crate::backend::ebpf::read::epochs) ends, so a call is in the span in
//! which it returned. What the kernel side counts without rows and the counters of live tasks are
//! read just before; a span has the difference between two readings. So every sum of the whole
//! trace is the sum of its parts.

use std::{collections::HashMap, mem};

use zc_ebpf::{Task, state};

use super::{reading::Reading, store::Store};
use crate::{
    backend::{
        Recorded, complete_trace,
        control::TracePart,
        ebpf::load::object::Sight,
        spans::{OnSpan, SpanCounters, Spans},
    },
    trace::{Exit, Span, Trace},
};

/// The part of a divided trace that goes on.
pub struct RunningSpan {
    on_span: OnSpan,
    /// What it knows of the counters of tasks.
    pub counters: SpanCounters,
    recorded: Recorded,
    part: TracePart,
    /// Its trace, still without anything that happened.
    pub begun: Trace,
    /// When the trace began, and this part: `CLOCK_MONOTONIC`.
    trace_began_ns: u64,
    began_ns: u64,
    /// Whether a process may have changed its directory so far.
    directory_may_change: bool,
    /// The calls that were under way when this part began: when each was entered, by the serial
    /// number of its task.
    under_way: HashMap<u32, u64>,
}

/// The calls that were under way at this moment, by what the tasks were in a little later.
fn under_way_at(ns: u64, later: &[Task]) -> HashMap<u32, u64> {
    let is_in_call = |task: &&Task| task.state == state::UNDER_WAY;
    let calls = later.iter().filter(is_in_call);
    calls
        .filter(|task| (1..ns).contains(&task.entered_ns))
        .map(|task| (task.serial, task.entered_ns))
        .collect()
}

/// How a part of the trace ends.
pub enum PartEnd {
    /// This part follows.
    Boundary(TracePart),
    /// With the trace, and the command may have ended like this.
    Over(Option<Exit>),
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
            directory_may_change: false,
            under_way: HashMap::new(),
        }
    }

    /// How much of the time of calls that returned in this part was before it: at least so much,
    /// since a call may have returned just after the part began. `live` are the tasks at its end.
    fn earlier_ns(&self, store: &Store, live: &[Task]) -> u64 {
        let live: HashMap<u32, &Task> = live.iter().map(|task| (task.serial, task)).collect();
        let has_returned = |serial: u32, entered_ns: u64| match live.get(&serial) {
            Some(task) => !task.is_in_call() || task.entered_ns != entered_ns,
            None => store.tasks.has_left_call(serial, entered_ns),
        };
        let calls = self.under_way.iter();
        let returned = calls.filter(|(serial, entered_ns)| has_returned(**serial, **entered_ns));
        let times = returned.map(|(_, entered_ns)| self.began_ns.saturating_sub(*entered_ns));
        times.fold(0, u64::saturating_add)
    }

    /// Ends it at this moment. All of its rows and of the messages about its tasks and files are in
    /// the store. `later` are the tasks just after it.
    pub fn end(
        &mut self,
        store: &mut Store,
        sight: &Sight,
        reading: Reading,
        (ns, later): (u64, &[Task]),
        end: PartEnd,
    ) {
        let earlier_ns = self.earlier_ns(store, later);
        let (next, exit, until_ns) = match end {
            PartEnd::Boundary(next) => (next, None, Some(ns)),
            PartEnd::Over(exit) => (TracePart::Gap, exit, None),
        };
        let mut trace = Trace {
            wall_ns: Some(ns.saturating_sub(self.began_ns)),
            exit,
            ..self.begun.clone()
        };
        let (part, reading) = store.end_span(reading, until_ns);
        part.finish(&reading, sight, &mut trace, None);
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
                earlier_ns,
            });
            self.on_span.call(complete_trace(trace, self.recorded));
        }
        self.began_ns = ns;
        self.under_way = under_way_at(ns, later);
        // What pipes and sockets hold when the next part begins is not known.
        self.begun.inherited = None;
    }
}
