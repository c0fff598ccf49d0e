//! The program that brings a thread of this process into scope: loaded only for that, and attached to nothing.

use aya::programs::{RawTracePoint, RawTracePointRunOptions, TestRun as _};
use zc_ebpf::{Control, programs};

use super::{EbpfUnavailable, Loaded, program_refused, refused};

impl Loaded {
    /// Gets everything ready for a thread of this process to come into scope by [`step`](Self::step).
    pub fn await_thread(&mut self) -> Result<(), EbpfUnavailable> {
        let program: &mut RawTracePoint = self
            .ebpf
            .program_mut(programs::SCOPE)
            .ok_or_else(|| EbpfUnavailable::Refused(format!("the object has no program {}", programs::SCOPE)))?
            .try_into()
            .map_err(|error| program_refused(programs::SCOPE, &error))?;
        program.load().map_err(|error| program_refused(programs::SCOPE, &error))?;
        self.control.set(0, Control { max_files: self.max_files, ..Control::default() }, 0).map_err(|error| refused(&error))
    }

    /// Has the kernel side bring this thread into scope, or out of it, by one of [`scope`](zc_ebpf::scope)'s constants.
    pub fn step(&self, wanted: u64) -> Result<(), EbpfUnavailable> {
        let program: Option<Result<&RawTracePoint, _>> = self.ebpf.program(programs::SCOPE).map(TryInto::try_into);
        let Some(Ok(program)) = program else { return Err(EbpfUnavailable::Refused("a trace that is not ready".into())) };
        let mut options = RawTracePointRunOptions::new();
        options.args[0] = wanted;
        program.test_run(options).map(drop).map_err(|error| program_refused(programs::SCOPE, &error))
    }
}
