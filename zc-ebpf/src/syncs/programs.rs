//! The programs, at the entry and the exit of each call.

use super::calls;
use crate::{hooks::at_calls::at_calls, tasks};

at_calls!("sys_enter", sync_enter, sync_enter_event(CALL_NUMBER), if tasks::may_follow_caller, calls::entered);
at_calls!("sys_exit", sync_exit, sync_exit_event(CALL_RESULT), if tasks::may_follow_caller, calls::returned);
