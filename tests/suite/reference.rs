//! The pages in docs/reference are what the program says of itself. `ZC_UPDATE_GOLDEN=1 cargo xtask
//! test reference` writes them anew.

use std::{collections::HashMap, env, fmt::Write as _, fs, path::Path};

use serde_json::{Map, Value, json};

use crate::harness::zctrace;

/// The commands, each with a help page of its own.
const COMMANDS: [&str; 7] = ["run", "top", "compare", "check", "diff", "report", "doctor"];

/// Parts that several types have: the name, a type that has it, the meaning and the fields.
const SHARED: [(&str, &str, &str, &[&str]); 3] = [
    (
        "Activity",
        "Thread",
        "The calls.",
        &["io_uring", "other_calls", "syscalls"],
    ),
    (
        "Edge",
        "Transfer",
        "What went where.",
        &["api", "bytes", "certainty", "evidence", "from", "to"],
    ),
    (
        "Usage",
        "Thread",
        "CPU time, context switches and page faults.",
        &[
            "context_switches",
            "page_faults",
            "run_delay_ns",
            "system_ns",
            "user_ns",
        ],
    ),
];

fn printed(words: &[&str]) -> String {
    let finished = zctrace().env("COLUMNS", "100").finish_with(words);
    finished.successful().to_owned()
}

/// A help page, divided at its options.
#[derive(Default)]
struct Help {
    before: String,
    /// All lines of each.
    options: Vec<String>,
    after: String,
}

impl From<&str> for Help {
    fn from(text: &str) -> Self {
        let mut help = Self::default();
        for line in text.split_inclusive('\n') {
            let is_option = line.starts_with("  -") || line.starts_with("      --");
            let is_part = line.starts_with("          ") || line == "\n";
            if help.options.is_empty() && !is_option {
                help.before += line;
            } else if is_option && help.after.is_empty() {
                help.options.push(line.to_owned());
            } else if is_part && help.after.is_empty() {
                let option = help.options.last_mut().expect("there is one");
                option.push_str(line);
            } else {
                help.after += line;
            }
        }
        help
    }
}

