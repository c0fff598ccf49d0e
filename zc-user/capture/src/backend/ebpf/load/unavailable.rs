//! Why the eBPF backend cannot run, in one sentence that says what to do.

use std::{
    error, io,
    path::{Path, PathBuf},
};

use aya::{EbpfError, programs::ProgramError};
use nix::sys::utsname::uname;
use thiserror::Error;

use super::btf::{BtfError, MissingField};
use crate::machine::Version;

/// The kernel's own type information.
pub const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";
/// The oldest kernel that the programs are tested on.
const OLDEST_KERNEL: Version = Version(6, 1);

/// Why the eBPF backend cannot run here. Each message says what to do.
#[derive(Debug, Error)]
pub enum EbpfUnavailable {
    /// Built without the kernel side.
    #[error(
        "this zctrace was built without eBPF (feature `without-ebpf`): rebuild it without that feature, or use --backend strace"
    )]
    NotBuilt,
    /// `/proc` does not show this process.
    #[error(
        "cannot read /proc/self/ns/pid: {0}; mount it (mount -t proc proc /proc), or use --backend strace"
    )]
    NoProc(io::Error),
    /// The kernel is older than the oldest that is supported.
    #[error(transparent)]
    TooOld(#[from] TooOld),
    /// The kernel shows no BTF.
    #[error("cannot read the kernel's type information {}: {cause}{}", path.display(), remedy(path, cause))]
    NoBtf {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// The kernel's BTF cannot be parsed.
    #[error("cannot use the kernel's type information {}: {cause}", path.display())]
    BadBtf {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: BtfError,
    },
    /// The kernel lacks a field.
    #[error("{0}: use another kernel, or --backend strace")]
    MissingField(#[from] MissingField),
    /// The kernel lacks a field without which the files of calls cannot be told.
    #[error(
        "the kernel's type information lacks fields that --syncs and --paths need: use another kernel, or --backend strace"
    )]
    NoFileNames,
    /// This process may not load programs.
    #[error(
        "not allowed to load eBPF programs: run zctrace with sudo, or give it CAP_BPF and CAP_PERFMON"
    )]
    NotPermitted,
    /// The kernel's verifier refuses a program, whatever the privileges.
    #[error(
        "the verifier of Linux {release} rejects the eBPF program {program}: {reason}; please report this, and use --backend strace or another kernel, Linux {OLDEST_KERNEL} or newer"
    )]
    Verifier {
        /// The program.
        program: String,
        /// The verifier's reason, or else the error.
        reason: String,
        /// The kernel's release.
        release: String,
    },
    /// Anything else that the kernel refuses.
    #[error("the kernel rejects the eBPF programs: {0}")]
    Refused(String),
}

/// What to do if the type information cannot be read.
fn remedy(path: &Path, cause: &io::Error) -> &'static str {
    if path != Path::new(BTF_PATH) {
        "; ZCTRACE_BTF names this file: unset it"
    } else if cause.kind() == io::ErrorKind::NotFound {
        "; the kernel must be built with CONFIG_DEBUG_INFO_BTF"
    } else {
        ""
    }
}

/// The kernel is older than the oldest that is supported.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "Linux {release} is too old for the eBPF programs: use Linux {OLDEST_KERNEL} or newer, or --backend strace"
)]
pub struct TooOld {
    /// The kernel's release.
    pub release: String,
}

impl TooOld {
    /// Whether the kernel of this release is too old. If the release does not say, loading the
    /// programs is tried.
    pub fn check(release: &str) -> Result<(), Self> {
        let is_old = Version::at_start(release).is_some_and(|version| version < OLDEST_KERNEL);
        if is_old && !has_backports(release) {
            let release = release.to_owned();
            return Err(Self { release });
        }
        Ok(())
    }
}

