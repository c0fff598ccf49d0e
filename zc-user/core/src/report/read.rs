//! Reads a saved report.

use serde::{Deserialize, de::DeserializeOwned};
use thiserror::Error;

use super::{Report, SCHEMA};

/// Why a text cannot be read as a report.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is something else, or damaged.
    #[error("it is not a report of zctrace")]
    NotAReport(#[source] serde_json::Error),
    /// Another version wrote it.
    #[error("it has schema {0}; this zctrace reads schema {SCHEMA}")]
    Schema(u32),
    /// It refers to a transfer that it does not have.
    #[error("it refers to transfer {index}, but has only {count} (counted from 0)")]
    NoSuchTransfer {
        /// The index.
        index: usize,
        /// How many transfers there are.
        count: usize,
    },
}

impl Report {
    /// Reads a report that was saved as JSON.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        /// Read first: it tells how the other fields are to be read.
        #[derive(Deserialize)]
        struct SavedHead {
            schema: u32,
        }
        let SavedHead { schema } = parse(text)?;
        match schema {
            SCHEMA => parse::<Self>(text)?.with_valid_indices(),
            other => Err(ReadError::Schema(other)),
        }
    }

    /// Makes sure that every index is that of a transfer.
    fn with_valid_indices(self) -> Result<Self, ReadError> {
        let count = self.transfers.len();
        let of_processes = self.processes.iter().flat_map(|process| &process.transfers);
        let of_steps = self.transfers.iter().flat_map(|transfer| &transfer.part_of);
        match of_processes.chain(of_steps).find(|index| **index >= count) {
            Some(&index) => Err(ReadError::NoSuchTransfer { index, count }),
            None => Ok(self),
        }
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    serde_json::from_str(text).map_err(ReadError::NotAReport)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::files::scene;

    #[test]
    fn an_index_out_of_range_is_refused() {
        let scene = scene("cp: copy_file_range in->out 1 4096");
        let edits: [fn(&mut Report); 2] = [
            |report| report.processes[0].transfers.push(1),
            |report| report.transfers[0].part_of.push(1),
        ];
        for edit in edits {
            let mut report = scene.report();
            edit(&mut report);
            let json = serde_json::to_string(&report).expect("is data");
            let error = Report::from_json(&json).expect_err("is damaged");
            let expected = "it refers to transfer 1, but has only 1 (counted from 0)";
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn another_schema_is_refused_whatever_follows() {
        for other in [0, SCHEMA + 1, 99] {
            let json = format!(r#"{{"schema": {other}, "more": []}}"#);
            let error = Report::from_json(&json).expect_err("is of another version");
            let expected = format!("it has schema {other}; this zctrace reads schema {SCHEMA}");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn what_is_no_report_is_refused() {
        let head = format!(r#"{{"schema": {SCHEMA}"#);
        for text in [
            "",
            "{}",
            &format!("{head}}}"),
            &format!(r#"{head}, "processes": [7]}}"#),
            &format!(r#"{head}, "processes": 7}}"#),
        ] {
            let error = Report::from_json(text).expect_err("is none");
            assert!(matches!(error, ReadError::NotAReport(_)), "{text}");
        }
    }
}
