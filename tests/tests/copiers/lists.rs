//! The two copiers have the same cases where both can.

use std::collections::BTreeMap;

use super::support::{cases, in_c, in_rust};

/// Those of a copier that have a twin.
fn twins(cases: Vec<(String, Option<String>)>) -> BTreeMap<String, String> {
    cases.into_iter().filter_map(|(name, twin)| Some((name, twin?))).collect()
}

#[test]
fn every_twin_is_the_others_twin() {
    let (rust, c) = (twins(cases(&in_rust())), twins(cases(&in_c())));
    assert!(c.iter().all(|(name, twin)| rust.get(twin) == Some(name)), "{rust:?} {c:?}");
    // Two crates make the one call.
    assert_eq!(rust["nix-sendfile64"], "sendfile");
    assert!(
        rust.iter().filter(|(name, _)| *name != "nix-sendfile64").all(|(name, twin)| c.get(twin) == Some(name)),
        "{rust:?} {c:?}"
    );
}

#[test]
fn only_what_c_does_not_have_is_without_a_twin() {
    let without = |cases: Vec<(String, Option<String>)>| {
        cases.into_iter().filter(|(_, twin)| twin.is_none()).map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(without(cases(&in_rust())), ["std-io-copy", "std-buffered-copy", "std-fs-copy", "tokio-io-copy", "io-uring"]);
    assert_eq!(without(cases(&in_c())), ["read-write-stack", "read-send", "byte-cat", "mmap-send", "fast-cat"]);
}
