//! What a guest printed about its tests, and the verdict that follows from it.

use std::time::Duration;

use super::qemu::GuestEnd;

/// Starts the line in which the guest's script says how its work ended: `passed`, or `failed`, and a
/// sentence.
const SCRIPT_PREFIX: &str = "zctrace-vm: ";

/// A guest that prints nothing for so long hangs. The checks print nothing until all have run,
/// which takes up to two minutes.
const HANGS: Duration = Duration::from_mins(5);

/// How a guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuestState {
    /// It showed what it must show.
    Passed,
    /// It did not.
    Failed,
    /// Something that it needs could not be installed or fetched, or its time was over while its
    /// tests were still running and none had failed.
    NotRun,
}

/// How a guest ended, and what a person should know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement(pub(super) GuestState, pub(super) String);

/// What a guest has printed so far.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    passed_tests: u32,
    failed_tests: u32,
    /// What the script has said.
    verdict: Option<Judgement>,
}

impl Transcript {
    /// Reads one line of output.
    pub(super) fn read_line(&mut self, line: &str) {
        if let Some(said) = line.strip_prefix(SCRIPT_PREFIX) {
            let passed = said.strip_prefix("passed ");
            let passed = passed.map(|sentence| (GuestState::Passed, sentence));
            let failed = || Some((GuestState::Failed, said.strip_prefix("failed ")?));
            if let Some((state, sentence)) = passed.or_else(failed) {
                self.verdict = Some(Judgement(state, sentence.to_owned()));
            }
        } else if line.starts_with("test ") {
            self.failed_tests += u32::from(line.ends_with(" ... FAILED"));
            self.passed_tests += u32::from(line.ends_with(" ... ok"));
        }
    }

    /// The verdict; a guest that did not say one has died, or is on a slow machine if it was still
    /// printing when its time was over.
    pub(super) fn judge(self, end: GuestEnd) -> Judgement {
        let (passed, failed) = (self.passed_tests, self.failed_tests);
        let so_far = format!("{passed} passed, {failed} failed until then");
        match (self.verdict, end) {
            (Some(verdict), _) => verdict,
            (None, GuestEnd::Off) => {
                Judgement(GuestState::Failed, format!("the guest died: {so_far}"))
            }
            (None, GuestEnd::OutOfTime { silent }) if failed > 0 || silent >= HANGS => {
                let seconds = silent.as_secs();
                let sentence =
                    format!("ran out of time: {so_far}, and nothing was said for {seconds} s");
                Judgement(GuestState::Failed, sentence)
            }
            (None, GuestEnd::OutOfTime { .. }) => {
                Judgement(GuestState::NotRun, format!("ran out of time: {so_far}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(lines: &[&str], end: GuestEnd) -> Judgement {
        let mut transcript = Transcript::default();
        for line in lines {
            transcript.read_line(line);
        }
        transcript.judge(end)
    }

    #[test]
    fn a_guest_passes_only_if_its_script_says_so() {
        let (ok, bad) = ("test storms::one ... ok", "test storms::two ... FAILED");
        let late = |seconds| GuestEnd::OutOfTime {
            silent: Duration::from_secs(seconds),
        };
        for (lines, end, state) in [
            (
                vec![ok, "zctrace-vm: passed 12 passed"],
                GuestEnd::Off,
                GuestState::Passed,
            ),
            (
                vec![bad, "zctrace-vm: failed 1 failed"],
                GuestEnd::Off,
                GuestState::Failed,
            ),
            (vec![ok], GuestEnd::Off, GuestState::Failed),
            (
                vec![ok, "zctrace-vm: release 6.1"],
                late(10),
                GuestState::NotRun,
            ),
            (vec![ok, bad], late(10), GuestState::Failed),
            (vec![ok], late(300), GuestState::Failed),
        ] {
            assert_eq!(judged(&lines, end).0, state, "{lines:?}");
        }
    }
}
