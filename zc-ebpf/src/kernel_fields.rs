//! Where the fields of the kernel's own structs stand: Rust cannot emit relocations for that, so user space looks them up.

/// Offsets in bytes of the kernel's own fields, found in the kernel's BTF by user space; [`ABSENT`] where a kernel has no such field.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFields {
    /// `task_struct.__state` (`state` before 5.14).
    pub task_state: u32,
    /// `task_struct.group_leader`.
    pub task_group_leader: u32,
    /// `task_struct.thread_pid`.
    pub task_thread_pid: u32,
    /// `pid.level`.
    pub pid_level: u32,
    /// `pid.numbers`, an array of `upid`.
    pub pid_numbers: u32,
    /// Size of `upid`, whose first field is the number.
    pub upid_size: u32,
    /// `task_struct.thread_info.status`, whose bit 1 (`TS_COMPAT`) marks a 32-bit call on x86.
    pub task_compat_status: u32,
    /// `task_struct.comm`.
    pub task_comm: u32,
    /// `task_struct.utime`.
    pub task_utime: u32,
    /// `task_struct.stime`.
    pub task_stime: u32,
    /// `task_struct.se.sum_exec_runtime`.
    pub task_runtime: u32,
    /// `task_struct.nvcsw`.
    pub task_nvcsw: u32,
    /// `task_struct.nivcsw`.
    pub task_nivcsw: u32,
    /// `task_struct.min_flt`.
    pub task_min_flt: u32,
    /// `task_struct.maj_flt`.
    pub task_maj_flt: u32,
    /// `task_struct.mm`.
    pub task_mm: u32,
    /// `mm_struct.arg_start`.
    pub mm_arg_start: u32,
    /// `mm_struct.arg_end`.
    pub mm_arg_end: u32,
    /// `linux_binprm.filename`.
    pub binprm_filename: u32,
}

/// In [`KernelFields`]: this kernel has no such field.
pub const ABSENT: u32 = u32::MAX;

impl KernelFields {
    /// No field is known.
    pub const NONE: Self = Self {
        task_state: ABSENT,
        task_group_leader: ABSENT,
        task_thread_pid: ABSENT,
        pid_level: ABSENT,
        pid_numbers: ABSENT,
        upid_size: ABSENT,
        task_compat_status: ABSENT,
        task_comm: ABSENT,
        task_utime: ABSENT,
        task_stime: ABSENT,
        task_runtime: ABSENT,
        task_nvcsw: ABSENT,
        task_nivcsw: ABSENT,
        task_min_flt: ABSENT,
        task_maj_flt: ABSENT,
        task_mm: ABSENT,
        mm_arg_start: ABSENT,
        mm_arg_end: ABSENT,
        binprm_filename: ABSENT,
    };
}
