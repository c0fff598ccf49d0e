//! One test for each kind of line.

use super::*;

fn event(line: &str) -> Event<'_> {
    Line::parse(line.as_bytes()).event
}

fn value(value: i64) -> Outcome<'static> {
    Outcome { result: CallResult::Value(value), duration_ns: None, descriptor: b"" }
}

#[test]
fn a_call_has_a_name_arguments_and_an_outcome() {
    let line = Line::parse(br#"[pid 12] read(3</x>, "a) = 1"..., 100)   = 42 <0.000012>"#);
    assert_eq!(line.prefix.tid, Some(12));
    assert_eq!(
        line.event,
        Event::Call {
            name: b"read",
            args: br#"3</x>, "a) = 1"..., 100"#,
            outcome: Outcome { result: CallResult::Value(42), duration_ns: Some(12_000), descriptor: b"" },
        }
    );
}

#[test]
fn a_call_without_a_name_is_a_call() {
    assert!(matches!(event("syscall_0x1ff(0x1, 0x2) = 0"), Event::Call { name: b"syscall_0x1ff", .. }));
}

#[test]
fn an_unfinished_call_is_parsed() {
    assert_eq!(event("read(3,  <unfinished ...>"), Event::Unfinished { name: b"read", args: b"3,  ", pause: Pause::Later });
    assert_eq!(event("read(3,  <detached ...>"), Event::Unfinished { name: b"read", args: b"3,  ", pause: Pause::Later });
    assert_eq!(
        event("execve(\"/x\" <pid changed to 7 ...>"),
        Event::Unfinished { name: b"execve", args: b"\"/x\" ", pause: Pause::Renamed { to: 7 } }
    );
}

#[test]
fn a_resumed_call_is_parsed() {
    assert_eq!(
        event("<... read resumed>\"ab\", 10) = 2"),
        Event::Resumed { name: b"read", args: b"\"ab\", 10", outcome: value(2) }
    );
    assert_eq!(
        event("<... read resumed> \"ab\", 10) = 2"),
        Event::Resumed { name: b"read", args: b" \"ab\", 10", outcome: value(2) }
    );
    let never = Outcome { result: CallResult::Never, duration_ns: None, descriptor: b"" };
    assert_eq!(event("<... futex resumed>)  = ?"), Event::Resumed { name: b"futex", args: b"", outcome: never });
    assert_eq!(event("<... futex resumed> <unfinished ...>) = ?"), Event::Resumed { name: b"futex", args: b"", outcome: never });
    assert_eq!(event("<... read resumed> <detached ...>"), Event::StillUnfinished { name: b"read", args: b" " });
}

#[test]
fn the_rest_of_a_call_may_start_within_a_structure() {
    for (name, args) in [
        ("get_thread_area", ", base_addr=0x55, limit=0xfffff}"),
        ("ioctl", " => 80, ifc_buf=[{ifr_name=\"lo\", ifr_addr={sa_family=AF_INET, sin_port=htons(0)}}]}"),
        ("rt_sigtimedwait", "{si_signo=SIGCHLD}, {tv_sec=1}, 8"),
        ("recvmsg", "[{iov_base=\"a) = 1}\", iov_len=1}], msg_flags=0}, 0"),
        ("bind", "0), sin_addr=inet_addr(\"0.0.0.0\")}, 16"),
    ] {
        let line = format!("<... {name} resumed>{args}) = 3");
        assert_eq!(event(&line), Event::Resumed { name: name.as_bytes(), args: args.as_bytes(), outcome: value(3) }, "{line}");
    }
    assert_eq!(event("<... read resumed>}, 3"), Event::Unparsed);
}

#[test]
fn a_restarted_call_names_itself_in_its_arguments() {
    assert_eq!(
        event("restart_syscall(<... resuming interrupted read ...>) = 0"),
        Event::Call { name: b"restart_syscall", args: b"<... resuming interrupted read ...>", outcome: value(0) }
    );
}

#[test]
fn a_call_that_never_returns_has_no_result() {
    assert!(matches!(event("exit_group(0)        = ?"), Event::Call { outcome: Outcome { result: CallResult::Never, .. }, .. }));
}

#[test]
fn a_cut_line_is_recognised() {
    assert_eq!(event("12 write(2, \"a\\n\", 2a"), Event::Cut { name: b"write", length: 21, attached: None });
    assert_eq!(event("vfork(strace: Process 12 attached"), Event::Cut { name: b"vfork", length: 6, attached: Some(12) });
    for line in ["read(3, \"abc", "read(3, \"abc\", 1)", "read(3, \"abc\", 1) =", "read(3, \"abc\", 1) = ", "read("] {
        assert_eq!(event(line), Event::Cut { name: b"read", length: line.len(), attached: None }, "{line}");
    }
}

#[test]
fn lines_that_are_not_calls_are_parsed() {
    assert_eq!(event("12 --- SIGCHLD {si_signo=SIGCHLD} ---"), Event::Signal);
    assert_eq!(event("12 +++ exited with 3 +++"), Event::Exited { code: 3 });
    assert_eq!(event("[pid  9] [ Process PID=9 runs in 32 bit mode. ]"), Event::Mode { tid: 9, abi: Abi::COMPAT });
    assert_eq!(event("strace: Process 12 attached"), Event::Attached { tid: 12 });
    assert_eq!(event("????( <unfinished ...>"), Event::Notice);
    assert_eq!(event("<... ???? resumed>) = ?"), Event::Notice);
    assert_eq!(event("------ ----------- ----------- --------- --------- ----------------"), Event::Notice);
}

#[test]
fn output_of_a_program_is_not_parsed() {
    for line in [
        "hello",
        "12",
        "12 ",
        "1+0 records in",
        ")   = 3",
        ", 88) = 12",
        " <unfinished ...>",
        "Usage: read(3)",
        "<x>",
        "\u{fffd}",
    ] {
        assert_eq!(event(line), Event::Unparsed, "{line}");
    }
}
