//! Warnings that figures may be unreliable, with advice.

use std::fmt;

use serde::{Serialize, Serializer};

use super::statistics::outliers;

/// A reason why the figures of a command may be unreliable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Warning {
    /// The first run took far longer than the others.
    SlowFirstRun {
        /// How long it took.
        first_s: f64,
        /// Median of all runs.
        median_s: f64,
    },
    /// Some runs took far longer or shorter than most.
    Outliers {
        /// How many.
        outliers: usize,
        /// Of how many.
        runs: usize,
    },
    /// The command is too short for the precision of the shell's own time.
    ShellTooSlow {
        /// How long the shell takes.
        shell_s: f64,
    },
    /// Some runs took no longer than the shell alone.
    NoTime {
        /// How many.
        timeless: usize,
        /// Of how many.
        runs: usize,
    },
}

/// Below this, a time is about as small as the error of the shell's own time.
const SHORT_S: f64 = 0.005;

impl Warning {
    /// Warns of outliers among the times of a command's runs.
    pub(super) fn of_outliers(times_s: &[f64], median_s: f64) -> Option<Self> {
        let found = outliers(times_s);
        let count = found.iter().filter(|is_outlier| **is_outlier).count();
        match (found.first(), times_s.first()) {
            (Some(true), Some(&first_s)) if first_s > median_s => {
                Some(Self::SlowFirstRun { first_s, median_s })
            }
            _ => (count > 0).then_some(Self::Outliers {
                outliers: count,
                runs: times_s.len(),
            }),
        }
    }

    /// Warns of times that are small compared with the shell's, which was subtracted.
    pub(super) fn of_shell(times_s: &[f64], shell_s: f64) -> Option<Self> {
        let timeless = times_s.iter().filter(|time| **time <= 0.0).count();
        if timeless > 0 {
            Some(Self::NoTime {
                timeless,
                runs: times_s.len(),
            })
        } else {
            times_s
                .iter()
                .any(|time| *time < SHORT_S)
                .then_some(Self::ShellTooSlow { shell_s })
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |seconds: f64| seconds * 1e3;
        match *self {
            Self::SlowFirstRun { first_s, median_s } => write!(
                f,
                "the first run took {:.1} ms, the others {:.1} ms: something was not cached yet; fill the caches first with a \
                 larger --warmup, or empty them before every run with --prepare",
                ms(first_s),
                ms(median_s)
            ),
            Self::Outliers { outliers, runs } => write!(
                f,
                "{outliers} of {runs} runs are outliers: something else may have kept the machine busy; measure again when it \
                 is quiet, or with --warmup or --prepare"
            ),
            Self::ShellTooSlow { shell_s } => write!(
                f,
                "it takes less than {:.0} ms, and the {:.1} ms of the shell that were subtracted are not known that precisely; \
                 use -N if it needs no shell",
                ms(SHORT_S),
                ms(shell_s)
            ),
            Self::NoTime { timeless, runs } => write!(
                f,
                "{timeless} of {runs} runs took no longer than the shell alone, so their time is shown as 0; use -N if it needs no shell"
            ),
        }
    }
}

impl Serialize for Warning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_outliers(times_s: &[f64]) -> Option<String> {
        Warning::of_outliers(times_s, 0.010).map(|warning| warning.to_string())
    }

    #[test]
    fn outliers_suggest_a_warm_up_or_a_quiet_machine() {
        let slow_first = of_outliers(&[0.090, 0.010, 0.0101, 0.0099, 0.0102]);
        assert_eq!(
            slow_first.as_deref(),
            Some(
                "the first run took 90.0 ms, the others 10.0 ms: something was not cached yet; fill the caches first with a larger \
                 --warmup, or empty them before every run with --prepare"
            )
        );
        let times = [0.010, 0.0101, 0.0099, 0.0102, 0.090];
        assert_eq!(
            of_outliers(&times).as_deref(),
            Some(
                "1 of 5 runs are outliers: something else may have kept the machine busy; measure again when it is quiet, or with --warmup \
                 or --prepare"
            )
        );
        assert_eq!(of_outliers(&times[..4]), None);
        // A first run that is too fast is not a matter of caches.
        let fast = of_outliers(&[0.001, 0.010, 0.0101, 0.0099, 0.0102]).expect("an outlier");
        assert!(fast.starts_with("1 of 5"), "{fast}");
    }

    #[test]
    fn a_command_that_is_short_beside_the_shell_suggests_running_without_one() {
        let of_shell =
            |times_s: &[f64]| Warning::of_shell(times_s, 0.0012).map(|warning| warning.to_string());
        assert_eq!(
            of_shell(&[0.006, 0.004]).as_deref(),
            Some(
                "it takes less than 5 ms, and the 1.2 ms of the shell that were subtracted are not known that precisely; use -N if it \
                 needs no shell"
            )
        );
        assert_eq!(
            of_shell(&[0.006, 0.0]).as_deref(),
            Some(
                "1 of 2 runs took no longer than the shell alone, so their time is shown as 0; use -N if it needs no shell"
            )
        );
        assert_eq!(of_shell(&[0.006, 0.005]), None);
    }
}
