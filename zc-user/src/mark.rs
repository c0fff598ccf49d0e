//! Marks: moments of a program that a trace names.

use rustix::fs::stat;

/// Marks this moment for a trace that judges what was synced (`--syncs`): `durable("data/**") at
/// mark("commit")` looks at what was synced when the program called `mark("commit")`.
///
/// It makes one system call, which fails: it looks up `/zctrace/mark/NAME`, where nothing is. A name
/// with a NUL makes none. Without a trace, nothing else happens.
///
/// ```
/// zctrace::mark("commit");
/// ```
pub fn mark(name: &str) {
    // The error is the mark.
    let _ = stat(format!("/zctrace/mark/{name}"));
}
