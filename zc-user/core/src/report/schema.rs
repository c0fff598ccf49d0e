//! The JSON Schema of the report, generated from its types.

use schemars::{Schema, generate::SchemaSettings};

use super::{Report, SCHEMA};

/// The JSON Schema (draft 2020-12) of a report as this version writes it. It lets fields pass that it does not know: new ones may come.
pub fn schema() -> Schema {
    let mut schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<Report>();
    schema.insert("title".to_owned(), format!("zctrace report, schema {SCHEMA}").into());
    schema
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// `ZC_UPDATE_GOLDEN=1 cargo test -p zctrace-core schema` writes it anew. A field that goes or changes takes a new schema number.
    #[test]
    fn the_schema_is_the_one_that_is_published() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/report.schema.json");
        let found = serde_json::to_string_pretty(&schema()).expect("every key is a string") + "\n";
        if std::env::var_os("ZC_UPDATE_GOLDEN").is_some() {
            fs::write(&path, &found).expect("can be written");
        }
        assert!(fs::read_to_string(&path).expect("is there") == found, "{} is not of this version", path.display());
    }
}
