//! Wishes of the system that the process ends.

use std::path::PathBuf;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;

/// SIGINT, SIGTERM and SIGHUP (the terminal is gone), from the moment this is made: they no longer end the process by themselves.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Begins to listen.
    pub fn listen() -> Result<Self, CliError> {
        let on = |kind| {
            signal(kind).map_err(|source| CliError::Io {
                action: "listen to",
                path: PathBuf::from("signals"),
                source,
            })
        };
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
