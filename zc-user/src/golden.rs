//! Golden files of the unit tests: `ZC_UPDATE_GOLDEN=1 cargo test -p zctrace --lib` writes them anew; read the diff before you commit.

use std::{fs, path::Path};

/// Compares with the file `MODULE/golden/NAME.txt`.
#[track_caller]
pub(crate) fn compare(module: &str, name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module).join("golden").join(name).with_extension("txt");
    if std::env::var_os("ZC_UPDATE_GOLDEN").is_some() {
        fs::write(&path, found).expect("golden file can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    // They were made on `x86_64`, and name the machine's own table here and there.
    let found = &found.replace(crate::syscall::Abi::NATIVE.name(), crate::syscall::Abi::X86_64.name());
    assert!(expected == *found, "{}\n--- expected\n{expected}\n--- found\n{found}", path.display());
}
