//! What each call of a process did to each file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{End, SortKey, Syscall, fold::fold_rows};
use crate::{
    trace::{FileId, Input, Process, Row},
    transfer::{Ends, Role},
};

/// The calls of a process that named the same files. Without a file: calls that name none, or whose files were not identified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileCalls {
    /// The file that bytes came from; of calls that move none (`fstat`, `mmap`), the file that they are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<End>,
    /// The file that bytes went to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<End>,
    /// The calls.
    pub syscalls: Vec<Syscall>,
}

/// The calls of a process, file by file; each call stands in one place.
pub(super) fn of(process: &Process, ends: &Ends<'_>, sort: SortKey) -> Vec<FileCalls> {
    let mut by_files: BTreeMap<(Option<FileId>, Option<FileId>), Vec<&Row>> = BTreeMap::new();
    for row in process.threads.iter().flat_map(|thread| &thread.rows) {
        by_files.entry(files(row)).or_default().push(row);
    }
    let calls = by_files.into_iter().map(|((from, to), rows)| FileCalls {
        from: from.map(|file| ends.end(file)),
        to: to.map(|file| ends.end(file)),
        syscalls: fold_rows(rows.into_iter(), sort),
    });
    calls.filter(|calls| !calls.syscalls.is_empty()).collect()
}

/// The files that a call names itself: not what was read before a write.
fn files(row: &Row) -> (Option<FileId>, Option<FileId>) {
    match Role::of(row) {
        Role::Copies(from, to) => (Some(from), Some(to)),
        Role::Reads(from) => (from, None),
        Role::Writes(_, to) => (None, to),
        Role::Lends(pipe) => (None, Some(pipe)),
        Role::Maps(file) => (Some(file), None),
        Role::Other => (row.ends.input.map(Input::file), row.ends.output),
    }
}

#[cfg(test)]
mod tests {
    use crate::report::{
        Files, Options, Report,
        sample::files::{Scene, copy, map, read, written_after},
    };

    #[test]
    fn each_call_stands_with_the_files_that_it_names() {
        let mut scene = Scene::new();
        let [from, to] = ["in", "out"].map(|name| scene.regular(name));
        let rows = vec![
            read("read", from, 3, 20).failed(libc::EINTR, 1),
            written_after("write", from, to, 2, 20, 20),
            copy("sendfile", from, to, 4, 100),
            map(from, 4096),
        ];
        scene.process("copier", rows);
        let options = Options { file_calls: Files::Listed, ..Options::default() };
        let report = Report::from_trace(&scene.trace, &options);
        let path = |end: &Option<super::End>| end.as_ref().and_then(|end| end.path.clone()).unwrap_or_default();
        let listed = report.processes[0].file_calls.as_ref().expect("was asked for");
        let found: Vec<_> = listed
            .iter()
            .flat_map(|calls| {
                calls.syscalls.iter().map(|call| (path(&calls.from), path(&calls.to), call.name.as_str(), call.calls))
            })
            .map(|(from, to, name, calls)| format!("{from} {to} {name} {calls}"))
            .collect();
        assert_eq!(found, [" out write 2", "in  read 4", "in  mmap 1", "in out sendfile 4"]);
        let plain = Report::from_trace(&scene.trace, &Options::default());
        assert_eq!(plain.processes[0].file_calls, None);
    }
}
