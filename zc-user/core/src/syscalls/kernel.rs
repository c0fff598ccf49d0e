//! What the kernel side is told about each call.

use zc_ebpf::{
    CallSpec, SOCKET_CALLS, TABLE_SLOTS, fds, operation_slot, requested, selected, socket_slot,
    spec_slot, traits,
};

use super::{
    abi::Abi,
    defs::{OPERATIONS, table},
    selection::Selection,
    spec::{FICLONE, FICLONERANGE, Spec, Variants},
};

impl Selection {
    /// The slot and the spec of each call that the kernel side treats specially.
    pub fn kernel_specs(&self) -> Vec<(u32, CallSpec)> {
        let mut specs = Vec::new();
        for (abi, is_32_bit) in [(Abi::NATIVE, false), (Abi::COMPAT, true)] {
            for number in 0..TABLE_SLOTS {
                // The last slot is for all numbers beyond the table.
                let name = abi.call_name(number).unwrap_or_default();
                let spec = Spec::named(name);
                let counted = match self.counted_spec(name, &spec) {
                    Some(counted) if is_32_bit && spec.is_in_memory_if_32_bit => CallSpec {
                        requested: requested::UNKNOWN,
                        fds: fds::NONE,
                        ..counted
                    },
                    counted => counted.unwrap_or_default(),
                };
                let spec = spec.with_side_effects(counted);
                if spec != CallSpec::default() {
                    specs.push((spec_slot(number, is_32_bit), spec));
                }
            }
        }
        specs.extend(self.socketcall_specs());
        if self.contains_rings() {
            for (opcode, spec) in (0..=u8::MAX).zip(OPERATIONS) {
                specs.push((operation_slot(opcode), spec.kernel_spec()));
            }
        }
        specs
    }

    /// How the call of this name is counted; `None`: not at all.
    fn counted_spec(&self, name: &str, spec: &Spec) -> Option<CallSpec> {
        match spec.variants {
            Variants::None => self.contains(name).then(|| spec.kernel_spec()),
            // The kernel side looks up whether the call that its first argument stands for is
            // selected.
            Variants::Socketcall if self.socketcall_specs().is_empty() => None,
            Variants::Socketcall => Some(CallSpec {
                selected: selected::VARIANTS,
                requested: requested::SOCKETCALL,
                ..CallSpec::default()
            }),
            // Its arguments are the file, the command, and the command's argument. All variants
            // have the same.
            Variants::Command => Some(CallSpec {
                selected: self.selected_ioctls(name)?,
                requested: requested::IOCTL,
                argument: 1,
                fds: fds::IOCTL,
                first: 0,
                second: 2,
                ..CallSpec::default()
            }),
        }
    }

    /// Which calls of `ioctl` are counted: one of the constants of [`selected`]; `None`: none.
    fn selected_ioctls(&self, name: &str) -> Option<u8> {
        if self.contains(name) {
            return Some(selected::ALWAYS);
        }
        let has_variant = self.contains(FICLONE) || self.contains(FICLONERANGE);
        has_variant.then_some(selected::VARIANTS)
    }

    /// Slots and specs of the selected calls that `socketcall` makes. Sizes and files are unknown,
    /// since they are in memory; the result means the same as that of the call itself.
    fn socketcall_specs(&self) -> Vec<(u32, CallSpec)> {
        let mut specs = Vec::new();
        for number in 0..SOCKET_CALLS {
            let spec = Spec::named(socketcall_name(number));
            if self.contains(spec.name) || self.contains(SOCKETCALL) {
                let without_arguments = CallSpec {
                    requested: requested::UNKNOWN,
                    fds: fds::NONE,
                    first: 0,
                    // Their failures are counted with an unknown path.
                    path: u8::from(spec.path.is_some()),
                    traits: traits::HAS_ADDRESS,
                    ..spec.kernel_spec()
                };
                specs.push((socket_slot(number), without_arguments));
            }
        }
        specs
    }
}

/// `socketcall`, the 32-bit call that multiplexes the calls on sockets: its first argument is their
/// number, and their arguments are in memory.
const SOCKETCALL: &str = "socketcall";

/// The name of the call that `socketcall` makes with this first argument: `SYS_SOCKET` to
/// `SYS_SENDMMSG` of the kernel's include/uapi/linux/net.h.
pub(super) fn socketcall_name(number: u32) -> &'static str {
    let mut calls = table();
    let call = calls.find(|spec| spec.socketcall.is_some_and(|own| u32::from(own) == number));
    call.map_or(SOCKETCALL, |spec| spec.name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// ARM's table has neither.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_sizes_of_the_old_mmap_and_of_socketcalls_are_in_memory() {
        let spec = |selection: &str, slot| {
            let selection: Selection = selection.parse().expect("parses");
            let specs: BTreeMap<u32, CallSpec> = selection.kernel_specs().into_iter().collect();
            specs.get(&slot).copied()
        };
        let requested = |selection, slot| spec(selection, slot).map(|spec| spec.requested);
        for (selection, slot, expected) in [
            ("mmap", spec_slot(9, false), Some(requested::SIZE)),
            ("mmap", spec_slot(90, true), Some(requested::UNKNOWN)),
            ("send", spec_slot(102, true), Some(requested::SOCKETCALL)),
            ("read", spec_slot(102, true), None),
        ] {
            assert_eq!(requested(selection, slot), expected, "{selection}");
        }
        for (argument, expected) in [(9, Some(1)), (20, Some(0)), (3, None)] {
            let spec = spec("%data", socket_slot(argument));
            assert_eq!(spec.map(|spec| spec.returns_bytes), expected);
        }
    }

    #[test]
    fn other_ioctls_are_selected_by_their_own_name_only() {
        for (selection, expected) in [
            ("%data", Some(selected::VARIANTS)),
            ("ioctl", Some(selected::ALWAYS)),
            ("read", None),
        ] {
            let selection: Selection = selection.parse().expect("parses");
            let counted = selection.counted_spec("ioctl", &Spec::named("ioctl"));
            assert_eq!(counted.map(|spec| spec.selected), expected);
        }
    }
}
