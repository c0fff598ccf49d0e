//! Compares the reader with the crate `btf` on the running kernel, and feeds it damaged data.

use std::{collections::HashMap, fs};

use btf::{Struct, Type};
use proptest::{collection::vec, prelude::*, sample::Index, test_runner::TestRunner};
use zc_ebpf::{GROUPS, KernelFields};

use super::{
    Btf, BtfError, KIND_POINTER, KIND_STRUCT, KIND_TYPEDEF, KIND_UNION, MAX_DEPTH, TASK_ITERATOR,
};

const KERNEL: &str = "/sys/kernel/btf/vmlinux";
const KIND_INT: u32 = 1;
const KIND_CONST: u32 = 10;
/// All kinds that the reader only skips, how many members each is given here, and how many words it
/// has after those that all kinds have: array, enum, forward, variable, data section, float,
/// declaration tag, enum of 64 bits, function, its prototype.
const SKIPPED_KINDS: [(u32, u32, usize); 10] = [
    (3, 0, 3),
    (6, 2, 4),
    (7, 0, 0),
    (14, 0, 1),
    (15, 2, 6),
    (16, 0, 0),
    (17, 0, 1),
    (19, 2, 6),
    (12, 0, 0),
    (13, 2, 4),
];

/// All named members with their offsets in bytes, as the crate `btf` reads them, those of anonymous
/// structs and unions within included.
fn members(kernel: &btf::Btf, structure: &Struct, depth: u32) -> Vec<(String, u32)> {
    let mut all = Vec::new();
    for member in &structure.members {
        let inner = kernel.get_type_by_id(member.type_id);
        match (&member.name, inner.map(|inner| &inner.base_type)) {
            (Some(name), _) if !name.is_empty() => all.push((name.clone(), member.offset / 8)),
            (_, Ok(Type::Struct(inner) | Type::Union(inner))) if depth > 0 => {
                let within = members(kernel, inner, depth - 1).into_iter();
                all.extend(within.map(|(name, offset)| (name, offset + member.offset / 8)));
            }
            // Padding, or nested too deep.
            _ => {}
        }
    }
    all
}

fn parse(data: &[u8]) -> Btf<'_> {
    Btf::parse(data).expect("sound")
}

#[test]
fn the_list_has_each_field_once_and_in_the_order_of_the_struct() {
    let mut fields = KernelFields::NONE;
    let begin = std::ptr::from_ref(&fields).addr();
    let all = GROUPS.iter().flat_map(|group| group.fields);
    let places = all.map(|field| std::ptr::from_mut((field.of)(&mut fields)).addr() - begin);
    let expected = (0..size_of::<KernelFields>()).step_by(size_of::<u32>());
    assert!(places.eq(expected));
}

#[test]
fn offsets_are_those_of_the_crate_btf() {
    let data = fs::read(KERNEL).expect("needs a kernel with BTF");
    let lean = parse(&data);
    let kernel = btf::Btf::from_file(KERNEL).expect("the kernel's own BTF is sound");
    let mut structures = HashMap::new();
    for found in kernel
        .get_types()
        .iter()
        .filter(|found| found.num_refs == 0)
    {
        if let (Some(name), Type::Struct(structure)) = (&found.name, &found.base_type)
            && !structure.members.is_empty()
        {
            structures.entry(name.as_bytes()).or_insert(structure);
        }
    }
    assert!(lean.structures.len() > 1000);
    for (bytes, _) in lean
        .structures
        .iter()
        .filter(|(bytes, _)| !bytes.is_empty())
    {
        let name = str::from_utf8(bytes).expect("is ASCII");
        for (member, offset) in members(&kernel, structures[bytes], MAX_DEPTH) {
            assert_eq!(
                lean.offset_of(name, &[&member]),
                Some(offset),
                "{name}.{member}"
            );
        }
    }
}

