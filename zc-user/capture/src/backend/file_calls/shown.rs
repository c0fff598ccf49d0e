//! What is shown of a file or an address: by strace, or by the kernel side.

/// A file behind a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShownFile {
    /// It is in a filesystem.
    Inside {
        /// Its path.
        path: String,
        /// Whether that is no longer its path.
        is_deleted: bool,
    },
    /// It is in no directory.
    Outside(OutsideKind),
}

/// What a file is that is in no directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutsideKind {
    Tcp,
    Udp,
    Unix,
    /// A socket of an unknown protocol.
    Socket,
    /// A socket of another protocol.
    OtherSocket,
    Pipe,
    Other,
}

impl OutsideKind {
    /// Who reads what is written there; `None`: nobody.
    pub const fn reader(self) -> Option<&'static str> {
        match self {
            Self::Tcp => Some("tcp"),
            Self::Udp => Some("udp"),
            Self::Unix => Some("unix"),
            Self::Socket | Self::OtherSocket => Some("socket"),
            Self::Pipe => Some("pipe"),
            Self::Other => None,
        }
    }
}

impl ShownFile {
    /// Its path, if it has one.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Inside {
                path,
                is_deleted: false,
            } => Some(path),
            _ => None,
        }
    }

    /// Its path, or that which it had.
    pub fn path_now_or_before(&self) -> Option<&str> {
        match self {
            Self::Inside { path, .. } => Some(path),
            Self::Outside(_) => None,
        }
    }

    /// What it is for the judge of syncs.
    pub fn as_judged(&self) -> NamedFile {
        match self {
            Self::Outside(kind) => kind.reader().map_or(NamedFile::Nothing, NamedFile::Others),
            Self::Inside { path, .. } if path.starts_with("/dev/pts/") => {
                NamedFile::Others("terminal")
            }
            Self::Inside { path, is_deleted } => NamedFile::at_path(path.clone(), *is_deleted),
        }
    }

    /// Its path, if it is a file or directory for the judge of syncs.
    pub fn judged_path(&self) -> Option<String> {
        match self.as_judged() {
            NamedFile::Path(path) => Some(path),
            NamedFile::Others(_) | NamedFile::Gone | NamedFile::Nothing => None,
        }
    }
}

/// The address of a socket, unless the kernel of this machine is behind it (`AF_NETLINK`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketAddress {
    /// `HOST:PORT`.
    Internet(String),
    /// A path, or `@` and an abstract name.
    Unix(String),
    /// None: a call takes one away.
    Unspecified,
    /// The name of another family.
    Other(String),
}

impl SocketAddress {
    /// As reports show it, if this is the file of the socket; `None`: it is none.
    pub fn with_protocol(&self, socket: Option<&ShownFile>) -> Option<String> {
        Some(match self {
            Self::Internet(host_and_port) => {
                let protocol = match socket {
                    Some(ShownFile::Outside(OutsideKind::Tcp)) => "tcp",
                    Some(ShownFile::Outside(OutsideKind::Udp)) => "udp",
                    Some(ShownFile::Outside(OutsideKind::OtherSocket)) => "raw",
                    _ => "ip",
                };
                format!("{protocol}:{host_and_port}")
            }
            Self::Unix(path) => format!("unix:{path}"),
            Self::Other(family) => format!("other:{family}"),
            Self::Unspecified => return None,
        })
    }
}

/// What a file is for the judge of syncs.
#[derive(Debug)]
pub enum NamedFile {
    /// It is in a filesystem, and has this path.
    Path(String),
    /// It is none, and this is who reads what is written to it.
    Others(&'static str),
    /// Its path is gone. It may have another one.
    Gone,
    /// Nobody needs what is written to it.
    Nothing,
}

impl NamedFile {
    /// What is at this path, or was.
    pub fn at_path(path: String, is_deleted: bool) -> Self {
        /// Memory that has no name, but a path of this kind.
        const MEMORY: [&str; 3] = ["/memfd:", "/SYSV", "/anon_hugepage"];
        let is_memory = is_deleted && MEMORY.iter().any(|start| path.starts_with(start));
        match is_deleted {
            _ if is_memory || is_of_kernel(&path) => Self::Nothing,
            true => Self::Gone,
            false => Self::Path(path),
        }
    }
}

/// Whether a path is in a filesystem that the kernel makes up.
pub fn is_of_kernel(path: &str) -> bool {
    let is_below = |directory: &str| path.starts_with(directory);
    ["/proc/", "/sys/"].into_iter().any(is_below) || (is_below("/dev/") && !is_below("/dev/shm/"))
}
