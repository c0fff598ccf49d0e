//! Calls that are in no class. Many of them use no file at all.

use super::specs;
use crate::syscalls::spec::{
    CallEffect::{FillsMemory, ReturnsOwnTid},
    FilledMemory::Any,
    Spec,
    TimeLimit::Fails,
    Touching, array, structure,
};

pub(super) const CALLS: &[Spec] = specs! {
    "adjtimex" filled: structure(0, 208);
    "alarm" is_without_file: true, replacement: Some("setitimer");
    "arch_prctl" is_without_file: true;
    "capget" filled: structure(1, 24);
    "clock_adjtime" filled: structure(1, 208);
    "clock_gettime" is_without_file: true, filled: structure(1, 16);
    "clock_nanosleep" is_without_file: true, waits: true;
    "futex" is_without_file: true, time_limit: Fails, waits: true;
    "futex_time64" time_limit: Fails;
    "futex_wait" time_limit: Fails, waits: true;
    "futex_waitv" time_limit: Fails, waits: true;
    "getegid" is_without_file: true;
    "geteuid" is_without_file: true;
    "getgid" is_without_file: true;
    "getgroups" filled: array(1, 0, 4);
    "getitimer" filled: structure(1, 32);
    "getpgid" is_without_file: true;
    "getpgrp" is_without_file: true, replacement: Some("getpgid");
    "getpid" is_without_file: true;
    "getppid" is_without_file: true;
    "getrandom" is_without_file: true, filled: array(0, 1, 1), effect: FillsMemory;
    "getrlimit" is_without_file: true, filled: structure(1, 16);
    "getrusage" is_without_file: true, filled: structure(1, 144);
    "getsid" is_without_file: true;
    "gettid" is_without_file: true, effect: ReturnsOwnTid;
    "gettimeofday" is_without_file: true, filled: structure(0, 16);
    "getuid" is_without_file: true;
    "io_getevents" filled: Any, waits: true;
    "io_pgetevents" filled: Any, waits: true;
    "nanosleep" is_without_file: true, waits: true;
    "prctl" filled: structure(1, 16);
    "prlimit64" is_without_file: true, filled: structure(3, 16);
    "restart_syscall" is_without_file: true;
    "rseq" is_without_file: true;
    "sched_getaffinity" is_without_file: true, filled: array(2, 1, 1);
    "sched_getattr" filled: array(1, 2, 1);
    "sched_setaffinity" is_without_file: true;
    "sched_yield" is_without_file: true;
    "set_robust_list" is_without_file: true;
    "set_tid_address" is_without_file: true, effect: ReturnsOwnTid;
    "setitimer" is_without_file: true, filled: structure(2, 32);
    "setpgid" is_without_file: true;
    "setsid" is_without_file: true;
    "sysinfo" is_without_file: true, filled: structure(0, 112);
    "syslog" filled: array(1, 2, 1);
    "time" is_without_file: true, replacement: Some("clock_gettime");
    "times" filled: structure(0, 32);
    "umask" is_without_file: true;
    "uname" is_without_file: true, filled: structure(0, 390);
    "unshare" touches: Some(Touching::Shared);
};
