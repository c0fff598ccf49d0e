//! The kernel's types (BTF): a minimal reader, which finds the offsets of fields and nothing else;
//! and the fields that zctrace needs, by the list [`GROUPS`].
//!
//! The reader runs at every start, so it goes through the types once. It notes where they begin and
//! the names of structs and tracepoints; it parses only the structs that are looked up. Format: the
//! kernel's Documentation/bpf/btf.rst.

use std::{collections::BTreeMap, ffi::CStr};

use foldhash::{HashMap, HashMapExt as _};
use thiserror::Error;
use zc_ebpf::{ABSENT, Field, FieldGroup, FieldPlace, GROUPS, KernelFields, Need};

/// Why type information could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BtfError {
    /// It does not begin with BTF's magic number in this machine's byte order.
    #[error("it is not BTF")]
    NotBtf,
    /// It ends in the middle of something, or points outside of itself.
    #[error("it is damaged")]
    Damaged,
}

const MAGIC: u16 = 0xeb9f;
const KIND_POINTER: u32 = 2;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_TYPEDEF: u32 = 8;
const KIND_FUNCTION: u32 = 12;
/// How deep anonymous members may be nested. The kernel nests three; the work grows exponentially
/// with the depth.
const MAX_DEPTH: u32 = 4;
/// How many typedefs and qualifiers may stand between a member and its struct.
const MAX_ALIASES: u32 = 8;
/// About how many bytes of types a kernel has for each type, and for each struct with members.
const TYPE_BYTES: usize = 16;
const BYTES_PER_STRUCT: usize = 256;
/// Bytes that all kinds of types have in common at their beginning.
const TYPE_HEADER: usize = 12;
/// What the name of the type of each tracepoint begins with.
const TRACEPOINT: &[u8] = b"btf_trace_";
/// The function that stands for the iterator over tasks.
const TASK_ITERATOR: &str = "bpf_iter_task";

/// The types of a kernel.
#[derive(Debug)]
pub struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Where in `types` each type begins; the first has the id 1.
    starts: Vec<u32>,
    /// Where in `types` the structs with members begin, by name. The first of a name counts.
    structures: HashMap<&'a [u8], usize>,
    /// The ids of the types of tracepoints, by the tracepoint's name.
    tracepoints: HashMap<&'a [u8], u32>,
}

#[derive(Clone, Copy)]
struct Type {
    start: usize,
    name: u32,
    kind: u32,
    members: u32,
    has_bitfields: bool,
    /// Depends on the kind: the size in bytes, or the id of the type that this one refers to.
    payload: u32,
}

struct Member {
    name: u32,
    type_id: u32,
    offset_bytes: u32,
}

impl<'a> Btf<'a> {
    /// Reads the header, and finds all types.
    pub fn parse(data: &'a [u8]) -> Result<Self, BtfError> {
        let magic = data.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
        if magic != Some(MAGIC) {
            return Err(BtfError::NotBtf);
        }
        let [
            header_bytes,
            types_at,
            types_bytes,
            strings_at,
            strings_bytes,
        ] = read_words(data, 4).ok_or(BtfError::NotBtf)?;
        let section = |offset: u32, length: u32| {
            let begin = usize::try_from(header_bytes.checked_add(offset)?).ok()?;
            data.get(begin..begin.checked_add(usize::try_from(length).ok()?)?)
        };
        let types = section(types_at, types_bytes).ok_or(BtfError::Damaged)?;
        let strings = section(strings_at, strings_bytes).ok_or(BtfError::Damaged)?;
        let mut btf = Self {
            types,
            strings,
            starts: Vec::with_capacity(types.len() / TYPE_BYTES),
            structures: HashMap::with_capacity(types.len() / BYTES_PER_STRUCT),
            tracepoints: HashMap::new(),
        };
        btf.find_types().ok_or(BtfError::Damaged)?;
        Ok(btf)
    }

