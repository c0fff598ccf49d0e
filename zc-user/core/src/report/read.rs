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
        struct Head {
            schema: u32,
        }
        let Head { schema } = parse(text)?;
        if schema == SCHEMA {
            parse::<Self>(text)?.checked()
        } else {
            Err(ReadError::Schema(schema))
        }
    }

    /// Makes sure that every index is that of a transfer.
    fn checked(self) -> Result<Self, ReadError> {
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
    use crate::report::{Options, sample};

    fn report() -> Report {
        Report::from_trace(&sample::copier(), &Options::default())
    }

    #[test]
    fn what_was_written_is_read() {
        let report = report();
        let json = serde_json::to_string(&report).expect("is data");
        let read = Report::from_json(&json).expect("is read");
        assert_eq!(
            read,
            Report {
                timeline: None,
                ..report
            }
        );
    }

    #[test]
    fn an_index_out_of_range_is_refused() {
        let mut report = report();
        report.processes[0].transfers.push(4);
        let json = serde_json::to_string(&report).expect("is data");
        let error = Report::from_json(&json).expect_err("is damaged");
        let found = error.to_string();
        assert!(
            found.starts_with("it refers to transfer 4, but has only"),
            "{found}"
        );
    }

    #[test]
    fn another_schema_is_refused_whatever_follows() {
        let error = Report::from_json(r#"{"schema": 3, "more": []}"#)
            .expect_err("is newer")
            .to_string();
        assert_eq!(error, "it has schema 3; this zctrace reads schema 1");
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for text in [
            "",
            "{}",
            r#"{"schema": 1}"#,
            r#"{"schema": 1, "processes": [7]}"#,
        ] {
            assert!(
                matches!(Report::from_json(text), Err(ReadError::NotAReport(_))),
                "{text}"
            );
        }
    }
}
