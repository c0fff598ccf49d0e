//! What the tests are written with: `zctrace().by_thread().run(&workload("known")).thread("zc-known").assert_equal(...)`.

mod conservation;
mod conversation;
mod files;
mod group;
mod launch;
mod refusal;
mod rows;
mod run;
mod strace;
mod terminal;
mod transfers;
mod wait;
mod zctrace;

pub use conversation::Conversation;
pub use files::{copy_program, fifo, fifo_at, full, null};
pub use group::Group;
pub use launch::{Finished, Launch, Program, c, program, shell, untraced, workload};
pub use rows::Rows;
pub use run::Run;
pub use strace::{counted_by_strace, moved_as_strace_logs};
pub use terminal::Terminal;
pub use transfers::Transfers;
pub use wait::{child_of, is_alive, patience, state_of, wait_until};
pub use zctrace::{ReportFile, Zctrace, binary, each_backend, zctrace};
