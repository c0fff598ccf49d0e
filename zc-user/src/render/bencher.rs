//! Reports in Bencher Metric Format (bencher.dev, *Bencher Metric Format*): benchmarks by name, and
//! their measures. A benchmark is a command, or the label `name` of its runs; a measure is a figure
//! by the name that expectations give it. A report that is a lower bound is left out, because the
//! format cannot say so.

use std::collections::BTreeMap;

use serde::Serialize;

use super::text;
use crate::{check::known_figures, report::Report};

/// The longest name of a benchmark, in characters.
const MAX_NAME: usize = 1024;

/// The label that names a run.
const NAME: &str = "name";

/// A measure. The two bounds are those of several runs.
#[derive(Serialize)]
struct BencherMeasure {
    value: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<u64>,
}

/// The whole file.
pub(super) fn render(reports: &[&Report]) -> String {
    let mut runs = BTreeMap::<String, Vec<&Report>>::new();
    for report in reports.iter().filter(|report| report.exact) {
        runs.entry(name(report)).or_default().push(report);
    }
    let benchmarks = runs.iter().map(|(name, runs)| (name, measures(runs)));
    text::json(&benchmarks.collect::<BTreeMap<_, _>>())
}

fn name(report: &Report) -> String {
    let name = report.labels.get(NAME);
    let name = name.map_or_else(
        || text::command_line(&report.command),
        |name| text::escape(name),
    );
    let paths = report
        .paths
        .iter()
        .map(|path| format!(" -P {}", text::escape(path)));
    let name = name + &paths.collect::<String>();
    name.chars().take(MAX_NAME).collect()
}

/// The figures of these runs that are not 0 in each of them. Errors are not told apart by errno.
fn measures(runs: &[&Report]) -> BTreeMap<String, BencherMeasure> {
    let figures = known_figures(runs).into_iter();
    let told = figures.filter(|(name, values)| {
        !name.contains(".errors.") && values.iter().any(|value| *value > 0)
    });
    told.map(|(name, values)| (name, measure(values))).collect()
}

/// The median of the values, and their least and greatest.
fn measure(mut values: Vec<u64>) -> BencherMeasure {
    values.sort_unstable();
    let has_bounds = values.len() > 1;
    BencherMeasure {
        value: values[(values.len() - 1) / 2],
        lower_value: values.first().copied().filter(|_| has_bounds),
        upper_value: values.last().copied().filter(|_| has_bounds),
    }
}
