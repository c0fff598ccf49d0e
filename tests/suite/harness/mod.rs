//! The harness of the tests:
//! `zctrace().by_thread().run(&workload("known")).thread("zc-known").assert_equal(...)`.

mod files;
mod launch;
mod observe;
mod report;
mod running;
mod zctrace;

pub use files::{TestDir, copy_program, fifo};
pub use launch::{
    Finished, Program, c, program, python, shell, untraced, waiting, words, workload,
};
pub use observe::{
    bpf_maps_of, bpf_programs_of, child_of, counted_by_strace, exists, io_of, patience,
    repetitions, state_of, wait_until,
};
pub use report::{ReportRows, Run, Transfers, last_programs};
pub use running::{Conversation, ProcessGroup, Terminal};
pub use zctrace::{BACKENDS, ReportFile, Zctrace, binary, each_backend, zctrace};
