//! Reads a saved report, of this schema or an older one.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;

use super::{Certainty, Evidence, Report, SCHEMA, Transfer, transfers::AllTransfers};

/// The schema in which each process had its own transfers.
const SCHEMA_1: u32 = 1;

/// Why a text cannot be read as a report.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is something else, or damaged.
    #[error("it is not a report of zctrace")]
    NotAReport(#[source] serde_json::Error),
    /// A newer version wrote it.
    #[error("it has schema {0}; this zctrace reads schema {SCHEMA_1} and schema {SCHEMA}")]
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
    /// Reads a report that was saved as JSON, also one of an older schema, which is brought up to
    /// date.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        /// Read first: it tells how the other fields are to be read.
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let Head { schema } = parse(text)?;
        match schema {
            SCHEMA => parse::<Self>(text)?.checked(),
            SCHEMA_1 => from_schema_1(parse(text)?).map_err(ReadError::NotAReport),
            other => Err(ReadError::Schema(other)),
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

/// In schema 1 the report had only the transfers over several processes; each process had those
/// within it.
fn from_schema_1(mut json: Value) -> serde_json::Result<Report> {
    let processes = json
        .get_mut("processes")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten();
    let own = |process: &mut Value| process.as_object_mut()?.remove("transfers");
    let own: Vec<Option<Value>> = processes.map(own).collect();
    let mut report: Report = serde_json::from_value(json)?;
    let mut within = Vec::new();
    for (process, own) in report.processes.iter().zip(own) {
        let transfers: Vec<Transfer> = own
            .map(serde_json::from_value)
            .transpose()?
            .unwrap_or_default();
        within.push((process.pid, transfers.into_iter().map(with_proof).collect()));
    }
    let across = report.transfers.into_iter().map(with_proof).collect();
    let all = AllTransfers::new(within, across, Vec::new());
    report.transfers = all.list;
    for (process, transfers) in report.processes.iter_mut().zip(all.of_processes) {
        process.transfers = transfers;
    }
    report.schema = SCHEMA;
    Ok(report)
}

/// The first reports did not say yet that calls that name both ends prove their bytes.
fn with_proof(mut transfer: Transfer) -> Transfer {
    if transfer.evidence == Some(Evidence::Call) && transfer.proven_bytes.is_none() {
        (transfer.certainty, transfer.proven_bytes) = (Certainty::Exact, transfer.bytes);
    }
    transfer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What zctrace wrote with schema 1 of `sh -c 'cat in | dd of=out; cp in copy'`, shortened. The
    /// transfers of dd and cp lack what the first reports lacked.
    const OLD: &str = include_str!("read/schema-1.json");

    fn old() -> Report {
        Report::from_json(OLD).expect("is read")
    }

    #[test]
    fn a_report_of_schema_1_gets_one_list_of_transfers() {
        let report = old();
        assert_eq!(report.schema, SCHEMA);
        let pids: Vec<_> = report.processes.iter().map(|process| process.pid).collect();
        let found: Vec<_> = report
            .transfers
            .iter()
            .map(|transfer| (transfer.bytes, transfer.pids.as_slice()))
            .collect();
        let [_sh, cat, dd, cp] = pids[..] else {
            panic!("four processes: {pids:?}")
        };
        let expected: [&[u32]; 4] = [&[cat, dd], &[cat], &[dd], &[cp]];
        assert_eq!(found, expected.map(|pids| (Some(1_000_000), pids)));
        let of_processes: Vec<_> = report
            .processes
            .iter()
            .map(|process| process.transfers.as_slice())
            .collect();
        assert_eq!(of_processes, [[].as_slice(), &[1], &[2], &[3]]);
        let part_of: Vec<_> = report
            .transfers
            .iter()
            .map(|transfer| transfer.part_of.as_slice())
            .collect();
        assert_eq!(part_of, [[].as_slice(), &[0], &[0], &[]]);
    }

    #[test]
    fn an_old_transfer_by_a_call_that_names_both_ends_is_proven() {
        let found: Vec<_> = old()
            .transfers
            .iter()
            .map(|transfer| (transfer.certainty, transfer.proven_bytes))
            .collect();
        let exact = (Certainty::Exact, Some(1_000_000));
        assert_eq!(found, [exact, exact, (Certainty::Inferred, None), exact]);
    }

    #[test]
    fn what_was_read_from_schema_1_is_written_and_read_as_this_schema() {
        let report = old();
        let json = serde_json::to_string(&report).expect("is data");
        assert_eq!(Report::from_json(&json).expect("is read"), report);
    }

    #[test]
    fn an_index_out_of_range_is_refused() {
        let refused = |edit: fn(&mut Report)| {
            let mut report = old();
            edit(&mut report);
            let json = serde_json::to_string(&report).expect("is data");
            Report::from_json(&json)
                .expect_err("is damaged")
                .to_string()
        };
        let expected = "it refers to transfer 4, but has only 4 (counted from 0)";
        assert_eq!(
            refused(|report| report.processes[1].transfers.push(4)),
            expected
        );
        assert_eq!(
            refused(|report| report.transfers[3].part_of.push(4)),
            expected
        );
    }

    #[test]
    fn a_newer_schema_is_refused_whatever_follows() {
        let error = Report::from_json(r#"{"schema": 3, "more": []}"#)
            .expect_err("is newer")
            .to_string();
        assert_eq!(
            error,
            "it has schema 3; this zctrace reads schema 1 and schema 2"
        );
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for text in [
            "",
            "{}",
            r#"{"schema": 1}"#,
            r#"{"schema": 1, "processes": [7]}"#,
            r#"{"schema": 2, "processes": 7}"#,
        ] {
            assert!(
                matches!(Report::from_json(text), Err(ReadError::NotAReport(_))),
                "{text}"
            );
        }
        // A process of schema 1 in a report that claims to be of schema 2.
        let mixed = OLD.replacen("\"schema\": 1", "\"schema\": 2", 1);
        assert!(matches!(
            Report::from_json(&mixed),
            Err(ReadError::NotAReport(_))
        ));
    }
}