#[test]
fn sizes_and_tracepoints_of_this_kernel_are_found() {
    let data = fs::read(KERNEL).expect("needs a kernel with BTF");
    let whole = parse(&data);
    // `struct upid { int nr; struct pid_namespace *ns; }`, padded.
    assert_eq!(whole.size_of("upid"), Some(16));
    assert_eq!(whole.size_of("no_such_struct"), None);
    assert!(!whole.has_tracepoint("no_such_tracepoint") && !whole.has_tracepoint(""));
    // In what aya gets, tracepoints keep their ids, and nothing else has a name.
    let names = zc_ebpf::programs::ALL.map(|hooked| hooked.tracepoints[0]);
    let mut cut = whole.tracepoints(names.into_iter().chain(["no_such_tracepoint"]));
    cut.add_task_iterator(&whole);
    let cut = cut.to_btf();
    assert!(aya::Btf::parse(&cut, aya::Endianness::default()).is_ok());
    let cut = parse(&cut);
    for name in names {
        let id = whole.tracepoints[name.as_bytes()];
        let found = whole.type_of(id).expect("it is there");
        let expected = format!("btf_trace_{name}");
        assert_eq!(whole.name_bytes(found.name), Some(expected.as_bytes()));
        assert_eq!(cut.tracepoints[name.as_bytes()], id, "{name}");
    }
    let iterator = whole.function(TASK_ITERATOR);
    assert!(iterator.is_some() && cut.function(TASK_ITERATOR) == iterator);
    assert_eq!(
        (cut.tracepoints.len(), cut.structures.len()),
        (names.len(), 0)
    );
}

/// Type information made by a test.
#[derive(Default)]
struct Blob {
    types: Vec<u32>,
    strings: Vec<u8>,
    count: u32,
}

impl Blob {
    fn name(&mut self, name: &str) -> u32 {
        let at = super::list_length(&self.strings);
        self.strings.extend(name.bytes().chain([0]));
        at
    }

    /// Adds a type and returns its id. `payload` is its size or the type it refers to; `more` is
    /// what its kind adds.
    fn add(&mut self, kind: u32, name: &str, payload: u32, more: &[u32]) -> u32 {
        let name = self.name(name);
        self.types.extend([name, kind << 24, payload]);
        self.types.extend(more);
        self.count += 1;
        self.count
    }

    /// Adds a struct or union with members of this name, type and offset in bits (bitfields have
    /// their width above).
    fn add_members(
        &mut self,
        kind: u32,
        name: &str,
        size: u32,
        members: &[(&str, u32, u32)],
    ) -> u32 {
        let mut words = Vec::new();
        for (name, id, offset) in members {
            // Members without a name have 0.
            let name = if name.is_empty() { 0 } else { self.name(name) };
            words.extend([name, *id, *offset]);
        }
        let has_bitfields = members.iter().any(|(.., offset)| offset >> 24 != 0);
        let info = self.types.len() + 1;
        let id = self.add(kind, name, size, &words);
        self.types[info] |= super::list_length(members) | u32::from(has_bitfields) << 31;
        id
    }

    fn finish(&self) -> Vec<u8> {
        super::encode_btf(&self.types, &self.strings)
    }
}

/// A small kernel with everything that the reader has to follow.
///
/// ```c
/// struct inner { int x; int y; };
/// typedef struct inner inner_t;
/// struct outer { int a; union { int b; struct { int c; const inner_t d; }; }; int flags:3, more:5; struct outer *next; };
/// ```
fn small() -> Vec<u8> {
    let mut blob = Blob::default();
    let int = blob.add(KIND_INT, "int", 4, &[32]);
    for (kind, members, words) in SKIPPED_KINDS {
        blob.add(kind, "", 0, &vec![0; words]);
        let info = blob.types.len() - words - 2;
        blob.types[info] |= members;
    }
    let inner = blob.add_members(KIND_STRUCT, "inner", 8, &[("x", int, 0), ("y", int, 32)]);
    let alias = blob.add(KIND_TYPEDEF, "inner_t", inner, &[]);
    let constant = blob.add(KIND_CONST, "", alias, &[]);
    let nameless = blob.add_members(KIND_STRUCT, "", 12, &[("c", int, 0), ("d", constant, 32)]);
    let either = blob.add_members(KIND_UNION, "", 12, &[("b", int, 0), ("", nameless, 0)]);
    let pointer = blob.add(KIND_POINTER, "", int + 7, &[]);
    let bits = |offset: u32, width: u32| width << 24 | offset;
    let members = [
        ("a", int, 0),
        ("", either, 32),
        ("flags", int, bits(128, 3)),
        ("more", int, bits(131, 5)),
        ("next", pointer, 192),
    ];
    blob.add_members(KIND_STRUCT, "outer", 32, &members);
    blob.add(KIND_TYPEDEF, "btf_trace_sys_enter", pointer, &[]);
    blob.finish()
}

