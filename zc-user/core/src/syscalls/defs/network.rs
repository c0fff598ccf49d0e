//! Calls about sockets that move no data. `socketcall` is the 32-bit call that stands for them.

use super::specs;
use crate::syscalls::spec::{
    CallEffect::{Accepts, Connects, CreatesSocket, CreatesSocketPair},
    Spec,
    Variants::Socketcall,
};

pub(super) const CALLS: &[Spec] = specs! {
    "accept" [Network] on(0) fills(1, 128) effect(Accepts) socketcall(5);
    "accept4" [Network] on(0) fills(1, 128) effect(Accepts) socketcall(18);
    "bind" [Network] on(0) socketcall(2);
    "connect" [Network] on(0) effect(Connects) socketcall(3);
    "getpeername" [Network] on(0) fills(1, 128) socketcall(7);
    "getsockname" [Network] on(0) fills(1, 128) socketcall(6);
    "getsockopt" [Network] on(0) fills(3, 256) socketcall(15);
    "listen" [Network] on(0) socketcall(4);
    "setsockopt" [Network] on(0) socketcall(14);
    "shutdown" [Network] on(0) socketcall(13);
    "socket" [Network] effect(CreatesSocket) socketcall(1);
    "socketcall" [Network] variants(Socketcall);
    "socketpair" [Network] effect(CreatesSocketPair) socketcall(8);
};
