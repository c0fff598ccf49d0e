//! What a guest printed about its tests, and the verdict that follows from it.

use std::time::Duration;

use super::{qemu::GuestEnd, selection::TestSelection};

/// Starts the lines in which the guest's script says how its work ended.
const SCRIPT_PREFIX: &str = "zctrace-vm: ";

/// How many failed tests a closing line names.
const NAMED: usize = 5;

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
    failed_tests: Vec<String>,
    /// The result line of the run of tests: `ok. 3 passed; 0 failed; 0 ignored; 0 measured; 441
    /// filtered out`.
    result: Option<String>,
    tests_ended_with: Option<i32>,
    checks_ended_with: Option<i32>,
    names_of_no_test: Vec<String>,
    has_ended: bool,
}

impl Transcript {
    /// Reads one line of output.
    pub(super) fn read_line(&mut self, line: &str) {
        if let Some(said) = line.strip_prefix(SCRIPT_PREFIX) {
            self.read_script_line(said);
        } else if let Some(said) = line.strip_prefix("test result: ") {
            let (sums, _time) = said.split_once("; finished").unwrap_or((said, ""));
            self.result = Some(sums.to_owned());
        } else if let Some(said) = line.strip_prefix("test ") {
            let failed = said.strip_suffix(" ... FAILED");
            self.failed_tests.extend(failed.map(str::to_owned));
            self.passed_tests += u32::from(said.ends_with(" ... ok"));
        }
    }

    fn read_script_line(&mut self, said: &str) {
        let status = |word: &str| said.strip_prefix(word)?.trim().parse().ok();
        self.tests_ended_with = status("tests ended with").or(self.tests_ended_with);
        self.checks_ended_with = status("checks ended with").or(self.checks_ended_with);
        self.names_of_no_test
            .extend(said.strip_prefix("no test ").map(str::to_owned));
        self.has_ended |= said == "end";
    }

    /// The verdict; anything that the guest did not print counts as wrong.
    pub(super) fn judge(&self, end: GuestEnd, selection: &TestSelection) -> Judgement {
        let judged = match end {
            GuestEnd::OutOfTime { silent } => return self.judge_unfinished(silent),
            GuestEnd::Off if !self.has_ended => Err("the guest died".to_owned()),
            GuestEnd::Off => self.judge_tests(selection),
        };
        match judged {
            Ok(sentence) => Judgement(GuestState::Passed, sentence),
            Err(sentence) => Judgement(GuestState::Failed, sentence),
        }
    }

    /// A guest that still prints something is on a slow machine; one that does not hangs.
    fn judge_unfinished(&self, silent: Duration) -> Judgement {
        let (passed, failed) = (self.passed_tests, self.failed_tests.len());
        let so_far = format!("ran out of time: {passed} passed, {failed} failed until then");
        if silent >= HANGS {
            let seconds = silent.as_secs();
            let sentence = format!("{so_far}, and nothing was said for {seconds} s");
            return Judgement(GuestState::Failed, sentence);
        }
        match self.tests_ended_with {
            None | Some(0) if failed == 0 => Judgement(GuestState::NotRun, so_far),
            _ => Judgement(GuestState::Failed, so_far),
        }
    }

