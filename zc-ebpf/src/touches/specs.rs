//! What is done with each call, as user space says.

use zc_ebpf::{SPEC_SLOTS, TouchSpec, opaque::opaque, zeroed};

#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.touching")]
static mut TOUCH_SPECS: [TouchSpec; SPEC_SLOTS as usize] = [zeroed(); SPEC_SLOTS as usize];

/// What is done with the call in this slot.
#[inline(always)]
pub fn spec_of(slot: u32) -> TouchSpec {
    let slot = opaque(slot.into());
    if slot >= u64::from(SPEC_SLOTS) {
        return zeroed();
    }
    // SAFETY: within the array. Volatile because user space fills it in; two words of eight bytes.
    let words = unsafe {
        let spec = (&raw const TOUCH_SPECS)
            .cast::<[u64; 2]>()
            .add(slot as usize);
        let first = spec.cast::<u64>();
        [first.read_volatile(), first.add(1).read_volatile()]
    };
    // SAFETY: any sixteen bytes are a spec.
    unsafe { core::mem::transmute::<[u64; 2], TouchSpec>(words) }
}
