//! The architectures that zctrace is for.

use std::env;

use clap::ValueEnum;

/// A processor architecture, by the name that Linux and Rust have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arch {
    /// 64-bit x86.
    #[value(name = "x86_64")]
    X86_64,
    /// 64-bit Arm.
    #[value(name = "aarch64")]
    Aarch64,
}

impl Arch {
    /// All of them.
    pub(crate) const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The architecture as Rust, Linux and QEMU call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Rust's target for programs with the C library in them.
    pub(crate) fn musl(self) -> String {
        format!("{}-unknown-linux-musl", self.name())
    }

    /// This machine's architecture, if zctrace is for it.
    pub(crate) fn host() -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.is_host())
    }

    /// Whether it is this machine's architecture.
    pub(crate) fn is_host(self) -> bool {
        self.name() == env::consts::ARCH
    }
}
