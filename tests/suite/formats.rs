//! Reports of real runs in other formats, as libraries read them; and what cannot be shown.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _};

use jsonschema::Validator;
use serde_json::Value;
use zctrace::{
    render::{Format, Options, render},
    report::Report,
};

use crate::harness::{
    BACKENDS, Program, TestDir, Zctrace, each_backend, program, shell, workload, zctrace,
};

/// Traces a program and returns the report as JSON.
#[track_caller]
fn report_of(zctrace: Zctrace, program: &Program) -> Value {
    let dir = TestDir::new();
    let zctrace = zctrace.json_to(dir.join("report"));
    zctrace.show(program).successful();
    serde_json::from_str(&dir.read("report")).expect("is JSON")
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

/// The published schema as the program prints it, without that room.
fn validator() -> Validator {
    let schema = zctrace().finish_with(&["schema"]).exits(0).json();
    jsonschema::meta::validate(&schema).expect("is a schema");
    jsonschema::validator_for(&closed(schema)).expect("is a schema")
}

#[track_caller]
fn assert_is_valid(validator: &Validator, report: &Value) {
    let errors = validator.iter_errors(report);
    let errors = errors.map(|error| format!("{}: {error}", error.instance_path()));
    assert_eq!(errors.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn reports_match_their_schema() {
    let validator = validator();
    let copies = "cat /etc/hostname | cat > /dev/null; cp /etc/hostname /dev/null";
    let copies = shell(&format!("{copies}; cat /nonexistent 2>/dev/null; true"));
    let mut report = Value::Null;
    for zctrace in each_backend() {
        for options in [
            ["--files", "--by=thread"],
            ["--by=total", "--wait-all"],
            ["--syscalls=all", "--all-transfers"],
        ] {
            report = report_of(zctrace.clone().options(&options), &copies);
            assert_is_valid(&validator, &report);
        }
    }
    let (_, of_closure) =
        zctrace::trace(|| std::fs::copy("/etc/hostname", "/dev/null")).expect("is traced");
    let of_closure = serde_json::to_value(of_closure).expect("is data");
    assert_is_valid(&validator, &of_closure);
    // The schema refuses what is not a report.
    for (field, value) in [
        ("exact", Value::from("yes")),
        ("processes", Value::Null),
        ("unheard_of", Value::from(1)),
    ] {
        let mut report = report.clone();
        report[field] = value;
        assert!(!validator.is_valid(&report), "{field}");
    }
}

#[test]
fn a_saved_report_has_the_same_table() {
    for backend in BACKENDS {
        let dir = TestDir::new();
        let saving = zctrace().option(backend).json_to(dir.join("r.json"));
        saving.show(&workload("known")).exits(0);
        let report = Report::from_json(&dir.read("r.json")).expect("a report");
        let table = render(&report, Format::Table, &Options::default());
        let shown = zctrace().dir(dir.path()).finish_with(&["report", "r.json"]);
        shown.exits(0).prints_only(&table);
    }
}

#[test]
fn names_that_are_no_text_are_traced_and_shown_so_that_their_bytes_can_be_told() {
    let name = OsString::from_vec(b"a\xff".into());
    for backend in BACKENDS {
        let dir = TestDir::new();
        std::fs::write(dir.join(&name), "text").expect("room for a file");
        let copy = program("cp").arg(&name).arg("b");
        let zctrace = zctrace().dir(dir.path());
        let report = zctrace.clone().option(backend).run_exactly(&copy).report;
        let sources = report
            .transfers
            .iter()
            .map(|transfer| transfer.from.path.as_deref());
        assert_eq!(sources.collect::<Vec<_>>(), [Some(r"a\xff")]);
        assert_eq!(report.command, ["cp", r"a\xff", "b"]);
        let checked = zctrace.option(backend).check("exit.code == 0", &copy);
        checked.exits(0).prints(r"cp $'a\xff' b");
    }
}
