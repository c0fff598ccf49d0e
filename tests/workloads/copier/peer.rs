//! The other side of a copy: `sink` takes what is written to it, `feed` gives what is to be read from it.

use std::io::{ErrorKind, Read, Write};

use anyhow::{Context, Result};
use zc_tests::{named, print_line};

use crate::ends::{SinkOptions, Source, Spec, open_sink, open_source};
use crate::job::retry;
use crate::listener::{accept_one, serve_each};
use crate::moved::{Meter, Moved};

/// What one read asks for: much for a sink, which must not be the bottleneck; for a feed, what a pipe holds.
const SINK_BUFFER: usize = 256 * 1024;
const FEED_BUFFER: usize = 64 * 1024;

/// How a sink's destination is opened.
const PLAIN: SinkOptions = SinkOptions { append: false, send_buffer: None, checksum: false };

/// Drains one peer, or stdin; what comes is dropped, or goes `to` somewhere. Ends with `received N bytes`.
pub(crate) fn sink(address: &Spec, to: Option<&Spec>, checksum: bool) -> Result<()> {
    let mut destination = to.map(|to| open_sink(to, PLAIN)).transpose()?;
    let mut peer = if *address == Spec::Standard { open_source(address)?.0 } else { accept_one(address)?.into() };
    let mut meter = Meter::new(checksum);
    let mut buffer = vec![0; SINK_BUFFER];
    while let count @ 1.. = read(&mut peer, &mut buffer, address)? {
        meter.pass(&buffer[..count]);
        if let (Some((sink, _)), Some(to)) = (&mut destination, to) {
            sink.write_all(&buffer[..count]).map_err(named).with_context(|| format!("write to {to}"))?;
        }
    }
    report("received", meter.read(), to == Some(&Spec::Standard))
}

/// Drains one peer after the other, each with a line `received N bytes`, until its parent ends.
pub(crate) fn keep_draining(address: &Spec) -> Result<()> {
    let mut buffer = vec![0; SINK_BUFFER];
    serve_each(address, |peer| {
        let (mut peer, mut meter) = (Source::from(peer), Meter::new(false));
        while let count @ 1.. = read(&mut peer, &mut buffer, address)? {
            meter.pass(&buffer[..count]);
        }
        report("received", meter.read(), false)
    })
}

/// Gives the source's bytes to one peer, or to stdout, as long as it takes them. Ends with `sent N bytes`.
pub(crate) fn feed(address: &Spec, from: &Spec) -> Result<()> {
    let (mut source, _feeder) = open_source(from)?;
    let mut peer = if *address == Spec::Standard { open_sink(address, PLAIN)?.0 } else { accept_one(address)?.into() };
    let mut meter = Meter::new(false);
    let mut buffer = vec![0; FEED_BUFFER];
    'source: while let count @ 1.. = read(&mut source, &mut buffer, from)? {
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let taken = match retry(|| peer.write(rest)) {
                // A peer that has enough may go.
                Err(err) if matches!(err.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => break 'source,
                taken => taken.map_err(named).with_context(|| format!("write to {address}"))?,
            };
            meter.pass(&rest[..taken]);
            rest = &rest[taken..];
        }
    }
    report("sent", meter.read(), *address == Spec::Standard)
}

fn read(source: &mut Source, buffer: &mut [u8], name: &Spec) -> Result<usize> {
    retry(|| source.read(buffer)).map_err(named).with_context(|| format!("read from {name}"))
}

/// The last line; on stderr if the bytes went to stdout.
fn report(verb: &str, moved: Moved, is_stdout_taken: bool) -> Result<()> {
    let line = format!("{verb} {moved}");
    if is_stdout_taken {
        eprintln!("{line}");
        return Ok(());
    }
    print_line(&line).map_err(named)
}
