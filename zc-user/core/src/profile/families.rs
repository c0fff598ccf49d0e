//! Which sockets the line `RestrictAddressFamilies=` of a systemd unit lets a command make.

use std::collections::BTreeSet;

/// The families of sockets that a unit lets a command make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SocketFamilies {
    /// `AF_UNIX` and others.
    names: BTreeSet<String>,
    /// Whether these are denied, and all others allowed.
    is_inverted: bool,
}

/// Reads the lines of a unit; `None`: they allow all.
pub(super) fn parse(assignments: &[(String, String)]) -> Option<SocketFamilies> {
    let mut found: Option<SocketFamilies> = None;
    let lines = assignments.iter();
    for (_, value) in lines.filter(|(key, _)| key == "RestrictAddressFamilies") {
        match value.as_str() {
            "" => found = None,
            "none" => found = Some(SocketFamilies::default()),
            list => {
                let is_inverted = list.starts_with('~');
                let families = found.get_or_insert_with(|| SocketFamilies {
                    is_inverted,
                    ..SocketFamilies::default()
                });
                for name in list.trim_start_matches('~').split_whitespace() {
                    if is_inverted == families.is_inverted {
                        families.names.insert(name.to_owned());
                    } else {
                        families.names.remove(name);
                    }
                }
            }
        }
    }
    found
}

impl SocketFamilies {
    /// Whether it allows this one.
    pub(super) fn allows(&self, family: &str) -> bool {
        self.names.contains(family) != self.is_inverted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_decides_whether_the_list_allows() {
        for (lines, expected) in [
            (vec!["AF_UNIX AF_INET"], "AF_UNIX AF_INET"),
            (vec!["~AF_INET"], "AF_UNIX AF_PACKET"),
            (vec!["AF_UNIX AF_INET", "~AF_INET"], "AF_UNIX"),
            (vec!["none"], ""),
            (vec!["AF_UNIX", "", "AF_PACKET"], "AF_PACKET"),
        ] {
            let lines = lines.into_iter();
            let lines = lines.map(|line| ("RestrictAddressFamilies".to_owned(), line.to_owned()));
            let families = parse(&lines.collect::<Vec<_>>()).expect("it restricts");
            let all = ["AF_UNIX", "AF_INET", "AF_PACKET"];
            let allowed = all.into_iter().filter(|name| families.allows(name));
            assert_eq!(allowed.collect::<Vec<_>>().join(" "), expected);
        }
        assert_eq!(parse(&[]), None);
    }
}
