//! A block device over a file, which the kernel takes apart with the last user: also if this process is killed.

use std::{
    fs::{File, OpenOptions},
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// `LOOP_CTL_GET_FREE` of the kernel's include/uapi/linux/loop.h.
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
/// `LOOP_CONFIGURE` (kernel 5.8 and newer).
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
/// `LO_FLAGS_AUTOCLEAR`: the device ends with its last user.
const AUTOCLEAR: u32 = 4;
/// Somebody else may take the free device first.
const TRIES: u32 = 20;

/// `struct loop_config`, with `struct loop_info64` in it, of which only the flags are of use here.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    /// `lo_device`, `lo_inode`, `lo_rdevice`, `lo_offset`, `lo_sizelimit`: all as they come.
    places: [u64; 5],
    /// `lo_number`, `lo_encrypt_type`, `lo_encrypt_key_size`.
    numbers: [u32; 3],
    flags: u32,
    /// `lo_file_name`, `lo_crypt_name`, `lo_encrypt_key`, `lo_init`.
    names: [u8; 64 + 64 + 32 + 16],
    reserved: [u64; 8],
}

/// The device; it is there as long as the value.
pub struct LoopDevice {
    path: PathBuf,
    _user: File,
}

impl LoopDevice {
    /// A device with the bytes of this file.
    pub fn over(image: &Path) -> Result<Self> {
        let open = |path: &Path| OpenOptions::new().read(true).write(true).open(path).with_context(|| path.display().to_string());
        let backing = open(image)?;
        let control = open(Path::new("/dev/loop-control"))?;
        let config = LoopConfig {
            fd: u32::try_from(backing.as_raw_fd())?,
            block_size: 0,
            places: [0; 5],
            numbers: [0; 3],
            flags: AUTOCLEAR,
            names: [0; 176],
            reserved: [0; 8],
        };
        for tries_left in (0..TRIES).rev() {
            // SAFETY: the call takes no argument.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            let number = if number < 0 { Err(std::io::Error::last_os_error()) } else { Ok(number) };
            let path = PathBuf::from(format!("/dev/loop{}", number.context("no free loop device")?));
            let user = open(&path)?;
            // SAFETY: `config` has the layout of the kernel's struct and lives longer than the call, which only reads it.
            let configured = unsafe { libc::ioctl(user.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
            if configured == 0 {
                return Ok(Self { path, _user: user });
            }
            let error = std::io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EBUSY) || tries_left == 0 {
                return Err(error).with_context(|| format!("cannot set up {}", path.display()));
            }
        }
        unreachable!("the last try returns")
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
