//! Calls about processes and signals, and about messages between processes.

use super::specs;
use crate::syscalls::spec::{
    CallEffect::{CreatesTask, Exits},
    Spec,
};

pub(super) const CALLS: &[Spec] = specs! {
    "clone" [Process] no_file effect(CreatesTask);
    "clone3" [Process] no_file effect(CreatesTask);
    "exit" [Process] no_file effect(Exits);
    "exit_group" [Process] no_file effect(Exits);
    "fork" [Process] no_file effect(CreatesTask) replaced_by("clone");
    "ipc" [Ipc];
    "kill" [Process Signal] no_file;
    "mq_getsetattr" [Ipc];
    "mq_notify" [Ipc];
    "mq_open" [Ipc];
    "mq_timedreceive" [Ipc] fills_array(1, 2, 1);
    "mq_timedsend" [Ipc];
    "mq_unlink" [Ipc];
    "msgctl" [Ipc];
    "msgget" [Ipc];
    "msgrcv" [Ipc] fills_array(1, 2, 1);
    "msgsnd" [Ipc];
    "pause" [Signal] no_file replaced_by("ppoll");
    "pidfd_open" [Desc Process];
    "pidfd_send_signal" [Desc Process Signal];
    "rt_sigaction" [Signal] no_file fills(2, 32);
    "rt_sigpending" [Signal] no_file;
    "rt_sigprocmask" [Signal] no_file;
    "rt_sigqueueinfo" [Process Signal] no_file;
    "rt_sigreturn" [Signal] no_file;
    "rt_sigsuspend" [Signal] no_file;
    "rt_sigtimedwait" [Signal] no_file fills(1, 128);
    "rt_sigtimedwait_time64" [Signal];
    "rt_tgsigqueueinfo" [Process Signal] no_file;
    "semctl" [Ipc];
    "semget" [Ipc];
    "semop" [Ipc];
    "semtimedop" [Ipc];
    "semtimedop_time64" [Ipc];
    "shmctl" [Ipc];
    "shmget" [Ipc];
    "sigaction" [Signal];
    "sigaltstack" [Signal] no_file fills(1, 24);
    "signal" [Signal];
    "signalfd" [Desc Signal] replaced_by("signalfd4");
    "signalfd4" [Desc Signal];
    "sigpending" [Signal];
    "sigprocmask" [Signal];
    "sigreturn" [Signal];
    "sigsuspend" [Signal];
    "tgkill" [Process Signal] no_file;
    "tkill" [Process Signal] no_file;
    "vfork" [Process] no_file effect(CreatesTask) replaced_by("clone");
    "wait4" [Process] no_file fills(3, 144);
    "waitid" [Process] no_file fills(2, 128);
    "waitpid" [Process] replaced_by("wait4");
};
