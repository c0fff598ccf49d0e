//! Reports of real runs in other formats, as other programs and libraries read them.

use serde_json::Value;

use crate::harness::{Program, TestDir, Zctrace, program, shell, untraced, zctrace};

/// Traces a program and returns the report in this format.
#[track_caller]
fn report_of(zctrace: Zctrace, format: &str, program: &Program) -> String {
    let dir = TestDir::new();
    let zctrace = zctrace.option(format!("--format={format}"));
    let zctrace = zctrace.option("-o").option(dir.join("report"));
    zctrace.show(program).successful();
    dir.read("report")
}

/// A program whose arguments and file names have the special characters of the formats.
fn odd() -> Program {
    let file = r#"'/tmp/zc "odd" | name, with \ in it'"#;
    let copy = format!("cat /etc/hostname > {file}; rm {file}");
    shell(&format!("{copy}; exec 2>&-; cat /proc/self/mem; true"))
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
    let csv = report_of(zctrace().ebpf(), "csv", &dd);
    let python = untraced(&program("python3").args(&["-c", script]));
    assert_eq!(
        python.input(csv.as_bytes()).finish().successful(),
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
    let copies = "cat /etc/hostname | cat > /dev/null; cp /etc/hostname /dev/null";
    let copies = shell(&format!("{copies}; cat /nonexistent 2>/dev/null; true"));
    for backend in ["ebpf", "strace"] {
        for options in [
            ["--files", "--by=thread"],
            ["--by=total", "--wait-all"],
            ["--syscalls=all", "--all-transfers"],
        ] {
            let zctrace = zctrace().backend(backend).options(&options);
            let text = report_of(zctrace, "json", &copies);
            let report: Value = serde_json::from_str(&text).expect("is JSON");
            assert_is_valid(&validator, &report);
        }
    }
    // The schema refuses what is not a report.
    let text = report_of(zctrace(), "json", &copies);
    for (field, value) in [
        ("exact", Value::from("yes")),
        ("processes", Value::Null),
        ("unheard_of", Value::from(1)),
    ] {
        let mut report: Value = serde_json::from_str(&text).expect("is JSON");
        report[field] = value;
        assert!(!validator.is_valid(&report), "{field}");
    }
}

#[test]
fn the_report_of_a_closure_matches_the_schema() {
    let schema = serde_json::to_value(zctrace::report::schema()).expect("is data");
    let validator = jsonschema::validator_for(&closed(schema)).expect("is a schema");
    let (_, report) =
        zctrace::trace(|| std::fs::copy("/etc/hostname", "/dev/null")).expect("is traced");
    let report = serde_json::to_value(report).expect("is data");
    assert_is_valid(&validator, &report);
}

#[track_caller]
fn assert_is_valid(validator: &jsonschema::Validator, report: &Value) {
    let errors = validator.iter_errors(report);
    let errors: Vec<_> = errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn markdown_has_a_heading_and_a_table() {
    let text = report_of(zctrace().ebpf(), "markdown", &odd());
    let has_table = text.contains("\n| syscall | calls |");
    assert!(
        text.starts_with("### zctrace: `sh -c ") && has_table,
        "{text}"
    );
}

#[test]
fn unsupported_formats_are_refused_in_one_line() {
    for (words, said) in [
        (
            &["--verify", "--format=csv", "--", "true"][..],
            "--verify shows a table or json",
        ),
        (
            &["--verify", "--format=markdown", "--", "true"],
            "--verify shows a table or json",
        ),
        (&["doctor", "--format", "csv"], "it is one of table, json\n"),
        (
            &["doctor", "--format", "markdown"],
            "it is one of table, json\n",
        ),
    ] {
        zctrace()
            .launch_with(words)
            .finish()
            .exits(125)
            .says(said)
            .in_one_line();
    }
}
