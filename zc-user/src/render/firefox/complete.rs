//! Completes what the crate `fxprof-processed-profile` writes. Up to 0.8, its frames are either
//! addresses that somebody else gives names to, or labels: without lines, source files and
//! libraries. So frames are labels that stand for an entry of [`Details`], and are replaced in the
//! JSON.
//!
//! The format is that of version 55 of firefox-devtools/profiler, `src/types/profile.js`.

use std::collections::HashMap;

use fxprof_processed_profile::Profile;
use serde_json::{Value, json};

use crate::report::Frame;

/// What a label begins with that stands for a frame.
const MARK: char = '\u{1}';
/// The type of a resource that is a library (`resourceTypes.library` of
/// `src/profile-logic/data-structures.js`).
const LIBRARY: u32 = 1;

/// What labels stand for.
#[derive(Debug, Default)]
pub struct Details {
    frames: Vec<Detail>,
    places: HashMap<Detail, usize>,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Detail {
    name: String,
    file: Option<String>,
    line: Option<u32>,
    module: Option<String>,
    /// How many functions are inlined into each other, from the one that has code of its own to
    /// this one.
    inlined: u32,
}

impl Details {
    /// The label of a function.
    pub fn frame(&mut self, name: String, frame: &Frame, inlined: u32) -> String {
        let Frame {
            file, line, module, ..
        } = frame.clone();
        self.add(Detail {
            name,
            file,
            line,
            module,
            inlined,
        })
    }

    /// The label of what is no function.
    pub fn label(&mut self, name: String) -> String {
        self.add(Detail {
            name,
            file: None,
            line: None,
            module: None,
            inlined: 0,
        })
    }

    fn add(&mut self, detail: Detail) -> String {
        let next = self.frames.len();
        let place = *self.places.entry(detail.clone()).or_insert(next);
        if place == next {
            self.frames.push(detail);
        }
        format!("{MARK}{place}")
    }
}

/// The profile in JSON, with what its labels stand for, and what its information panel
/// shows.
pub fn json(profile: &Profile, details: &Details, about: &[(&str, String)]) -> String {
    let mut root = serde_json::to_value(profile).unwrap_or_default();
    let entry = |(label, value): &(&str, String)| json!({"label": label, "format": "string", "value": value});
    let entries: Vec<Value> = about.iter().map(entry).collect();
    root["meta"]["extra"] = json!([{"label": "System calls", "entries": entries}]);
    // CPU use is unknown. With these, all would be shown as idle.
    remove(&mut root["meta"], "sampleUnits");
    let mut libraries = Libraries::default();
    for thread in root["threads"].as_array_mut().into_iter().flatten() {
        remove(&mut thread["samples"], "threadCPUDelta");
        complete_frames(thread, &details.frames, &mut libraries);
    }
    root["libs"] = libraries.list.into();
    root.to_string()
}

fn remove(object: &mut Value, key: &str) {
    object.as_object_mut().and_then(|object| object.remove(key));
}

/// A number that is a place in a list.
fn place(value: &Value) -> usize {
    value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok())
        .unwrap_or(usize::MAX)
}

/// The libraries of a profile.
#[derive(Default)]
struct Libraries {
    list: Vec<Value>,
    places: HashMap<String, usize>,
}

