//! Two programs that do nothing: the least that tracing system calls can cost. Two more read the
//! clock, as whoever measures times must. `cargo xtask bench` compares zctrace with both pairs.
#![no_std]
#![no_main]

use aya_ebpf::{
    helpers::generated::bpf_ktime_get_ns, macros::btf_tracepoint, programs::BtfTracePointContext,
};

/// Does nothing at every entry.
#[btf_tracepoint(function = "sys_enter")]
fn sys_enter(_ctx: BtfTracePointContext) -> i32 {
    0
}

/// Does nothing at every exit.
#[btf_tracepoint(function = "sys_exit")]
fn sys_exit(_ctx: BtfTracePointContext) -> i32 {
    0
}

/// Reads the clock at every entry.
#[btf_tracepoint(function = "sys_enter")]
fn clock_at_enter(_ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() };
    0
}

/// Reads the clock at every exit.
#[btf_tracepoint(function = "sys_exit")]
fn clock_at_exit(_ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() };
    0
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The same licence as that of the other object.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
