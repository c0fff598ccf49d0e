//! What people parsed strace's output for, as public issues have it: what each looked for is rebuilt as
//! a small program, and the check that replaces the parsing is held against strace's log.

use std::net::TcpListener;

use crate::harness::{Finished, Program, TestDir, program, python, zctrace};

/// Runs the program in the directory under `strace -f -yy`. Returns the log.
fn log_of(program: &Program, dir: &TestDir) -> String {
    let strace = crate::harness::program("strace").args(&["-f", "-yy", "-o", "strace.log"]);
    let strace = strace.args(program.words()).dir(dir.path());
    strace.finish().exits(0);
    dir.read("strace.log")
}

/// Holds the program against these options of `check` in the directory.
fn check(program: &Program, dir: &TestDir, options: &[&str]) -> Finished {
    let checking = zctrace().dir(dir.path()).option("check");
    checking.options(options).show(program)
}

/// nodejs/node 46150, a test for CVE-2022-32222: at its start, the program must look for no
/// configuration below the directory that it was built in.
#[test]
fn no_configuration_is_looked_for_where_the_program_was_built() {
    let dir = TestDir::new();
    let expect = ["--expect", r#"openat[path="/home/iojs/**"].calls == 0"#];
    let expect = [&expect[..], &["--may-match-nothing"]].concat();
    for (script, status) in [
        ("open('/etc/hosts').read()", 0),
        (
            "try: open('/home/iojs/build/ssl/openssl.cnf')\nexcept OSError: open('/etc/hosts')",
            1,
        ),
    ] {
        let program = python(script);
        let log = log_of(&program, &dir);
        assert_eq!(log.contains("\"/home/iojs/"), status == 1);
        check(&program, &dir, &expect).exits(status);
    }
}

/// A program that connects to this port.
fn connecting(port: u16) -> Program {
    python(&format!(
        "import socket; socket.create_connection(('127.0.0.1', {port}))"
    ))
}

/// apollographql/rover 3758: without telemetry there must be no outbound connection.
#[test]
fn no_outbound_connection_is_made() {
    let dir = TestDir::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("can be bound");
    let port = listener.local_addr().expect("is bound").port();
    let expect = ["--expect", "touches(connect) within []"];
    for (program, status) in [(connecting(port), 1), (python("pass"), 0)] {
        let log = log_of(&program, &dir);
        assert_eq!(log.contains("connect("), status == 1);
        let checked = check(&program, &dir, &expect);
        checked.exits(status);
        if status == 1 {
            checked.prints(&format!("tcp:127.0.0.1:{port}"));
        }
    }
}

/// replicatedhq/kURL 1571: an airgapped installation may only talk to this machine, and asks no DNS
/// server.
#[test]
fn an_airgapped_installation_stays_on_this_machine() {
    let dir = TestDir::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("can be bound");
    let local = connecting(listener.local_addr().expect("is bound").port());
    let asks = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                try: s.connect(('192.0.2.53', 53))\nexcept OSError: pass";
    let allowed = r#"touches(connect) within ["tcp:127.0.0.1:*", "unix:**"]"#;
    let expect = ["--expect", allowed];
    for (program, status) in [(local, 0), (python(asks), 1)] {
        let log = log_of(&program, &dir);
        assert_eq!(log.contains("192.0.2.53"), status == 1);
        let checked = check(&program, &dir, &expect);
        checked.exits(status);
        if status == 1 {
            checked.prints("udp:192.0.2.53:53");
        }
    }
}

/// taskrunner 18: a step of a build must read nothing that it does not declare.
#[test]
fn an_undeclared_input_is_named() {
    let dir = TestDir::with("declared", "x");
    dir.write("undeclared", "y");
    let allowed = r#"touches(read) within ["declared", "/etc/**", "/lib*/**", "/usr/**"]"#;
    for (inputs, status) in [(&["declared"][..], 0), (&["declared", "undeclared"], 1)] {
        let program = program("/usr/bin/cat").args(inputs);
        let log = log_of(&program, &dir);
        assert_eq!(log.contains("/undeclared>"), status == 1);
        let checked = check(&program, &dir, &["--expect", allowed]);
        checked.exits(status);
        if status == 1 {
            checked.prints("\"undeclared\": read by cat, first by openat");
        }
    }
}

/// systemd/systemd 31469 and elastic/beats 28117: an update of a library makes a call that the filter
/// does not have, and the service dies. The profile is checked against a run of the new version.
#[test]
fn a_call_that_an_update_added_is_denied_by_the_profile_of_before() {
    let dir = TestDir::new();
    let before = python("print(1)");
    let after = python("import os; print(os.memfd_create('x'))");
    let writing = zctrace()
        .dir(dir.path())
        .options(&["--format=seccomp", "-o", "p.json"]);
    writing.show(&before).exits(0);
    for (program, status) in [(before, 0), (after, 1)] {
        let log = log_of(&program, &dir);
        assert_eq!(log.contains("memfd_create("), status == 1);
        let checked = check(&program, &dir, &["--show-output", "--profile", "p.json"]);
        checked.exits(status);
        if status == 1 {
            checked.prints("memfd_create: 1 call by python3");
        }
    }
}
