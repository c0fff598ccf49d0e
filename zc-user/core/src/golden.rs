//! Golden files of the unit tests: `ZC_UPDATE_GOLDEN=1 cargo test -p zctrace-core -p zctrace --lib` writes them anew; read the diff
//! before you commit.
//!
//! Public for the tests of zctrace's own crates only.
#![expect(clippy::missing_panics_doc, reason = "only tests call it")]

use std::{fs, path::Path};

/// Compares with the file `MODULE/golden/NAME.txt` in the sources of the package in this directory, its `CARGO_MANIFEST_DIR`.
#[track_caller]
pub fn compare(package: &str, module: &str, name: &str, found: &str) {
    let path = Path::new(package).join("src").join(module).join("golden").join(name).with_extension("txt");
    if std::env::var_os("ZC_UPDATE_GOLDEN").is_some() {
        fs::write(&path, found).expect("golden file can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    // They were made on `x86_64`, and name the machine's own table here and there.
    let found = &found.replace(crate::syscall::Abi::NATIVE.name(), crate::syscall::Abi::X86_64.name());
    assert!(expected == *found, "{}\n--- expected\n{expected}\n--- found\n{found}", path.display());
}