    /// Notes where the types begin; `None` if one is damaged.
    fn find_types(&mut self) -> Option<()> {
        let mut at = 0;
        while at < self.types.len() {
            self.starts.push(u32::try_from(at).ok()?);
            let found = self.type_at(at)?;
            match found.kind {
                KIND_STRUCT if found.members > 0 => {
                    if let Some(name) = self.name_bytes(found.name) {
                        self.structures.entry(name).or_insert(at);
                    }
                }
                KIND_TYPEDEF => {
                    let id = self.count();
                    // The whole name is looked for only where its beginning fits.
                    let tail = self.strings.get(found.name as usize..);
                    if let Some(tail) = tail.and_then(|tail| tail.strip_prefix(TRACEPOINT)) {
                        self.tracepoints.entry(until_nul(tail)).or_insert(id);
                    }
                }
                _ => {}
            }
            at += found.bytes()?;
        }
        Some(())
    }

    /// How many types there are so far, which is the id of the last.
    fn count(&self) -> u32 {
        list_length(&self.starts)
    }

    /// The offset in bytes of a field; `path` names a field of the struct, then a field of that
    /// field's struct, and so on. Members of anonymous structs and unions count as members of the
    /// struct around them. `None` if there is no such field.
    pub fn offset_of(&self, structure: &str, path: &[&str]) -> Option<u32> {
        let mut current = self.structure(structure)?;
        let mut offset = 0_u32;
        for (index, field) in path.iter().enumerate() {
            let (member_offset, type_id) = self.member(current, field, MAX_DEPTH)?;
            offset = offset.checked_add(member_offset)?;
            if index + 1 < path.len() {
                current = self.resolve(type_id)?;
            }
        }
        Some(offset)
    }

    /// The size in bytes of a struct.
    pub fn size_of(&self, structure: &str) -> Option<u32> {
        self.structure(structure).map(|found| found.payload)
    }

    /// Whether the kernel has a tracepoint of this name for programs with typed arguments
    /// (`tp_btf`).
    pub fn has_tracepoint(&self, name: &str) -> bool {
        self.tracepoints.contains_key(name.as_bytes())
    }

    /// The ids of the types of these tracepoints; missing ones are left out.
    pub fn tracepoints(&self, names: impl IntoIterator<Item = &'static str>) -> Tracepoints {
        let id = |name: &'static str| Some((*self.tracepoints.get(name.as_bytes())?, name));
        Tracepoints(names.into_iter().filter_map(id).collect())
    }

    /// The id of the type of a function.
    fn function(&self, name: &str) -> Option<u32> {
        let is_it = |start: &u32| {
            let found = self.type_at(*start as usize);
            let function = found.filter(|found| found.kind == KIND_FUNCTION);
            function.and_then(|found| self.name_bytes(found.name)) == Some(name.as_bytes())
        };
        let place = self.starts.iter().position(is_it)?;
        u32::try_from(place + 1).ok()
    }

    fn structure(&self, name: &str) -> Option<Type> {
        self.type_at(*self.structures.get(name.as_bytes())?)
    }

    fn member(&self, outer: Type, name: &str, depth: u32) -> Option<(u32, u32)> {
        for index in 0..outer.members {
            let member = self.member_at(outer, index)?;
            if member.name != 0 {
                if self.name_bytes(member.name) == Some(name.as_bytes()) {
                    return Some((member.offset_bytes, member.type_id));
                }
            } else if let Some(inner) = self.resolve(member.type_id).filter(|_| depth > 0)
                && let Some((offset, type_id)) = self.member(inner, name, depth - 1)
            {
                return Some((member.offset_bytes.checked_add(offset)?, type_id));
            }
        }
        None
    }

    fn member_at(&self, outer: Type, index: u32) -> Option<Member> {
        let at = outer.start + TYPE_HEADER + 12 * usize::try_from(index).ok()?;
        let [name, type_id, offset] = read_words(self.types, at)?;
        // With bitfields, the upper byte is the width of the field.
        let offset_bits = if outer.has_bitfields {
            offset & 0x00ff_ffff
        } else {
            offset
        };
        Some(Member {
            name,
            type_id,
            offset_bytes: offset_bits / 8,
        })
    }

