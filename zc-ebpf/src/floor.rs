//! Two programs that do nothing: the least that tracing system calls can cost. `cargo xtask bench` compares zctrace with them.
#![no_std]
#![no_main]

use aya_ebpf::{macros::btf_tracepoint, programs::BtfTracePointContext};

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

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The same licence as that of the other object.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
