//! Following: what is known so far of the tasks of a trace, and the trace that it makes.
//!
//! [`task_table`] learns of tasks from their messages, [`counts`] has the rows of each. Both are in
//! [`seen`], which makes the trace. A process all of whose tasks have ended is put together
//! ([`process_sums`]) and set aside ([`ended`]); of those that go on, [`live_tasks`] reads the counters.
//! If the trace is divided, [`span`] has what belongs to the part that goes on.

pub mod counts;
pub mod ended;
pub mod live_tasks;
pub mod process_sums;
pub mod seen;
pub mod span;
pub mod task_table;
