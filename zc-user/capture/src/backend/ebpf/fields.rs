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
    let mut fields = KernelFields {
        task_state: need("task_struct.__state", task("__state").or_else(|| task("state")))?,
        task_group_leader: need("task_struct.group_leader", task("group_leader"))?,
        task_thread_pid: need("task_struct.thread_pid", task("thread_pid"))?,
        pid_level: need("pid.level", btf.offset_of("pid", &["level"]))?,
        pid_numbers: need("pid.numbers", btf.offset_of("pid", &["numbers"]))?,
        upid_size: need("upid", btf.size_of("upid"))?,
        task_signals: want(
            "which calls their thread did not survive is",
            "task_struct.pending.signal",
            btf.offset_of("task_struct", &["pending", "signal"]),
        ),
        task_flags: want("which threads are the kernel's own is", "task_struct.flags", task("flags")),
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
    if let Some(note) = fill_entry(btf, &mut fields)? {
        notes.push(note);
    }
    optional::fill(btf, &mut fields, &mut notes);
    Ok((fields, notes))
}

/// Fills in what tells the number, the table and the first argument of a call: on each architecture something else. On arm64 the table
/// follows from the caller's `pstate`, and on x86 the rest from its registers: both are ABI and have no offset to be found.
fn fill_entry(btf: &Btf<'_>, fields: &mut KernelFields) -> Result<Option<String>, MissingField> {
    if cfg!(target_arch = "aarch64") {
        let register = |name, field| btf.offset_of("pt_regs", &[field]).ok_or(MissingField(name));
        fields.registers_number = register("pt_regs.syscallno", "syscallno")?;
        fields.registers_first_argument = register("pt_regs.orig_x0", "orig_x0")?;
        return Ok(None);
    }
    let status = btf.offset_of("task_struct", &["thread_info", "status"]);
    fields.task_compat_status = status.unwrap_or(ABSENT);
    Ok(status.is_none().then(|| unknown("whether a call is a 32-bit one is", "task_struct.thread_info.status")))
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
