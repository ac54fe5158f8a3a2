//! Termination signals from the operating system.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;

/// Handler for SIGINT, SIGTERM and SIGHUP (closed terminal). While it exists, these signals don't terminate
/// the process.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub fn listen() -> Result<Self, CliError> {
        let on = |kind| signal(kind).map_err(|source| CliError::io("listen to", "signals", source));
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal and returns its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}

/// Signal for a file that reaches the size limit. The number is the same on all Linux platforms except MIPS
/// and PA-RISC.
const SIGXFSZ: i32 = 25;

/// Ignores SIGXFSZ, so that a write beyond the file size limit fails with an error instead.
pub fn ignore_size_limit_signal() {
    if let Err(error) = signal(SignalKind::from_raw(SIGXFSZ)) {
        tracing::warn!(%error, "cannot handle SIGXFSZ; a file size limit will end this process");
    }
}
