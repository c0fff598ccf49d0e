//! Patterns of paths and addresses in allow-lists.

use std::net::IpAddr;

use super::pattern::{Glob, Match};

/// A pattern of an allow-list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AllowPattern {
    /// Of paths.
    Path {
        glob: Glob,
        /// What `dir/**` allows as well: `dir`.
        directory: Option<Glob>,
    },
    /// Of addresses.
    Address(AddressPattern),
}

impl AllowPattern {
    /// Parses a pattern of paths. The error has a message and an offset.
    pub(super) fn parse_path(text: &str) -> Result<Self, (String, usize)> {
        let above = text.strip_suffix("/**").map(|directory| match directory {
            "" => "/".to_owned(),
            absolute if absolute.starts_with('/') => absolute.to_owned(),
            // Not the pattern of a name.
            relative => format!("./{relative}"),
        });
        Ok(Self::Path {
            glob: Glob::new(text)?,
            directory: above.and_then(|text| Glob::new(&text).ok()),
        })
    }

    /// Parses a pattern of addresses. The error has a message and an offset.
    pub(super) fn parse_address(text: &str) -> Result<Self, (String, usize)> {
        AddressPattern::new(text).map(Self::Address)
    }

    /// Says in which directory the relative paths of a report start.
    pub(super) fn start_in(&mut self, start: &str) {
        if let Self::Path { glob, directory } = self {
            glob.start_in(start);
            if let Some(directory) = directory {
                directory.start_in(start);
            }
        }
    }

    /// Whether it allows a path or an address.
    pub(super) fn allows(&self, path: &str) -> Match {
        match self {
            Self::Path { glob, directory } => {
                let of_directory = directory.as_ref().map(|glob| glob.matches_place(path));
                glob.matches_place(path)
                    .max(of_directory.unwrap_or(Match::No))
            }
            Self::Address(pattern) => pattern.matches_address(path),
        }
    }
}

/// A pattern of addresses: `tcp:*:443`, `unix:/run/**`, `*:127.0.0.1:*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddressPattern {
    /// `*`: any.
    kind: &'static str,
    glob: Glob,
}

impl AddressPattern {
    const KINDS: [&str; 6] = ["tcp", "udp", "unix", "raw", "other", "*"];

    /// Parses a pattern. The error has a message and an offset.
    pub(super) fn new(text: &str) -> Result<Self, (String, usize)> {
        let (word, rest) = text.split_once(':').unwrap_or((text, ""));
        let kind = Self::KINDS.into_iter().find(|kind| *kind == word);
        let Some(kind) = kind.filter(|_| !rest.is_empty()) else {
            let why =
                "an address is tcp:HOST:PORT, udp:HOST:PORT or unix:PATH, each with * if you like";
            return Err((why.to_owned(), 0));
        };
        let may_match = match kind {
            "unix" | "other" => true,
            "*" => rest.contains([':', '/', '*']),
            _ => is_host_and_port(rest),
        };
        if !may_match {
            let why = format!(
                "{kind}: needs HOST:PORT, as in {kind}:*:443; HOST is an IP address or a pattern, since programs connect to addresses"
            );
            return Err((why, kind.len() + 1));
        }
        // IPv6 addresses have brackets.
        let escaped = match kind {
            "unix" | "other" => rest.to_owned(),
            _ => rest.split('[').collect::<Vec<_>>().join("[[]"),
        };
        let glob = Glob::new(&escaped).map_err(|(why, _)| (why, kind.len() + 1))?;
        Ok(Self { kind, glob })
    }

    pub(super) fn matches_address(&self, address: &str) -> Match {
        let (kind, rest) = address.split_once(':').unwrap_or((address, ""));
        let of_kind = match kind {
            kind if self.kind == "*" || kind == self.kind => Match::Yes,
            "ip" if matches!(self.kind, "tcp" | "udp" | "raw") => Match::Maybe,
            _ => Match::No,
        };
        if self.glob.matches(rest) {
            of_kind
        } else {
            Match::No
        }
    }
}

/// Whether this may match an address and a port: `127.0.0.1:80`, `*:443`, or `*` for all.
fn is_host_and_port(text: &str) -> bool {
    if text == "*" {
        return true;
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    (host.contains('*') || address.parse::<IpAddr>().is_ok())
        && (port.contains('*') || port.parse::<u16>().is_ok())
}
