//! The eBPF objects in the published package. `cargo xtask package` makes them, and the build
//! script takes the one for its target.

use std::{path::Path, process::Command};

use crate::toolchain::output;

/// The object that zctrace loads.
pub(crate) const OBJECT: &str = "zctrace-bpf";

/// The object that it loads for `--syncs`.
pub(crate) const OBJECT_WITH_SYNCS: &str = "zctrace-bpf-syncs";

/// The object that it loads for `--paths`.
pub(crate) const OBJECT_WITH_PATHS: &str = "zctrace-bpf-paths";

/// All of them.
pub(crate) const OBJECTS: [&str; 3] = [OBJECT, OBJECT_WITH_SYNCS, OBJECT_WITH_PATHS];

/// The directory of the objects, in the package.
pub(crate) const DIRECTORY: &str = "prebuilt";

/// The file beside them that says what they were made with, and has their checksums in the form of
/// `sha256sum`.
pub(crate) const PROVENANCE: &str = "provenance.txt";

/// What the line of that file begins with that names the tools.
pub(crate) const TOOLS: &str = "tools: ";

/// The file of an object for an architecture.
pub(crate) fn file_name(object: &str, arch: &str) -> String {
    format!("{object}.{arch}")
}

/// The SHA-256 of a file in hexadecimal, by coreutils. `None` if there is no `sha256sum`.
pub(crate) fn sha256(path: &Path) -> Option<String> {
    let line = output(Command::new("sha256sum").arg(path))?;
    Some(line.split_ascii_whitespace().next()?.to_owned())
}
