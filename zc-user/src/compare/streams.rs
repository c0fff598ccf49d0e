//! The standard streams of the commands that are compared.

use std::{fs::File, io, os::fd::OwnedFd, path::Path, thread};

use super::{CompareError, Input, Output, Plan};
use crate::launch::{Stream, Streams};

/// Those of one run.
pub(super) fn open(plan: &Plan) -> Result<Streams, CompareError> {
    let stdin = match &plan.input {
        Input::Null => Stream::null()?,
        Input::File(path) => opened(path, File::open(path))?,
    };
    let (stdout, stderr) = match &plan.output {
        Output::Null => (Stream::null()?, Stream::null()?),
        Output::Pipe => (drained()?.into(), Stream::null()?),
        Output::Inherit => (Stream::Inherited, Stream::Inherited),
        Output::File(path) => (opened(path, File::create(path))?, Stream::null()?),
    };
    Ok(Streams { stdin, stdout, stderr })
}

/// Those of what runs before and after: only `--output inherit` shows what it says.
pub(super) fn of_hooks(plan: &Plan) -> io::Result<Streams> {
    let output = || if plan.output == Output::Inherit { Ok(Stream::Inherited) } else { Stream::null() };
    Ok(Streams { stdin: Stream::null()?, stdout: output()?, stderr: output()? })
}

fn opened(path: &Path, file: io::Result<File>) -> Result<Stream, CompareError> {
    file.map(Stream::from).map_err(|cause| CompareError::Stream { path: path.display().to_string(), cause })
}

/// The writing end of a pipe whose other end is read until nobody can write to it any more.
fn drained() -> io::Result<OwnedFd> {
    let (mut reader, writer) = io::pipe()?;
    thread::Builder::new().name("drain".to_owned()).spawn(move || io::copy(&mut reader, &mut io::sink()))?;
    Ok(writer.into())
}
