//! The published schema.

use std::{fs, path::Path};

use super::*;

/// `ZC_UPDATE_GOLDEN=1 cargo test -p zctrace-core schema` updates it. Removing or changing a
/// field needs a new version.
#[test]
fn the_schema_is_the_published_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/report.schema.json");
    let found = serde_json::to_string_pretty(&json_schema()).expect("every key is a string") + "\n";
    if std::env::var_os("ZC_UPDATE_GOLDEN").is_some() {
        fs::write(&path, &found).expect("can be written");
    }
    assert!(
        fs::read_to_string(&path).expect("is there") == found,
        "{} is out of date",
        path.display()
    );
}
