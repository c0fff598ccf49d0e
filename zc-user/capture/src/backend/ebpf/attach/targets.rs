//! [`Attaching`]: what finds tasks that already run, the program of the [walk](super::walk) and the
//! one that sees who enters a cgroup. They are loaded only to attach.

use aya::{
    Btf, Ebpf,
    maps::{HashMap, MapData},
    programs::{Iter, RawTracePoint},
};
use zc_ebpf::{ABSENT, KernelFields, ThreadGroup, maps, programs};

use crate::backend::ebpf::load::{
    loader::take_map,
    unavailable::{EbpfUnavailable, no_program, program_refused},
};

/// The maps by which the programs know whom to follow.
pub struct Attaching {
    pub targets: HashMap<MapData, u32, u32>,
    pub groups: HashMap<MapData, u64, ThreadGroup>,
    /// Whether the programs can tell in which cgroup a task is.
    pub sees_cgroups: bool,
}

impl Attaching {
    /// Loads the programs for a kernel with these fields. `types` has the type of the iterator over
    /// tasks.
    pub fn load(
        ebpf: &mut Ebpf,
        types: &Btf,
        fields: &KernelFields,
    ) -> Result<Self, EbpfUnavailable> {
        let walk = ebpf.program_mut(programs::WALK);
        let walk = <&mut Iter>::try_from(walk.ok_or_else(|| no_program(programs::WALK))?);
        walk.and_then(|walk| walk.load("task", types))
            .map_err(|error| program_refused(programs::WALK, &error))?;
        load_if_needed(ebpf, programs::CGROUP.name)?;
        Ok(Self {
            targets: take_map(ebpf, maps::TARGETS)?,
            groups: take_map(ebpf, maps::THREAD_GROUPS)?,
            sees_cgroups: fields.cgroup_ancestors != ABSENT,
        })
    }
}

/// Loads a program of a tracepoint if it is not loaded.
pub fn load_if_needed(ebpf: &mut Ebpf, name: &str) -> Result<(), EbpfUnavailable> {
    let program = ebpf.program_mut(name).ok_or_else(|| no_program(name))?;
    if program.fd().is_ok() {
        return Ok(());
    }
    <&mut RawTracePoint>::try_from(program)
        .and_then(RawTracePoint::load)
        .map_err(|error| program_refused(name, &error))
}
