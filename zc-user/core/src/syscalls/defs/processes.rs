//! Calls about processes and signals, and about messages between processes.

use super::specs;
use crate::syscalls::spec::{
    CallEffect::{CreatesTask, Exits, RestoresRegisters},
    Spec,
    TimeLimit::Fails,
    Touching, array, structure,
};

pub(super) const CALLS: &[Spec] = specs! {
    "clone" [Process] is_without_file: true, effect: CreatesTask, touches: Some(Touching::Shared);
    "clone3" [Process] is_without_file: true, effect: CreatesTask, touches: Some(Touching::Shared);
    "exit" [Process] is_without_file: true, effect: Exits;
    "exit_group" [Process] is_without_file: true, effect: Exits;
    "fork" [Process] is_without_file: true, effect: CreatesTask, replacement: Some("clone");
    "ipc" [Ipc];
    "kill" [Process Signal] is_without_file: true;
    "mq_getsetattr" [Ipc];
    "mq_notify" [Ipc];
    "mq_open" [Ipc] touches: Some(Touching::OF_QUEUES);
    "mq_timedreceive" [Ipc] time_limit: Fails, filled: array(1, 2, 1);
    "mq_timedsend" [Ipc] time_limit: Fails;
    "mq_unlink" [Ipc] touches: Some(Touching::OF_QUEUES);
    "msgctl" [Ipc];
    "msgget" [Ipc];
    "msgrcv" [Ipc] filled: array(1, 2, 1);
    "msgsnd" [Ipc];
    "pause" [Signal] is_without_file: true, replacement: Some("ppoll"), waits: true;
    "pidfd_open" [Desc Process];
    "pidfd_send_signal" [Desc Process Signal];
    "rt_sigaction" [Signal] is_without_file: true, filled: structure(2, 32);
    "rt_sigpending" [Signal] is_without_file: true;
    "rt_sigprocmask" [Signal] is_without_file: true;
    "rt_sigqueueinfo" [Process Signal] is_without_file: true;
    "rt_sigreturn" [Signal] is_without_file: true, effect: RestoresRegisters;
    "rt_sigsuspend" [Signal] is_without_file: true, waits: true;
    "rt_sigtimedwait" [Signal] is_without_file: true, filled: structure(1, 128), waits: true;
    "rt_sigtimedwait_time64" [Signal];
    "rt_tgsigqueueinfo" [Process Signal] is_without_file: true;
    "semctl" [Ipc];
    "semget" [Ipc];
    "semop" [Ipc];
    "semtimedop" [Ipc];
    "semtimedop_time64" [Ipc];
    "shmctl" [Ipc];
    "shmget" [Ipc];
    "sigaction" [Signal];
    "sigaltstack" [Signal] is_without_file: true, filled: structure(1, 24);
    "signal" [Signal];
    "signalfd" [Desc Signal] replacement: Some("signalfd4");
    "signalfd4" [Desc Signal];
    "sigpending" [Signal];
    "sigprocmask" [Signal];
    "sigreturn" [Signal] effect: RestoresRegisters;
    "sigsuspend" [Signal] waits: true;
    "tgkill" [Process Signal] is_without_file: true;
    "tkill" [Process Signal] is_without_file: true;
    "vfork" [Process] is_without_file: true, effect: CreatesTask, replacement: Some("clone"), waits: true;
    "wait4" [Process] is_without_file: true, filled: structure(3, 144), waits: true;
    "waitid" [Process] is_without_file: true, filled: structure(2, 128), waits: true;
    "waitpid" [Process] replacement: Some("wait4"), waits: true;
};
