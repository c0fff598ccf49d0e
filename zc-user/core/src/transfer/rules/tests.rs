//! That the data of the rules is sound. What they lead to is in `reasons.txt` of the tests of the
//! analysis.

use super::*;
use crate::trace::Toolchain;

#[test]
fn rules_need_a_recent_enough_compiler() {
    let program = RuleProgram::Built(Language::Rust, [1, 70]);
    let matches = |version: &str| {
        program.matches(&Process {
            toolchain: Some(Toolchain {
                language: Language::Rust,
                version: version.into(),
            }),
            ..Process::default()
        })
    };
    assert!(["1.70.0", "1.95.0-nightly", "2.0"].into_iter().all(matches));
    assert!(!["1.69.9", ""].into_iter().any(matches));
    assert!(!program.matches(&Process::default()));
}

/// Other code in the same language may ask for the same sizes: 8 KiB, 32 KiB, the length of the
/// file, the most that the kernel moves at once. It must not be taken for the library.
#[test]
fn only_attempts_together_with_sizes_tell_a_library_from_other_code() {
    for rule in RULES.iter().filter(|rule| {
        rule.proof != Proof::OnlyIfShown && !matches!(rule.program, RuleProgram::Named(_))
    }) {
        let told_apart =
            rule.after.contains(&"copy_file_range") && matches!(rule.asked, Asked::Exactly(_));
        assert_eq!(rule.proof == Proof::Sure, told_apart, "{rule:?}");
        assert_eq!(
            rule.clause(&Process::default()).starts_with("if this is "),
            !told_apart,
            "{rule:?}"
        );
    }
}
