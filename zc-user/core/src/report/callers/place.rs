//! Where a function was, for a person.

use super::Frame;
use crate::text::file_name;

impl Frame {
    /// `copier::run (src/run.rs:41)`; without a line `copier::run (copier)`, without a name
    /// `copier+0x4f2a`. Paths of sources are shown relative to the directory that the command was
    /// launched in.
    pub fn place(&self, directory: Option<&str>) -> String {
        let module = self.module.as_deref().map(file_name);
        match (&self.function, &self.file, module) {
            (Some(function), Some(file), _) => {
                let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
                format!("{function} ({}{line})", short_path(file, directory))
            }
            (Some(function), None, Some(module)) => format!("{function} ({module})"),
            (Some(function), None, None) => function.clone(),
            (None, _, Some(module)) => format!("{module}+{:#x}", self.address),
            (None, _, None) => format!("{:#x}, in no file", self.address),
        }
    }
}

/// The path of a source, below the directory that the command was launched in. One of Rust's
/// library without what says only where that was built: `library/std/src/io/copy.rs`.
fn short_path<'a>(path: &'a str, directory: Option<&str>) -> &'a str {
    let of_rust = path
        .strip_prefix("/rustc/")
        .and_then(|rest| Some(rest.split_once('/')?.1));
    let below = || {
        path.strip_prefix(directory?.trim_end_matches('/'))?
            .strip_prefix('/')
    };
    of_rust.or_else(below).unwrap_or(path)
}
