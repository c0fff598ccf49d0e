//! The files of a run: those that the check asks for, and those that its expectations may mean.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufWriter, Write},
    os::unix::fs::lchown,
    path::Path,
};

use zctrace_core::{
    check::{Check, NoReport, PreparedContent, PreparedFile},
    expect::Expectation,
    options::Identity,
};

/// The files that are there before a run in this directory, as far as expectations may mean them:
/// those of the check, and of each pattern the first that matches. A name is looked for in the
/// directory itself, and `**` within a pattern stands for one folder, so that this ends soon.
pub(super) fn existing_files(check: &Check, directory: &Path) -> BTreeSet<String> {
    let prepared = check.files.iter();
    let prepared = prepared.map(|file| file.path.display().to_string());
    let patterns = check.expectations.iter();
    let patterns = patterns.flat_map(Expectation::file_patterns);
    let below = glob::Pattern::escape(&directory.to_string_lossy());
    let first = |pattern: &str| {
        let pattern = pattern.replace("**", "*");
        let whole = Path::new(&below).join(pattern);
        let mut found = glob::glob(&whole.to_string_lossy()).ok()?.flatten();
        let path = found.next()?;
        let shown = path.strip_prefix(directory).unwrap_or(&path);
        Some(shown.display().to_string())
    };
    prepared.chain(patterns.filter_map(first)).collect()
}

/// Creates the files of a check in a folder.
pub(super) fn create_files(files: &[PreparedFile], folder: &Path) -> Result<(), NoReport> {
    for file in files {
        let path = folder.join(&file.path);
        let created = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| write(&path, &file.content));
        created.map_err(|error| NoReport::File {
            path: file.path.clone(),
            cause: error.to_string(),
        })?;
    }
    Ok(())
}

/// Gives a folder and what is in it to a user.
pub(super) fn give(folder: &Path, owner: Identity) -> io::Result<()> {
    lchown(folder, Some(owner.uid), Some(owner.gid))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            give(&entry.path(), owner)?;
        } else {
            lchown(entry.path(), Some(owner.uid), Some(owner.gid))?;
        }
    }
    Ok(())
}

fn write(path: &Path, content: &PreparedContent) -> io::Result<()> {
    match content {
        PreparedContent::Text(text) => fs::write(path, text),
        PreparedContent::Random(size) => fill(path, *size, Xorshift(0x9e37_79b9_7f4a_7c15)),
        PreparedContent::Zero(size) => fill(path, *size, std::iter::repeat(0)),
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
    fn files_are_known_that_are_prepared_or_that_a_pattern_of_an_expectation_matches() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = ["in.dat", "a/b/deep", "[odd] name"].map(|path| PreparedFile {
            path: path.into(),
            content: PreparedContent::Text(String::new()),
        });
        create_files(&files, folder.path()).expect("there is room");
        let at = |path: &str| folder.path().join(path).display().to_string();
        let mut check = Check::new("x".into(), vec!["true".into()], "/".into());
        for (pattern, expected) in [
            ("in.dat", "in.dat".to_owned()),
            ("in.dta", String::new()),
            ("*.dat", "in.dat".to_owned()),
            ("./in.dat", "in.dat".to_owned()),
            ("a/**", "a/b".to_owned()),
            ("a/**/deep", "a/b/deep".to_owned()),
            ("/dev/null", "/dev/null".to_owned()),
            (&at("in.*"), "in.dat".to_owned()),
            ("deep", String::new()),
        ] {
            let of_read = format!("read[file=\"{pattern}\"].calls == 0");
            check.expectations = vec![of_read.parse().expect("an expectation")];
            let found: Vec<String> = existing_files(&check, folder.path()).into_iter().collect();
            assert_eq!(found.concat(), expected, "{pattern}");
        }
        check.files = files.into();
        assert_eq!(existing_files(&check, folder.path()).len(), 3);
    }

    #[test]
    fn files_have_the_size_asked_for_and_the_same_content_every_time() {
        let file = |path: &str, content| PreparedFile {
            path: path.into(),
            content,
        };
        let files = [
            file("in", PreparedContent::Random(100_003)),
            file("a/zero", PreparedContent::Zero(9)),
            file("empty", PreparedContent::Random(0)),
            file("text", PreparedContent::Text("hi\n".into())),
        ];
        let [first, second] = [(), ()].map(|()| {
            let folder = tempfile::tempdir().expect("a folder");
            create_files(&files, folder.path()).expect("there is room");
            // A file is not a folder.
            let below = [file("text/b", PreparedContent::Zero(1))];
            let error = create_files(&below, folder.path()).expect_err("text is a file");
            assert!(
                error
                    .to_string()
                    .starts_with("cannot create the file 'text/b': ")
            );
            ["in", "a/zero", "empty", "text"]
                .map(|name| fs::read(folder.path().join(name)).expect("was created"))
        });
        let lengths = first.each_ref().map(Vec::len);
        assert_eq!(lengths, [100_003, 9, 0, 3]);
        assert_eq!((&first[1], &first[3]), (&vec![0; 9], &b"hi\n".to_vec()));
        assert_eq!(first, second);
    }
}
