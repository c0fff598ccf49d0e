//! What the programs on perf's events read of their records, and where they expect it.

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordField {
    /// The kernel's struct.
    pub structure: &'static str,
    /// The field in it.
    pub name: &'static str,
    /// Where it begins, in bytes. The verifier wants such a load at an offset that the compiler knows, so it is not looked up.
    pub offset: usize,
}

macro_rules! record_fields {
    ($($(#[$about:meta])+ $constant:ident = $structure:literal.$name:literal at $offset:literal;)+) => {
        $($(#[$about])+ pub const $constant: RecordField = RecordField { structure: $structure, name: $name, offset: $offset };)+

        /// All of them: user space compares them with the kernel's BTF before it uses the programs.
        pub const ALL: &[RecordField] = &[$($constant),+];
    };
}

record_fields! {
    /// The number of a call that begins.
    CALL_NUMBER = "trace_event_raw_sys_enter"."id" at 8;
    /// The result of a call that ends.
    CALL_RESULT = "trace_event_raw_sys_exit"."ret" at 16;
    /// Where the path of an executed program begins in the record: the lower 16 bits of a `u32`.
    EXEC_FILENAME = "trace_event_raw_sched_process_exec"."__data_loc_filename" at 8;
    /// The ring that was made.
    CREATED_RING = "trace_event_raw_io_uring_create"."ctx" at 16;
    /// How it was made.
    CREATED_FLAGS = "trace_event_raw_io_uring_create"."flags" at 32;
    /// The request that was submitted.
    SUBMITTED_REQUEST = "trace_event_raw_io_uring_submit_req"."req" at 16;
    /// The ring of a request that is completed.
    COMPLETED_RING = "trace_event_raw_io_uring_complete"."ctx" at 8;
    /// That request.
    COMPLETED_REQUEST = "trace_event_raw_io_uring_complete"."req" at 16;
    /// The ring whose queue has no room.
    OVERFLOWED_RING = "trace_event_raw_io_uring_cqe_overflow"."ctx" at 8;
}
