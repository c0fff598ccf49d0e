//! Sums up tasks of a recorded log that are over, so that memory does not grow with their number.
//!
//! Processes that have ended are over, and so are those in no call that have had no line for long:
//! many logs do not show ends. Totals stay exact. If such a process goes on after all, it counts as
//! another one, which a note says.

use std::mem;

use zctrace_core::report::Files;

use super::{Task, TaskId, Tasks};
use crate::{
    backend::{
        Listed,
        strace::{
            assemble::{exits_without_call, leader, processes},
            count::Counter,
        },
    },
    trace::{STRACE, Trace},
};

/// Summing begins with so many tasks.
const MAX_TASKS: usize = 32_768;
/// A task that has had no line for so many lines is over.
const IDLE_LINES: u64 = 16_384;

impl Counter {
    /// Sums up the processes that are over, if there are many tasks. In a log of its own for each
    /// thread, none is over before the last one is read.
    pub fn sum_up_if_many(&mut self) {
        let Listed::Busiest { most, files } = self.listed else {
            return;
        };
        let most = MAX_TASKS.max(most).max(self.log.tasks_kept * 2);
        if self.tasks.all().len() >= most && self.log.is_recorded() && self.log.is_ordered() {
            self.sum_up(files == Files::Listed);
            self.log.tasks_kept = self.tasks.all().len();
        }
    }

    fn sum_up(&mut self, tells_files_apart: bool) {
        let idle_before = self.lines.saturating_sub(IDLE_LINES);
        let stays = self.tasks.still_needed(idle_before);
        let orphans = |tasks: &[Task]| tasks.iter().filter(|task| task.creator.is_none()).count();
        let before = orphans(self.tasks.all());
        let over = self.tasks.take(&stays);
        self.log.summed_orphans += before - orphans(self.tasks.all());
        self.log.summed_alive += over.iter().filter(|task| task.is_alive()).count();
        self.log.summed_gaps += exits_without_call(&over);
        let begun = Trace {
            backend: STRACE,
            ..Trace::default()
        };
        for process in processes(over, true) {
            self.summed
                .add(process, &begun, self.files.all(), tells_files_apart);
        }
    }
}

impl Tasks {
    /// Which tasks are not over: those that are in a call, or had a line since `idle_before` and have
    /// not ended; all of their processes, the ancestors of these, and the first task.
    fn still_needed(&self, idle_before: u64) -> Vec<bool> {
        let all = &self.all;
        let leaders: Vec<TaskId> = (0..all.len()).map(|id| leader(all, id)).collect();
        let mut needed = vec![false; all.len()];
        let is_going_on = |task: &Task| {
            task.pending.is_some()
                || task.uncertain_call.is_some()
                || (task.is_alive() && task.last_line >= idle_before)
        };
        let going_on = (0..all.len()).filter(|&id| id == 0 || is_going_on(&all[id]));
        let awaited = self.unseen_children.values().map(|(creator, ..)| *creator);
        for id in going_on.chain(awaited).chain(self.creating) {
            let mut at = Some(leaders[id]);
            while let Some(id) = at.filter(|&id| !needed[id]) {
                needed[id] = true;
                at = all[id].creator.map(|(creator, _)| leaders[creator]);
            }
        }
        leaders.iter().map(|&leader| needed[leader]).collect()
    }

    /// Takes the tasks that do not stay.
    fn take(&mut self, stays: &[bool]) -> Vec<Task> {
        let (mut kept, mut over) = (Vec::new(), Vec::new());
        let mut places = Vec::with_capacity(stays.len());
        for (task, stays) in mem::take(&mut self.all).into_iter().zip(stays) {
            let list = if *stays { &mut kept } else { &mut over };
            places.push(list.len());
            list.push(task);
        }
        for (list, is_kept) in [(&mut kept, true), (&mut over, false)] {
            for task in list.iter_mut() {
                let creator = task.creator.filter(|(id, _)| stays[*id] == is_kept);
                task.creator = creator.map(|(id, kind)| (places[id], kind));
            }
        }
        self.all = kept;
        self.renumber(|id| stays[id].then_some(places[id]));
        over
    }

    /// Gives tasks other ids; `None`: the task is gone.
    fn renumber(&mut self, new_id: impl Fn(TaskId) -> Option<TaskId>) {
        self.by_tid.retain(|_, id| match new_id(*id) {
            Some(new) => {
                *id = new;
                true
            }
            None => false,
        });
        for (creator, ..) in self.unseen_children.values_mut() {
            *creator = new_id(*creator).unwrap_or(*creator);
        }
        self.last_nameless = self.last_nameless.and_then(&new_id);
        self.creating = self.creating.and_then(&new_id);
        self.alive = self.all.iter().filter(|task| task.is_alive()).count();
    }
}
