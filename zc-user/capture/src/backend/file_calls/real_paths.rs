//! Where paths lead: symbolic links as they are when the run has ended.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use zctrace_core::text::from_os;

/// Follows symbolic links. What was found of a directory is not looked up again.
#[derive(Debug)]
pub struct RealPaths {
    start: PathBuf,
    directories: HashMap<PathBuf, PathBuf>,
}

impl RealPaths {
    /// Relative paths start in this directory.
    pub fn new(start: &str) -> Self {
        Self {
            start: start.into(),
            directories: HashMap::new(),
        }
    }

    /// The absolute path without symbolic links; `follows` says whether one at its end is followed. Of
    /// what is no longer there, the directories that are.
    pub fn find(&mut self, path: &str, follows: bool) -> String {
        let path = self.start.join(path);
        let whole = follows.then(|| fs::canonicalize(&path).ok()).flatten();
        let found = whole.unwrap_or_else(|| match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => self.directory(parent).join(name),
            _ => path,
        });
        from_os(found)
    }

    /// Where the symbolic links on this path lead, name by name, from the first link on; `follows` says
    /// whether also one at its end. It ends where nothing is.
    pub fn places_behind_links(&self, path: &str, follows: bool) -> Vec<String> {
        /// The kernel follows as many: `MAXSYMLINKS` of its include/linux/namei.h.
        const MAX_LINKS: usize = 40;
        let names = |path: &Path| {
            path.components()
                .map(|name| PathBuf::from(name.as_os_str()))
                .collect::<Vec<_>>()
        };
        let mut rest = names(&self.start.join(path));
        rest.reverse();
        let (mut at, mut links, mut places) = (PathBuf::new(), 0, Vec::new());
        while let Some(name) = rest.pop() {
            if name.as_os_str() == ".." {
                at.pop();
                continue;
            }
            at.push(name);
            if links > 0 {
                places.push(from_os(&at));
            }
            let is_followed = (follows || !rest.is_empty()) && links < MAX_LINKS;
            if let Some(target) = is_followed.then(|| fs::read_link(&at).ok()).flatten() {
                links += 1;
                at.pop();
                rest.extend(names(&target).into_iter().rev());
            }
        }
        places
    }

    fn directory(&mut self, path: &Path) -> PathBuf {
        if let Some(known) = self.directories.get(path) {
            return known.clone();
        }
        let found = match (fs::canonicalize(path), path.parent(), path.file_name()) {
            (Ok(found), ..) => found,
            (Err(_), Some(parent), Some(name)) => self.directory(parent).join(name),
            _ => path.to_owned(),
        };
        self.directories.insert(path.to_owned(), found.clone());
        found
    }
}
