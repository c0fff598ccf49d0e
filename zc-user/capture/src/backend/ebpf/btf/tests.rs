//! Compares the reader with the crate `btf` on the running kernel, and feeds it damaged data.

use std::{collections::BTreeSet, fs};

use zc_ebpf::{GROUPS, KernelFields};

use super::{
    Btf, BtfError, KIND_POINTER, KIND_STRUCT, KIND_TYPEDEF, KIND_UNION, NOTED, Names, TYPE_HEADER,
    Type, looked_up,
};

const KERNEL: &str = "/sys/kernel/btf/vmlinux";
const KIND_INT: u32 = 1;
const KIND_CONST: u32 = 10;

mod oracle {
    //! What the crate `btf` reads.

    use btf::{Btf, Struct, Type};

    /// The struct of this name.
    pub fn structure<'a>(kernel: &'a Btf, name: &str) -> &'a Struct {
        let structures = kernel
            .get_types()
            .iter()
            .filter(|found| found.name.as_deref() == Some(name) && found.num_refs == 0);
        let mut structures = structures.filter_map(|found| match &found.base_type {
            Type::Struct(structure) if !structure.members.is_empty() => Some(structure),
            _ => None,
        });
        structures
            .next()
            .unwrap_or_else(|| panic!("this kernel has no struct {name}"))
    }

    /// All named members with their offsets in bytes, those of anonymous structs and unions within
    /// included.
    pub fn members(kernel: &Btf, structure: &Struct) -> Vec<(String, u32)> {
        let mut all = Vec::new();
        for member in &structure.members {
            match (&member.name, inner(kernel, member.type_id)) {
                (Some(name), _) if !name.is_empty() => all.push((name.clone(), member.offset / 8)),
                (_, Some(inner)) => {
                    let within = members(kernel, inner).into_iter();
                    all.extend(within.map(|(name, offset)| (name, offset + member.offset / 8)));
                }
                // Padding.
                _ => {}
            }
        }
        all
    }

    fn inner(kernel: &Btf, type_id: u32) -> Option<&Struct> {
        match &kernel.get_type_by_id(type_id).ok()?.base_type {
            Type::Struct(structure) | Type::Union(structure) => Some(structure),
            _ => None,
        }
    }
}

/// Structs of other architectures and of older or newer kernels.
const MAY_BE_ABSENT: [&str; 5] = ["pt_regs", "io_kiocb", "io_uring_task", "io_splice", "io_rw"];

/// Reads it, and finds the structs and tracepoints that these tests look up.
fn parse(data: &[u8]) -> Result<Btf<'_>, BtfError> {
    Btf::find(
        data,
        &Names::new(
            ["outer", "inner", "matryoshka", "hole", "no_such_struct", ""],
            ["sys_enter", "sys_exit", "no such"],
        ),
    )
}

/// All its types.
fn all<'b>(btf: &'b Btf<'_>) -> impl Iterator<Item = Type> + 'b {
    (1..=btf.count).filter_map(|id| btf.type_of(id))
}

/// The structs that the list of fields names.
fn structures() -> BTreeSet<&'static str> {
    let places = GROUPS
        .iter()
        .flat_map(|group| group.fields)
        .flat_map(|field| field.places);
    let names = places.flat_map(|place| looked_up(*place));
    names
        .map(|name| name.split('.').next().unwrap_or(name))
        .collect()
}

#[test]
fn the_list_has_each_field_once_and_in_the_order_of_the_struct() {
    let mut fields = KernelFields::NONE;
    let begin = std::ptr::from_ref(&fields).addr();
    let all = GROUPS.iter().flat_map(|group| group.fields);
    let places: Vec<usize> = all
        .map(|field| std::ptr::from_mut((field.of)(&mut fields)).addr() - begin)
        .collect();
    let expected: Vec<usize> = (0..size_of::<KernelFields>())
        .step_by(size_of::<u32>())
        .collect();
    assert_eq!(places, expected);
}

