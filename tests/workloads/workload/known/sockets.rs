//! Calls on a pair of datagram sockets, so that every message is one call on either side.

use std::io::{IoSlice, IoSliceMut, Result};
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, recv, recvmsg, send,
    sendmsg, socketpair,
};
use zc_tests::Tally;

/// Messages that one `sendmmsg` sends.
const BATCH: usize = 3;

/// Both sockets, and buffers for their messages.
pub(super) struct Sockets {
    sender: OwnedFd,
    receiver: OwnedFd,
    first: [u8; 512],
    second: [u8; 512],
}

impl Sockets {
    /// Makes the pair.
    pub(super) fn new() -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (sender, receiver) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        Ok(Self { sender, receiver, first: [b'1'; 512], second: [b'2'; 512] })
    }

    /// Makes the calls.
    pub(super) fn call(&mut self, tally: &mut Tally) {
        self.plain(tally);
        self.messages(tally);
        self.batches(tally);
    }

    /// Four `sendto` of 300 bytes; `recvfrom` of each, asking for 512, and two that find nothing.
    fn plain(&mut self, tally: &mut Tally) {
        for _ in 0..4 {
            tally.moved("sendto", 300, Ok(300), send(&self.sender, &self.first[..300], SendFlags::empty()));
        }
        for want in [Ok(300), Ok(300), Ok(300), Ok(300), Err(Errno::AGAIN), Err(Errno::AGAIN)] {
            let got = recv(&self.receiver, &mut self.first[..], RecvFlags::empty()).map(|(count, _)| count);
            tally.moved("recvfrom", 512, want, got);
        }
    }

    /// Two `sendmsg` of 100 + 50 bytes; two `recvmsg` that ask for 100 + 100.
    fn messages(&mut self, tally: &mut Tally) {
        for _ in 0..2 {
            let parts = [IoSlice::new(&self.first[..100]), IoSlice::new(&self.second[..50])];
            let got = sendmsg(&self.sender, &parts, &mut SendAncillaryBuffer::default(), SendFlags::empty());
            tally.moved("sendmsg", 150, Ok(150), got);
        }
        for _ in 0..2 {
            let mut parts = [IoSliceMut::new(&mut self.first[..100]), IoSliceMut::new(&mut self.second[..100])];
            let got = recvmsg(&self.receiver, &mut parts, &mut RecvAncillaryBuffer::default(), RecvFlags::empty());
            tally.moved("recvmsg", 200, Ok(150), got.map(|message| message.bytes));
        }
    }

    /// One `sendmmsg` and one `recvmmsg` of three messages; their results count messages, not bytes.
    fn batches(&mut self, tally: &mut Tally) {
        let mut part = libc::iovec { iov_base: self.first.as_mut_ptr().cast(), iov_len: 200 };
        // SAFETY: all fields of these C structs may be zero.
        let mut batch: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        for message in &mut batch {
            message.msg_hdr.msg_iov = &raw mut part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let (messages, count) = (batch.as_mut_ptr(), libc::c_uint::try_from(BATCH).expect("a small number"));
        // SAFETY: `batch` has `count` messages, and each names one part, which is 200 bytes of `first`.
        let sent = unsafe { libc::sendmmsg(self.sender.as_raw_fd(), messages, count, 0) };
        tally.done("sendmmsg", None, Ok(()), all_messages(sent));
        // SAFETY: the same; nothing else looks at `first` while it is written, three times over.
        let received = unsafe { libc::recvmmsg(self.receiver.as_raw_fd(), messages, count, 0, ptr::null_mut()) };
        tally.done("recvmmsg", None, Ok(()), all_messages(received));
    }
}

/// The result of a call that should have handled the whole batch; part of it counts as an error that nobody expects.
fn all_messages(result: libc::c_int) -> std::result::Result<(), Errno> {
    match usize::try_from(result) {
        Ok(BATCH) => Ok(()),
        Ok(_) => Err(Errno::MSGSIZE),
        Err(_) => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
