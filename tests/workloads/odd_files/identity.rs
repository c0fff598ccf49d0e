//! Names that say little about which file it is.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

use anyhow::{Result, ensure};

/// How many files have the inode number after each other.
const GENERATIONS: usize = 20;

/// Twenty files after each other, deleted at once, which get the same inode number on ext4: 1, 2, ... 20 bytes. Says how many numbers
/// there were.
pub(crate) fn same_inode_number() -> Result<()> {
    let mut numbers = std::collections::BTreeSet::new();
    for generation in 1..=GENERATIONS {
        let mut file = File::create("again")?;
        file.write_all(&vec![b'g'; generation])?;
        numbers.insert(file.metadata()?.ino());
        fs::remove_file("again")?;
    }
    Ok(zc_tests::print_line(&numbers.len().to_string())?)
}

/// One file under two names, and open twice: 100 bytes and 200.
pub(crate) fn two_names() -> Result<()> {
    let mut one = File::create("one")?;
    fs::hard_link("one", "two")?;
    let mut two = File::options().append(true).open("two")?;
    one.write_all(&[b'1'; 100])?;
    two.write_all(&[b'2'; 200])?;
    Ok(())
}

/// 10 bytes to `before`, and 20 more when it is called `after`.
pub(crate) fn renamed() -> Result<()> {
    let mut file = File::create("before")?;
    file.write_all(&[b'b'; 10])?;
    fs::rename("before", "after")?;
    file.write_all(&[b'a'; 20])?;
    Ok(())
}

/// 40 bytes to a file that was deleted before.
pub(crate) fn deleted() -> Result<()> {
    let mut file = File::create("gone")?;
    fs::remove_file("gone")?;
    file.write_all(&[b'd'; 40])?;
    Ok(())
}

/// 50 bytes to a file whose name is no text.
pub(crate) fn not_utf8() -> Result<()> {
    File::create(OsStr::from_bytes(b"caf\xe9"))?.write_all(&[b'n'; 50])?;
    Ok(())
}

/// 60 bytes to a file whose path is longer than any that a call takes.
pub(crate) fn very_long() -> Result<()> {
    let name = "d".repeat(200);
    for _ in 0..30 {
        fs::create_dir(&name)?;
        std::env::set_current_dir(&name)?;
    }
    let mut file = File::create("deep")?;
    file.write_all(&[b'l'; 60])?;
    ensure!(file.metadata()?.len() == 60, "it is there");
    Ok(())
}
