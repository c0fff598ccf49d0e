//! The addresses that strace prints of sockets: `print_sockaddr` of strace's src/sockaddr.c.

use crate::backend::strace::{
    args::{Args, Descriptor, elements, field, inside},
    decode::internet_address,
    syntax::sun_path,
};
use zctrace_core::text::from_bytes;

/// The protocol of the socket in the first argument, as addresses are written.
fn protocol(args: &Args<'_>) -> &'static str {
    let name = args.descriptor(0).map(|Descriptor { name, .. }| name);
    let name = name.unwrap_or_default();
    let end = name.iter().position(|byte| *byte == b':');
    match &name[..end.unwrap_or_default()] {
        b"TCP" | b"TCPv6" | b"MPTCP" | b"MPTCPv6" => "tcp",
        b"UDP" | b"UDPv6" | b"UDPLITE" | b"UDPLITEv6" => "udp",
        b"" | b"socket" => "ip",
        _ => "raw",
    }
}

/// The address in this structure. `None`: there is none, or the kernel of this machine is behind it
/// (`AF_NETLINK`), or the call takes one away (`AF_UNSPEC`).
pub fn address(structure: &[u8], args: &Args<'_>) -> Option<String> {
    let fields = inside(structure, b'{', b'}')?;
    match field(fields, b"sa_family=")? {
        b"AF_INET" | b"AF_INET6" => {
            let host_and_port = internet_address(fields)?;
            Some(format!("{}:{host_and_port}", protocol(args)))
        }
        b"AF_UNIX" | b"AF_LOCAL" => {
            let path = field(fields, b"sun_path=").and_then(sun_path)?;
            Some(format!("unix:{path}"))
        }
        b"AF_NETLINK" | b"AF_UNSPEC" => None,
        family => Some(format!("other:{}", from_bytes(family))),
    }
}

/// The addresses of the messages in this argument: a structure, or an array of `{msg_hdr={...}, ...}`.
pub fn addresses_of_messages(argument: &[u8], args: &Args<'_>) -> Vec<String> {
    let of_message = |message: &[u8]| {
        let name = field(inside(message, b'{', b'}')?, b"msg_name=")?;
        address(name, args)
    };
    if argument.starts_with(b"{") {
        return of_message(argument).into_iter().collect();
    }
    let message = |element| field(inside(element, b'{', b'}')?, b"msg_hdr=");
    elements(argument)
        .filter_map(message)
        .filter_map(of_message)
        .collect()
}
