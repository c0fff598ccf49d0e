//! The paths that programs gave to calls: from keys of the kernel side to values.

use std::net::{IpAddr, SocketAddr};

use zc_ebpf::{GivenText, INTERNET_ADDRESS, PathKey, UNKNOWN_PATH};

use super::file_table::NumberedFiles;
use crate::{
    syscalls::{Call, PathForm},
    trace::{FailedPath, GivenPath},
};
use zctrace_core::text::from_bytes;

/// What the key of the kernel side says.
pub fn failed_path(key: &PathKey, files: &NumberedFiles) -> FailedPath {
    let call = Call::from_slot(key.slot);
    let is_address = call.spec().path_form == PathForm::Address;
    let given = key.paths.each_ref();
    let [first, second] = given.map(|text| given_path(text, key.errno == 0, files));
    // The name of a socket that is in no filesystem begins with a NUL.
    let first = first.filter(|path| !(is_address && path.text.is_empty()));
    FailedPath {
        call,
        errno: key.errno,
        paths: [first, second],
    }
}

/// The path in a key.
fn given_path(given: &GivenText, has_succeeded: bool, files: &NumberedFiles) -> Option<GivenPath> {
    if given.length != UNKNOWN_PATH && given.length & INTERNET_ADDRESS != 0 {
        return Some(GivenPath {
            text: internet_address(given)?,
            is_cut: false,
            is_below_descriptor: false,
        });
    }
    let text = given.bytes.get(..usize::try_from(given.length).ok()?)?;
    let path = GivenPath {
        text: from_bytes(text),
        is_cut: text.len() + 1 >= zc_ebpf::PATH_BYTES,
        is_below_descriptor: false,
    };
    let directory = || files.known(given.directory)?.path.as_deref();
    Some(match given.directory {
        0 => path,
        _ => path.in_directory_of(directory(), has_succeeded),
    })
}

/// `HOST:PORT`: the port and the address, in the order of bytes of networks; an address of version 6
/// stands behind `sin6_flowinfo`.
fn internet_address(given: &GivenText) -> Option<String> {
    let bytes = given
        .bytes
        .get(..usize::try_from(given.length ^ INTERNET_ADDRESS).ok()?)?;
    let (port, bytes) = bytes.split_first_chunk()?;
    let host = if let Ok(host) = <[u8; 4]>::try_from(bytes) {
        IpAddr::from(host)
    } else {
        IpAddr::from(<[u8; 16]>::try_from(bytes.get(4..)?).ok()?)
    };
    Some(SocketAddr::new(host, u16::from_be_bytes(*port)).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_versions_are_shown_with_their_port() {
        let address = |bytes: &[u8]| {
            let mut given = GivenText {
                length: u32::try_from(bytes.len()).expect("fits") | INTERNET_ADDRESS,
                directory: 0,
                bytes: [0; zc_ebpf::PATH_BYTES],
            };
            given.bytes[..bytes.len()].copy_from_slice(bytes);
            internet_address(&given)
        };
        let v4 = [0x23, 0x27, 127, 0, 0, 1];
        assert_eq!(address(&v4).as_deref(), Some("127.0.0.1:8999"));
        let mut v6 = [0; 22];
        (v6[1], v6[21]) = (80, 1);
        assert_eq!(address(&v6).as_deref(), Some("[::1]:80"));
        assert_eq!(address(&v6[..12]), None);
    }
}
