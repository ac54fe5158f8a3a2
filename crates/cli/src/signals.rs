//! Wishes of the system that the process ends.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;

/// SIGINT, SIGTERM and SIGHUP (the terminal is gone), from the moment this is made: they no longer end the process by themselves.
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

    /// The next signal, by its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}

/// What the system sends when a file may grow no more; the number is the same on all of Linux but MIPS and PA-RISC.
const SIGXFSZ: i32 = 25;

/// From now on, a file that may grow no more is an error of the write, and not the end of the process.
pub fn outlive_size_limits() {
    if let Err(error) = signal(SignalKind::from_raw(SIGXFSZ)) {
        tracing::warn!(%error, "a limit for the size of files will end this process");
    }
}
