//! Finds the kernel's fields in its BTF, by the list [`GROUPS`].

use thiserror::Error;
use zc_ebpf::{ABSENT, Field, GROUPS, Group, KernelFields, Need, Place};

use super::btf::Btf;

/// The kernel lacks a field that is required for following tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this kernel has no field {0}, which zctrace needs to follow processes")]
pub struct MissingField(pub &'static str);

/// The offsets on this kernel, and a note for each feature that it lacks a field for.
pub fn find(btf: &Btf<'_>) -> Result<(KernelFields, Vec<String>), MissingField> {
    let mut fields = KernelFields::NONE;
    let mut notes = Vec::new();
    for group in GROUPS.iter().filter(|group| ["", std::env::consts::ARCH].contains(&group.only_on)) {
        match group.need {
            Need::Required => fill(btf, group, &mut fields)?,
            Need::Optional => drop(fill(btf, group, &mut fields)),
            Need::All(unknown) => notes.extend(fill(btf, group, &mut fields).err().map(|missing| note(unknown, missing))),
            Need::Each(unknown) => {
                for field in group.fields {
                    match find_field(btf, field) {
                        Ok(offset) => *(field.of)(&mut fields) = offset,
                        Err(missing) => notes.push(note(unknown, missing)),
                    }
                }
            }
        }
    }
    Ok((fields, notes))
}

/// Fills in all fields of a group, or none.
fn fill(btf: &Btf<'_>, group: &Group, fields: &mut KernelFields) -> Result<(), MissingField> {
    let mut with_group = *fields;
    for field in group.fields {
        *(field.of)(&mut with_group) = find_field(btf, field)?;
    }
    *fields = with_group;
    Ok(())
}

/// Looks a field up. If it is missing, the error has the name that it has on most kernels.
fn find_field(btf: &Btf<'_>, field: &Field) -> Result<u32, MissingField> {
    let found = field.places.iter().find_map(|place| find_place(btf, *place));
    found.ok_or_else(|| MissingField(field.places.first().map_or("", name)))
}

fn find_place(btf: &Btf<'_>, place: Place) -> Option<u32> {
    let offset = |name: &str| {
        let (structure, path) = name.split_once('.')?;
        btf.offset_of(structure, &path.split('.').collect::<Vec<_>>())
    };
    match place {
        Place::Offset(name) => offset(name),
        Place::OffsetIf(name, other) => offset(other).and_then(|_| offset(name)),
        Place::Size(structure) => btf.size_of(structure),
        Place::Sum(outer, inner) => Some(offset(outer)? + offset(inner)?),
        Place::Distance(to, from) => Some(offset(to)?.wrapping_sub(offset(from)?)),
        Place::Absent => Some(ABSENT),
    }
}

/// The kernel's name of what is looked up.
fn name(place: &Place) -> &'static str {
    match *place {
        Place::Offset(name) | Place::OffsetIf(name, _) | Place::Size(name) | Place::Sum(_, name) | Place::Distance(name, _) => {
            name
        }
        Place::Absent => "",
    }
}

/// The note on what is unknown because this kernel lacks a field.
fn note(unknown: &str, MissingField(field): MissingField) -> String {
    format!("{unknown} unknown: this kernel has no field {field}")
}

/// Whether this kernel has all fields that the counters of a task come from; if not, they are unknown.
pub fn has_counters(fields: &KernelFields) -> bool {
    [
        fields.task_utime,
        fields.task_stime,
        fields.task_runtime,
        fields.task_nvcsw,
        fields.task_nivcsw,
        fields.task_min_flt,
        fields.task_maj_flt,
    ]
    .iter()
    .all(|&offset| offset != ABSENT)
}
