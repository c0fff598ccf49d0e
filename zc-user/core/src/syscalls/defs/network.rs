//! Calls about sockets that move no data. `socketcall` is the 32-bit call that stands for them.

use super::specs;
use crate::{
    syscalls::spec::{
        CallEffect::{Accepts, Connects, CreatesSocket, CreatesSocketPair, ReadsSocketError},
        Fds::On,
        PathForm::Address,
        Spec, Touching,
        Variants::Socketcall,
        path, structure,
    },
    touched::TouchAction::{Accepted, Bound, Connected},
};

pub(super) const CALLS: &[Spec] = specs! {
    "accept" [Network] fds: On(0), filled: structure(1, 128), effect: Accepts, socketcall: Some(5),
        touches: Some(Touching::Address(Accepted, 1)), waits: true;
    "accept4" [Network] fds: On(0), filled: structure(1, 128), effect: Accepts,
        socketcall: Some(18), touches: Some(Touching::Address(Accepted, 1)), waits: true;
    "bind" [Network] fds: On(0), path: Some(path(1)), path_form: Address, socketcall: Some(2),
        touches: Some(Touching::Address(Bound, 1));
    "connect" [Network] fds: On(0), path: Some(path(1)), path_form: Address, effect: Connects,
        socketcall: Some(3), touches: Some(Touching::Address(Connected, 1));
    "getpeername" [Network] fds: On(0), filled: structure(1, 128), socketcall: Some(7);
    "getsockname" [Network] fds: On(0), filled: structure(1, 128), socketcall: Some(6);
    "getsockopt" [Network] fds: On(0), filled: structure(3, 256), effect: ReadsSocketError,
        socketcall: Some(15);
    "listen" [Network] fds: On(0), socketcall: Some(4);
    "setsockopt" [Network] fds: On(0), socketcall: Some(14);
    "shutdown" [Network] fds: On(0), socketcall: Some(13);
    "socket" [Network] effect: CreatesSocket, socketcall: Some(1), touches: Some(Touching::Family);
    "socketcall" [Network] variants: Socketcall;
    "socketpair" [Network] effect: CreatesSocketPair, socketcall: Some(8);
};