#[test]
fn offsets_are_those_of_the_crate_btf() {
    let data = fs::read(KERNEL).expect("needs a kernel with BTF");
    let lean = Btf::parse(&data).expect("the kernel's own BTF is sound");
    let kernel = btf::Btf::from_file(KERNEL).expect("the kernel's own BTF is sound");
    let check = |root: &str, path: &[&str], structure: &str| {
        let members = oracle::members(&kernel, oracle::structure(&kernel, structure));
        assert!(members.len() > 1, "{structure} has members");
        for (member, offset) in members {
            let path: Vec<&str> = path.iter().copied().chain([member.as_str()]).collect();
            let before = if path.len() > 1 {
                lean.offset_of(root, &path[..path.len() - 1])
                    .expect("it leads there")
            } else {
                0
            };
            assert_eq!(
                lean.offset_of(root, &path),
                Some(before + offset),
                "{root}.{}",
                path.join(".")
            );
        }
    };
    // All structs that zctrace reads, by the list that it reads them by.
    for structure in structures() {
        if lean.size_of(structure).is_some() || !MAY_BE_ABSENT.contains(&structure) {
            check(structure, &[], structure);
        }
    }
    check("file", &["f_path"], "path");
    check("fs_struct", &["root"], "path");
    check("dentry", &["d_name"], "qstr");
    check("sock", &["__sk_common"], "sock_common");
    check("task_struct", &["thread_info"], "thread_info");
    check("task_struct", &["se"], "sched_entity");
}

#[test]
fn sizes_and_tracepoints_of_this_kernel_are_found() {
    let data = fs::read(KERNEL).expect("needs a kernel with BTF");
    let lean = Btf::parse(&data).expect("the kernel's own BTF is sound");
    // `struct upid { int nr; struct pid_namespace *ns; }`, padded.
    assert_eq!(lean.size_of("upid"), Some(16));
    assert_eq!(lean.size_of("no_such_struct"), None);
    for (_, tracepoint) in zc_ebpf::programs::ALL {
        assert!(lean.has_tracepoint(tracepoint), "{tracepoint}");
    }
    assert!(!lean.has_tracepoint("no_such_tracepoint") && !lean.has_tracepoint(""));
}

#[test]
fn tracepoints_keep_their_ids_where_nothing_else_has_a_name() {
    let data = fs::read(KERNEL).expect("needs a kernel with BTF");
    let whole = Btf::parse(&data).expect("the kernel's own BTF is sound");
    let names = zc_ebpf::programs::ALL.map(|(_, tracepoint)| tracepoint);
    let data = whole
        .tracepoints(names.into_iter().chain(["no_such_tracepoint"]))
        .to_btf();
    let cut = Btf::parse(&data).expect("sound");
    for name in names {
        let id = whole.tracepoints[name.as_bytes()];
        let found = whole.type_of(id).expect("it is there");
        assert_eq!(
            whole.name_bytes(found.name),
            Some(format!("btf_trace_{name}").as_bytes())
        );
        assert_eq!(cut.tracepoints[name.as_bytes()], id, "{name}");
    }
    assert_eq!(
        (cut.tracepoints.len(), cut.structures.len()),
        (names.len(), 0)
    );
    assert!(aya::Btf::parse(&data, aya::Endianness::default()).is_ok());
}

#[test]
fn type_information_without_tracepoints_is_empty() {
    let data = small();
    let btf = parse(&data).expect("sound");
    let none = btf.tracepoints(["sys_exit"]).to_btf();
    assert!(
        aya::Btf::parse(&none, aya::Endianness::default()).is_ok()
            && Btf::parse(&none).is_ok_and(|btf| btf.count == 0)
    );
    let one = btf.tracepoints(["sys_enter", "sys_exit"]).to_btf();
    let one = parse(&one).expect("sound");
    assert!(
        one.has_tracepoint("sys_enter")
            && !one.has_tracepoint("sys_exit")
            && one.size_of("outer").is_none()
    );
    assert_eq!(one.count, btf.count, "it is the last type");
}