/// Whether the distribution backports BPF to old kernels: Red Hat and its derivatives, as in
/// `5.14.0-503.11.1.el9_5.x86_64`.
fn has_backports(release: &str) -> bool {
    let mut versions = release
        .split('.')
        .filter_map(|part| part.strip_prefix("el"));
    versions.any(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// The running kernel's release, as `uname -r` shows it; empty if it cannot be read.
pub fn release() -> String {
    let release = uname().map(|system| system.release().to_string_lossy().into_owned());
    release.unwrap_or_default()
}

/// The kernel refuses to create a map, load the object's types or something else that is not a
/// program.
pub fn object_refused(error: &EbpfError) -> EbpfUnavailable {
    if is_denied(error) {
        EbpfUnavailable::NotPermitted
    } else {
        refused(error)
    }
}

/// The object lacks this program.
pub fn no_program(name: &str) -> EbpfUnavailable {
    EbpfUnavailable::Refused(format!("the object has no program {name}"))
}

/// The kernel refuses to load or attach this program.
pub fn program_refused(program: &str, error: &ProgramError) -> EbpfUnavailable {
    match error {
        ProgramError::LoadError {
            io_error,
            verifier_log,
        } => load_refused(program, io_error, &verifier_log.to_string()),
        error if is_denied(error) => EbpfUnavailable::NotPermitted,
        error => refused(error),
    }
}

/// Whether the verifier gave up because a signal came: `do_check` of the kernel's
/// kernel/bpf/verifier.c returns EAGAIN then.
pub fn is_interrupted(error: &ProgramError) -> bool {
    matches!(error, ProgramError::LoadError { io_error, .. } if io_error.raw_os_error() == Some(libc::EAGAIN))
}

/// Why `BPF_PROG_LOAD` fails. A lack of capabilities is EPERM. The verifier refuses with EACCES,
/// EINVAL, E2BIG and others, and says why in its log. A security module refuses with `EACCES` as
/// well (`SELinux` does), before the verifier runs: then there is no log.
fn load_refused(program: &str, error: &io::Error, log: &str) -> EbpfUnavailable {
    match (error.raw_os_error(), verifier_reason(log)) {
        (Some(libc::EPERM), _) | (Some(libc::EACCES), None) => EbpfUnavailable::NotPermitted,
        // Linux 7.3 looks for a free descriptor after the verifier has written its log.
        (Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM), _) => {
            EbpfUnavailable::Refused(format!("cannot load the eBPF program {program}: {error}"))
        }
        (_, said) => EbpfUnavailable::Verifier {
            program: program.to_owned(),
            reason: said.unwrap_or_else(|| error.to_string()),
            release: release(),
        },
    }
}

/// Something fails that is not about privileges.
pub fn refused(error: &(dyn error::Error + 'static)) -> EbpfUnavailable {
    EbpfUnavailable::Refused(one_line(error))
}

/// A thread that loads programs cannot be started. `pthread_create(3)` fails with EAGAIN if memory
/// is short, too.
pub fn no_thread(error: &io::Error) -> EbpfUnavailable {
    EbpfUnavailable::Refused(format!(
        "cannot start a thread, because of a limit on memory (ulimit -v) or on tasks (ulimit -u): {error}"
    ))
}

/// The error with its causes, without the verifier's log.
fn one_line(error: &(dyn error::Error + 'static)) -> String {
    let messages = with_causes(error).map(ToString::to_string);
    let parts: Vec<String> = messages
        .filter_map(|message| message.lines().next().map(str::to_owned))
        .collect();
    parts.join(": ")
}

/// Whether the innermost cause is that this is not permitted.
fn is_denied(error: &(dyn error::Error + 'static)) -> bool {
    let mut errors = with_causes(error).filter_map(|error| error.downcast_ref::<io::Error>());
    errors.any(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// The error and its causes.
fn with_causes<'e>(
    error: &'e (dyn error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn error::Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Why the verifier refuses a program: the first line of its log that is neither a progress note
/// nor a statistic. If there are several, the first is the most specific. `None` if there is none.
/// The log is that of `BPF_LOG_STATS`, without instructions.
fn verifier_reason(log: &str) -> Option<String> {
    const NOTES: [&str; 8] = [
        "Validating ",
        "func#",
        "Func#",
        "func '",
        // 6.1 writes it for every program with a typed argument.
        "reg type unsupported for arg#0 function",
        // `print_verification_stats` of the kernel's kernel/bpf/verifier.c.
        "verification time ",
        "stack depth ",
        "processed ",
    ];
    let is_reason =
        |line: &str| !line.is_empty() && !NOTES.iter().any(|start| line.starts_with(start));
    let mut lines = log.lines().map(str::trim);
    lines.find(|line| is_reason(line)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kernels_before_the_oldest_and_without_backports_are_too_old() {
        let old = "5.10.0-30-amd64 5.17.15 5.19 6.0.19 4.19.0-27-cloud-arm64 2.6.78-fc 5.10.0-elastic 5.10.el";
        for release in old.split(' ') {
            let expected = format!(
                "Linux {release} is too old for the eBPF programs: use Linux 6.1 or newer, or --backend strace"
            );
            let too_old = TooOld::check(release).expect_err(release);
            assert_eq!(too_old.to_string(), expected);
        }
        let tried = "6.1.0-41-cloud-amd64 6.1 6.1-rc1 6.18.44-fc-v669 7.0.0 10.2 \
                     5.14.0-503.11.1.el9_5.x86_64 4.18.0-553.el8_10.aarch64 5.14.0-362.8.1.el9_3.x86_64+rt \
                     6 five.ten . 5. 99999999999.1 -1.0 custom-5.10 v5.10";
        for release in tried.split(' ').chain([""]) {
            assert_eq!(TooOld::check(release), Ok(()), "{release:?}");
        }
    }

    /// Logs of kernels, and the line that is the reason.
    const LOGS: &[(&str, Option<usize>)] = &[
        // Linux 6.1.0-56-cloud-amd64.
        (STACK, Some(0)),
        // Linux 6.18.
        (
            "Validating file_behind() func#7...
access beyond the end of member flags (mend:48) in struct task_struct with off 44 size 8
verification time 53925 usec
",
            Some(1),
        ),
        // Linux 6.18: the first of two reasons is the more specific.
        (
            "invalid access to map value, value_size=8 off=8 size=8
R0 min value is outside of the allowed memory range
verification time 84 usec
",
            Some(0),
        ),
        // Linux 6.1, with two lines that it writes for every program with a typed argument.
        (
            "reg type unsupported for arg#0 function sys_exit#184
func 'sys_exit' arg0 has btf_id 158 type STRUCT 'pt_regs'
R3 invalid mem access 'scalar'
verification time 184767 usec
",
            Some(2),
        ),
        ("BPF program is too large. Processed 1000001 insn", Some(0)),
        ("invalid func unknown#9999", Some(0)),
        ("", None),
        ("\n", None),
        ("Validating file_behind() func#7...\n", None),
        ("stack depth 0\nprocessed 1 insns (limit 1000000)\n", None),
    ];

    const STACK: &str = "combined stack size of 4 calls is 544. Too large
verification time 339530 usec
stack depth 264+48+96+32+40+0+0+56+80+16+8+56+0+104+8
processed 15688 insns (limit 1000000) max_states_per_insn 6 total_states 806 peak_states 653 mark_read 26
";

    /// The figures with which Linux 7.3 ends the log of a program that it accepts.
    const ACCEPTED: &str = "subprog 0 (sys_enter) main insns_self 253 insns_total 253 stack 112\n";

    #[test]
    fn the_reason_is_the_first_line_that_is_neither_a_note_nor_a_statistic() {
        for &(log, line) in LOGS {
            let reason = line.and_then(|line| log.lines().nth(line));
            assert_eq!(verifier_reason(log).as_deref(), reason, "{log:?}");
        }
    }

    #[test]
    fn an_error_of_loading_is_explained_by_the_verifiers_log_and_its_number() {
        let not_permitted = EbpfUnavailable::NotPermitted.to_string();
        let stack = "the verifier of Linux RELEASE rejects the eBPF program sys_enter: combined stack size of 4 calls is 544. Too large; \
                     please report this, and use --backend strace or another kernel, Linux 6.1 or newer";
        for (errno, log, part) in [
            (libc::EACCES, STACK, stack),
            (libc::EINVAL, STACK, stack),
            (libc::E2BIG, STACK, stack),
            (libc::EFAULT, STACK, stack),
            // Without a log, the error is the reason.
            (libc::E2BIG, "", "sys_enter: Argument list too long"),
            // A lack of descriptors or memory is not a refusal by the verifier.
            (
                libc::EMFILE,
                ACCEPTED,
                "cannot load the eBPF program sys_enter: Too many open files",
            ),
            (
                libc::ENOMEM,
                ACCEPTED,
                "cannot load the eBPF program sys_enter: Cannot allocate memory",
            ),
            (libc::EPERM, "", &not_permitted),
            (libc::EPERM, STACK, &not_permitted),
            // SELinux refuses before the verifier runs.
            (libc::EACCES, "", &not_permitted),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            let message = load_refused("sys_enter", &error, log).to_string();
            let message = message.replace(&release(), "RELEASE");
            assert!(
                message.contains(part) && !message.contains('\n'),
                "{message}"
            );
        }
    }
}
