//! What goes wrong, and when: drawn from the seed, so that a failing run can be repeated exactly.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::rng::{Rng, mix};
use crate::{ClusterError, ErrorKind};

/// How probable each fault is, from 0 (never) to 1 (always).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Faults {
    /// A write is refused with 409.
    pub conflict: f64,
    /// A call is refused with 429.
    pub too_many_requests: f64,
    /// What a 429 asks the client to wait.
    pub retry_after: Duration,
    /// A call is refused with 500; nothing was done.
    pub server_error: f64,
    /// A call is never received, and the client waits in vain.
    pub timeout_before: f64,
    /// A write is done, and the answer is lost.
    pub timeout_after: f64,
    /// A watch event is lost.
    pub watch_dropped: f64,
    /// A watch event is delivered twice.
    pub watch_repeated: f64,
    /// A list is older than the newest write, or a watch event is late.
    pub stale_read: f64,
    /// A watch ends with 410.
    pub gone: f64,
}

impl Faults {
    /// A cluster in which nothing goes wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// Everything goes wrong now and then: each fault with this probability.
    pub fn everything(probability: f64) -> Self {
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

/// What goes wrong with one call, as it was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CallFault {
    Conflict,
    TooManyRequests { retry_after: Duration },
    ServerError,
    TimeoutBefore,
    TimeoutAfter,
}

impl CallFault {
    /// What the client is told.
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
                ClusterError::new(ErrorKind::Timeout, "the server did not answer in time")
            }
        }
    }
}

/// What happens to one watch event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventFault {
    pub(crate) dropped: bool,
    pub(crate) repeated: bool,
    pub(crate) late: bool,
    pub(crate) gone: bool,
}

/// Draws faults. Not kept on disk: which call fails is no part of the state of the world.
#[derive(Clone, Debug)]
pub(crate) struct Injector {
    faults: Faults,
    rng: Rng,
}

impl Injector {
    /// `position` keeps a reopened cluster from drawing the same faults again for ever.
    pub(crate) fn new(faults: Faults, seed: u64, position: u64) -> Self {
        Self { faults, rng: Rng::new(mix(seed ^ 0xfa17) ^ position) }
    }

    pub(crate) fn write(&mut self) -> Option<CallFault> {
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

    pub(crate) fn read(&mut self) -> Option<CallFault> {
        let faults = &self.faults;
        let all = [
            (faults.too_many_requests, CallFault::TooManyRequests { retry_after: faults.retry_after }),
            (faults.server_error, CallFault::ServerError),
            (faults.timeout_before, CallFault::TimeoutBefore),
        ];
        all.into_iter().find(|(probability, _)| self.rng.chance(*probability)).map(|(_, fault)| fault)
    }

    /// How many of the newest changes a list does not see yet.
    pub(crate) fn staleness(&mut self) -> u64 {
        if self.rng.chance(self.faults.stale_read) { 1 + self.rng.below(5) } else { 0 }
    }

    pub(crate) fn event(&mut self) -> EventFault {
        EventFault {
            dropped: self.rng.chance(self.faults.watch_dropped),
            repeated: self.rng.chance(self.faults.watch_repeated),
            late: self.rng.chance(self.faults.stale_read),
            gone: self.rng.chance(self.faults.gone),
        }
    }
}