/// Type information made by a test.
struct Blob {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

impl Blob {
    fn new() -> Self {
        Self {
            types: Vec::new(),
            strings: vec![0],
            count: 0,
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.strings.len();
        self.strings.extend(name.bytes().chain([0]));
        u32::try_from(at).expect("small")
    }

    /// Adds a type and returns its id. `payload` is its size or the type it refers to; `more` is
    /// what its kind adds.
    fn add(&mut self, kind: u32, name: &str, payload: u32, more: &[u32]) -> u32 {
        let name = self.name(name);
        for word in [name, kind << 24, payload].iter().chain(more) {
            self.types.extend(word.to_ne_bytes());
        }
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
        let words: Vec<u32> = members
            .iter()
            .flat_map(|(name, id, offset)| [self.name(name), *id, *offset])
            .collect();
        let has_bitfields = members.iter().any(|(.., offset)| offset >> 24 != 0);
        let start = self.types.len();
        let id = self.add(kind, name, size, &words);
        let info = kind << 24
            | u32::try_from(members.len()).expect("few")
            | u32::from(has_bitfields) << 31;
        self.types[start + 4..start + 8].copy_from_slice(&info.to_ne_bytes());
        id
    }

    fn finish(&self) -> Vec<u8> {
        let length = |part: &[u8]| u32::try_from(part.len()).expect("small");
        let mut data = [super::MAGIC.to_ne_bytes(), [1, 0]].concat();
        for word in [
            24,
            0,
            length(&self.types),
            length(&self.types),
            length(&self.strings),
        ] {
            data.extend(word.to_ne_bytes());
        }
        data.extend(&self.types);
        data.extend(&self.strings);
        data
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
    let mut blob = Blob::new();
    let int = blob.add(KIND_INT, "int", 4, &[32]);
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
fn types_between_the_noted_ones_are_found() {
    let mut blob = Blob::new();
    let ids: Vec<u32> = (0..3 * NOTED)
        .map(|at| blob.add(1 + at % 2, "", at, &vec![0; ((at + 1) % 2) as usize]))
        .collect();
    let data = blob.finish();
    let btf = parse(&data).expect("sound");
    let payloads: Vec<u32> = ids
        .iter()
        .map(|&id| btf.type_of(id).expect("it is there").payload)
        .collect();
    assert_eq!(payloads, (0..3 * NOTED).collect::<Vec<_>>());
    assert!(btf.type_of(0).is_none() && btf.type_of(3 * NOTED + 1).is_none());
}

#[test]
fn names_differ_after_their_beginning_and_may_begin_within_others() {
    let mut blob = Blob::new();
    let int = blob.add(KIND_INT, "int", 4, &[32]);
    for (name, size) in [
        ("task_structure", 1),
        ("task_struc", 2),
        ("task_str", 3),
        ("task_struct", 4),
        ("task_struct", 5),
        ("rq", 6),
    ] {
        blob.add_members(KIND_STRUCT, name, size, &[("a", int, 0)]);
    }
    // A forward declaration, and a name that is the end of another.
    blob.add_members(KIND_STRUCT, "cred", 7, &[]);
    let at = blob.name("my_cred");
    let start = blob.types.len();
    blob.add_members(KIND_STRUCT, "", 8, &[("a", int, 0)]);
    blob.types[start..start + 4].copy_from_slice(&(at + 3).to_ne_bytes());
    let data = blob.finish();
    let btf = Btf::find(
        &data,
        &Names::new(["task_struct", "rq", "cred", "task"], []),
    )
    .expect("sound");
    let sizes = ["task_struct", "rq", "cred", "task", "task_str"].map(|name| btf.size_of(name));
    assert_eq!(sizes, [Some(4), Some(6), Some(8), None, None]);
    assert_eq!(
        btf.structures.len(),
        3,
        "what is not looked up is not noted"
    );
}

#[test]
fn members_of_anonymous_structs_and_unions_are_found() {
    let data = small();
    let btf = parse(&data).expect("sound");
    let offset = |path: &[&str]| btf.offset_of("outer", path);
    assert_eq!(
        [
            offset(&["a"]),
            offset(&["b"]),
            offset(&["c"]),
            offset(&["d"])
        ],
        [Some(0), Some(4), Some(4), Some(8)]
    );
    assert_eq!(
        [offset(&["d", "x"]), offset(&["d", "y"])],
        [Some(8), Some(12)],
        "through const and typedef"
    );
    assert_eq!(
        [offset(&["flags"]), offset(&["more"]), offset(&["next"])],
        [Some(16), Some(16), Some(24)],
        "bitfields"
    );
    assert_eq!(
        [
            offset(&["e"]),
            offset(&["a", "x"]),
            offset(&["next", "a"]),
            offset(&[""])
        ],
        [None; 4]
    );
    assert_eq!(
        (btf.size_of("outer"), btf.size_of("inner_t")),
        (Some(32), None)
    );
    assert!(btf.has_tracepoint("sys_enter") && !btf.has_tracepoint("sys_exit"));
}

#[test]
fn circular_and_dangling_types_are_not_followed_for_ever() {
    let mut blob = Blob::new();
    // Type 1 refers to itself, type 2 contains itself twice, type 3 has a member of a type that is
    // not there.
    blob.add(KIND_TYPEDEF, "circle", 1, &[]);
    blob.add_members(
        KIND_STRUCT,
        "matryoshka",
        4,
        &[("", 2, 0), ("", 2, 32), ("", 1, 0)],
    );
    blob.add_members(
        KIND_STRUCT,
        "hole",
        4,
        &[("", 99, 0), ("far", 99, 0), ("circle", 1, 0)],
    );
    let data = blob.finish();
    let btf = parse(&data).expect("sound as far as its lengths go");
    assert_eq!(btf.offset_of("matryoshka", &["x"]), None);
    assert_eq!(btf.offset_of("hole", &["x"]), None);
    assert_eq!(
        (
            btf.offset_of("hole", &["far"]),
            btf.offset_of("hole", &["far", "x"])
        ),
        (Some(0), None)
    );
    assert_eq!(btf.offset_of("hole", &["circle", "x"]), None);
}

#[test]
fn data_that_is_not_btf_is_refused() {
    for data in [
        &b""[..],
        b"\x9f",
        b"\x9f\xeb",
        b"\x7fELF and so on",
        &[0; 100],
        &[0xff; 100],
    ] {
        assert_eq!(Btf::parse(data).err(), Some(BtfError::NotBtf), "{data:?}");
    }
}

#[test]
fn truncated_btf_is_refused() {
    let data = small();
    for length in 0..data.len() {
        assert!(
            Btf::parse(&data[..length]).is_err(),
            "{length} of {} bytes",
            data.len()
        );
    }
}

/// Looks up everything, so that every path of the reader runs. Only panics matter.
fn exercise(data: &[u8]) {
    let Ok(btf) = parse(data) else { return };
    for structure in ["outer", "inner", "matryoshka", "no_such_struct", ""] {
        btf.size_of(structure);
        for path in [
            &["a"][..],
            &["c"],
            &["d", "y"],
            &["flags"],
            &["next", "a"],
            &["no such"],
            &[""],
            &[],
        ] {
            btf.offset_of(structure, path);
        }
    }
    let _ = btf.tracepoints(["sys_enter", "no such"]).to_btf();
    for structure in all(&btf)
        .filter(|found| matches!(found.kind, KIND_STRUCT | KIND_UNION))
        .take(20)
    {
        btf.member(structure, "no such", super::MAX_DEPTH);
    }
}

/// Pseudo-random numbers, the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("below a usize")
    }
}

/// Damages copies of it in many ways and reads each.
fn read_damaged(sound: &[u8], rounds: usize) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..rounds {
        let mut data = sound.to_vec();
        for _ in 0..=random.below(8) {
            let at = random.below(data.len());
            match random.below(4) {
                0 => data[at] ^= 1 << random.below(8),
                1 => data[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                // A whole word, since most values are words.
                2 => data[at & !3..]
                    .iter_mut()
                    .take(4)
                    .for_each(|byte| *byte = 0xff),
                _ => data.truncate(at.max(1)),
            }
        }
        exercise(&data);
    }
}

#[test]
fn damaged_btf_never_panics() {
    read_damaged(&small(), 60_000);
}

#[test]
fn damaged_btf_of_this_kernel_never_panics() {
    let data = fs::read(KERNEL).expect("needs a kernel with BTF");
    let whole = Btf::parse(&data).expect("the kernel's own BTF is sound");
    // The first types and the strings that they may name.
    let types = all(&whole)
        .map(|found| found.start)
        .take_while(|&start| start < 20_000)
        .last()
        .expect("there are types");
    let mut blob = Blob::new();
    blob.types = whole.types[..types].to_vec();
    blob.strings = whole.strings[..20_000].to_vec();
    let cut = blob.finish();
    assert!(Btf::parse(&cut).is_ok_and(|btf| btf.count as usize > 20_000 / (8 * TYPE_HEADER)));
    read_damaged(&cut, 1_500);
}
