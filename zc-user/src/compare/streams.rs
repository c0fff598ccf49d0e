//! The standard streams of the commands that are compared.

use std::{
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::fs::FileTypeExt as _},
    path::Path,
    thread,
};

use super::{CompareError, Input, Output, Plan};
use crate::launch::{Stream, Streams};

/// Those of one run.
pub(super) fn open(plan: &Plan) -> Result<Streams, CompareError> {
    let stdin = match &plan.input {
        Input::Null => Stream::null()?,
        Input::File(path) => opened(path, || File::open(path))?,
    };
    let (stdout, stderr) = match &plan.output {
        Output::Null => (Stream::null()?, Stream::null()?),
        Output::Pipe => (drained()?.into(), Stream::null()?),
        Output::Inherit => (Stream::Inherited, Stream::Inherited),
        Output::File(path) => (opened(path, || File::create(path))?, Stream::null()?),
    };
    Ok(Streams { stdin, stdout, stderr })
}

/// Those of what runs before and after: only `--output inherit` shows what it says.
pub(super) fn of_hooks(plan: &Plan) -> io::Result<Streams> {
    let output = || if plan.output == Output::Inherit { Ok(Stream::Inherited) } else { Stream::null() };
    Ok(Streams { stdin: Stream::null()?, stdout: output()?, stderr: output()? })
}

fn opened(path: &Path, open: impl Fn() -> io::Result<File>) -> Result<Stream, CompareError> {
    let file = refuse_fifo(path).and_then(|()| open());
    file.map(Stream::from).map_err(|cause| CompareError::Stream { path: path.display().to_string(), cause })
}

/// To open a FIFO waits for its other side, deaf to signals; and what is in it is there for one run alone.
fn refuse_fifo(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.file_type().is_fifo() => {
            Err(io::Error::other("it is a FIFO, which has its bytes for one run alone; name a regular file"))
        }
        // What else is wrong with it is known once it is opened.
        _ => Ok(()),
    }
}

/// The writing end of a pipe whose other end is read until nobody can write to it any more.
fn drained() -> io::Result<OwnedFd> {
    let (mut reader, writer) = io::pipe()?;
    thread::Builder::new().name("drain".to_owned()).spawn(move || io::copy(&mut reader, &mut io::sink()))?;
    Ok(writer.into())
}

#[cfg(test)]
mod tests {
    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;
    use zctrace_core::compare::sample;

    #[test]
    fn a_fifo_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let fifo = dir.path().join("fifo");
        mkfifo(&fifo, Mode::S_IRWXU).expect("ours");
        let (input, output) = (Input::File(fifo.clone()), Output::File(fifo.clone()));
        for plan in [Plan { input, ..sample::plan(1) }, Plan { output, ..sample::plan(1) }] {
            let Err(error) = open(&plan) else { panic!("it was opened") };
            let error = error.to_string();
            assert!(error.contains(&fifo.display().to_string()) && error.contains("a FIFO"), "{error}");
        }
    }
}
