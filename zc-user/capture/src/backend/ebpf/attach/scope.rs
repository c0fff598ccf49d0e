//! The programs for closures: the one that brings a thread of this process into scope, which is attached
//! to nothing, and those that see which threads it wakes. They are loaded only for closures.

use aya::programs::{RawTracePoint, RawTracePointRunOptions, TestRun as _};
use zc_ebpf::programs;

use crate::backend::ebpf::{
    attach::{hooks::Hook, targets::load_if_needed},
    load::{
        object::Loaded,
        unavailable::{EbpfUnavailable, no_program, program_refused},
    },
};

impl Loaded {
    /// Prepares for a thread of this process to enter the scope by [`step`](Self::step).
    pub fn await_thread(&mut self) -> Result<(), EbpfUnavailable> {
        load_if_needed(&mut self.ebpf, programs::SCOPE)?;
        if self.links.watching_wakes.is_empty() {
            for hook in Hook::for_closures() {
                load_if_needed(&mut self.ebpf, hook.program)?;
                let link = self.attach_hook(hook)?;
                self.links.watching_wakes.push(link);
            }
        }
        self.set_control(self.at_start)
    }

    /// Has the kernel side bring this thread into or out of the scope, by a constant of
    /// [`scope`](zc_ebpf::scope).
    pub fn step(&self, wanted: u64) -> Result<(), EbpfUnavailable> {
        let program = self.ebpf.program(programs::SCOPE);
        let program = program.ok_or_else(|| no_program(programs::SCOPE))?;
        let mut options = RawTracePointRunOptions::new();
        options.args[0] = wanted;
        let run = <&RawTracePoint>::try_from(program).and_then(|program| program.test_run(options));
        run.map(drop)
            .map_err(|error| program_refused(programs::SCOPE, &error))
    }
}