    /// The struct or union behind typedefs and qualifiers.
    fn resolve(&self, type_id: u32) -> Option<Type> {
        let mut id = type_id;
        for _ in 0..MAX_ALIASES {
            let found = self.type_of(id)?;
            match found.kind {
                KIND_STRUCT | KIND_UNION => return Some(found),
                // typedef, volatile, const, restrict, type tag
                8..=11 | 18 => id = found.payload,
                _ => return None,
            }
        }
        None
    }

    /// The type with this id.
    fn type_of(&self, id: u32) -> Option<Type> {
        let start = self.starts.get(id.checked_sub(1)? as usize)?;
        self.type_at(*start as usize)
    }

    /// The type that begins here; `None` if it does not end within the types.
    fn type_at(&self, start: usize) -> Option<Type> {
        let [name, info, payload] = read_words(self.types, start)?;
        Some(Type {
            start,
            name,
            kind: (info >> 24) & 0x1f,
            members: info & 0xffff,
            has_bitfields: info >> 31 != 0,
            payload,
        })
    }

    /// The string at this offset. The last one may lack its NUL.
    fn name_bytes(&self, offset: u32) -> Option<&'a [u8]> {
        let tail = self.strings.get(usize::try_from(offset).ok()?..)?;
        Some(until_nul(tail))
    }
}

/// The string that begins these bytes. It may lack its NUL.
fn until_nul(bytes: &[u8]) -> &[u8] {
    CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes)
}

