//! The programs for closures: the one that brings a thread of this process into scope, which is attached
//! to nothing, and those that see which threads it wakes. They are loaded only for closures.

use aya::programs::{RawTracePoint, RawTracePointRunOptions, TestRun as _};
use zc_ebpf::programs;

use crate::backend::ebpf::{
    attach::hooks::Hook,
    load::{
        object::Loaded,
        unavailable::{EbpfUnavailable, no_program, program_refused},
    },
};

impl Loaded {
    /// Prepares for a thread of this process to enter the scope by [`step`](Self::step).
    pub fn await_thread(&mut self) -> Result<(), EbpfUnavailable> {
        self.load_for_closures(programs::SCOPE)?;
        if self.links.watching_wakes.is_empty() {
            for hook in Hook::for_closures() {
                self.load_for_closures(hook.program)?;
                let link = self.attach_hook(hook)?;
                self.links.watching_wakes.push(link);
            }
        }
        self.set_control(self.at_start)
    }

    /// Loads a program if it is not loaded.
    fn load_for_closures(&mut self, name: &str) -> Result<(), EbpfUnavailable> {
        let program = self.ebpf.program_mut(name);
        let program = program.ok_or_else(|| no_program(name))?;
        if program.fd().is_ok() {
            return Ok(());
        }
        <&mut RawTracePoint>::try_from(program)
            .and_then(RawTracePoint::load)
            .map_err(|error| program_refused(name, &error))
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
