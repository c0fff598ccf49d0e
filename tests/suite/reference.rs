//! The pages in docs/reference are what the program says of itself. `ZC_UPDATE_GOLDEN=1 cargo xtask
//! test reference` writes them anew.

use std::{collections::BTreeSet, env, fmt::Write as _, fs, path::Path};

use serde_json::Value;

use crate::harness::zctrace;

/// The commands, each with a help page of its own.
const COMMANDS: [&str; 8] = [
    "", "run", "top", "compare", "check", "diff", "report", "doctor",
];

fn printed(words: &[&str]) -> String {
    let finished = zctrace().env("COLUMNS", "100").finish_with(words);
    finished.successful().to_owned()
}

fn assert_is_page(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/reference")
        .join(name);
    if env::var_os("ZC_UPDATE_GOLDEN").is_some() {
        fs::write(&path, page).expect("can be written");
    }
    let kept = fs::read_to_string(&path).expect("is there");
    assert!(kept == page, "docs/reference/{name} is out of date");
}

#[test]
fn the_page_of_the_command_line_has_every_help() {
    let mut page =
        "# The command line\n\nThis is what the program says with `--help`.\n".to_owned();
    for command in COMMANDS {
        let words = [command, "--help"]
            .into_iter()
            .filter(|word| !word.is_empty());
        let words: Vec<&str> = words.collect();
        let title = format!("zctrace {command}").trim_end().to_owned();
        let _ = write!(page, "\n## `{title}`\n\n```text\n{}```\n", printed(&words));
    }
    assert_is_page("command-line.md", &page);
}

#[test]
fn the_page_of_the_json_has_every_field() {
    let schema: Value = serde_json::from_str(&printed(&["schema"])).expect("JSON");
    let mut page = "# The fields of the JSON\n\nThis is `zctrace schema` as a table: [The JSON report](../json.md) explains it.\n".to_owned();
    add_type(&mut page, "Report", &schema);
    for (name, definition) in schema["$defs"].as_object().expect("types") {
        add_type(&mut page, name, definition);
    }
    assert_is_page("json-fields.md", &page);
}

#[test]
fn every_field_is_explained_in_json_md() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/json.md");
    let page = fs::read_to_string(page).expect("is there");
    // What is between backquotes: `totals.failed_paths`.
    let code = page.split('`').skip(1).step_by(2);
    let named: BTreeSet<&str> = code.flat_map(|code| code.split('.')).collect();
    let schema: Value = serde_json::from_str(&printed(&["schema"])).expect("JSON");
    let types = schema["$defs"].as_object().expect("types").values();
    for definition in types.chain([&schema]) {
        let fields = definition["properties"].as_object();
        for field in fields.into_iter().flat_map(|fields| fields.keys()) {
            assert!(named.contains(field.as_str()), "{field}: {definition}");
        }
    }
}

/// The section of a type: its fields, or its values.
fn add_type(page: &mut String, name: &str, definition: &Value) {
    let _ = writeln!(page, "\n## {name}\n\n{}", description(definition));
    if let Some(fields) = definition["properties"].as_object() {
        let _ = writeln!(page, "\n| field | type | meaning |\n|---|---|---|");
        for (field, of_field) in fields {
            let _ = writeln!(
                page,
                "| `{field}` | {} | {} |",
                type_name(of_field),
                description(of_field)
            );
        }
    }
    for value in alternatives(definition)
        .iter()
        .chain(definition["enum"].as_array().into_iter().flatten())
    {
        let literal = value.get("const").unwrap_or(value);
        if let Some(literal) = literal.as_str() {
            let _ = writeln!(page, "- `{literal}`: {}", description(value));
        }
    }
}

fn alternatives(definition: &Value) -> &[Value] {
    let lists = ["oneOf", "anyOf"].map(|key| definition[key].as_array());
    lists
        .into_iter()
        .flatten()
        .next()
        .map_or(&[], Vec::as_slice)
}

/// What the type or field means, without the links of rustdoc.
fn description(definition: &Value) -> String {
    let text = definition["description"].as_str().unwrap_or_default();
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain += part.split_once(')').unwrap_or_default().1;
    }
    let plain = plain.replace(['[', ']'], "");
    plain.replace('\n', " ").replace('|', "\\|")
}

/// As a reader names it: `number or null`, `array of Transfer`.
fn type_name(definition: &Value) -> String {
    if let Some(reference) = definition["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    let all = alternatives(definition);
    if !all.is_empty() {
        return all.iter().map(type_name).collect::<Vec<_>>().join(" or ");
    }
    let names: Vec<&str> = match &definition["type"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        name => name.as_str().into_iter().collect(),
    };
    let name = |name: &&str| match *name {
        "array" => format!("array of {}", type_name(&definition["items"])),
        "integer" => "number".to_owned(),
        other => other.to_owned(),
    };
    names.iter().map(name).collect::<Vec<_>>().join(" or ")
}