impl Libraries {
    fn place(&mut self, path: &str) -> usize {
        *self.places.entry(path.to_owned()).or_insert_with(|| {
            let name = file_name(path);
            self.list.push(json!({
                "name": name, "path": path, "debugName": name, "debugPath": path,
                // Nobody is to look for symbols: the profile has them.
                "breakpadId": "0".repeat(33), "codeId": null, "arch": null,
            }));
            self.list.len() - 1
        })
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A line of the table of functions: the places of its name, its source file and its resource.
type Function = (usize, Option<usize>, Option<usize>);

/// The tables of a thread that are written anew.
#[derive(Default)]
struct Tables<'a> {
    strings: Vec<Value>,
    string_places: HashMap<String, usize>,
    functions: Vec<Function>,
    function_places: HashMap<(&'a str, Option<&'a str>, Option<&'a str>), usize>,
    /// The place of its library, and of its name among the strings.
    resources: Vec<(usize, usize)>,
    resource_places: HashMap<&'a str, usize>,
}

impl<'a> Tables<'a> {
    fn string(&mut self, text: &str) -> usize {
        *self
            .string_places
            .entry(text.to_owned())
            .or_insert_with(|| {
                self.strings.push(text.into());
                self.strings.len() - 1
            })
    }

    fn resource(&mut self, path: &'a str, libraries: &mut Libraries) -> usize {
        if let Some(&place) = self.resource_places.get(path) {
            return place;
        }
        let name = self.string(file_name(path));
        self.resources.push((libraries.place(path), name));
        self.resource_places.insert(path, self.resources.len() - 1);
        self.resources.len() - 1
    }

    /// The place of the function that a frame is in.
    fn function(&mut self, detail: &'a Detail, libraries: &mut Libraries) -> usize {
        let key = (
            detail.name.as_str(),
            detail.file.as_deref(),
            detail.module.as_deref(),
        );
        if let Some(&place) = self.function_places.get(&key) {
            return place;
        }
        let function = (
            self.string(&detail.name),
            detail.file.as_deref().map(|file| self.string(file)),
            detail
                .module
                .as_deref()
                .map(|path| self.resource(path, libraries)),
        );
        self.functions.push(function);
        self.function_places.insert(key, self.functions.len() - 1);
        self.functions.len() - 1
    }

    fn write_to(self, thread: &mut Value) {
        let count = self.functions.len();
        let column = |of: fn(&Function) -> Value| self.functions.iter().map(of).collect::<Vec<_>>();
        thread["funcTable"] = json!({
            "length": count,
            "name": column(|(name, ..)| json!(name)),
            "fileName": column(|(_, file, _)| json!(file)),
            // -1: no resource.
            "resource": column(|(.., resource)| resource.map_or(json!(-1), |place| json!(place))),
            "isJS": vec![false; count],
            "relevantForJS": vec![false; count],
            "lineNumber": vec![Value::Null; count],
            "columnNumber": vec![Value::Null; count],
        });
        let count = self.resources.len();
        thread["resourceTable"] = json!({
            "length": count,
            "lib": self.resources.iter().map(|(library, _)| library).collect::<Vec<_>>(),
            "name": self.resources.iter().map(|(_, name)| name).collect::<Vec<_>>(),
            "host": vec![Value::Null; count],
            "type": vec![LIBRARY; count],
        });
        thread["stringArray"] = self.strings.into();
    }
}

/// Replaces the labels of a thread by the functions that they stand for.
fn complete_frames<'a>(thread: &mut Value, frames: &'a [Detail], libraries: &mut Libraries) {
    let mut tables = Tables {
        strings: thread["stringArray"]
            .as_array_mut()
            .map(std::mem::take)
            .unwrap_or_default(),
        ..Tables::default()
    };
    let detail =
        |name: &Value| frames.get(name.as_str()?.strip_prefix(MARK)?.parse::<usize>().ok()?);
    let details: Vec<Option<&'a Detail>> = {
        let names = thread["funcTable"]["name"].as_array().into_iter().flatten();
        names
            .map(|name| tables.strings.get(place(name)).and_then(detail))
            .collect()
    };
    // Labels are no names: nothing uses them any more.
    for (place, text) in tables.strings.iter_mut().enumerate() {
        if let Some(text) = text.as_str() {
            tables.string_places.insert(text.to_owned(), place);
        }
    }
    let table = &mut thread["frameTable"];
    let of_frames: Vec<Option<&Detail>> = {
        let functions = table["func"].as_array().into_iter().flatten();
        functions
            .map(|function| details.get(place(function)).copied().flatten())
            .collect()
    };
    table["func"] = of_frames
        .iter()
        .map(|detail| detail.map_or(0, |detail| tables.function(detail, libraries)))
        .collect();
    table["line"] = of_frames
        .iter()
        .map(|detail| json!(detail.and_then(|detail| detail.line)))
        .collect();
    table["inlineDepth"] = of_frames
        .iter()
        .map(|detail| json!(detail.map_or(0, |detail| detail.inlined)))
        .collect();
    tables.write_to(thread);
}
