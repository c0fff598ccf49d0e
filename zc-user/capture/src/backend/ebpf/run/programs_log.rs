//! [`ProgramsLog`]: what the programs log, with `--verbose`.

use aya_log::EbpfLogger;
use tokio::io::unix::AsyncFd;

use crate::{async_fd::watch_readable, backend::ebpf::load::object::Loaded};

/// The log of the programs.
pub struct ProgramsLog(Option<AsyncFd<EbpfLogger<&'static dyn log::Log>>>);

impl ProgramsLog {
    /// The log of these programs, if it is wanted.
    pub fn open(verbose: bool, loaded: &mut Loaded) -> Self {
        let logger = verbose
            .then(|| EbpfLogger::init(&mut loaded.ebpf).ok())
            .flatten();
        Self(logger.and_then(|logger| watch_readable(logger).ok()))
    }

    /// Waits for log messages and shows them; never ready without a logger.
    pub async fn more(&mut self) -> std::io::Result<()> {
        let Some(logger) = &mut self.0 else {
            return std::future::pending().await;
        };
        logger.readable_mut().await?.clear_ready();
        logger.get_mut().flush();
        Ok(())
    }

    /// Shows the messages that there are.
    pub fn flush(&mut self) {
        if let Some(logger) = &mut self.0 {
            logger.get_mut().flush();
        }
    }
}
