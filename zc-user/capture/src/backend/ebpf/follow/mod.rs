//! Following: what is known so far of the tasks of a trace, and the trace that it makes.
//!
//! Everything that the kernel side says goes to one [`store`]: [`task_table`] learns of tasks, and
//! each open [`view`] gets the rows, by task ([`counts`]). When all tasks of a process have ended,
//! it is put together ([`process_sums`]) and set aside in its view. What has no rows, and what
//! tasks have used that go on, is read from the kernel at a moment ([`reading`]: [`totals`],
//! [`live_tasks`]). [`finish`] makes the trace of both. If the trace is divided, [`span`] says what
//! the part is that goes on.

pub mod counts;
pub mod finish;
mod held_descriptors;
pub mod live_tasks;
pub mod process_sums;
pub mod reading;
mod slow_calls;
pub mod span;
pub mod store;
pub mod task_table;
pub mod totals;
pub mod view;
