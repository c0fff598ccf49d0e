//! Where a real log ends with the table of `strace -C`, the sums are strace's own.

use std::{collections::BTreeMap, fs};

use super::{logs, read, rows};

/// Calls and errors.
type Counts = BTreeMap<String, (u64, u64)>;

#[test]
fn the_sums_are_those_that_strace_counts_itself() {
    let mut compared = 0;
    for log in logs().iter().filter(|log| log.is_file()) {
        let text = String::from_utf8_lossy(&fs::read(log).expect("can be read")).into_owned();
        let table = table(&text);
        if table.is_empty() {
            continue;
        }
        let mut sums = Counts::new();
        for row in rows(&read(log).0).filter(|row| row.calls > 0) {
            let name = row.call.name.split('(').next().unwrap_or_default();
            let sum = sums.entry(name.to_owned()).or_default();
            *sum = (sum.0 + row.calls, sum.1 + row.errors);
        }
        assert_eq!(sums, table, "{}", log.display());
        compared += 1;
    }
    assert!(compared >= 3, "the corpus has tables");
}

/// `% time     seconds  usecs/call     calls    errors syscall`
fn table(text: &str) -> Counts {
    let lines = text.lines().skip_while(|line| !line.starts_with("% time"));
    lines
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let (name, numbers) = columns.split_last()?;
            let calls = numbers.get(3)?.parse().ok()?;
            let errors = numbers.get(4).map_or(Some(0), |errors| errors.parse().ok())?;
            (*name != "total").then(|| ((*name).to_owned(), (calls, errors)))
        })
        .collect()
}