#[test]
fn members_of_anonymous_structs_and_unions_are_found() {
    let data = small();
    let btf = parse(&data);
    for (path, offset) in [
        ("a", Some(0)),
        ("b", Some(4)),
        ("c", Some(4)),
        ("d", Some(8)),
        // Through const and typedef.
        ("d.x", Some(8)),
        ("d.y", Some(12)),
        // Bitfields.
        ("flags", Some(16)),
        ("more", Some(16)),
        ("next", Some(24)),
        ("e", None),
        ("a.x", None),
        ("next.a", None),
        ("", None),
    ] {
        let found = btf.offset_of("outer", &path.split('.').collect::<Vec<_>>());
        assert_eq!(found, offset, "{path}");
    }
    assert_eq!(
        (btf.size_of("outer"), btf.size_of("inner_t")),
        (Some(32), None)
    );
    // What aya gets of it: the one tracepoint, as the last type; nothing if there is none.
    let one = btf.tracepoints(["sys_enter", "sys_exit"]).to_btf();
    let one = parse(&one);
    assert!(one.has_tracepoint("sys_enter") && !one.has_tracepoint("sys_exit"));
    assert_eq!((one.size_of("outer"), one.count()), (None, btf.count()));
    let none = btf.tracepoints(["sys_exit"]).to_btf();
    assert!(aya::Btf::parse(&none, aya::Endianness::default()).is_ok());
    assert_eq!(parse(&none).count(), 0);
}

#[test]
fn circular_and_dangling_types_are_not_followed_for_ever() {
    let mut blob = Blob::default();
    // Type 1 refers to itself, type 2 contains itself twice, type 3 has a member of a type that is
    // not there.
    blob.add(KIND_TYPEDEF, "circle", 1, &[]);
    let twice = [("", 2, 0), ("", 2, 32), ("", 1, 0)];
    blob.add_members(KIND_STRUCT, "matryoshka", 4, &twice);
    let missing = [("", 99, 0), ("far", 99, 0), ("circle", 1, 0)];
    blob.add_members(KIND_STRUCT, "hole", 4, &missing);
    let data = blob.finish();
    let offset = |name: &str, path: &[&str]| parse(&data).offset_of(name, path);
    assert_eq!(offset("matryoshka", &["x"]), None);
    assert_eq!(offset("hole", &["x"]), None);
    assert_eq!(offset("hole", &["far"]), Some(0));
    assert_eq!(offset("hole", &["far", "x"]), None);
    assert_eq!(offset("hole", &["circle", "x"]), None);
}

#[test]
fn data_that_is_not_btf_or_ends_early_is_refused() {
    let odd: [&[u8]; 6] = [
        b"",
        b"\x9f",
        b"\x9f\xeb",
        b"\x7fELF and so on",
        &[0; 100],
        &[0xff; 100],
    ];
    for data in odd {
        assert_eq!(Btf::parse(data).err(), Some(BtfError::NotBtf), "{data:?}");
    }
    let data = small();
    for length in 0..data.len() {
        assert!(Btf::parse(&data[..length]).is_err(), "{length} bytes");
    }
}

/// Looks up everything, so that every path of the reader runs. Only panics matter.
fn exercise(data: &[u8]) {
    let Ok(btf) = Btf::parse(data) else { return };
    for structure in ["outer", "inner", "no_such_struct", ""] {
        btf.size_of(structure);
        for path in ["a", "c", "d y", "flags", "next a", "none", ""] {
            btf.offset_of(structure, &path.split(' ').collect::<Vec<_>>());
        }
        btf.offset_of(structure, &[]);
    }
    let _ = btf.tracepoints(["sys_enter", "no such"]).to_btf();
    for found in (1..=btf.count()).filter_map(|id| btf.type_of(id)) {
        if [KIND_STRUCT, KIND_UNION].contains(&found.kind) {
            btf.member(found, "no such", MAX_DEPTH);
        }
    }
}

#[test]
fn damaged_btf_never_panics() {
    let damages = vec((any::<Index>(), 0..4_u8, any::<u8>()), 1..=8);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(20_000));
    let read = runner.run(&damages, |damages| {
        let mut data = small();
        for (place, how, value) in damages {
            let at = place.index(data.len());
            match how {
                0 => data[at] ^= 1 << (value % 8),
                1 => data[at] = [0, 1, 0x7f, 0x80, 0xff][usize::from(value % 5)],
                // A whole word, since most values are words.
                2 => data[at & !3..]
                    .iter_mut()
                    .take(4)
                    .for_each(|byte| *byte = 0xff),
                _ => data.truncate(at.max(1)),
            }
        }
        exercise(&data);
        Ok(())
    });
    read.unwrap_or_else(|error| panic!("{error}"));
}
