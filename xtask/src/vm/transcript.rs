//! What a guest printed about its tests, and the verdict that follows from it.

use std::time::Duration;

use super::{kernels::Expected, qemu::End, selection::Selection};

/// Starts the lines in which the guest's script says how its work ended.
const SCRIPT_PREFIX: &str = "zctrace-vm: ";

/// How many failed tests a closing line names.
const NAMED: usize = 5;

/// A guest that prints nothing for so long hangs. The checks print nothing until all have run,
/// which takes up to two minutes.
const HANGS: Duration = Duration::from_mins(5);

/// Why a guest did not pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotPassed {
    /// Something is wrong.
    Failed(String),
    /// Its time was over, but its tests were still running and none had failed.
    TooSlow(String),
}

impl From<String> for NotPassed {
    fn from(sentence: String) -> Self {
        Self::Failed(sentence)
    }
}

/// What a guest has printed so far.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    passed_tests: u32,
    failed_tests: Vec<String>,
    figures: Option<Figures>,
    tests_ended_with: Option<i32>,
    checks_ended_with: Option<i32>,
    refused_with: Option<i32>,
    reasons: Vec<String>,
    names_of_no_test: Vec<String>,
    has_ended: bool,
}

/// The sums under a run of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Tests that passed.
    pub(super) passed: u32,
    /// Tests that failed.
    pub(super) failed: u32,
    /// Tests that were skipped by themselves.
    pub(super) ignored: u32,
    /// Tests that were not asked for.
    pub(super) left_out: u32,
}

impl Transcript {
    /// Reads one line of output.
    pub(super) fn read_line(&mut self, line: &str) {
        if let Some(said) = line.strip_prefix(SCRIPT_PREFIX) {
            self.read_script_line(said);
        } else if let Some(figures) = line.strip_prefix("test result: ").and_then(Figures::of) {
            self.figures = Some(figures);
        } else if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.failed_tests.push(name.to_owned());
        } else if line.starts_with("test ") && line.ends_with(" ... ok") {
            self.passed_tests += 1;
        }
    }

    fn read_script_line(&mut self, said: &str) {
        let status = |word: &str| said.strip_prefix(word)?.trim().parse().ok();
        self.tests_ended_with = status("tests ended with").or(self.tests_ended_with);
        self.checks_ended_with = status("checks ended with").or(self.checks_ended_with);
        self.refused_with = status("refused with").or(self.refused_with);
        self.names_of_no_test
            .extend(said.strip_prefix("no test ").map(str::to_owned));
        self.reasons
            .extend(said.strip_prefix("because ").map(str::to_owned));
        self.has_ended |= said == "end";
    }

    /// A sentence for the closing line. The error says what is wrong; anything that the guest did
    /// not print counts as wrong.
    pub(super) fn judge(
        &self,
        end: End,
        expected: Expected,
        selection: &Selection,
    ) -> Result<String, NotPassed> {
        if let End::OutOfTime { silent } = end {
            return Err(self.judge_unfinished(silent));
        }
        if !self.has_ended {
            return Err(NotPassed::Failed("the guest died".to_owned()));
        }
        Ok(match expected {
            Expected::Works => self.judge_tests(selection)?,
            Expected::Refused => self.judge_refusal()?,
        })
    }

    /// A guest that still prints something is on a slow machine; one that does not hangs.
    fn judge_unfinished(&self, silent: Duration) -> NotPassed {
        let so_far = format!(
            "ran out of time: {} passed, {} failed until then",
            self.passed_tests,
            self.failed_tests.len()
        );
        if silent >= HANGS {
            return NotPassed::Failed(format!(
                "{so_far}, and nothing was said for {} s",
                silent.as_secs()
            ));
        }
        match self.tests_ended_with {
            None | Some(0) if self.failed_tests.is_empty() => NotPassed::TooSlow(so_far),
            _ => NotPassed::Failed(so_far),
        }
    }

    fn judge_tests(&self, selection: &Selection) -> Result<String, String> {
        if !self.names_of_no_test.is_empty() {
            return Err(format!(
                "no test is called {}",
                self.names_of_no_test.join(", ")
            ));
        }
        let Some(figures) = self.figures else {
            return Err("the tests did not come to their end".to_owned());
        };
        let mut sentence = format!(
            "{} passed, {} failed, {} left out",
            figures.passed, figures.failed, figures.left_out
        );
        if !self.failed_tests.is_empty() {
            let named = self
                .failed_tests
                .iter()
                .take(NAMED)
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ");
            let more = if self.failed_tests.len() > NAMED {
                ", ..."
            } else {
                ""
            };
            sentence = format!("{sentence} ({named}{more})");
        }
        if figures.ignored > 0 {
            return Err(format!("{sentence}, {} skipped", figures.ignored));
        }
        if figures.passed == 0 || figures.failed > 0 || self.tests_ended_with != Some(0) {
            return Err(sentence);
        }
        match self.checks_ended_with {
            Some(0) => Ok(format!("{sentence}, the checks hold")),
            Some(status) => Err(format!("{sentence}, but the checks ended with {status}")),
            None if !selection.has_checks() => Ok(sentence),
            None => Err(format!(
                "{sentence}, but the checks did not come to their end"
            )),
        }
    }

    /// On a kernel that zctrace cannot use, it must print one line and exit with 125.
    fn judge_refusal(&self) -> Result<String, String> {
        match (self.refused_with, self.reasons.as_slice()) {
            (Some(125), [reason]) => Ok(format!("refused, as it should be: {reason}")),
            (status, reasons) => Err(format!(
                "not refused in one line: status {status:?}, {} lines: {}",
                reasons.len(),
                reasons.join(" / ")
            )),
        }
    }
}

