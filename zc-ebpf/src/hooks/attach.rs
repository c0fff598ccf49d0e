//! Follows tasks that already run: those that a walk over all tasks finds, and those that enter a
//! cgroup later.
//!
//! User space repeats the walk until one finds nothing more: a process may come before its parent.
//! Whatever a followed task creates is followed by [`follow`](super::follow) from then on.

use aya_ebpf::{bindings::BPF_F_NO_PREALLOC, macros::map, maps::HashMap};
use zc_ebpf::{
    ABSENT, Control, EVERY_CGROUP, Ended, EventHeader, Fault, KernelLoss, OtherCallSums, Task,
    ThreadGroup, event_kind, phase, repeat::repeat, state, zeroed,
};

use crate::{
    hooks::followed,
    kernel::entries::{Entries as _, EntryPtr, field},
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::{current_task, now_ns},
    maps::{CONTROL, EVENTS, count_loss, is_over, wakeup},
    origin::spaces,
    tasks,
};

#[map]
static TARGETS: HashMap<u32, u32> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

#[map]
static THREAD_GROUPS: HashMap<u64, ThreadGroup> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// `PF_IO_WORKER` and `PF_USER_WORKER` of the kernel's include/linux/sched.h: a thread that works
/// for a process and never leaves the kernel.
pub const IS_WORKER: u32 = 0x10 | 0x4000;

/// `PF_KTHREAD` of the kernel's include/linux/sched.h, or a worker: such a thread makes no calls.
const MAKES_NO_CALLS: u32 = 0x20_0000 | IS_WORKER;

/// Found tasks are copied from this one. It is not known what they shared or opened before.
static FOUND_TASK: Task = Task {
    phase: phase::ACTIVE,
    state: state::FOUND,
    has_ring: 1,
    shares_files: 1,
    shares_space: 1,
    ..zeroed()
};

/// A walk of the tracer, whose thread is the current task, has come to this task.
#[inline(always)]
pub fn come_to(task: KernelPtr) {
    let Some(control) = CONTROL.entry(0).filter(|_| !is_over()) else {
        return;
    };
    field!(control, pidns_level).store(fields::pidns_level(current_task()));
    follow_if_it_belongs(control, task, state::FOUND);
}

/// A task has entered a cgroup. Of a process with several threads that is the first one; the next walk
/// finds the others.
#[inline(always)]
pub fn entered(task: KernelPtr) {
    let control = CONTROL.entry(0);
    let Some(control) = control.filter(|&control| !is_over() && cgroup_of(control) != 0) else {
        return;
    };
    follow_if_it_belongs(control, task, state::FOUND);
}

/// A task that is not followed has created one, which may have been born into the cgroup.
#[inline(always)]
pub fn follow_if_in_cgroup(control: EntryPtr<Control>, child: KernelPtr) {
    if cgroup_of(control) != 0 {
        follow_if_it_belongs(control, child, state::NEW);
    }
}

/// See [`Control::cgroup`].
#[inline(always)]
fn cgroup_of(control: EntryPtr<Control>) -> u64 {
    field!(control, cgroup).load()
}

/// Whether a walk has found this new task already. It has not run yet, so it returns from no call that
/// was under way.
#[inline(always)]
pub fn was_found(child: KernelPtr) -> bool {
    let Some(child) = tasks::find(fields::as_number(child)) else {
        return false;
    };
    let state = field!(child, state);
    let was_found = state.load() == state::FOUND;
    if was_found {
        state.store(state::NEW);
    }
    was_found
}

/// Follows a task from now on if it belongs to the trace. One after the other, so that neither takes
/// stack while the other one runs.
#[inline(always)]
fn follow_if_it_belongs(control: EntryPtr<Control>, task: KernelPtr, state: u32) {
    if is_to_be_followed(control, task) {
        follow_found(control, task, state);
        end_if_dead(task);
    }
}

/// Whether the task is to be followed, and is not followed yet.
#[inline(always)]
fn is_to_be_followed(control: EntryPtr<Control>, task: KernelPtr) -> bool {
    let level = field!(control, pidns_level).load();
    let flags: u32 = fields::probe_or_zero(task, offset_of_field!(task_flags));
    // A task of an outer PID namespace has no id in that of the tracer.
    if flags & MAKES_NO_CALLS != 0
        || followed::is_dead(task)
        || fields::pidns_level(task) < level
        || tasks::find(fields::as_number(task)).is_some()
    {
        return false;
    }
    let (_, pid) = fields::ids(task, level);
    if pid == field!(control, tracer_pid).load() {
        return false;
    }
    let cgroup = cgroup_of(control);
    if cgroup != 0 {
        return cgroup == EVERY_CGROUP || is_in_cgroup(task, cgroup);
    }
    let parent: u64 = fields::probe_or_zero(task, offset_of_field!(task_real_parent));
    TARGETS.entry(pid).is_some() || tasks::find(parent).is_some()
}

