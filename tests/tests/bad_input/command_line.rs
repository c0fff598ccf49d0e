//! Mistakes in the command line.

use crate::harness::zctrace;

#[test]
fn an_unknown_system_call_with_a_suggestion() {
    zctrace().option("--syscalls=raed").refuses().with_status(125).saying("unknown system call 'raed'").saying("'read'");
    zctrace().option("-e=write,sendfiel").refuses().with_status(125).saying("'sendfiel'").saying("'sendfile'");
}

#[test]
fn an_unknown_class_of_calls() {
    zctrace().option("--syscalls=%netwerk").refuses().with_status(125).saying("'%netwerk'").saying("%network");
}

#[test]
fn a_call_that_is_like_no_other() {
    zctrace().option("--syscalls=xyzzyplugh").refuses().with_status(125).saying("'xyzzyplugh'").saying("%data");
}

#[test]
fn no_calls_at_all() {
    zctrace().option("--syscalls=").refuses().with_status(125);
    zctrace().option("--syscalls=,").refuses().with_status(125);
}

#[test]
fn an_unknown_option() {
    zctrace().option("--no-such-option").refuses().with_status(125).saying("'--no-such-option'").saying("--help");
}

#[test]
fn an_option_of_almost_that_name() {
    zctrace().option("--al-processes").refuses().with_status(125).saying("--all-processes");
}

#[test]
fn an_unknown_value() {
    zctrace().option("--format=jsn").refuses().with_status(125).saying("'jsn'").saying("json");
    zctrace().option("--max-rows=many").refuses().with_status(125).saying("--max-rows");
    zctrace().option("--max-rows=0").refuses().with_status(125).saying("0");
    zctrace().option("--sort=speed").refuses().with_status(125).saying("'speed'");
}

#[test]
fn no_command() {
    zctrace().refuses_words(&[]).with_status(125).saying("no command").saying("zctrace cp a b");
    zctrace().refuses_words(&["--"]).with_status(125).saying("no command");
}

#[test]
fn a_subcommand_behind_options() {
    zctrace().refuses_words(&["--by=total", "check"]).with_status(125).saying("'check' comes first").saying("zctrace -- check");
}

#[test]
fn an_unknown_user() {
    zctrace().option("--user=nobody-of-this-name").refuses().with_status(125).saying("'nobody-of-this-name'");
    zctrace().option("--user=12x").refuses().with_status(125).saying("'12x'");
}

#[test]
fn help_is_no_mistake() {
    for words in [["--help"], ["-h"], ["--version"]] {
        let finished = zctrace().launch_with(&words).finish();
        assert!(finished.successful().contains("zctrace"), "{}", finished.text());
        assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    }
}
