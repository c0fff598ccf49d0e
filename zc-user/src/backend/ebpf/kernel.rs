//! What is to be known of the running kernel before the programs are loaded: its types and fields, and which programs fit it.

use std::{fs, path::Path};

use aya::{Btf, Endianness};
use zc_ebpf::{ABSENT, KernelFields, programs};

use super::{
    btf::{self, BtfError},
    fields,
    unavailable::EbpfUnavailable,
};

/// What is to be known of the running kernel.
pub struct Kernel {
    /// As much of its types as the tracepoints need.
    pub types: Btf,
    /// Where its fields stand.
    pub fields: KernelFields,
    /// The programs that see what `io_uring` does, each with its tracepoint on this kernel.
    pub rings: Vec<(&'static str, &'static str)>,
    /// What it lacks, each a sentence.
    pub notes: Vec<String>,
}

/// Reads the kernel's type information from this file.
pub fn read(path: &Path) -> Result<Kernel, EbpfUnavailable> {
    let bad = |cause| EbpfUnavailable::BadBtf { path: path.to_owned(), cause };
    let mut data = fs::read(path).map_err(|cause| EbpfUnavailable::NoBtf { path: path.to_owned(), cause })?;
    let (fields, rings, notes, types_length) = {
        let types = btf::Btf::parse(&data).map_err(bad)?;
        let (fields, mut notes) = fields::find(&types)?;
        let rings = if fields.request_file == ABSENT { Vec::new() } else { ring_programs(&types, &mut notes) };
        let tracepoints = programs::ALL.iter().chain(&rings).map(|(_, tracepoint)| *tracepoint);
        let types_length = types.types_length_with(tracepoints);
        (fields, rings, notes, types_length)
    };
    // aya makes a value of every type it reads, and needs just the tracepoints, which stand near the beginning.
    data[btf::TYPES_LENGTH_AT].copy_from_slice(&types_length.to_ne_bytes());
    let types = Btf::parse(&data, Endianness::default()).map_err(|_| bad(BtfError::Damaged))?;
    Ok(Kernel { types, fields, rings, notes })
}

/// The programs for `io_uring`, all or none; and a note if none.
fn ring_programs(types: &btf::Btf<'_>, notes: &mut Vec<String>) -> Vec<(&'static str, &'static str)> {
    let found = |(program, tracepoints): (&'static str, &'static [&'static str])| {
        Some((program, *tracepoints.iter().find(|tracepoint| types.has_tracepoint(tracepoint))?))
    };
    programs::RING.into_iter().map(found).collect::<Option<_>>().unwrap_or_else(|| {
        notes.push("what io_uring's operations move is unknown: this kernel lacks a tracepoint for it".to_owned());
        Vec::new()
    })
}