/// Follows a task from now on, and tells user space. `state` is one of the constants in [`state`].
#[inline(never)]
fn follow_found(control: EntryPtr<Control>, task: KernelPtr, state: u32) {
    // Its place in the ring buffer is before that of the task's end.
    let Some(mut entry) = EVENTS.reserve::<Ended>(0) else {
        field!(control, found).fetch_add(1);
        return;
    };
    let address = fields::as_number(task);
    let serial = followed::new_serial(control);
    let group = group_of(task, serial);
    // SAFETY: room for an Ended in the ring buffer, which is made of numbers. All of it is written
    // before it is submitted.
    let event: &mut Ended = unsafe { &mut *entry.as_mut_ptr() };
    let level = field!(control, pidns_level).load();
    describe(event, task, level, serial, group.program);
    let (tid, pid) = (event.header.tid, event.header.pid);
    let is_inserted = tasks::insert_running(address, &FOUND_TASK, |new| {
        (new.serial, new.program) = (serial, group.program);
        (new.tid, new.pid) = (tid, pid);
        (new.space, new.state) = (group.space, state);
    });
    if !is_inserted {
        entry.discard(0);
        spaces::add_tasks(group.space, u64::MAX);
        if tasks::find(address).is_none() {
            count_loss(KernelLoss::UnfollowedTask);
        }
        return;
    }
    entry.submit(wakeup());
    field!(control, found).fetch_add(1);
}

/// If a task that was found has ended meanwhile, nobody else may have noticed that it is followed.
#[inline(never)]
fn end_if_dead(task: KernelPtr) {
    if followed::is_dead(task) {
        followed::ended(task);
    }
}

/// Fills in the event of a task that was found. Apart from [`follow_found`], so that it takes no stack
/// while that goes on.
#[inline(never)]
fn describe(event: &mut Ended, task: KernelPtr, level: u32, serial: u32, program: u32) {
    let (tid, pid) = fields::ids(task, level);
    let parent = fields::probe_pointer(task, offset_of_field!(task_real_parent));
    let (_, parent_pid) = fields::ids(parent, level);
    event.header = EventHeader {
        kind: event_kind::FOUND,
        serial,
        program,
        tid,
        pid,
        extra: parent_pid,
        time_ns: now_ns(),
        comm: fields::probe_or_zero(task, offset_of_field!(task_comm)),
    };
    (event.exited_ns, event.entered_ns) = (0, 0);
    (event.slot, event.reserved) = (0, 0);
    event.counters = fields::counters(task);
    event.other_calls = OtherCallSums::NONE;
    event.fault = Fault::default();
}

/// The program and the address space of a task: those of its process, if a thread of that is followed.
/// The address space has one more task then.
#[inline(always)]
fn group_of(task: KernelPtr, serial: u32) -> ThreadGroup {
    let leader: u64 = fields::probe_or_zero(task, offset_of_field!(task_group_leader));
    let of_leader = tasks::find(leader).map(|first| ThreadGroup {
        program: field!(first, program).load(),
        space: field!(first, space).load(),
    });
    if let Some(group) = of_leader.or_else(|| THREAD_GROUPS.entry(leader).map(EntryPtr::load)) {
        spaces::add_tasks(group.space, 1);
        return group;
    }
    let parent = fields::probe_pointer(task, offset_of_field!(task_real_parent));
    let group = ThreadGroup {
        program: serial,
        space: space_of(task, parent),
    };
    let _ = THREAD_GROUPS.insert(leader, group, 0);
    group
}

/// The address space of a process of which no thread is followed. A child may have that of its parent.
#[inline(always)]
fn space_of(task: KernelPtr, parent: KernelPtr) -> u32 {
    match tasks::find(parent as u64) {
        Some(creator) if followed::have_same(parent, task, offset_of_field!(task_mm)) => {
            let space = field!(creator, space).load();
            spaces::add_tasks(space, 1);
            space
        }
        _ => spaces::new_space(),
    }
}

/// Whether a task is in the cgroup of version 2 whose directory has this inode number, or below it.
#[inline(always)]
fn is_in_cgroup(task: KernelPtr, id: u64) -> bool {
    let set = fields::probe_pointer(task, offset_of_field!(task_cgroups));
    let cgroup = fields::probe_pointer(set, offset_of_field!(set_cgroup));
    let level: u32 = fields::probe_or_zero(cgroup, offset_of_field!(cgroup_level));
    let mut search = Search {
        cgroup: cgroup as u64,
        id,
        is_found: 0,
    };
    repeat(level.wrapping_add(1), compare_ancestor, &mut search);
    search.is_found != 0
}

/// The search for a cgroup among those that another one is in.
#[repr(C)]
struct Search {
    cgroup: u64,
    id: u64,
    is_found: u64,
}

/// One round: compares the cgroup at this level. Returns 1 to end the loop.
extern "C" fn compare_ancestor(level: u64, search: &mut Search) -> i64 {
    let first = offset_of_field!(cgroup_ancestors);
    if first == ABSENT {
        return 1;
    }
    let offset = first.wrapping_add(8 * level as u32);
    let ancestor = fields::probe_pointer(search.cgroup as KernelPtr, offset);
    let node = fields::probe_pointer(ancestor, offset_of_field!(cgroup_node));
    if fields::probe_or_zero::<u64>(node, offset_of_field!(node_id)) != search.id {
        return 0;
    }
    search.is_found = 1;
    1
}
