//! Finding the kernel's own fields in its BTF, for the programs.

mod optional;

use thiserror::Error;
use zc_ebpf::{ABSENT, KernelFields};

use super::btf::Btf;

/// A kernel without a field that following tasks cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this kernel has no field {0}, which zctrace needs to follow processes")]
pub struct MissingField(pub &'static str);

/// The offsets on this kernel, and a note for each feature that it lacks the fields for.
pub fn find(btf: &Btf<'_>) -> Result<(KernelFields, Vec<String>), MissingField> {
    let task = |field: &'static str| btf.offset_of("task_struct", &[field]);
    let need = |name: &'static str, offset: Option<u32>| offset.ok_or(MissingField(name));
    let mut notes = Vec::new();
    let mut want = |feature: &str, name: &str, offset: Option<u32>| {
        offset.unwrap_or_else(|| {
            notes.push(unknown(feature, name));
            ABSENT
        })
    };
    let compat_status = btf.offset_of("task_struct", &["thread_info", "status"]);
    let mut fields = KernelFields {
        task_state: need("task_struct.__state", task("__state").or_else(|| task("state")))?,
        task_group_leader: need("task_struct.group_leader", task("group_leader"))?,
        task_thread_pid: need("task_struct.thread_pid", task("thread_pid"))?,
        pid_level: need("pid.level", btf.offset_of("pid", &["level"]))?,
        pid_numbers: need("pid.numbers", btf.offset_of("pid", &["numbers"]))?,
        upid_size: need("upid", btf.size_of("upid"))?,
        task_compat_status: want("whether a call is a 32-bit one is", "task_struct.thread_info.status", compat_status),
        task_signals: want(
            "which calls their thread did not survive is",
            "task_struct.pending.signal",
            btf.offset_of("task_struct", &["pending", "signal"]),
        ),
        task_comm: want("names of processes are", "task_struct.comm", task("comm")),
        task_utime: want(CPU_TIME, "task_struct.utime", task("utime")),
        task_stime: want(CPU_TIME, "task_struct.stime", task("stime")),
        task_runtime: want(
            CPU_TIME,
            "task_struct.se.sum_exec_runtime",
            btf.offset_of("task_struct", &["se", "sum_exec_runtime"]),
        ),
        task_nvcsw: want(COUNTERS, "task_struct.nvcsw", task("nvcsw")),
        task_nivcsw: want(COUNTERS, "task_struct.nivcsw", task("nivcsw")),
        task_min_flt: want(COUNTERS, "task_struct.min_flt", task("min_flt")),
        task_maj_flt: want(COUNTERS, "task_struct.maj_flt", task("maj_flt")),
        task_mm: want(COMMAND_LINES, "task_struct.mm", task("mm")),
        mm_arg_start: want(COMMAND_LINES, "mm_struct.arg_start", btf.offset_of("mm_struct", &["arg_start"])),
        mm_arg_end: want(COMMAND_LINES, "mm_struct.arg_end", btf.offset_of("mm_struct", &["arg_end"])),
        binprm_filename: want("paths of programs are", "linux_binprm.filename", btf.offset_of("linux_binprm", &["filename"])),
        ..KernelFields::NONE
    };
    optional::fill(btf, &mut fields, &mut notes);
    Ok((fields, notes))
}

/// The note on a feature that this kernel lacks the field for.
fn unknown(feature: &str, field: &str) -> String {
    format!("{feature} unknown: this kernel has no field {field}")
}

const CPU_TIME: &str = "CPU time is";
const COUNTERS: &str = "context switches and page faults are";
const COMMAND_LINES: &str = "command lines are";

/// Whether this kernel has all fields that the counters of a task come from; if not, they are unknown.
pub fn has_counters(fields: &KernelFields) -> bool {
    [
        fields.task_utime,
        fields.task_stime,
        fields.task_runtime,
        fields.task_nvcsw,
        fields.task_nivcsw,
        fields.task_min_flt,
        fields.task_maj_flt,
    ]
    .iter()
    .all(|&offset| offset != ABSENT)
}