impl Figures {
    /// Parses the result line of a test run: `ok. 3 passed; 0 failed; 0 ignored; 0 measured; 441
    /// filtered out; finished in 0.52s`.
    fn of(line: &str) -> Option<Self> {
        let mut figures = Self::default();
        for part in line.split_once(". ")?.1.split("; ") {
            let (number, what) = part.split_once(' ')?;
            let place = match what {
                "passed" => &mut figures.passed,
                "failed" => &mut figures.failed,
                "ignored" => &mut figures.ignored,
                "filtered out" => &mut figures.left_out,
                _ => continue,
            };
            *place = number.parse().ok()?;
        }
        Some(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: &str = "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 432 filtered out; finished in 2.31s";

    fn judged(lines: &[&str], expected: Expected) -> Result<String, String> {
        let mut transcript = Transcript::default();
        for line in lines {
            transcript.read_line(line);
        }
        transcript
            .judge(End::Off, expected, &Selection::all())
            .map_err(sentence)
    }

    fn sentence(shortfall: NotPassed) -> String {
        match shortfall {
            NotPassed::Failed(sentence) => sentence,
            NotPassed::TooSlow(sentence) => panic!("not slow: {sentence}"),
        }
    }

    /// The output of a guest whose tests end like this.
    fn guest<'a>(tests: &'a [&'a str], status: &'a str, checks: &'a str) -> Vec<&'a str> {
        [tests, &[status, checks, "zctrace-vm: end"]].concat()
    }

    const OK: &str = "zctrace-vm: tests ended with 0";
    const CHECKED: &str = "zctrace-vm: checks ended with 0";

    #[test]
    fn passed_tests_and_checks_are_summed_up() {
        let said = judged(
            &guest(&["test storms::one ... ok", PASSED], OK, CHECKED),
            Expected::Works,
        );
        assert_eq!(
            said.as_deref(),
            Ok("12 passed, 0 failed, 432 left out, the checks hold")
        );
    }

    #[test]
    fn a_failed_test_is_named() {
        let result = "test result: FAILED. 11 passed; 1 failed; 0 ignored; 0 measured; 432 filtered out; finished in 2.31s";
        let said = judged(
            &guest(
                &["test storms::one ... FAILED", result],
                "zctrace-vm: tests ended with 101",
                CHECKED,
            ),
            Expected::Works,
        );
        assert_eq!(
            said,
            Err("11 passed, 1 failed, 432 left out (storms::one)".to_owned())
        );
    }

    #[test]
    fn skipped_tests_unknown_names_and_runs_without_tests_fail() {
        let ignored = "test result: ok. 11 passed; 0 failed; 1 ignored; 0 measured; 432 filtered out; finished in 2.31s";
        assert!(
            judged(&guest(&[ignored], OK, CHECKED), Expected::Works)
                .expect_err("one was skipped")
                .contains("1 skipped")
        );
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 444 filtered out; finished in 0.01s";
        assert!(judged(&guest(&[none], OK, CHECKED), Expected::Works).is_err());
        let unknown = judged(
            &guest(&["zctrace-vm: no test gone::", PASSED], OK, CHECKED),
            Expected::Works,
        );
        assert_eq!(unknown, Err("no test is called gone::".to_owned()));
    }

    #[test]
    fn missing_results_fail() {
        assert_eq!(
            judged(&[PASSED, OK, CHECKED], Expected::Works),
            Err("the guest died".to_owned())
        );
        assert!(judged(&[OK, CHECKED, "zctrace-vm: end"], Expected::Works).is_err());
        assert!(judged(&[PASSED, CHECKED, "zctrace-vm: end"], Expected::Works).is_err());
        assert!(judged(&[PASSED, OK, "zctrace-vm: end"], Expected::Works).is_err());
        let failed = judged(
            &guest(&[PASSED], OK, "zctrace-vm: checks ended with 1"),
            Expected::Works,
        );
        assert!(failed.expect_err("a check failed").contains("ended with 1"));
    }

    #[test]
    fn a_guest_that_runs_out_of_time_is_slow_if_its_tests_were_passing() {
        let cut_off = |lines: &[&str], silent| {
            let mut transcript = Transcript::default();
            for line in lines {
                transcript.read_line(line);
            }
            transcript
                .judge(
                    End::OutOfTime { silent },
                    Expected::Works,
                    &Selection::all(),
                )
                .expect_err("it was cut off")
        };
        let (passed, failed) = ("test storms::one ... ok", "test storms::two ... FAILED");
        let short = Duration::from_secs(10);
        assert_eq!(
            cut_off(&[passed], short),
            NotPassed::TooSlow("ran out of time: 1 passed, 0 failed until then".to_owned())
        );
        assert!(matches!(
            cut_off(&[passed, failed], short),
            NotPassed::Failed(_)
        ));
        assert!(matches!(
            cut_off(&[passed, "zctrace-vm: tests ended with 101"], short),
            NotPassed::Failed(_)
        ));
        assert!(matches!(cut_off(&[passed], HANGS), NotPassed::Failed(_)));
    }

    #[test]
    fn checks_that_were_not_requested_are_not_missed() {
        let mut transcript = Transcript::default();
        for line in [PASSED, OK, "zctrace-vm: end"] {
            transcript.read_line(line);
        }
        let said = transcript.judge(
            End::Off,
            Expected::Works,
            &Selection::named(&["storms::".to_owned()]),
        );
        assert_eq!(said, Ok("12 passed, 0 failed, 432 left out".to_owned()));
    }

    #[test]
    fn a_refusal_must_be_one_line_with_the_right_status() {
        let said =
            |lines: &[&str]| judged(&[lines, &["zctrace-vm: end"]].concat(), Expected::Refused);
        let reason = "zctrace-vm: because zctrace: Linux 5.10 is too old";
        assert_eq!(
            said(&["zctrace-vm: refused with 125", reason]).as_deref(),
            Ok("refused, as it should be: zctrace: Linux 5.10 is too old")
        );
        assert!(said(&["zctrace-vm: refused with 0", reason]).is_err());
        assert!(said(&["zctrace-vm: refused with 125", reason, reason]).is_err());
        assert!(said(&["zctrace-vm: refused with 125"]).is_err());
    }
}
