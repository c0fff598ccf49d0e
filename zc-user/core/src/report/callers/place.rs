//! Where a function was, for a person.

use super::Frame;
use crate::text::{file_name, relative_to};

impl Frame {
    /// `copier::run (src/run.rs:41)`; without a line `copier::run (copier)`, without a name
    /// `copier+0x4f2a`. Paths of sources are shown relative to the directory that the command was
    /// launched in.
    pub fn shown_place(&self, directory: Option<&str>) -> String {
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
    let of_rust = path.strip_prefix("/rustc/");
    match of_rust.and_then(|rest| rest.split_once('/')) {
        Some((_, below)) => below,
        None => relative_to(directory.unwrap_or_default(), path),
    }
}
