//! Reading the facts: the only I/O of the doctor. Nothing here waits without a limit.

mod limited;
mod trial;

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use nix::{sys::utsname::uname, unistd::geteuid};

use super::{
    facts::{Container, EbpfFacts, Facts, KernelTypes, Program, Reading, Setting, StraceFacts, System},
    parse,
};
use crate::{
    backend::ebpf::{btf::Btf, fields, kernel, object},
    launch::{Manner, find_program, reason},
    privileges,
};

/// How long a trial, or another program's answer, is waited for.
const LIMIT: Duration = Duration::from_secs(10);

/// Reads all facts. Loads the eBPF programs for a moment if it may.
pub fn probe() -> Facts {
    Facts { system: system(), strace: strace(), ebpf: ebpf() }
}

/// The machine, and what this process may do there.
pub(super) fn system() -> System {
    let name = uname();
    let status = text("/proc/self/status");
    let release = text("/etc/os-release").or_else(|_| text("/usr/lib/os-release"));
    let word = |word: &std::ffi::OsStr| word.to_string_lossy().into_owned();
    System {
        kernel: name.map(|name| word(name.release())).into(),
        arch: name.map(|name| word(name.machine())).into(),
        distribution: release.map(|text| parse::os_release(&text)).into(),
        executable: std::env::current_exe().map_err(|error| reason(&error)).into(),
        executable_mode: executable_mode().into(),
        elevated: privileges::is_elevated(),
        euid: geteuid().as_raw(),
        status: parse::status(status.as_deref().map_err(String::as_str)),
        unprivileged_bpf_disabled: setting("/proc/sys/kernel/unprivileged_bpf_disabled"),
        perf_event_paranoid: setting("/proc/sys/kernel/perf_event_paranoid"),
        yama_ptrace_scope: setting("/proc/sys/kernel/yama/ptrace_scope"),
        lockdown: optional("/sys/kernel/security/lockdown", parse::lockdown),
        container: container(),
    }
}

/// The permission bits of this program's file.
fn executable_mode() -> Result<u32, String> {
    fs::metadata("/proc/self/exe").map(|found| found.mode() & 0o7777).map_err(|error| reason(&error))
}

fn container() -> Container {
    let markers = ["/.dockerenv", "/run/.containerenv"].map(PathBuf::from);
    let is_first = |link: &str, first| {
        let found =
            fs::read_link(link).map_err(|error| reason(&error)).and_then(|found| parse::namespace(&found.to_string_lossy()));
        found.map(|inode| inode == first).into()
    };
    Container {
        markers: markers.into_iter().filter(|marker| marker.exists()).collect(),
        initial_pid_namespace: is_first("/proc/self/ns/pid", parse::FIRST_PID_NAMESPACE),
        initial_user_namespace: is_first("/proc/self/ns/user", parse::FIRST_USER_NAMESPACE),
    }
}

fn ebpf() -> EbpfFacts {
    let built = !object::OBJECT.is_empty();
    let types_path = kernel::named_file().unwrap_or_else(|| PathBuf::from(kernel::BTF_PATH));
    let ignored_types_path = kernel::ignored_file();
    let types: Reading<_> = kernel_types(&types_path).into();
    let is_complete = types.known().is_some_and(|types| types.missing_field.is_none() && types.missing_tracepoints.is_empty());
    EbpfFacts { built, trial: (built && is_complete).then(trial::ebpf), types, types_path, ignored_types_path }
}

fn kernel_types(path: &Path) -> Result<KernelTypes, String> {
    let data = kernel::read_file(path).map_err(|error| reason(&error))?;
    let btf = Btf::parse(&data).map_err(|error| error.to_string())?;
    let (missing_field, notes) = match fields::find(&btf) {
        Ok((_, notes)) => (None, notes),
        Err(missing) => (Some(missing.to_string()), Vec::new()),
    };
    let tracepoints = zc_ebpf::programs::ALL.iter().map(|(_, tracepoint)| *tracepoint);
    let missing_tracepoints = tracepoints.filter(|name| !btf.has_tracepoint(name)).map(str::to_owned).collect();
    Ok(KernelTypes { bytes: data.len() as u64, missing_field, notes, missing_tracepoints })
}

/// The program strace, and whether it may do what it is for.
pub(super) fn strace() -> StraceFacts {
    StraceFacts { program: strace_program(), ptrace: trial::ptrace(LIMIT) }
}

/// The program strace.
pub(super) fn strace_program() -> Reading<Option<Program>> {
    let program = match find_program(&["strace".into()], &Manner::default()) {
        Ok(path) => {
            let said = limited::output(Command::new(&path).arg("--version"), LIMIT);
            let version = said.map(|said| parse::strace_version(&said)).map_err(|error| reason(&error));
            Ok(Some(Program { version: version.into(), path }))
        }
        Err(error) if error.cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(reason(&error.cause)),
    };
    program.into()
}

/// A file's text, or why there is none.
fn text(path: &str) -> Result<String, String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| reason(&error))
}

fn setting(path: &str) -> Setting {
    optional(path, parse::setting)
}

/// What a file says that need not be there.
fn optional<T>(path: &str, parse: impl Fn(&str) -> Result<T, String>) -> Reading<Option<T>> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text).map(Some).into(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Reading::Known(None),
        Err(error) => Reading::unknown(reason(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_this_machine_is_it_is_probed() {
        let system = system();
        assert_eq!(system.kernel.known().map(String::as_str), text("/proc/sys/kernel/osrelease").as_deref().map(str::trim).ok());
        assert!(system.status.effective.known().is_some() && system.status.bounding.known().is_some());
        assert!(system.container.initial_pid_namespace.known().is_some());
    }

    #[test]
    fn what_need_not_be_there_is_not_missed() {
        assert_eq!(setting("/proc/sys/kernel/no-such-setting"), Reading::Known(None));
        assert!(matches!(setting("/proc/self"), Reading::Unknown { .. }));
    }

    #[test]
    fn type_information_that_never_ends_is_not_read() {
        assert_eq!(kernel_types(Path::new("/dev/zero")), Err("it is not a regular file".to_owned()));
        assert!(kernel_types(Path::new("/nonexistent")).is_err_and(|reason| reason.contains("No such file")));
        assert_eq!(kernel_types(Path::new("/proc/version")), Err("it is not BTF".to_owned()));
    }
}
