//! Calls that are in no class. Many of them use no file at all.

use super::specs;
use crate::syscalls::spec::{
    CallEffect::{FillsMemory, ReturnsOwnTid},
    Spec,
};

pub(super) const CALLS: &[Spec] = specs! {
    "adjtimex" fills(0, 208);
    "alarm" no_file replaced_by("setitimer");
    "arch_prctl" no_file;
    "capget" fills(1, 24);
    "clock_adjtime" fills(1, 208);
    "clock_gettime" no_file fills(1, 16);
    "clock_nanosleep" no_file;
    "futex" no_file;
    "getegid" no_file;
    "geteuid" no_file;
    "getgid" no_file;
    "getgroups" fills_array(1, 0, 4);
    "getitimer" fills(1, 32);
    "getpgid" no_file;
    "getpgrp" no_file replaced_by("getpgid");
    "getpid" no_file;
    "getppid" no_file;
    "getrandom" no_file fills_array(0, 1, 1) effect(FillsMemory);
    "getrlimit" no_file fills(1, 16);
    "getrusage" no_file fills(1, 144);
    "getsid" no_file;
    "gettid" no_file effect(ReturnsOwnTid);
    "gettimeofday" no_file fills(0, 16);
    "getuid" no_file;
    "io_getevents" fills_any;
    "io_pgetevents" fills_any;
    "nanosleep" no_file;
    "prctl" fills(1, 16);
    "prlimit64" no_file fills(3, 16);
    "restart_syscall" no_file;
    "rseq" no_file;
    "sched_getaffinity" no_file fills_array(2, 1, 1);
    "sched_getattr" fills_array(1, 2, 1);
    "sched_setaffinity" no_file;
    "sched_yield" no_file;
    "set_robust_list" no_file;
    "set_tid_address" no_file effect(ReturnsOwnTid);
    "setitimer" no_file fills(2, 32);
    "setpgid" no_file;
    "setsid" no_file;
    "sysinfo" no_file fills(0, 112);
    "syslog" fills_array(1, 2, 1);
    "time" no_file replaced_by("clock_gettime");
    "times" fills(0, 32);
    "umask" no_file;
    "uname" no_file fills(0, 390);
};
