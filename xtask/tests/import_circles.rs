//! No module imports, by itself or by others, a module that imports it. So each can be read, and
//! tested, before those that use it.
//!
//! A module and those below it are one idea: between them, imports may go both ways. Tests may import
//! what they like.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Imports that stay although they close a circle: the crate, who imports, what, and why.
const LEFT: [(&str, &str, &str, &str); 1] = [(
    "zc-user/core/src",
    "trace",
    "ended",
    "a trace has what the analysis found in processes of which only sums are kept",
)];

/// For each module the ones that it imports, by their paths, such as `backend::spans`.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_modules_import_each_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = crates(&root);
    assert!(crates.len() > 8, "{crates:?}");
    let circles = crates.iter().filter_map(|sources| {
        let name = sources.strip_prefix(&root).expect("below the root");
        let mut imports = imports(&modules(sources, ""));
        for (_, module, imported, _) in LEFT.iter().filter(|left| name == Path::new(left.0)) {
            let closed = imports
                .get_mut(*module)
                .is_some_and(|of| of.remove(*imported));
            assert!(
                closed,
                "{module} no longer imports {imported}: remove it from LEFT"
            );
        }
        Some(format!("{}: {}", name.display(), circle(&imports)?))
    });
    let circles: Vec<String> = circles.collect();
    assert!(circles.is_empty(), "\n{}", circles.join("\n"));
}

#[test]
fn a_circle_is_found_and_named() {
    let found = |sources: &[(&str, &str)]| {
        let modules = sources
            .iter()
            .map(|(module, source)| ((*module).to_owned(), (*source).to_owned()));
        circle(&imports(&modules.collect()))
    };
    let a = ("a", "use std::io;\nuse crate::{b::{self, B}, c::C};\n");
    let c = ("c", "fn c() {}\n");
    assert_eq!(found(&[a, ("b", "use crate::c::c;\n"), c]), None);
    let b = ("b", "fn b() {\n    super::c::c();\n}\n");
    let back = ("c", "pub use super::{\n    a::A,\n};\n");
    let circle = Some("a -> b -> c -> a".to_owned());
    assert_eq!(found(&[a, b, back]), circle);
    // What is not compiled into the crate is no import.
    let comment = ("c", "/// As [`A`](crate::a::A).\nfn c() {} // crate::a\n");
    assert_eq!(found(&[a, b, comment]), None);
    let test = (
        "c",
        "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\nfn c() {}\n",
    );
    assert_eq!(found(&[a, b, test]), None);
    // A module and the one below it are one idea.
    let parent = ("a", "use self::b::B;\n");
    let child = ("a::b", "use super::A;\n");
    assert_eq!(found(&[parent, child]), None);
    let sibling = ("d", "use crate::a::b::B;\n");
    let child = ("a::b", "use super::super::d::D;\n");
    let circle = Some("a::b -> d -> a::b".to_owned());
    assert_eq!(found(&[parent, child, sibling]), circle);
}

/// The directories of sources at or below this one, each with the root of a crate.
fn crates(directory: &Path) -> Vec<PathBuf> {
    if ["lib.rs", "main.rs"]
        .iter()
        .any(|root| directory.join(root).exists())
    {
        return vec![directory.to_owned()];
    }
    let entries = fs::read_dir(directory).expect("reads a directory");
    let below = entries.map(|entry| entry.expect("reads an entry").path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.is_dir() && name != "target" && !name.starts_with('.')
    };
    below
        .filter(is_ours)
        .flat_map(|path| crates(&path))
        .collect()
}

/// The modules whose files are in this directory or below it, by their paths, and their sources.
fn modules(directory: &Path, path: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let entries = fs::read_dir(directory).expect("reads a directory of sources");
    for entry in entries {
        let file: PathBuf = entry.expect("reads an entry").path();
        let name = file.file_stem().expect("a name").to_string_lossy();
        let module = match name.as_ref() {
            "lib" | "main" | "mod" => path.to_owned(),
            name => join(path, name),
        };
        if file.is_dir() {
            found.extend(modules(&file, &module));
        } else if file.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&file).expect("reads a source");
            found
                .entry(module)
                .or_insert_with(String::new)
                .push_str(&source);
        }
    }
    found
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}::{name}")
    }
}

