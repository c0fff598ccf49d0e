//! The tables of what is done with each call.

use aya::maps::{Array, MapData};
use zc_ebpf::{SPEC_SLOTS, TABLE_SLOTS, spec_slot};

use super::unavailable::{EbpfUnavailable, refused};
use crate::syscalls::Abi;

/// What is done with each call, by slot.
pub type SpecsBySlot<T> = [T; SPEC_SLOTS as usize];

/// The spec of each call that this machine has, by its name and whether it is a 32-bit one.
pub fn specs_by_slot<T>(spec: impl Fn(&str, bool) -> T) -> impl Iterator<Item = (u32, T)> {
    let tables = [(Abi::NATIVE, false), (Abi::COMPAT, true)];
    let slots = tables.into_iter().flat_map(|(abi, is_32_bit)| {
        let named =
            (0..TABLE_SLOTS).filter_map(move |number| Some((number, abi.call_name(number)?)));
        named.map(move |(number, name)| (number, name, is_32_bit))
    });
    slots
        .map(move |(number, name, is_32_bit)| (spec_slot(number, is_32_bit), spec(name, is_32_bit)))
}

/// Fills a table; `none` for all other calls.
pub fn set_specs<T: aya::Pod>(
    map: &mut Array<MapData, SpecsBySlot<T>>,
    none: T,
    specs: impl IntoIterator<Item = (u32, T)>,
) -> Result<(), EbpfUnavailable> {
    let mut all = vec![none; SPEC_SLOTS as usize];
    for (slot, spec) in specs {
        all[slot as usize] = spec;
    }
    let all: &SpecsBySlot<T> = all.as_slice().try_into().map_err(|error| refused(&error))?;
    map.set(0, all, 0).map_err(|error| refused(&error))
}
