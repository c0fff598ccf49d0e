//! Reports of real runs in other formats, as other programs and libraries read them.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::harness::{Program, TestDir, Zctrace, program, shell, zctrace};

/// Traces a program and returns the report in this format.
#[track_caller]
fn report_of(zctrace: Zctrace, format: &str, program: &Program) -> String {
    let dir = TestDir::new();
    zctrace
        .option(format!("--format={format}"))
        .option("-o")
        .option(dir.join("report"))
        .show(program)
        .successful();
    dir.read("report")
}

/// A program whose arguments and file names have the special characters of the formats.
fn odd() -> Program {
    shell(
        "cat /etc/hostname > '/tmp/zc \"odd\" | name, with \\ in it'; rm '/tmp/zc \"odd\" | name, with \\ in it'; exec 2>&-; cat /proc/self/mem; true",
    )
}

/// Runs a Python script with this text as stdin, and returns what it prints.
#[track_caller]
fn python(script: &str, text: &str) -> String {
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it is our child");
    assert!(
        output.status.success(),
        "{}\n{text}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// Prints each sample as the parser understands it.
const METRICS: &str = "
import sys
from {module} import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    assert family.type == 'gauge' and family.documentation, family
    for sample in family.samples:
        print(sample.name, sorted(sample.labels.items()), float(sample.value))
";

#[test]
fn both_prometheus_parsers_read_the_metrics() {
    for backend in ["ebpf", "strace"] {
        let text = report_of(zctrace().backend(backend), "openmetrics", &odd());
        let read = |module: &str| python(&METRICS.replace("{module}", module), &text);
        // One parser is for the format that the textfile collector reads, the other for
        // OpenMetrics, which is stricter.
        let [old, strict] = [
            "prometheus_client.parser",
            "prometheus_client.openmetrics.parser",
        ]
        .map(read);
        assert_eq!(old, strict);
        assert_eq!(
            old.lines().count(),
            text.lines().filter(|line| !line.starts_with('#')).count()
        );
        assert!(
            old.contains("zctrace_exit_status") && old.contains("\"odd\" | name, with \\\\"),
            "{old}"
        );
        assert!(
            old.lines()
                .any(|line| line.starts_with("zctrace_syscall_calls ")
                    && line.contains("('syscall', 'read')")),
            "{old}"
        );
        // strace does not know the CPU time, so the metric is left out.
        assert_eq!(old.contains("zctrace_cpu_seconds"), backend == "ebpf");
    }
}

#[test]
fn metrics_equal_the_figures_of_the_report() {
    let run = zctrace().ebpf().run(&program("dd").args(&[
        "if=/dev/zero",
        "of=/dev/null",
        "bs=4k",
        "count=100",
    ]));
    let dir = TestDir::new();
    let saved = dir.write(
        "report.json",
        serde_json::to_string(&run.report).expect("it can be written"),
    );
    let shown = zctrace()
        .launch_with(&[
            "report",
            "--format",
            "openmetrics",
            saved.to_str().expect("text"),
        ])
        .finish();
    let read = python(
        &METRICS.replace("{module}", "prometheus_client.openmetrics.parser"),
        shown.successful(),
    );
    for (metric, figure) in [
        ("calls", run.totals().row("read").calls),
        ("bytes", run.totals().row("read").bytes.expect("is known")),
    ] {
        let line = read.lines().find(|line| {
            line.starts_with(&format!("zctrace_syscall_{metric} ")) && line.contains("'read'")
        });
        let value: f64 = line
            .and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .expect("has a value");
        assert!(
            (value - f64::from(u32::try_from(figure).expect("is small"))).abs() < 0.5,
            "{value} {figure}"
        );
    }
}

#[test]
fn python_reads_the_csv() {
    let script = "
import csv, sys
rows = list(csv.DictReader(sys.stdin, strict=True))
print(sum(int(row['bytes'] or 0) for row in rows if row['comm'] == 'dd' and row['syscall'] == 'write'))
assert all(None not in row and None not in row.values() for row in rows), rows
";
    let dd = shell("dd if=/dev/zero of=/dev/null bs=1000 count=77 status=none; cat /dev/null");
    assert_eq!(
        python(script, &report_of(zctrace().ebpf(), "csv", &dd)),
        "77000\n"
    );
}

/// The schema without room for fields that it does not name.
fn closed(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(fields) => {
            for (_, value) in fields.iter_mut() {
                *value = closed(value.take());
            }
            if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
                fields.insert("additionalProperties".into(), false.into());
            }
        }
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| *value = closed(value.take())),
        _ => {}
    }
    schema
}

