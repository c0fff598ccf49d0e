//! What the tests are written with: `zctrace().by_thread().run(&workload("known")).thread("zc-known").assert_equal(...)`.

mod conversation;
mod group;
mod launch;
mod refusal;
mod rows;
mod run;
mod special_files;
mod strace;
mod terminal;
mod wait;
mod zctrace;

pub use conversation::Conversation;
pub use group::Group;
pub use launch::{Finished, Launch, Program, c, program, shell, untraced, workload};
pub use rows::Rows;
pub use run::Run;
pub use special_files::{fifo, full, null};
pub use strace::{counted_by_strace, moved_as_strace_logs};
pub use terminal::Terminal;
pub use wait::{child_of, state_of, wait_until};
pub use zctrace::{ReportFile, Zctrace, binary, zctrace};
