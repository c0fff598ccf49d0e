//! The files that a check finds when it starts.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

use super::{Content, PreparedFile};

/// Makes the files in a folder. The error says which file, and why not.
pub(super) fn make(files: &[PreparedFile], folder: &Path) -> Result<(), String> {
    for file in files {
        let path = folder.join(&file.path);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| write(&path, &file.content));
        made.map_err(|error| format!("cannot make the file '{}': {error}", file.path.display()))?;
    }
    Ok(())
}

fn write(path: &Path, content: &Content) -> io::Result<()> {
    match content {
        Content::Text(text) => fs::write(path, text),
        Content::Random(size) => fill(path, *size, Noise(0x9e37_79b9_7f4a_7c15)),
        Content::Zero(size) => fill(path, *size, std::iter::repeat(0)),
    }
}

/// Writes so many bytes made of these numbers.
fn fill(path: &Path, size: u64, numbers: impl Iterator<Item = u64>) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 16, File::create(path)?);
    let mut left = size;
    for number in numbers {
        let bytes = number.to_le_bytes();
        let wanted = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        file.write_all(&bytes[..wanted])?;
        left -= wanted as u64;
        if left == 0 {
            break;
        }
    }
    file.flush()
}

/// Numbers that look random and are the same each time (Marsaglia's xorshift).
struct Noise(u64);

impl Iterator for Noise {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_their_size_and_are_the_same_each_time() {
        let folders = [tempfile::tempdir(), tempfile::tempdir()].map(|folder| folder.expect("a folder"));
        let file = |path: &str, content| PreparedFile { path: path.into(), content };
        let files = [
            file("in", Content::Random(100_003)),
            file("a/zero", Content::Zero(9)),
            file("empty", Content::Random(0)),
            file("text", Content::Text("hi\n".into())),
        ];
        for folder in &folders {
            make(&files, folder.path()).expect("room");
        }
        let read = |folder: usize, name: &str| fs::read(folders[folder].path().join(name)).expect("was made");
        assert_eq!((read(0, "in").len(), read(0, "a/zero"), read(0, "empty").len()), (100_003, vec![0; 9], 0));
        assert_eq!((read(0, "in"), read(0, "text")), (read(1, "in"), b"hi\n".to_vec()));
    }

    #[test]
    fn a_file_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = ["a", "a/b"].map(|path| PreparedFile { path: path.into(), content: Content::Text(String::new()) });
        let error = make(&files, folder.path()).expect_err("a is a file");
        assert!(error.starts_with("cannot make the file 'a/b': "), "{error}");
    }
}