    fn judge_tests(&self, selection: &TestSelection) -> Result<String, String> {
        if !self.names_of_no_test.is_empty() {
            let names = self.names_of_no_test.join(", ");
            return Err(format!("no test is called {names}"));
        }
        let Some(result) = &self.result else {
            return Err("the tests did not come to their end".to_owned());
        };
        let (_, sums) = result.split_once(". ").unwrap_or_default();
        let mut sentence = sums.to_owned();
        if !self.failed_tests.is_empty() {
            let mut named = self.failed_tests.clone();
            if named.len() > NAMED {
                named.splice(NAMED.., ["...".to_owned()]);
            }
            sentence = format!("{sentence} ({})", named.join(", "));
        }
        let is_good = result.starts_with("ok. ") && result.contains(" 0 failed; 0 ignored; ");
        let has_run = !sums.starts_with("0 passed");
        if !is_good || !has_run || self.tests_ended_with != Some(0) {
            return Err(sentence);
        }
        match self.checks_ended_with {
            Some(0) => Ok(format!("{sentence}, the checks hold")),
            Some(status) => Err(format!("{sentence}, but the checks ended with {status}")),
            None if !selection.has_checks() => Ok(sentence),
            None => Err(sentence + ", but the checks did not come to their end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "zctrace-vm: tests ended with 0";
    const CHECKED: &str = "zctrace-vm: checks ended with 0";
    const END: &str = "zctrace-vm: end";

    fn heard(lines: &[&str]) -> Transcript {
        let mut transcript = Transcript::default();
        for line in lines {
            transcript.read_line(line);
        }
        transcript
    }

    /// What is said about a guest that printed these lines and went off.
    fn judged(lines: &[&str]) -> Result<String, String> {
        let Judgement(state, sentence) = heard(lines).judge(GuestEnd::Off, &TestSelection::all());
        if state == GuestState::Passed {
            Ok(sentence)
        } else {
            Err(sentence)
        }
    }

    /// The closing line of a run of tests with these sums.
    fn result(sums: &str) -> String {
        let state = if sums.contains(" 0 failed") {
            "ok"
        } else {
            "FAILED"
        };
        format!("test result: {state}. {sums}; 0 measured; 432 filtered out; finished in 2.31s")
    }

    #[test]
    fn passed_tests_and_checks_are_summed_up_and_all_else_fails() {
        let sums = |passed, failed, ignored| {
            format!("{passed} passed; {failed} failed; {ignored} ignored")
        };
        let said = |sums: &str| format!("{sums}; 0 measured; 432 filtered out");
        let [good, bad, skipped, none] = [
            sums(12, 0, 0),
            sums(11, 1, 0),
            sums(11, 0, 1),
            sums(0, 0, 0),
        ];
        let passed = &result(&good);
        let failing = "test storms::one ... FAILED";
        let tests_failed = "zctrace-vm: tests ended with 101";
        let checks_failed = "zctrace-vm: checks ended with 1";
        for (lines, expected) in [
            (
                vec![passed, OK, CHECKED, END],
                Ok(said(&good) + ", the checks hold"),
            ),
            (
                vec![failing, &result(&bad), tests_failed, CHECKED, END],
                Err(said(&bad) + " (storms::one)"),
            ),
            (
                vec![&result(&skipped), OK, CHECKED, END],
                Err(said(&skipped)),
            ),
            (vec![&result(&none), OK, CHECKED, END], Err(said(&none))),
            (
                vec!["zctrace-vm: no test gone::", passed, OK, CHECKED, END],
                Err("no test is called gone::".to_owned()),
            ),
            (vec![passed, OK, CHECKED], Err("the guest died".to_owned())),
            (
                vec![OK, CHECKED, END],
                Err("the tests did not come to their end".to_owned()),
            ),
            (vec![passed, CHECKED, END], Err(said(&good))),
            (
                vec![passed, OK, END],
                Err(said(&good) + ", but the checks did not come to their end"),
            ),
            (
                vec![passed, OK, checks_failed, END],
                Err(said(&good) + ", but the checks ended with 1"),
            ),
        ] {
            assert_eq!(judged(&lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_guest_that_runs_out_of_time_is_slow_if_its_tests_were_passing() {
        let cut_off = |lines: &[&str], silent| {
            let end = GuestEnd::OutOfTime { silent };
            heard(lines).judge(end, &TestSelection::all())
        };
        let (passed, failed) = ("test storms::one ... ok", "test storms::two ... FAILED");
        let short = Duration::from_secs(10);
        let slow = "ran out of time: 1 passed, 0 failed until then".to_owned();
        assert_eq!(
            cut_off(&[passed], short),
            Judgement(GuestState::NotRun, slow)
        );
        for (lines, silent) in [
            ([passed, failed], short),
            ([passed, "zctrace-vm: tests ended with 101"], short),
            ([passed, passed], HANGS),
        ] {
            assert_eq!(cut_off(&lines, silent).0, GuestState::Failed);
        }
    }

    #[test]
    fn checks_that_were_not_requested_are_not_missed() {
        let selection = TestSelection::named(&["storms::".to_owned()]);
        let sums = "12 passed; 0 failed; 0 ignored";
        let transcript = heard(&[&result(sums), OK, END]);
        let verdict = transcript.judge(GuestEnd::Off, &selection);
        assert_eq!(verdict.0, GuestState::Passed);
        assert!(verdict.1.starts_with(sums), "{verdict:?}");
    }
}
