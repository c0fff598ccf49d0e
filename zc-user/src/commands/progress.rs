//! How far a comparison is, on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use zctrace::compare::Progress;

/// A bar on stderr, drawn between runs and never while one is timed.
pub struct Bar {
    is_shown: bool,
    bar: Option<ProgressBar>,
}

impl Bar {
    /// One that is shown, if stderr is a terminal that can erase it again, or never.
    pub fn new(is_wanted: bool) -> Self {
        let can_erase = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self { is_shown: is_wanted && can_erase, bar: None }
    }
}

/// The bar takes what a line has left.
const TEMPLATE: &str = "{msg:16} {wide_bar} {pos}/{len} ETA {eta}";

impl Progress for Bar {
    fn begin(&mut self, what: &str, steps: u64) {
        self.end();
        let target = if self.is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps), target).with_message(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.tick();
        self.bar = Some(bar);
    }

    fn step(&mut self, steps: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(steps);
            bar.inc(1);
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
