//! The programs at the entry and the exit of each call: each as a typed tracepoint, and as the perf
//! event that replaces it where the kernel may preempt that.

/// Two programs that do the same at calls. The typed one, at `sys_enter(struct pt_regs *regs, long id)`
/// or `sys_exit(struct pt_regs *regs, long ret)`; and the event's, whose record has the second argument
/// in `$field` of [`records`](zc_ebpf::records).
macro_rules! at_calls {
    ($tracepoint:tt, $typed:ident, $event:ident($field:ident), if $may:path, $handle:path) => {
        #[aya_ebpf::macros::btf_tracepoint(function = $tracepoint)]
        fn $typed(ctx: aya_ebpf::programs::BtfTracePointContext) -> i32 {
            let registers = $crate::kernel::registers::Registers::of_tracepoint(&ctx);
            if $may(registers) {
                let current = $crate::kernel::fields::TypedPtr::current_task();
                $handle(registers, ctx.arg(1), current);
            }
            0
        }

        #[aya_ebpf::macros::tracepoint]
        fn $event(ctx: aya_ebpf::programs::TracePointContext) -> u32 {
            let registers = $crate::kernel::registers::Registers::of_current();
            if $may(registers) {
                let value = $crate::hooks::not_preempted::read::<
                    i64,
                    { zc_ebpf::records::$field.offset },
                >(&ctx);
                $handle(
                    registers,
                    value,
                    $crate::kernel::fields::TypedPtr::current_task(),
                );
            }
            0
        }
    };
}
pub(crate) use at_calls;
