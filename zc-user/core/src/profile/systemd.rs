//! The lines of a systemd unit that filter system calls: systemd.exec(5), "System Call Filtering".

use std::collections::{BTreeMap, BTreeSet};

use super::{CallProfile, CallRule, ProfileError, families, places};

/// The group that systemd adds to each list of allowed calls.
const ALWAYS_ALLOWED: &str = "@default";

/// The names of architectures in units, and those of their ABIs.
const ARCHITECTURES: [(&str, &str); 5] = [
    ("x86-64", "x86_64"),
    ("x86", "i386"),
    ("x32", "x32"),
    ("arm64", "aarch64"),
    ("arm", "arm"),
];

/// The named sets of calls, such as `@system-service`, of one version of systemd.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallGroups(BTreeMap<String, Vec<String>>);

impl CallGroups {
    /// Reads what `systemd-analyze syscall-filter` prints: the name of a group, and indented below it
    /// its members, which may be groups.
    pub fn parse(text: &str) -> Self {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut group = String::new();
        for line in text.lines() {
            let word = line.trim();
            if word.is_empty() || word.starts_with('#') {
                continue;
            }
            if line.starts_with(char::is_whitespace) {
                let members = groups.entry(group.clone()).or_default();
                members.push(word.to_owned());
            } else {
                word.clone_into(&mut group);
            }
        }
        Self(groups)
    }

    /// The calls of a group, also of those within it.
    fn calls(&self, group: &str) -> Result<BTreeSet<&str>, ProfileError> {
        let (mut calls, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![group]);
        while let Some(name) = open.pop() {
            if !seen.insert(name) {
                continue;
            }
            let unknown = || ProfileError::UnknownGroup(name.to_owned());
            for member in self.0.get(name).ok_or_else(unknown)? {
                if member.starts_with('@') {
                    open.push(member);
                } else {
                    calls.insert(member.as_str());
                }
            }
        }
        Ok(calls)
    }
}

/// Reads the lines of a unit.
pub(super) fn parse(
    text: &str,
    native: &str,
    groups: Option<&CallGroups>,
) -> Result<CallProfile, ProfileError> {
    let mut filter = None;
    let mut abis = BTreeSet::new();
    let assignments = assignments(text);
    for (key, value) in &assignments {
        match key.as_str() {
            "SystemCallFilter" if value.is_empty() => filter = None,
            "SystemCallFilter" => {
                let is_inverted = value.starts_with('~');
                let mut lists = match filter.take() {
                    Some(filter) => filter,
                    None => Filter::new(is_inverted, groups)?,
                };
                lists.add(value.trim_start_matches('~'), is_inverted, groups)?;
                filter = Some(lists);
            }
            "SystemCallArchitectures" if value.is_empty() => abis.clear(),
            "SystemCallArchitectures" => {
                for word in value.split_whitespace() {
                    abis.extend(abi(word, native)?);
                }
            }
            _ => {}
        }
    }
    let (places, families) = (places::parse(&assignments), families::parse(&assignments));
    let judges_calls = filter.is_some();
    let filter = match filter {
        Some(filter) => filter,
        None if places.is_some() || families.is_some() => Filter::new(true, groups)?,
        None => return Err(ProfileError::NoFilter),
    };
    // The machine's own is always allowed.
    let abis = (!abis.is_empty()).then(|| abis.into_iter().chain([native.to_owned()]).collect());
    Ok(CallProfile {
        judges_calls,
        places,
        families,
        default: filter.default,
        rules: filter.rules,
        abis,
    })
}

/// The assignments of a unit. A line that ends in `\` goes on in the next one.
fn assignments(text: &str) -> Vec<(String, String)> {
    let text = text.replace("\\\n", " ");
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.starts_with(['#', ';']));
    let pairs = lines.filter_map(|line| line.split_once('='));
    let trimmed = pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
    trimmed.collect()
}

/// The ABI of an architecture; `None`: one of another machine.
fn abi(word: &str, native: &str) -> Result<Option<String>, ProfileError> {
    const OF_OTHER_MACHINES: [&str; 8] = [
        "s390", "s390x", "ppc", "ppc64", "ppc64-le", "mips", "mips64", "riscv64",
    ];
    let mut known = ARCHITECTURES.iter();
    match known.find(|(name, _)| *name == word) {
        _ if word == "native" => Ok(Some(native.to_owned())),
        Some((_, abi)) => Ok(Some((*abi).to_owned())),
        None if OF_OTHER_MACHINES.contains(&word) => Ok(None),
        None => Err(ProfileError::UnknownArchitecture(word.to_owned())),
    }
}

/// The name of an ABI's architecture in units.
pub(super) fn architecture(abi: &str) -> Option<&'static str> {
    let mut known = ARCHITECTURES.iter();
    let (name, _) = known.find(|(_, known)| *known == abi)?;
    Some(name)
}

/// The filter that the lines so far make.
struct Filter {
    default: CallRule,
    rules: BTreeMap<String, CallRule>,
}

impl Filter {
    /// The first line decides whether the calls that no line names are allowed.
    fn new(is_inverted: bool, groups: Option<&CallGroups>) -> Result<Self, ProfileError> {
        let default = if is_inverted {
            CallRule::Allows
        } else {
            CallRule::Denies
        };
        let rules = BTreeMap::new();
        let mut filter = Self { default, rules };
        if !is_inverted {
            filter.add(ALWAYS_ALLOWED, false, groups)?;
        }
        Ok(filter)
    }

    /// Adds the words of a line. A call with an error number (`chown:EPERM`) is denied in any list.
    fn add(
        &mut self,
        words: &str,
        is_inverted: bool,
        groups: Option<&CallGroups>,
    ) -> Result<(), ProfileError> {
        for word in words.split_whitespace() {
            let (name, errno) = match word.split_once(':') {
                Some((name, errno)) => (name, Some(errno)),
                None => (word, None),
            };
            let rule = match errno {
                None if !is_inverted => CallRule::Allows,
                _ => CallRule::Denies,
            };
            let names = if name.starts_with('@') {
                let groups = groups.ok_or_else(|| ProfileError::NoGroups(name.to_owned()))?;
                groups.calls(name)?
            } else {
                BTreeSet::from([name])
            };
            let rules = names
                .into_iter()
                .map(|name| (name.to_owned(), rule.clone()));
            self.rules.extend(rules);
        }
        Ok(())
    }
}