/// How an option is written, without its value: `--output`.
fn option_name(option: &str) -> String {
    let mut words = option.split([' ', ',', '[', '\n']);
    let name = words.find(|word| word.starts_with("--"));
    format!("`{}`", name.unwrap_or_default())
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
fn the_page_of_the_command_line_has_the_help_of_every_command() {
    let mut page = "# The command line\n\nThis is what the program prints with `--help`. An option that an earlier command \
                    explains in the same words is only named.\n"
        .to_owned();
    let mut explained = HashMap::new();
    for command in COMMANDS {
        let help = Help::from(printed(&[command, "--help"]).as_str());
        let (new, known): (Vec<_>, Vec<_>) = help
            .options
            .into_iter()
            .partition(|option| !explained.contains_key(option));
        let new_text = new.concat();
        let before = if new.is_empty() {
            help.before.trim_end_matches("Options:\n")
        } else {
            &help.before
        };
        let after = &help.after;
        let _ = write!(
            page,
            "\n## `zctrace {command}`\n\n```text\n{before}{new_text}{after}```\n"
        );
        for earlier in COMMANDS {
            let of_earlier = known.iter().filter(|option| explained[*option] == earlier);
            let names: Vec<String> = of_earlier.map(|option| option_name(option)).collect();
            if !names.is_empty() {
                let names = names.join(", ");
                let _ = write!(page, "\nOptions as in `zctrace {earlier}`: {names}.\n");
            }
        }
        explained.extend(new.into_iter().map(|option| (option, command)));
    }
    assert_is_page("command-line.md", &page);
}

#[test]
fn the_page_of_the_json_has_every_field() {
    let schema: Value = serde_json::from_str(&printed(&["schema"])).expect("JSON");
    let mut page = "# The fields of the JSON\n\nThis is `zctrace schema` as a list. [The JSON report](../json.md) explains it.\n\n".to_owned();
    page += "- `name?`: the field is left out if it is empty, false or was not asked for.\n- `type?`: the value may be `null`, which means unknown unless the text says more.\n- A field without a type is a number; `type[]` is an array.\n";
    let mut types = schema["$defs"].as_object().expect("types").clone();
    for (name, owner, meaning, fields) in SHARED {
        types.insert(name.to_owned(), shared(&types[owner], meaning, fields));
    }
    add_type(&mut page, "Report", &schema, &types);
    for (name, definition) in &types {
        add_type(&mut page, name, definition, &types);
    }
    assert_is_page("json-fields.md", &page);
}

#[test]
fn every_field_is_explained() {
    let schema: Value = serde_json::from_str(&printed(&["schema"])).expect("JSON");
    let types = schema["$defs"].as_object().expect("types").values();
    for definition in types.chain([&schema]) {
        assert!(!description(definition).is_empty(), "{definition}");
        for (name, field) in fields(definition) {
            assert!(!description(field).is_empty(), "{name}: {definition}");
        }
    }
}

/// The section of a type: its fields, or its values. If it has all fields of another type, it names
/// that instead.
fn add_type(page: &mut String, name: &str, definition: &Value, types: &Map<String, Value>) {
    let _ = writeln!(
        page,
        "\n## {name}\n\n{}\n",
        description(definition).replace("`None`", "`null`")
    );
    let parts = types.iter().filter(|(_, part)| is_part(part, definition));
    let parts: Vec<_> = parts.collect();
    let required = definition["required"].as_array();
    for (field, of_field) in fields(definition) {
        if parts
            .iter()
            .any(|(_, part)| part["properties"].get(field).is_some())
        {
            continue;
        }
        let is_optional = !required.is_some_and(|names| names.contains(&field.as_str().into()));
        let (mark, unknown) = if is_optional {
            ("?", "left out")
        } else {
            ("", "`null`")
        };
        let of_type = type_name(of_field);
        let of_type = if is_optional {
            of_type.trim_end_matches('?')
        } else {
            &of_type
        };
        let of_type = match of_type {
            "number" => String::new(),
            name => format!(" ({name})"),
        };
        let meaning = description(of_field).replace("`None`", unknown);
        let meaning = meaning.replace(". left out", ". Left out");
        // The page says it once.
        let meaning = meaning.replace(" `null`: unknown.", "");
        // Two words say no more than the name: `calls`, "The calls.".
        let says_more = meaning.split(' ').count() > 2 || meaning.contains('`');
        let meaning = says_more.then(|| format!(": {meaning}"));
        let meaning = meaning.unwrap_or_default();
        let _ = writeln!(page, "- `{field}{mark}`{of_type}{meaning}");
    }
    for (part, _) in parts {
        let _ = writeln!(page, "- The fields of [{part}](#{}).", part.to_lowercase());
    }
    for value in alternatives(definition)
        .iter()
        .chain(definition["enum"].as_array().into_iter().flatten())
    {
        let literal = value.get("const").unwrap_or(value);
        if let Some(literal) = literal.as_str() {
            let meaning = match description(value) {
                name if name == format!("`{literal}`.") => String::new(),
                meaning => format!(": {meaning}"),
            };
            let _ = writeln!(page, "- `{literal}`{meaning}");
        }
        for (field, _) in fields(value) {
            let _ = writeln!(page, "- `{{\"{field}\": [...]}}`: {}", description(value));
        }
    }
}

/// A type for fields that several types have. They are like those of `owner`, and [`add_type`] then
/// finds them in the others.
fn shared(owner: &Value, description: &str, names: &[&str]) -> Value {
    let fields: Map<String, Value> = names
        .iter()
        .map(|&name| (name.to_owned(), owner["properties"][name].clone()))
        .collect();
    json!({ "description": description, "properties": fields, "required": owner["required"] })
}

/// The fields of a type, by name.
fn fields(definition: &Value) -> impl Iterator<Item = (&String, &Value)> {
    definition["properties"].as_object().into_iter().flatten()
}

/// Whether a type has all fields of another one, which has several, and more.
fn is_part(part: &Value, whole: &Value) -> bool {
    let has = |(name, field): (&String, &Value)| whole["properties"].get(name) == Some(field);
    let count = fields(part).count();
    count > 2 && count < fields(whole).count() && fields(part).all(has)
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
    plain.replace('\n', " ")
}

/// As a reader names it: `number?` if it may be null, `Transfer[]`.
fn type_name(definition: &Value) -> String {
    if let Some(reference) = definition["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    let all = alternatives(definition);
    if !all.is_empty() {
        return all.iter().map(type_name).collect();
    }
    let names: Vec<&str> = match &definition["type"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        name => name.as_str().into_iter().collect(),
    };
    let name = |name: &&str| match *name {
        "array" => format!("{}[]", type_name(&definition["items"])),
        "integer" => "number".to_owned(),
        "null" => "?".to_owned(),
        other => other.to_owned(),
    };
    names.iter().map(name).collect()
}
