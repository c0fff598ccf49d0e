//! What the commands of a comparison read and write, and the progress on a terminal.

use super::{compare, compared};
use crate::harness::{BACKENDS, Terminal};

#[test]
fn standard_streams_are_dev_null_by_default() {
    let is_null = "test /dev/null -ef /dev/stdin && test /dev/null -ef /dev/stdout && test /dev/null -ef /dev/stderr";
    for backend in BACKENDS {
        compared(&["--runs=2", backend], &[is_null, "! read line"]);
    }
}

#[test]
fn progress_is_shown_only_on_terminals_that_can_erase_it() {
    let compare = |term: &str| {
        let compare = compare(&["--runs=2", "--warmup=1"]).env("TERM", term);
        compare.launch_with(&["true"])
    };
    let [erasable, dumb] = ["xterm", "dumb"].map(|term| Terminal::run(80, &compare(term)).1);
    for stage in ["warming up", "timing  ", "tracing"] {
        assert!(erasable.contains(stage), "no {stage:?}: {erasable}");
        assert!(!dumb.contains(stage), "{stage:?}: {dumb}");
    }
    // Elsewhere stderr stays empty.
    compare("xterm").finish().exits(0).says_only("");
}
