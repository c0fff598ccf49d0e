//! Names the functions that made the changes that were not synced, as far as calls were sampled.

use std::collections::HashMap;

use super::callers::Callers;
use crate::{
    durable::{FileChange, Syncs},
    trace::{Row, SampledStack, Trace},
};

/// What is known of syncs, with the functions that made the changes that were not synced.
pub(super) fn syncs_with_functions(trace: &Trace) -> Option<Syncs> {
    let mut syncs = trace.syncs.clone()?;
    if let Some(stacks) = &trace.stacks {
        let changes = SampledChanges::new(trace);
        for file in &mut syncs.files {
            if let Some(change) = &mut file.unsynced_change {
                let path = absolute_path(trace, &file.path);
                change.functions = changes.changing_functions(change, &path, stacks);
            }
        }
    }
    Some(syncs)
}

/// The path of a file in a trace, from the path that is told from the directory of the command.
fn absolute_path(trace: &Trace, path: &str) -> String {
    match &trace.directory {
        Some(directory) if !path.starts_with('/') => format!("{directory}/{path}"),
        _ => path.to_owned(),
    }
}

/// The sampled calls that may change files, by the program, the call, and the path of the file; those
/// that are given paths have none.
struct SampledChanges<'t>(HashMap<(&'t str, &'t str, Option<&'t str>), Vec<&'t Row>>);

impl<'t> SampledChanges<'t> {
    fn new(trace: &'t Trace) -> Self {
        let mut all: HashMap<_, Vec<_>> = HashMap::new();
        for process in &trace.processes {
            let program = process.name().unwrap_or_default();
            for row in process.rows().filter(|row| !row.callers.is_empty()) {
                let file = row.ends.output.map(|id| trace.files.get(id.0 as usize));
                let path = file.map(|file| file.and_then(|file| file.path.as_deref()));
                // A file of which nothing is known.
                if path != Some(None) {
                    let key = (program, call_kind(&row.call.name), path.flatten());
                    all.entry(key).or_default().push(row);
                }
            }
        }
        Self(all)
    }

    /// The functions that made such a change of the file with this path, most calls first.
    fn changing_functions(
        &self,
        change: &FileChange,
        path: &str,
        stacks: &[SampledStack],
    ) -> Vec<String> {
        let program = change.program.as_deref().unwrap_or_default();
        let rows = |path| self.0.get(&(program, call_kind(&change.call), path));
        let rows = rows(Some(path)).or(rows(None));
        let callers = Callers::of_rows(rows.into_iter().flatten().copied(), stacks);
        let sites = callers.into_iter().flat_map(|callers| callers.sites);
        let mut functions: Vec<String> = sites.filter_map(|site| site.at.function).collect();
        functions.dedup();
        functions
    }
}

/// The name of a call without what tells its variants apart: `rename` of `renameat2`.
fn call_kind(call: &str) -> &str {
    if call.starts_with("rename") {
        "rename"
    } else {
        call
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_file_begins_where_the_command_did() {
        let trace = Trace {
            directory: Some("/tmp/x".to_owned()),
            ..Trace::default()
        };
        assert_eq!(absolute_path(&trace, "data/a"), "/tmp/x/data/a");
        assert_eq!(absolute_path(&trace, "/etc/a"), "/etc/a");
        assert_eq!(call_kind("renameat2"), call_kind("rename"));
        assert_ne!(call_kind("pwrite64"), call_kind("write"));
    }
}