/// What each of the modules imports of the others.
fn imports(modules: &BTreeMap<String, String>) -> Imports {
    let imports_of = |(module, source): (&String, &String)| {
        let paths = named_paths(&without_tests(source));
        let imported = paths.iter().map(|path| resolve(module, path, modules));
        let others = imported.filter(|imported| !are_one_idea(module, imported));
        (module.clone(), others.collect())
    };
    modules.iter().map(imports_of).collect()
}

fn are_one_idea(one: &str, other: &str) -> bool {
    let is_in = |inner: &str, outer: &str| {
        let below = inner.strip_prefix(outer);
        outer.is_empty() || below.is_some_and(|below| below.is_empty() || below.starts_with("::"))
    };
    is_in(one, other) || is_in(other, one)
}

/// The source without comments and the items of tests, as rustfmt leaves them.
fn without_tests(source: &str) -> String {
    let mut kept = String::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let code = line.trim_start();
        if code.starts_with("#[cfg(test)]") {
            let indent = &line[..line.len() - code.len()];
            let ends = |line: &str| {
                let rest = line.strip_prefix(indent).unwrap_or_default();
                rest.starts_with('}') || (rest.ends_with([';', '}']) && !rest.starts_with(' '))
            };
            let _ = lines.find(|line| ends(line));
        } else {
            kept.push_str(code.split("//").next().unwrap_or_default());
            kept.push('\n');
        }
    }
    kept
}

/// The paths in a source that begin with `crate`, `super` or `self`.
fn named_paths(source: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (place, _) in source.match_indices(start) {
            let before = source[..place].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || "_:$".contains(c)) {
                read_tree(&source[place..], &[], &mut paths);
            }
        }
    }
    paths
}

/// Reads a path, or several in braces, behind this prefix. Returns what follows.
fn read_tree<'a>(source: &'a str, prefix: &[String], paths: &mut Vec<Vec<String>>) -> &'a str {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let (mut path, mut rest) = (prefix.to_vec(), source.trim_start());
    loop {
        if let Some(mut group) = rest.strip_prefix('{') {
            loop {
                group = read_tree(group, &path, paths).trim_start();
                match group.strip_prefix(',') {
                    Some(next) => group = next,
                    None => return group.strip_prefix('}').unwrap_or(group),
                }
            }
        }
        let (name, behind) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        path.push(name.to_owned());
        let Some(next) = behind.strip_prefix("::") else {
            paths.push(path);
            return &behind[behind.find([',', '}', ';']).unwrap_or(behind.len())..];
        };
        rest = next.trim_start();
    }
}

/// The module in which a path that `module` names leads.
fn resolve(module: &str, path: &[String], modules: &BTreeMap<String, String>) -> String {
    let mut found = module.to_owned();
    for name in path {
        match name.as_str() {
            "self" => {}
            "crate" => found.clear(),
            "super" => found.truncate(found.rfind("::").unwrap_or(0)),
            name if modules.contains_key(&join(&found, name)) => found = join(&found, name),
            _ => break,
        }
    }
    found
}

/// A circle of imports, if there is one.
fn circle(imports: &Imports) -> Option<String> {
    let mut cleared = BTreeSet::new();
    imports.keys().find_map(|module| {
        let mut way = Vec::new();
        circle_from(module, imports, &mut way, &mut cleared)
    })
}

/// A circle that is reached from this module, on the `way` to which there was none. Modules that reach
/// none are `cleared`.
fn circle_from<'a>(
    module: &'a str,
    imports: &'a Imports,
    way: &mut Vec<&'a str>,
    cleared: &mut BTreeSet<&'a str>,
) -> Option<String> {
    if let Some(begin) = way.iter().position(|before| *before == module) {
        way.push(module);
        return Some(way[begin..].join(" -> "));
    }
    if cleared.contains(module) {
        return None;
    }
    way.push(module);
    let imported = imports.get(module).into_iter().flatten();
    for next in imported {
        if let Some(found) = circle_from(next, imports, way, cleared) {
            return Some(found);
        }
    }
    way.pop();
    cleared.insert(module);
    None
}
