//! Faults, drawn from the seed so that a failing run can be reproduced exactly.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::rng::{Rng, mix_bits};
use crate::{ClusterError, ErrorKind};

/// Probability of each fault, from 0 (never) to 1 (always).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Faults {
    /// A write is refused with 409.
    pub conflict: f64,
    /// A call is refused with 429.
    pub too_many_requests: f64,
    /// Delay in the `Retry-After` header of a 429 response.
    pub retry_after: Duration,
    /// A call fails with 500 and nothing is written.
    pub server_error: f64,
    /// A call is never received, and times out.
    pub timeout_before: f64,
    /// A write succeeds but its response is lost.
    pub timeout_after: f64,
    /// A watch event is lost.
    pub watch_dropped: f64,
    /// A watch event is delivered twice.
    pub watch_repeated: f64,
    /// A list is older than the newest write, or a watch event is delayed.
    pub stale_read: f64,
    /// A watch ends with the error 410.
    pub gone: f64,
}

impl Faults {
    /// Returns a configuration without faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns a configuration in which all faults have the same probability.
    pub fn uniform(probability: f64) -> Self {
        Self {
            conflict: probability,
            too_many_requests: probability,
            retry_after: Duration::from_secs(1),
            server_error: probability,
            timeout_before: probability,
            timeout_after: probability,
            watch_dropped: probability,
            watch_repeated: probability,
            stale_read: probability,
            gone: probability,
        }
    }
}

/// Fault that affects one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CallFault {
    Conflict,
    TooManyRequests { retry_after: Duration },
    ServerError,
    TimeoutBefore,
    TimeoutAfter,
}

impl CallFault {
    /// Returns the error that the client receives.
    pub(crate) fn error(self) -> ClusterError {
        match self {
            Self::Conflict => ClusterError::new(
                ErrorKind::Conflict,
                "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
            ),
            Self::TooManyRequests { retry_after } => ClusterError::new(
                ErrorKind::TooManyRequests { retry_after: Some(retry_after) },
                "the server has received too many requests and has asked us to try again later",
            ),
            Self::ServerError => {
                ClusterError::new(ErrorKind::Server, "Internal error occurred: injected by the simulation")
            }
            Self::TimeoutBefore | Self::TimeoutAfter => {
                ClusterError::new(ErrorKind::Timeout, "the server did not respond in time")
            }
        }
    }
}

/// Fault that affects one watch event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventFault {
    pub(crate) is_dropped: bool,
    pub(crate) is_repeated: bool,
    pub(crate) is_late: bool,
    pub(crate) is_gone: bool,
}

/// Fault generator. Not stored on disk, because faults aren't part of the simulated state.
#[derive(Clone, Debug)]
pub(crate) struct FaultInjector {
    faults: Faults,
    rng: Rng,
}

impl FaultInjector {
    /// Creates a generator. `position` keeps a reopened cluster from drawing the same faults again.
    pub(crate) fn new(faults: Faults, seed: u64, position: u64) -> Self {
        Self { faults, rng: Rng::new(mix_bits(seed ^ 0xfa17) ^ position) }
    }

    pub(crate) fn draw_write_fault(&mut self) -> Option<CallFault> {
        let faults = &self.faults;
        let all = [
            (faults.conflict, CallFault::Conflict),
            (faults.too_many_requests, CallFault::TooManyRequests { retry_after: faults.retry_after }),
            (faults.server_error, CallFault::ServerError),
            (faults.timeout_before, CallFault::TimeoutBefore),
            (faults.timeout_after, CallFault::TimeoutAfter),
        ];
        all.into_iter().find(|(probability, _)| self.rng.chance(*probability)).map(|(_, fault)| fault)
    }

    pub(crate) fn draw_read_fault(&mut self) -> Option<CallFault> {
        let faults = &self.faults;
        let all = [
            (faults.too_many_requests, CallFault::TooManyRequests { retry_after: faults.retry_after }),
            (faults.server_error, CallFault::ServerError),
            (faults.timeout_before, CallFault::TimeoutBefore),
        ];
        all.into_iter().find(|(probability, _)| self.rng.chance(*probability)).map(|(_, fault)| fault)
    }

    /// Returns the number of most recent changes that a list omits.
    pub(crate) fn draw_staleness(&mut self) -> u64 {
        if self.rng.chance(self.faults.stale_read) { 1 + self.rng.below(5) } else { 0 }
    }

    pub(crate) fn draw_event_fault(&mut self) -> EventFault {
        EventFault {
            is_dropped: self.rng.chance(self.faults.watch_dropped),
            is_repeated: self.rng.chance(self.faults.watch_repeated),
            is_late: self.rng.chance(self.faults.stale_read),
            is_gone: self.rng.chance(self.faults.gone),
        }
    }
}
