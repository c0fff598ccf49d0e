//! Creates the files that a check asks for before it runs.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

use super::{Content, PreparedFile};

/// Creates the files in a folder. The error names the file and says why it could not be created.
pub(super) fn create(files: &[PreparedFile], folder: &Path) -> Result<(), String> {
    for file in files {
        let path = folder.join(&file.path);
        let created = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| write(&path, &file.content));
        created.map_err(|error| format!("cannot create the file '{}': {error}", file.path.display()))?;
    }
    Ok(())
}

fn write(path: &Path, content: &Content) -> io::Result<()> {
    match content {
        Content::Text(text) => fs::write(path, text),
        Content::Random(size) => fill(path, *size, Xorshift(0x9e37_79b9_7f4a_7c15)),
        Content::Zero(size) => fill(path, *size, std::iter::repeat(0)),
    }
}

/// Writes `size` bytes taken from these numbers.
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

/// Pseudo-random numbers (Marsaglia's xorshift): the same sequence every time.
struct Xorshift(u64);

impl Iterator for Xorshift {
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
    fn files_have_the_size_asked_for_and_the_same_content_every_time() {
        let folders = [tempfile::tempdir(), tempfile::tempdir()].map(|folder| folder.expect("a folder"));
        let file = |path: &str, content| PreparedFile { path: path.into(), content };
        let files = [
            file("in", Content::Random(100_003)),
            file("a/zero", Content::Zero(9)),
            file("empty", Content::Random(0)),
            file("text", Content::Text("hi\n".into())),
        ];
        for folder in &folders {
            create(&files, folder.path()).expect("there is room");
        }
        let read = |folder: usize, name: &str| fs::read(folders[folder].path().join(name)).expect("was created");
        assert_eq!((read(0, "in").len(), read(0, "a/zero"), read(0, "empty").len()), (100_003, vec![0; 9], 0));
        assert_eq!((read(0, "in"), read(0, "text")), (read(1, "in"), b"hi\n".to_vec()));
    }

    #[test]
    fn the_error_names_the_file_that_cannot_be_created() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = ["a", "a/b"].map(|path| PreparedFile { path: path.into(), content: Content::Text(String::new()) });
        let error = create(&files, folder.path()).expect_err("a is a file");
        assert!(error.starts_with("cannot create the file 'a/b': "), "{error}");
    }
}
