//! How far a comparison is, on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use zctrace::compare::Progress;

/// A bar on stderr, drawn between runs and never while one is timed; nothing if stderr is no terminal that can erase it again.
#[derive(Default)]
pub struct Bar(Option<ProgressBar>);

/// The bar takes what a line has left.
const TEMPLATE: &str = "{msg:16} {wide_bar} {pos}/{len} ETA {eta}";

impl Progress for Bar {
    fn begin(&mut self, what: &str, steps: u64) {
        self.end();
        let can_erase = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        let target = if can_erase { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps), target).with_message(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.tick();
        self.0 = Some(bar);
    }

    fn step(&mut self, steps: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(steps);
            bar.inc(1);
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}
