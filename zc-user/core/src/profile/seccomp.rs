//! Seccomp profiles as container runtimes read them: the OCI runtime specification's
//! `linux.seccomp` (config-linux.md), with Docker's `archMap`, `includes` and `excludes`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{CallProfile, CallRule, ProfileError};

/// The names of architectures in profiles, and those of their ABIs.
pub(super) const ARCHITECTURES: [(&str, &str); 5] = [
    ("SCMP_ARCH_X86_64", "x86_64"),
    ("SCMP_ARCH_X86", "i386"),
    ("SCMP_ARCH_X32", "x32"),
    ("SCMP_ARCH_AARCH64", "aarch64"),
    ("SCMP_ARCH_ARM", "arm"),
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeccompFile {
    default_action: String,
    #[serde(default)]
    architectures: Vec<String>,
    #[serde(default)]
    arch_map: Vec<ArchMap>,
    #[serde(default)]
    syscalls: Vec<SeccompRule>,
}

/// An architecture of Docker's profiles, with those that its machines run besides.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArchMap {
    architecture: String,
    #[serde(default)]
    sub_architectures: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct SeccompRule {
    names: Vec<String>,
    action: String,
    #[serde(default)]
    args: Option<Vec<serde_json::Value>>,
    /// Docker applies such a rule to containers with these capabilities, or to these kernels.
    #[serde(default)]
    includes: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(default)]
    excludes: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Reads a profile of the OCI.
pub(super) fn parse(text: &str, native: &str) -> Result<CallProfile, ProfileError> {
    let file: SeccompFile =
        serde_json::from_str(text).map_err(|error| ProfileError::NotSeccomp(error.to_string()))?;
    let default = action(&file.default_action)?;
    let mut rules_of_calls: BTreeMap<String, Vec<CallRule>> = BTreeMap::new();
    for rule in &file.syscalls {
        let effect = rule.effect()?;
        for name in &rule.names {
            let all = rules_of_calls.entry(name.clone()).or_default();
            all.push(effect.clone());
        }
    }
    let merged = |(name, rules): (String, Vec<CallRule>)| Some((name, merge(&rules)?));
    let rules = rules_of_calls.into_iter().filter_map(merged).collect();
    Ok(CallProfile {
        judges_calls: true,
        places: None,
        families: None,
        rules,
        abis: Some(abis(&file, native)?),
        default,
    })
}

impl SeccompRule {
    fn effect(&self) -> Result<CallRule, ProfileError> {
        let effect = action(&self.action)?;
        let has = |one: &Option<serde_json::Map<_, _>>| one.as_ref().is_some_and(|m| !m.is_empty());
        Ok(if has(&self.includes) || has(&self.excludes) {
            CallRule::Depends("the container's capabilities, architecture or kernel")
        } else if self.args.as_ref().is_some_and(|args| !args.is_empty()) {
            CallRule::Depends("its arguments")
        } else {
            effect
        })
    }
}

/// What the rules of one call come to: they decide only if they agree.
fn merge(rules: &[CallRule]) -> Option<CallRule> {
    let first = rules.first()?;
    let is_open = |rule: &&CallRule| matches!(rule, CallRule::Depends(_));
    let open = rules.iter().find(is_open);
    Some(match open {
        Some(open) => open.clone(),
        None if rules.iter().all(|rule| rule == first) => first.clone(),
        None => CallRule::Depends("which of its rules comes first"),
    })
}

/// Source: the OCI runtime specification, config-linux.md, `action`.
fn action(name: &str) -> Result<CallRule, ProfileError> {
    match name {
        "SCMP_ACT_ALLOW" | "SCMP_ACT_LOG" => Ok(CallRule::Allows),
        "SCMP_ACT_ERRNO"
        | "SCMP_ACT_KILL"
        | "SCMP_ACT_KILL_PROCESS"
        | "SCMP_ACT_KILL_THREAD"
        | "SCMP_ACT_TRAP" => Ok(CallRule::Denies),
        "SCMP_ACT_TRACE" | "SCMP_ACT_NOTIFY" => Ok(CallRule::Depends("another process")),
        _ => Err(ProfileError::UnknownAction(name.to_owned())),
    }
}

/// The ABIs whose calls are not denied at once: the machine's own, which libseccomp always adds, and
/// those that the profile names.
fn abis(file: &SeccompFile, native: &str) -> Result<BTreeSet<String>, ProfileError> {
    let mut architectures: Vec<&String> = file.architectures.iter().collect();
    for map in &file.arch_map {
        if abi(&map.architecture) == Some(native) {
            architectures.extend(map.sub_architectures.iter().flatten());
        }
    }
    let mut abis = BTreeSet::from([native.to_owned()]);
    for name in architectures {
        match abi(name) {
            Some(abi) => drop(abis.insert(abi.to_owned())),
            // One of another machine.
            None if name.starts_with("SCMP_ARCH_") => {}
            None => return Err(ProfileError::UnknownArchitecture(name.clone())),
        }
    }
    Ok(abis)
}

fn abi(architecture: &str) -> Option<&'static str> {
    let mut known = ARCHITECTURES.iter();
    let (_, abi) = known.find(|(name, _)| *name == architecture)?;
    Some(abi)
}
