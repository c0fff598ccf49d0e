//! Shows the spans of a run, each when it has ended.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::ensure;
use tokio::sync::Notify;
use zctrace::{
    backend::{Boundaries, OnSpan, SpanCounters, Spans},
    render::{self, Format},
    trace::Trace,
};

use super::{MAX_PROCESSES_IN_JSON, Outputs, report_of, report_options, wants_all_processes};
use crate::{
    cli::{DisplayArgs, SpanArgs},
    output::ReportOutput,
};

/// Writes spans to the place of the report. When that is not possible any more, it ends the trace.
pub struct SpanWriter {
    display: DisplayArgs,
    outputs: Arc<Outputs>,
    /// Ends the trace.
    pub stop: Arc<Notify>,
    state: Mutex<WriterState>,
}

#[derive(Default)]
struct WriterState {
    /// Where spans go, once there is one.
    output: Option<ReportOutput>,
    /// Why a span could not be written.
    failure: Option<anyhow::Error>,
}

impl SpanWriter {
    /// One for this run, if it is divided.
    pub(super) fn new(
        args: &SpanArgs,
        display: &DisplayArgs,
        outputs: &Arc<Outputs>,
    ) -> anyhow::Result<Option<Arc<Self>>> {
        if !args.divides() {
            return Ok(None);
        }
        ensure!(
            matches!(
                display.format,
                Format::Table | Format::Json | Format::Ndjson
            ),
            "spans support only --format table, json and ndjson"
        );
        Ok(Some(Arc::new(Self {
            display: display.clone(),
            outputs: Arc::clone(outputs),
            stop: Arc::default(),
            state: Mutex::default(),
        })))
    }

    /// The spans of the run, each of which it writes.
    pub fn spans(self: &Arc<Self>, args: &SpanArgs) -> Option<Spans> {
        let writer = Arc::clone(self);
        let controlled = args.control.clone().map(Boundaries::Controlled);
        Some(Spans {
            boundaries: args.interval.map(Boundaries::Every).or(controlled)?,
            on_span: OnSpan::new(move |trace| writer.write(&trace)),
            counters: SpanCounters::Read,
        })
    }

    /// Whether all spans were written; a reader that has closed its end is not an error.
    pub fn finish(&self) -> anyhow::Result<()> {
        if self.state().output.is_none() {
            // There was none: a file is empty then.
            self.write_text("");
        }
        self.state().failure.take().map_or(Ok(()), Err)
    }

    fn state(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the report on a span, or on the whole so far, after those before.
    pub fn write(&self, trace: &Trace) {
        self.write_text(&self.text(trace));
    }

    fn write_text(&self, text: &str) {
        let mut state = self.state();
        match self.try_write(&mut state, text) {
            Ok(ControlFlow::Continue(())) => return,
            Ok(ControlFlow::Break(())) => {}
            Err(error) => state.failure = state.failure.take().or(Some(error)),
        }
        self.stop.notify_one();
    }

    fn try_write(&self, state: &mut WriterState, text: &str) -> anyhow::Result<ControlFlow<()>> {
        let output = match state.output.take() {
            Some(output) => output,
            None => self.outputs.report.open_for_parts()?,
        };
        state.output.insert(output).write_part(text)
    }

    fn text(&self, trace: &Trace) -> String {
        let mut report = report_of(trace, &self.display);
        report.labels.extend(self.display.label.iter().cloned());
        let format = self.display.format;
        if format == Format::Json {
            if !wants_all_processes(&self.display) {
                report.limit_processes(MAX_PROCESSES_IN_JSON);
            }
            return render::json_line(&report);
        }
        let options = report_options(&self.display, &self.outputs.report);
        let gap = if format == Format::Table { "\n" } else { "" };
        render::render(&report, format, &options) + gap
    }
}