#[test]
fn reports_match_their_schema() {
    let schema = zctrace().launch_with(&["schema"]).finish();
    let schema: Value = serde_json::from_str(schema.successful()).expect("is JSON");
    jsonschema::meta::validate(&schema).expect("is a schema");
    let validator = jsonschema::validator_for(&closed(schema)).expect("is a schema");
    let copies = shell(
        "cat /etc/hostname | cat > /dev/null; cp /etc/hostname /dev/null; cat /nonexistent 2>/dev/null; true",
    );
    for backend in ["ebpf", "strace"] {
        for options in [
            ["--files", "--by=thread"],
            ["--by=total", "--wait-all"],
            ["--syscalls=all", "--all-transfers"],
        ] {
            let text = report_of(
                zctrace().backend(backend).options(&options),
                "json",
                &copies,
            );
            let report: Value = serde_json::from_str(&text).expect("is JSON");
            let errors: Vec<String> = validator
                .iter_errors(&report)
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{backend} {options:?}: {errors:#?}");
        }
    }
    // The schema refuses what is not a report.
    let mut report: Value =
        serde_json::from_str(&report_of(zctrace(), "json", &copies)).expect("is JSON");
    for (field, value) in [
        ("exact", Value::from("yes")),
        ("processes", Value::Null),
        ("unheard_of", Value::from(1)),
    ] {
        let before = report
            .as_object_mut()
            .expect("an object")
            .insert(field.to_owned(), value);
        assert!(!validator.is_valid(&report), "{field}");
        match before {
            Some(before) => report[field] = before,
            None => drop(report.as_object_mut().expect("an object").remove(field)),
        }
        assert!(validator.is_valid(&report));
    }
}

#[test]
fn the_report_of_a_closure_matches_the_schema() {
    let schema = serde_json::to_value(zctrace::report::schema()).expect("is data");
    let validator = jsonschema::validator_for(&closed(schema)).expect("is a schema");
    let (_, report) =
        zctrace::trace(|| std::fs::copy("/etc/hostname", "/dev/null")).expect("is traced");
    let report = serde_json::to_value(report).expect("is data");
    assert!(
        validator.is_valid(&report),
        "{:?}",
        validator
            .iter_errors(&report)
            .map(|error| error.to_string())
            .collect::<Vec<_>>()
    );
}

#[test]
fn markdown_has_a_heading_and_a_table() {
    let text = report_of(zctrace().ebpf(), "markdown", &odd());
    assert!(
        text.starts_with("### zctrace: `sh -c ") && text.contains("\n| syscall | calls |"),
        "{text}"
    );
}

#[track_caller]
fn assert_is_refused(words: &[&str], end: &str) {
    let finished = zctrace().launch_with(words).finish();
    let is_a_line =
        finished.stderr.starts_with("zctrace: ") && finished.stderr.lines().count() == 1;
    assert!(
        finished.code == Some(125) && is_a_line && finished.stderr.ends_with(end),
        "{words:?}: {}",
        finished.stderr
    );
}

#[test]
fn unsupported_formats_are_refused_in_one_line() {
    for format in ["csv", "markdown", "openmetrics"] {
        let refusal = zctrace()
            .option("--verify")
            .option(format!("--format={format}"))
            .refuses();
        refusal
            .with_status(125)
            .saying("--verify shows a table or json");
        assert_is_refused(
            &["doctor", "--format", format],
            "it is one of table, json\n",
        );
    }
    assert_is_refused(
        &["compare", "--format", "openmetrics", "true"],
        "it is one of table, json, markdown\n",
    );
}
