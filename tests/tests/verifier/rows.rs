//! The table of what verifiers have to do: processed instructions for each kernel and program.

use std::{collections::BTreeMap, fmt};

const HEAD: &str = "\
# How many instructions the verifiers of kernels process for the eBPF programs

`docs/howto.md` says how this table is updated.

| kernel | program | processed instructions |
|---|---|--:|
";

/// How many instructions the verifier has processed over all paths, by kernel (`6.1 x86_64`) and
/// program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ProgramRows(BTreeMap<(KernelVersion, String, String), u32>);

/// Major and minor version of a kernel, so that 6.12 comes after 6.1.
type KernelVersion = (u32, u32);

impl ProgramRows {
    /// Reads a table. Of rows with the same kernel and program, the last one counts; other lines
    /// are ignored.
    pub(super) fn parse(text: &str) -> Self {
        let mut rows = Self::default();
        for line in text.lines() {
            let cells = line.trim().trim_matches('|').split('|');
            let cells: Vec<&str> = cells.map(str::trim).collect();
            if let [.., kernel, program, processed] = cells[..]
                && let Ok(processed) = processed.parse()
            {
                rows.insert(kernel, program, processed);
            }
        }
        rows
    }

    /// Adds a row, or replaces the one that is there.
    pub(super) fn insert(&mut self, kernel: &str, program: &str, processed: u32) {
        let key = (version(kernel), kernel.to_owned(), program.to_owned());
        self.0.insert(key, processed);
    }

    /// Replaces all rows of the kernels in another table with those of that table.
    pub(super) fn record(&mut self, other: Self) {
        self.0
            .retain(|(_, kernel, _), _| !other.0.keys().any(|(_, recorded, _)| recorded == kernel));
        self.0.extend(other.0);
    }

    /// The rows of `found` that are more than this many percent larger than here, one line each.
    /// Rows that are not here are not compared.
    pub(super) fn grown(&self, found: &Self, tolerance: u32) -> Vec<String> {
        let both = found.0.iter().filter_map(|(key, &now)| {
            let &known = self.0.get(key)?;
            let most = u64::from(known) * u64::from(100 + tolerance) / 100;
            (u64::from(now) > most).then_some((key, known, now))
        });
        both.map(|((_, kernel, program), known, now)| {
            format!("{program} on {kernel}: {known}, now {now}")
        })
        .collect()
    }
}

impl fmt::Display for ProgramRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        for ((_, kernel, program), processed) in &self.0 {
            writeln!(f, "| {kernel} | {program} | {processed} |")?;
        }
        Ok(())
    }
}

fn version(kernel: &str) -> KernelVersion {
    let release = kernel.split(' ').next().unwrap_or_default();
    let mut numbers = release.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[(&str, &str, u32)]) -> ProgramRows {
        let mut all = ProgramRows::default();
        for &(kernel, program, processed) in rows {
            all.insert(kernel, program, processed);
        }
        all
    }

    #[test]
    fn a_table_reads_as_it_was_written() {
        let table = rows(&[
            ("6.12 x86_64", "sys_exit", 20_000),
            ("6.1 x86_64", "sys_exit", 24_099),
            ("7.0 aarch64", "scope", 9),
        ]);
        let text = table.to_string();
        assert_eq!(ProgramRows::parse(&text), table);
        let kernels = text.lines().skip(6).map(|row| &row[2..6]);
        assert!(
            kernels.eq(["6.1 ", "6.12", "7.0 "]),
            "6.1, then 6.12: {text}"
        );
    }

    #[test]
    fn recorded_rows_replace_only_those_of_their_kernel() {
        let other = ("6.1 aarch64", "sys_exit", 1);
        let new = ("6.1 x86_64", "sys_exit", 2);
        let old = ("6.1 x86_64", "sys_exit", 1);
        let mut table = rows(&[old, ("6.1 x86_64", "gone", 1), other]);
        table.record(rows(&[new]));
        assert_eq!(table, rows(&[new, other]));
    }

    #[test]
    fn rows_that_have_grown_are_named() {
        let table = rows(&[("6.1 x86_64", "sys_exit", 1000)]);
        for (program, processed, grown) in [
            ("sys_exit", 1000, 0),
            ("sys_exit", 1100, 0),
            ("sys_exit", 10, 0),
            ("sys_exit", 1101, 1),
            ("new", 5000, 0),
        ] {
            let found = rows(&[("6.1 x86_64", program, processed)]);
            let named = table.grown(&found, 10);
            assert_eq!(named.len(), grown, "{program} {processed}");
        }
    }
}
