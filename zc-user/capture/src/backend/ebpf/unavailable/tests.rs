use super::*;

#[test]
fn kernels_before_the_oldest_are_too_old() {
    for release in
        ["5.10.0-30-amd64", "5.15.0-1064-aws", "5.17.15", "5.19", "6.0.0-6-amd64", "6.0.19", "4.19.0-27-cloud-arm64", "2.6.78-fc"]
    {
        let too_old = TooOld::check(release).expect_err(release);
        assert_eq!(
            too_old.to_string(),
            format!("Linux {release} is too old for the eBPF programs: use Linux 6.1 or newer, or --backend strace")
        );
    }
}

#[test]
fn kernels_that_are_new_enough_or_unknown_are_tried() {
    for release in ["6.1.0-41-cloud-amd64", "6.1", "6.1-rc1", "6.12.63+deb13-arm64", "6.18.44-fc-v669", "7.0.0", "10.2"] {
        assert_eq!(TooOld::check(release), Ok(()), "{release}");
    }
    for odd in ["", "6", "five.ten", ".", "5.", "99999999999.1", "-1.0", "custom-5.10", "v5.10"] {
        assert_eq!(TooOld::check(odd), Ok(()), "{odd:?}");
    }
}

#[test]
fn old_numbers_of_kernels_with_backports_say_nothing() {
    for release in ["5.14.0-503.11.1.el9_5.x86_64", "4.18.0-553.el8_10.aarch64", "5.14.0-362.8.1.el9_3.x86_64+rt"] {
        assert_eq!(TooOld::check(release), Ok(()), "{release}");
    }
    assert!(TooOld::check("5.10.0-elastic").is_err() && TooOld::check("5.10.el").is_err());
}

/// Linux 6.1.0-56-cloud-amd64.
const STACK: &str = "combined stack size of 4 calls is 544. Too large
verification time 339530 usec
stack depth 264+48+96+32+40+0+0+56+80+16+8+56+0+104+8
processed 15688 insns (limit 1000000) max_states_per_insn 6 total_states 806 peak_states 653 mark_read 26
";

/// Linux 6.18.
const MEMBER: &str = "Validating file_behind() func#7...
access beyond the end of member flags (mend:48) in struct task_struct with off 44 size 8
verification time 53925 usec
stack depth 264+48+96+32+40+0+0+40+0+0+0+0+0+0+0
processed 6091 insns (limit 1000000) max_states_per_insn 7 total_states 367 peak_states 355 mark_read 0
";

/// Linux 6.18.
const VALUE: &str = "invalid access to map value, value_size=8 off=8 size=8
R0 min value is outside of the allowed memory range
verification time 84 usec
stack depth 8
processed 8 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 0
";

/// Linux 6.18.
const LONG: &str = "BPF program is too large. Processed 1000001 insn
verification time 1104362 usec
stack depth 0
processed 1000001 insns (limit 1000000) max_states_per_insn 4 total_states 25001 peak_states 25001 mark_read 0
";

/// Linux 6.1, with two lines that it writes about any program whose argument has a type.
const SCALAR: &str = "reg type unsupported for arg#0 function sys_exit#184
func 'sys_exit' arg0 has btf_id 158 type STRUCT 'pt_regs'
R3 invalid mem access 'scalar'
verification time 184767 usec
stack depth 24+24
processed 48148 insns (limit 1000000) max_states_per_insn 21 total_states 2297 peak_states 1589 mark_read 27
";

#[test]
fn the_reason_is_the_first_line_that_is_neither_a_note_nor_a_figure() {
    for (log, reason) in [
        (STACK, "combined stack size of 4 calls is 544. Too large"),
        (MEMBER, "access beyond the end of member flags (mend:48) in struct task_struct with off 44 size 8"),
        (VALUE, "invalid access to map value, value_size=8 off=8 size=8"),
        (LONG, "BPF program is too large. Processed 1000001 insn"),
        (SCALAR, "R3 invalid mem access 'scalar'"),
        ("invalid func unknown#9999\nprocessed 1 insns (limit 1000000)", "invalid func unknown#9999"),
    ] {
        assert_eq!(verifier_reason(log).as_deref(), Some(reason));
    }
}

#[test]
fn a_log_without_a_reason_gives_none() {
    for log in ["", "\n", "Validating file_behind() func#7...\n", "stack depth 0\nprocessed 1 insns (limit 1000000)\n"] {
        assert_eq!(verifier_reason(log), None, "{log:?}");
    }
}

/// What people are told of a program that cannot be loaded, without the kernel's release.
fn told(errno: i32, log: &str) -> String {
    let told = load_refused("sys_enter", &io::Error::from_raw_os_error(errno), log).to_string();
    assert!(!told.contains('\n'), "one line: {told}");
    told.replace(&release(), "RELEASE")
}

#[test]
fn the_verifier_refuses_with_many_errors() {
    assert_eq!(
        told(libc::EACCES, STACK),
        "the verifier of Linux RELEASE refuses the eBPF program sys_enter: combined stack size of 4 calls is 544. Too large; \
         use another kernel from Linux 6.1 on or --backend strace, and please report this"
    );
    for errno in [libc::EACCES, libc::EINVAL, libc::E2BIG, libc::EFAULT] {
        assert!(told(errno, VALUE).contains("sys_enter: invalid access to map value, value_size=8 off=8 size=8; "));
    }
    assert!(told(libc::E2BIG, "").contains("sys_enter: Argument list too long"), "without a log, the error is the reason");
}

#[test]
fn a_lack_of_permission_is_no_refusal_of_the_verifier() {
    let not_permitted = EbpfUnavailable::NotPermitted.to_string();
    assert_eq!(told(libc::EPERM, ""), not_permitted);
    assert_eq!(told(libc::EPERM, STACK), not_permitted);
    // SELinux; the verifier has not run.
    assert_eq!(told(libc::EACCES, ""), not_permitted);
}
