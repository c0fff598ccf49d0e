//! The files that two runs used by descriptors with different flags. They explain a difference, and
//! decide nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::report::{End, Report};

/// A file that two runs used by descriptors with different flags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DescriptorFlags {
    /// Its path, the same in both runs.
    pub path: String,
    /// [`End::open_flags`] in both runs.
    pub open_flags: [Vec<String>; 2],
}

/// The files that both runs read or wrote, in the order of their paths, and whose flags are known and
/// differ.
pub(super) fn descriptor_flags(reports: [&Report; 2]) -> Vec<DescriptorFlags> {
    let [before, mut after] = reports.map(flags_by_path);
    let both = before.into_iter().filter_map(|(path, before)| {
        let open_flags = [before?, after.remove(path)??];
        (open_flags[0] != open_flags[1]).then(|| DescriptorFlags {
            path: path.to_owned(),
            open_flags: open_flags.map(<[String]>::to_vec),
        })
    });
    both.collect()
}

/// The flags by which each path was used. `None`: unknown, or not the same for all files that had
/// this path.
fn flags_by_path(report: &Report) -> BTreeMap<&str, Option<&[String]>> {
    // strace does not know the flags of descriptors that the command inherited. Sums of files have
    // no inode, and no flags.
    let are_known =
        |end: &End| !end.open_flags.is_empty() || (report.backend == "ebpf" && end.inode.is_some());
    let mut flags: BTreeMap<&str, Option<&[String]>> = BTreeMap::new();
    for end in used_ends(report) {
        let Some(path) = end.path.as_deref() else {
            continue;
        };
        let now = are_known(end).then_some(end.open_flags.as_slice());
        let known = flags.entry(path).or_insert(now);
        if *known != now {
            *known = None;
        }
    }
    flags
}

/// The files that were read or written, each at least once.
fn used_ends(report: &Report) -> impl Iterator<Item = &End> {
    // With `--by total` these are all.
    let transfers = report.transfers.iter();
    let sources = report.all_sources().filter_map(|one| one.file.as_ref());
    let destinations = report.all_destinations();
    sources
        .chain(destinations.filter_map(|one| one.file.as_ref()))
        .chain(transfers.flat_map(|transfer| [&transfer.from, &transfer.to]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::files::Scene;

    #[test]
    fn a_file_is_not_named_if_its_inode_is_unknown_or_several_files_had_its_path() {
        let report = |flags: &str| {
            let lines = "dd: read in 8 32768, write in>out 8 32768\n@ flags in ";
            Scene::read(&format!("{lines}{flags}")).report()
        };
        let (plain, direct) = (report(""), report("O_DIRECT"));
        let found = descriptor_flags([&plain, &direct]);
        assert_eq!(found[0].path, "in");
        let mut summed = plain.clone();
        let input = summed.processes[0].sources[0].file.as_mut();
        input.expect("is known").inode = None;
        let mut several = plain;
        let sources = &mut several.processes[0].sources;
        let mut second = sources[0].clone();
        second.file.as_mut().expect("is known").open_flags = vec!["O_SYNC".to_owned()];
        sources.push(second);
        for other in [summed, several] {
            assert_eq!(descriptor_flags([&other, &direct]), []);
        }
    }
}
