//! Operations of `io_uring`: their names by opcode, and what is known of them.

use zc_ebpf::{INVALID_OPERATION, UNKNOWN_OPERATION};

use super::{defs::OPERATIONS, spec::Spec};

/// Name of an operation that the kernel does not identify: it completes several times (multishot),
/// or its completion overflowed the queue.
pub(super) const UNKNOWN: &str = "unknown";

/// Name of an operation that the kernel refused as invalid. It does not keep opcodes that it does
/// not know.
const INVALID: &str = "invalid";

/// The name of the operation with this opcode. One that is not in the table becomes `op_N`.
pub(super) fn name(opcode: u32) -> String {
    match opcode {
        UNKNOWN_OPERATION => return UNKNOWN.to_owned(),
        INVALID_OPERATION => return INVALID.to_owned(),
        _ => {}
    }
    let spec = usize::try_from(opcode)
        .ok()
        .and_then(|opcode| OPERATIONS.get(opcode));
    spec.map_or_else(|| format!("op_{opcode}"), |spec| spec.name.to_owned())
}

/// What is known of the operation of this name.
pub(super) fn spec(name: &str) -> Option<Spec> {
    OPERATIONS.iter().find(|spec| spec.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_those_of_the_header() {
        let header = std::fs::read_to_string("/usr/include/linux/io_uring.h")
            .expect("the C library's headers are needed to build");
        let lines = header.lines().map(str::trim);
        let operations = lines.filter_map(|line| line.strip_prefix("IORING_OP_"));
        let names = operations.filter_map(|line| line.split([',', ' ', '=']).next());
        let names: Vec<&str> = names.take_while(|name| *name != "LAST").collect();
        assert!(names.len() > 40, "{names:?}");
        for (opcode, name) in (0..).zip(&names).take(OPERATIONS.len()) {
            assert_eq!(super::name(opcode), name.to_ascii_lowercase());
        }
    }

    #[test]
    fn every_opcode_has_a_name_of_its_own() {
        for (opcode, spec) in (0..).zip(OPERATIONS) {
            assert_eq!(name(opcode), spec.name);
            assert_eq!(super::spec(spec.name), Some(*spec));
        }
        assert_eq!(
            [200, UNKNOWN_OPERATION, INVALID_OPERATION].map(name),
            ["op_200", "unknown", "invalid"]
        );
    }
}
