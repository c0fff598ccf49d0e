//! Numbers of errnos and signals, by the names that strace prints.

use std::collections::HashMap;

use nix::sys::signal::Signal;

use crate::errno;

/// The highest errno a call can return: `MAX_ERRNO` of the kernel's include/linux/err.h.
pub const MAX_ERRNO: u32 = 4095;

/// Numbers of errnos, by name.
#[derive(Debug)]
pub struct Errnos(HashMap<String, u32>);

impl Errnos {
    /// All that have a name.
    pub fn new() -> Self {
        Self((1..=1024).map(|number| (errno::name(number), number)).filter(|(name, _)| name.starts_with('E')).collect())
    }

    /// The number; `None` of a name that is unknown here.
    pub fn number(&self, name: &[u8]) -> Option<u32> {
        self.0.get(std::str::from_utf8(name).ok()?).copied()
    }
}

/// The number of a signal; `SIGRT_3` is the third after the first real-time signal, as the kernel counts.
pub fn signal(name: &[u8]) -> Option<i32> {
    /// Source: `SIGRTMIN` of the kernel's include/uapi/asm-generic/signal.h.
    const FIRST_REAL_TIME: i32 = 32;
    let name = std::str::from_utf8(name).ok()?;
    if let Some(number) = name.strip_prefix("SIGRT_") {
        return number.parse().ok().and_then(|number: i32| FIRST_REAL_TIME.checked_add(number));
    }
    if name == "SIGRTMIN" {
        return Some(FIRST_REAL_TIME);
    }
    name.parse::<Signal>().ok().map(|signal| signal as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errnos_have_numbers() {
        let errnos = Errnos::new();
        for (name, number) in [
            ("ENOENT", 2),
            ("EAGAIN", 11),
            ("EXDEV", 18),
            ("EOPNOTSUPP", 95),
            ("ERESTARTSYS", 512),
            ("ERESTART_RESTARTBLOCK", 516),
        ] {
            assert_eq!(errnos.number(name.as_bytes()), Some(number), "{name}");
        }
        assert_eq!(errnos.number(b"EWHATEVER"), None);
        assert_eq!(errnos.number(b"\xff"), None);
    }

    #[test]
    fn signals_have_numbers() {
        for (name, number) in
            [("SIGKILL", Some(9)), ("SIGTERM", Some(15)), ("SIGRTMIN", Some(32)), ("SIGRT_2", Some(34)), ("SIGX", None)]
        {
            assert_eq!(signal(name.as_bytes()), number, "{name}");
        }
    }
}
