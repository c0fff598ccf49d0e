//! The tables, in Markdown: what was published beside what was measured. Pure.

use std::fmt::Write as _;

use super::{
    explain::{Facts, explain, order},
    measure::{Measured, Timing},
    scenario::{Measure, Place, Published, PublishedCall, Scenario},
};

/// A scenario's table and its sentences.
pub fn render(scenario: &Scenario, scale: f64, rows: &[Measured]) -> String {
    let mut text = format!("## {}: {}\n\nPublished: {}.\n", scenario.name, scenario.title, scenario.published);
    if let Some(input) = scenario.input.as_ref().filter(|input| !input.fixed) {
        // Every input has been read once before, see `write_input`.
        let from = if input.on == Place::Memory { "tmpfs" } else { "the page cache: nothing waits for a disk to read" };
        line(&mut text, format_args!("Here: {} bytes, {scale} of the published size, from {from}.", scenario.bytes(scale)));
    }
    text.push('\n');
    match scenario.measure {
        Measure::Compare => times(&mut text, rows),
        Measure::Trace => calls(&mut text, rows),
        Measure::Api => apis(&mut text, rows),
    }
    text.push('\n');
    if let [reference, ..] = rows {
        for row in rows {
            line(&mut text, format_args!("- **{}**: {}.", row.run.name, explain(row, reference)));
        }
    }
    for sentence in order(rows) {
        line(&mut text, format_args!("- Order: {sentence}"));
    }
    text
}

fn times(text: &mut String, rows: &[Measured]) {
    let has_cpu = rows.iter().any(|row| row.run.published.is_some_and(|published| published.cpu_percent.is_some()));
    let mut head = "| | published | Diff | here | Diff | least here | Diff |".to_owned();
    let mut rule = "|---|--:|--:|--:|--:|--:|--:|".to_owned();
    // On a machine that others use, too, the shortest time says most.
    let reference_min = rows.first().and_then(|row| row.timing.as_ref()).map(|timing| timing.time_s.min);
    if has_cpu {
        head += " published user, system, CPU | here |";
        rule += "--:|--:|";
    }
    line(text, format_args!("{head}\n{rule}"));
    for row in rows {
        let published = row.run.published;
        let mut cells = vec![
            row.run.name.clone(),
            published.map_or_else(dash, |published| milliseconds(published.wall_ms)),
            published.map_or_else(dash, |published| format!("{:.1} %", published.diff_percent)),
            row.timing.as_ref().map_or_else(dash, |timing| measured_time(timing, row.run.copies)),
            row.timing.as_ref().map_or_else(dash, measured_diff),
            row.timing.as_ref().map_or_else(dash, |timing| milliseconds(timing.time_s.min * 1000.0 / f64::from(row.run.copies))),
            row.timing
                .as_ref()
                .zip(reference_min)
                .map_or_else(dash, |(timing, least)| format!("{:.1} %", timing.time_s.min / least * 100.0)),
        ];
        if has_cpu {
            cells.push(published.map_or_else(dash, published_cpu));
            cells.push(row.timing.as_ref().map_or_else(dash, measured_cpu));
        }
        line(text, format_args!("| {} |", cells.join(" | ")));
    }
}

fn measured_time(timing: &Timing, copies: u32) -> String {
    let ms = |seconds: f64| seconds * 1000.0 / f64::from(copies);
    match timing.time_s.stddev {
        Some(stddev) => format!("{} ± {}", milliseconds(ms(timing.time_s.mean)), milliseconds(ms(stddev))),
        None => milliseconds(ms(timing.time_s.mean)),
    }
}

fn measured_diff(timing: &Timing) -> String {
    match timing.relative {
        Some(relative) => {
            let error = relative.relative_error_percent.map(|error| format!(" ± {:.1}", error * relative.percent / 100.0));
            format!("{:.1}{} %", relative.percent, error.unwrap_or_default())
        }
        None => dash(),
    }
}

fn published_cpu(published: Published) -> String {
    let seconds = |time: Option<f64>| time.map_or_else(dash, |time| format!("{time:.2} s"));
    let percent = published.cpu_percent.map_or_else(dash, |percent| format!("{percent:.0} %"));
    format!("{}, {}, {percent}", seconds(published.user_s), seconds(published.system_s))
}

fn measured_cpu(timing: &Timing) -> String {
    let percent = timing.cpu_percent.map_or_else(dash, |percent| format!("{percent:.0} %"));
    format!("{:.2} s, {:.2} s, {percent}", timing.user_s, timing.system_s)
}

fn calls(text: &mut String, rows: &[Measured]) {
    line(
        text,
        format_args!("| run | call | | calls | total ms | min ms | mean ms | max ms |\n|---|---|---|--:|--:|--:|--:|--:|"),
    );
    for row in rows {
        for published in &row.run.published_calls {
            let PublishedCall { syscall, calls, total_ms, min_ms, mean_ms, max_ms } = published;
            line(
                text,
                format_args!(
                    "| {} | {syscall} | published | {calls} | {total_ms:.3} | {min_ms:.3} | {mean_ms:.3} | {max_ms:.3} |",
                    row.run.name
                ),
            );
        }
        for call in row.report.totals.syscalls.iter().filter(|call| call.bytes > Some(0) && call.calls > 1) {
            let ms = |ns: Option<u64>| ns.map_or_else(dash, |ns| format!("{:.3}", microseconds(ns) / 1000.0));
            let figures = [call.total_ns, call.min_ns, call.mean_ns, call.max_ns].map(ms).join(" | ");
            line(text, format_args!("| {} | {} | here | {} | {figures} |", row.run.name, call.name, call.calls));
        }
        let usage = row.report.totals.usage;
        let count = |figure: Option<u64>| figure.map_or_else(dash, |figure| figure.to_string());
        line(
            text,
            format_args!(
                "| {} | page faults {} minor, {} major; context switches {} voluntary, {} involuntary | here | | | | | |",
                row.run.name,
                count(usage.page_faults.minor),
                count(usage.page_faults.major),
                count(usage.context_switches.voluntary),
                count(usage.context_switches.involuntary),
            ),
        );
    }
}

fn apis(text: &mut String, rows: &[Measured]) {
    line(text, format_args!("| | published | here |\n|---|---|---|"));
    for row in rows {
        let published = row.run.published_api.as_deref().unwrap_or("-");
        line(text, format_args!("| {} | {published} | {} |", row.run.name, Facts::of(&row.report).apis()));
    }
}

/// Milliseconds with four digits that mean something.
fn milliseconds(ms: f64) -> String {
    let decimals = match ms {
        ms if ms >= 100.0 => 0,
        ms if ms >= 1.0 => 2,
        _ => 5,
    };
    format!("{ms:.decimals$} ms")
}

#[expect(clippy::cast_precision_loss, reason = "shown with three decimals of a millisecond")]
fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn dash() -> String {
    "-".to_owned()
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // A string takes all.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_where_its_bytes_come_from() {
        let head = |place: &str| {
            let scenario = format!(
                "title = 't'\npublished = 'p'\nmeasure = 'api'\n[input]\nbytes = 1000\non = '{place}'\n[output]\nto = 'nothing'\n\
                 [[run]]\nname = 'n'\ncommand = []\n"
            );
            render(&toml::from_str(&scenario).expect("a scenario"), 0.5, &[])
        };
        for (place, words) in [("disk", "from the page cache: "), ("ext4", "from the page cache: "), ("memory", "from tmpfs.")] {
            let head = head(place);
            assert!(head.contains("Here: 500 bytes, 0.5 of the published size, ") && head.contains(words), "{head}");
        }
    }
}
