//! What servers of repositories tell when somebody pushes, or opens a pull request: taken where it is proven, and passed on as
//! the pushes and changes that it is.
//!
//! ```text
//! head ─ Provider ─ Proof ──▶ body ─ Proof::holds ──▶ hear ──▶ Told ──▶ Serving::told
//! ```
//!
//! Nobody who cannot prove who they are has a body read further than its signature needs.

mod events;
mod proof;
mod provider;
mod secrets;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Duration, Instant};

use crate::error::ServerError;
use crate::front::often;
use crate::limits::Limits;
use crate::problem::{Code, Problem};
use crate::rate::Gauge;
use crate::site::Site;

use self::proof::Proof;
use self::provider::Provider;
use self::secrets::Secrets;

pub(crate) use events::{Generic, Heard, hear};

/// What became of an event.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Told {
    /// What its sender calls it.
    event: String,
    /// How many applications are compared because of it.
    applications: u64,
}

/// Passes on what is told. Nobody waits for the process to have looked at its applications: it looks at all of them then.
pub(crate) async fn tell(site: Arc<Site>, heard: Heard) -> Result<Told, Problem> {
    let Heard { event, told } = heard;
    let not_yet = || Problem::new(Code::NotReady, "the applications are being looked at for the first time");
    let applications = match told.is_empty() {
        true => 0,
        false => site.queries()?.serving_now().ok_or_else(not_yet)?.told(told).await?,
    };
    Ok(Told { event, applications })
}

/// What is taken of those who tell of pushes.
pub(crate) struct Webhooks {
    /// Nothing where nobody may.
    secrets: Option<PathBuf>,
    rate: Gauge,
    /// Bodies that are read at once: those who send them are not known yet.
    places: Semaphore,
    within: Duration,
}

/// An event whose head was looked at.
pub(crate) struct Sender {
    provider: Provider,
    event: String,
    proof: Proof,
}

impl Webhooks {
    /// With the secrets of a file or folder, which is read with each event, so that a secret can be changed.
    pub fn open(secrets: Option<&Path>, limits: &Limits) -> Result<Self, ServerError> {
        if let Some(path) = secrets {
            // What is wrong with them is told before anything begins.
            Secrets::read(path)?;
        }
        Ok(Self {
            secrets: secrets.map(Path::to_path_buf),
            rate: Gauge::new(limits.webhooks),
            places: Semaphore::new(limits.webhook_bodies),
            within: limits.body_within,
        })
    }

    /// Who sends an event, as its head says; what the head can prove is proven.
    pub fn sender(&self, headers: &HeaderMap, now: Instant) -> Result<Sender, Problem> {
        often(self.rate.count("", now))?;
        let provider = Provider::of(headers)?;
        let Some(path) = &self.secrets else {
            let next = "start `tidegate serve` with --webhook-secrets".to_owned();
            return Err(Problem { next, ..Problem::new(Code::Unauthorized, "webhooks are not taken here") });
        };
        let secrets = Secrets::read(path).map_err(|error| {
            tracing::warn!(%error, "the secrets of webhooks cannot be read, so no event is taken");
            Problem::new(Code::Internal, "the secrets of webhooks cannot be read")
        })?;
        let proof = Proof::of(provider, headers, &secrets)?;
        Ok(Sender { provider, event: provider.event(headers)?, proof })
    }

    /// A place for a body that is to be read.
    pub async fn place(&self) -> Result<SemaphorePermit<'_>, Problem> {
        match tokio::time::timeout(self.within, self.places.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(Problem::new(Code::TooOften, "too many events are being read").after(self.within)),
        }
    }
}

impl Sender {
    /// Refuses a body that is not theirs.
    pub fn prove(&self, body: &Bytes) -> Result<(), Problem> {
        if self.proof.holds(body) { Ok(()) } else { Err(proof::wrong(self.provider)) }
    }
}