/// Tracepoints, and perhaps the iterator over tasks, by the ids of their types.
#[derive(Debug, Default)]
pub struct Tracepoints(BTreeMap<u32, &'static str>);

impl Tracepoints {
    /// Adds the type of the iterator over tasks, if the kernel has it.
    pub(super) fn add_task_iterator(&mut self, types: &Btf<'_>) {
        let id = types.function(TASK_ITERATOR);
        self.0.extend(id.map(|id| (id, TASK_ITERATOR)));
    }

    /// The kernel's types as far as aya needs them: aya builds a value for every type that it
    /// reads, but looks up only these.
    pub(super) fn to_types(&self) -> Result<aya::Btf, aya::BtfError> {
        aya::Btf::parse(&self.to_btf(), aya::Endianness::default())
    }

    /// Type information in which these have these ids. All other types are pointers without a name.
    fn to_btf(&self) -> Vec<u8> {
        let mut types = Vec::new();
        let mut strings = vec![0];
        for (&id, &name) in &self.0 {
            let (kind, prefix) = if name == TASK_ITERATOR {
                (KIND_FUNCTION, &b""[..])
            } else {
                (KIND_TYPEDEF, TRACEPOINT)
            };
            types.resize(id as usize - 1, [0, KIND_POINTER << 24, 0]);
            types.push([list_length(&strings), kind << 24, 0]);
            strings.extend([prefix, name.as_bytes(), b"\0"].concat());
        }
        encode_btf(types.as_flattened(), &strings)
    }
}

/// Type information with these words of types and these strings.
fn encode_btf(types: &[u32], strings: &[u8]) -> Vec<u8> {
    let (types_bytes, strings_bytes) = (4 * list_length(types), list_length(strings));
    let header = [24, 0, types_bytes, types_bytes, strings_bytes];
    let mut data = [MAGIC.to_ne_bytes(), [1, 0]].concat();
    data.extend(
        header
            .iter()
            .chain(types)
            .flat_map(|word| word.to_ne_bytes()),
    );
    data.extend(strings);
    data
}

impl Type {
    /// The length of the type in bytes; `None` if its kind is unknown.
    fn bytes(self) -> Option<usize> {
        let members = usize::try_from(self.members).ok()?;
        let more = match self.kind {
            // int, variable, declaration tag
            1 | 14 | 17 => 4,
            // pointer, forward, typedef, volatile, const, restrict, function, float, type tag
            2 | 7..=12 | 16 | 18 => 0,
            // array
            3 => 12,
            // struct, union, data section, enum of 64 bits
            KIND_STRUCT | KIND_UNION | 15 | 19 => 12 * members,
            // enum, function prototype
            6 | 13 => 8 * members,
            _ => return None,
        };
        Some(TYPE_HEADER + more)
    }
}

fn list_length<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

/// The numbers that begin here.
fn read_words<const COUNT: usize>(data: &[u8], at: usize) -> Option<[u32; COUNT]> {
    let bytes = data.get(at..at.checked_add(4 * COUNT)?)?;
    let (words, _) = bytes.as_chunks();
    Some(words.try_into().ok()?).map(|words: [[u8; 4]; COUNT]| words.map(u32::from_ne_bytes))
}

#[cfg(test)]
mod btf_tests;

/// The kernel lacks a field that is required for following tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this kernel has no field {0}, which zctrace needs to follow processes")]
pub struct MissingField(pub &'static str);

/// The offsets on this kernel, and a note for each feature that it lacks a field for.
pub(crate) fn kernel_fields(btf: &Btf<'_>) -> Result<(KernelFields, Vec<String>), MissingField> {
    let mut fields = KernelFields::NONE;
    let mut notes = Vec::new();
    for group in GROUPS
        .iter()
        .filter(|group| ["", std::env::consts::ARCH].contains(&group.only_on))
    {
        match group.need {
            Need::Required => fill_group(btf, group, &mut fields)?,
            Need::All(unknown) => {
                let missing = fill_group(btf, group, &mut fields).err();
                let note = |MissingField(field)| {
                    format!("{unknown} unknown: this kernel has no field {field}")
                };
                notes.extend(missing.map(note));
            }
        }
    }
    Ok((fields, notes))
}

/// Fills in all fields of a group, or none.
fn fill_group(
    btf: &Btf<'_>,
    group: &FieldGroup,
    fields: &mut KernelFields,
) -> Result<(), MissingField> {
    let mut with_group = *fields;
    for field in group.fields {
        *(field.of)(&mut with_group) = find_field(btf, field)?;
    }
    *fields = with_group;
    Ok(())
}

/// Looks a field up. If it is missing, the error has the name that it has on most kernels.
fn find_field(btf: &Btf<'_>, field: &Field) -> Result<u32, MissingField> {
    let mut places = field.places.iter();
    let found = places.find_map(|place| find_place(btf, *place));
    found.ok_or_else(|| MissingField(field.places.first().map_or("", name_of)))
}

fn find_place(btf: &Btf<'_>, place: FieldPlace) -> Option<u32> {
    let offset = |name: &str| {
        let (structure, path) = name.split_once('.')?;
        btf.offset_of(structure, &path.split('.').collect::<Vec<_>>())
    };
    match place {
        FieldPlace::Offset(name) => offset(name),
        FieldPlace::OffsetIf(name, other) => offset(other).and_then(|_| offset(name)),
        FieldPlace::Size(structure) => btf.size_of(structure),
        FieldPlace::Sum(outer, inner) => Some(offset(outer)? + offset(inner)?),
        FieldPlace::Distance(to, from) => Some(offset(to)?.wrapping_sub(offset(from)?)),
        FieldPlace::Absent => Some(ABSENT),
    }
}

/// The kernel's name of what is looked up.
fn name_of(place: &FieldPlace) -> &'static str {
    match *place {
        FieldPlace::Offset(name)
        | FieldPlace::OffsetIf(name, _)
        | FieldPlace::Size(name)
        | FieldPlace::Sum(_, name)
        | FieldPlace::Distance(name, _) => name,
        FieldPlace::Absent => "",
    }
}
