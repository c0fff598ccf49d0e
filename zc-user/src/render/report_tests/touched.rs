//! The section of `--paths`.

use super::{Options, section, shown};
use crate::report::{Report, sample::files::Scene};

#[test]
fn paths_have_what_was_done_with_them_and_what_only_failed() {
    let scene = Scene::read(
        "\
cp: read in 1 10
@ touched written out/a openat cp
@ touched read none openat cp ENOENT
@ touched connected tcp:[::1]:80 connect cp
@ touched unseen the command may have submitted operations",
    );
    let report = Report::from_trace(&scene.trace, &crate::report::Options::default());
    let text = shown(&report, &Options::default());
    let expected = "\
PATHS, 3
path what was done calls failed bytes time
out/a written 1 0 1 B 1.00 µs
none read: ENOENT 1 1 0 B 1.00 µs
tcp:[::1]:80 connected 1 0 1 B 1.00 µs
more may have been touched: the command may have submitted operations";
    assert_eq!(section(&text, "PATHS"), expected);
}
