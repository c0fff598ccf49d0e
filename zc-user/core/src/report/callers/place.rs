//! Where a function was, for a person.

use super::{Frame, Site, Stack};
use crate::{
    text::{file_name, relative_to},
    trace::SampleSum,
};

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

impl Site {
    /// `copier::run (src/run.rs:41) via std::io::copy`.
    pub fn shown_caller(&self, directory: Option<&str>) -> String {
        let place = self.at.shown_place(directory);
        match &self.via {
            Some(via) => format!("{place} via {via}"),
            None => place,
        }
    }
}

impl Stack {
    /// `caller: copier::run (src/run.rs:41) via std::io::copy`.
    pub fn caller_line(&self, directory: Option<&str>) -> String {
        let site = Site::of_stack(self, SampleSum::of_every_call(1));
        site.map_or_else(
            || "caller unknown".to_owned(),
            |site| format!("caller: {}", site.shown_caller(directory)),
        )
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
