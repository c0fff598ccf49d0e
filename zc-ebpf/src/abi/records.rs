//! The fields of perf event records that programs read, and the offsets at which they expect them.

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordField {
    /// The kernel's struct.
    pub structure: &'static str,
    /// The field in it.
    pub name: &'static str,
    /// Where it begins, in bytes. It is not looked up, because the verifier wants an offset that is
    /// a constant to the compiler.
    pub offset: usize,
}

macro_rules! record_fields {
    ($($(#[$about:meta])+ $constant:ident = $structure:literal.$name:literal at $offset:literal;)+) => {
        $($(#[$about])+ pub const $constant: RecordField = RecordField { structure: $structure, name: $name, offset: $offset };)+

        /// All fields. User space compares them with the kernel's BTF before it uses the programs.
        pub const ALL: &[RecordField] = &[$($constant),+];
    };
}

record_fields! {
    /// The number of the call that begins.
    CALL_NUMBER = "trace_event_raw_sys_enter"."id" at 8;
    /// The result of the call that ends.
    CALL_RESULT = "trace_event_raw_sys_exit"."ret" at 16;
    /// Where in the record the path of the executed program begins: the lower 16 bits of a `u32`.
    EXEC_FILENAME = "trace_event_raw_sched_process_exec"."__data_loc_filename" at 8;
    /// The ring that was created.
    CREATED_RING = "trace_event_raw_io_uring_create"."ctx" at 16;
    /// The flags that it was created with.
    CREATED_FLAGS = "trace_event_raw_io_uring_create"."flags" at 32;
    /// The request that was submitted.
    SUBMITTED_REQUEST = "trace_event_raw_io_uring_submit_req"."req" at 16;
    /// The ring of the request that completes.
    COMPLETED_RING = "trace_event_raw_io_uring_complete"."ctx" at 8;
    /// The request that completes.
    COMPLETED_REQUEST = "trace_event_raw_io_uring_complete"."req" at 16;
    /// The ring whose completion queue is full.
    OVERFLOWED_RING = "trace_event_raw_io_uring_cqe_overflow"."ctx" at 8;
}
