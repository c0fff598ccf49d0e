//! How far a log has come, for whom reads it while it is written.

use super::{
    super::{
        rows::How,
        tasks::{FirstCall, Life, Task},
    },
    Collector,
};

impl Collector<'_> {
    /// Whether the trace is over: what comes now is not in it.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Ends the trace here, with tasks alive.
    pub fn end_now(&mut self) {
        self.is_over = true;
    }

    /// Thread ids of tasks that were made and have no line so far.
    pub fn unseen(&self) -> Vec<u32> {
        self.tasks.unseen().collect()
    }

    /// A task is followed, although it has no line when the trace ends.
    pub fn is_followed(&mut self, tid: u32) {
        self.followed.insert(tid);
    }

    /// Whether the command has ended.
    pub fn has_root_ended(&self) -> bool {
        self.root().is_some_and(|root| matches!(root.life, Life::Ended(_)))
    }

    /// Thread id of the command, once it was seen.
    pub fn root_tid(&self) -> Option<u32> {
        self.root()?.tid
    }

    /// Thread ids of all tasks that are alive, as far as the log tells.
    pub fn living(&self) -> impl Iterator<Item = u32> + '_ {
        self.tasks.living()
    }

    /// Why the command's exec failed, if the log begins with that.
    pub fn launch_errno(&self) -> Option<u32> {
        match &self.root()?.first_call {
            FirstCall::Exec(launch) => match launch.ended.how {
                How::Error(errno) => errno,
                _ => None,
            },
            _ => None,
        }
    }

    fn root(&self) -> Option<&Task> {
        self.tasks.first()
    }
}
