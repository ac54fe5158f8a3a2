//! Webhooks that Git servers call for pushes and pull requests. Authenticates events and converts them to
//! pushes and changes.
//!
//! ```text
//! head ─ identify_sender ──▶ body ─ verify_body ──▶ deliver_event ─ parse_event ──▶
//! ApplicationService::handle_push
//! ```
//!
//! If the sender is not authenticated yet, the body is read only to check its signature.

mod events;
mod proof;
mod provider;
mod secrets;

use std::path::{Path, PathBuf};

use http::{HeaderMap, Method, StatusCode};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Duration, Instant};

use crate::access::Access;
use crate::error::ServerError;
use crate::limits::Limits;
use crate::problem::{Code, Problem};
use crate::query::{NoParameters, inline_schema};
use crate::rate_limit::{RateLimiter, check_rate};
use crate::route::{CheckedRequest, HandlerResult, ResponseContent, Route, json_response};

use self::events::{GenericPush, WebhookEvent, parse_event};
use self::proof::Proof;
use self::provider::Provider;
use self::secrets::Secrets;

pub(crate) use proof::Sender;

/// Status of the response to a verified event.
const STATUS: StatusCode = StatusCode::ACCEPTED;
/// Path of the webhook route, which has its own limit on the body size.
pub(crate) const WEBHOOK_PATH: &str = "/api/webhook";

/// Result of handling an event.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WebhookResult")]
struct WebhookResult {
    /// Name of the event, as sent by the provider.
    event: String,
    /// Number of applications queued for comparison.
    applications: u64,
}

/// Returns the route for events. The API description contains the body of the generic format.
pub(crate) fn webhook_route() -> Route {
    Route {
        method: Method::POST,
        path: WEBHOOK_PATH,
        id: "tellPush",
        summary: "Receive a webhook event and compare the affected applications",
        access: Access::SignedRequest,
        query: inline_schema::<NoParameters>(),
        body: Some(SchemaGenerator::subschema_for::<GenericPush>),
        needs_body: true,
        status: STATUS,
        content: ResponseContent::Json(SchemaGenerator::subschema_for::<WebhookResult>),
        handler: Box::new(|request| Box::pin(deliver_event(request))),
    }
}

/// Delivers an event to the application service. Doesn't wait if the applications haven't been loaded yet,
/// because all of them are compared after loading.
async fn deliver_event(request: CheckedRequest) -> HandlerResult {
    let CheckedRequest { state, body, sender, .. } = request;
    let unknown = || Problem::bad_request("the sender of the event is unknown");
    let WebhookEvent { event, changes } = parse_event(&sender.ok_or_else(unknown)?, &body)?;
    let not_yet = || Problem::new(Code::NotReady, "the first comparison of the applications is in progress");
    let applications = match changes.is_empty() {
        true => 0,
        false => state.queries()?.applications_if_ready().ok_or_else(not_yet)?.handle_push(changes).await?,
    };
    json_response(STATUS, &WebhookResult { event, applications })
}

/// Access control and limits for webhooks.
pub(crate) struct Webhooks {
    /// Location of the secrets, or `None` if webhooks are disabled.
    secrets: Option<PathBuf>,
    rate_limiter: RateLimiter,
    /// Permits for reading the bodies of unauthenticated senders.
    body_permits: Semaphore,
    body_timeout: Duration,
}

impl Webhooks {
    /// Opens the webhook secrets in a file or folder. Every event rereads them, so that they can be rotated.
    pub fn open(secrets: Option<&Path>, limits: &Limits) -> Result<Self, ServerError> {
        if let Some(path) = secrets {
            // Report errors in the secrets at startup.
            Secrets::read(path)?;
        }
        Ok(Self {
            secrets: secrets.map(Path::to_path_buf),
            rate_limiter: RateLimiter::new(limits.webhook_rate),
            body_permits: Semaphore::new(limits.webhook_bodies),
            body_timeout: limits.body_timeout,
        })
    }

    /// Identifies the sender of an event from the request head, and verifies all proofs in it.
    pub fn identify_sender(&self, headers: &HeaderMap, now: Instant) -> Result<Sender, Problem> {
        check_rate(self.rate_limiter.count_request("", now))?;
        let provider = Provider::from_headers(headers)?;
        let Some(path) = &self.secrets else {
            let next = "start `tidegate serve` with --webhook-secrets".to_owned();
            return Err(Problem { next, ..Problem::new(Code::Unauthorized, "webhooks are not configured") });
        };
        let secrets = Secrets::read(path).map_err(|error| {
            tracing::warn!(%error, "cannot read the webhook secrets; rejecting the event");
            Problem::new(Code::Internal, "cannot read the webhook secrets")
        })?;
        let proof = Proof::from_headers(provider, headers, &secrets)?;
        Ok(Sender { provider, event: provider.event_name(headers)?, proof })
    }

    /// Returns a permit for reading a body.
    pub async fn acquire_body_permit(&self) -> Result<SemaphorePermit<'_>, Problem> {
        match tokio::time::timeout(self.body_timeout, self.body_permits.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(Problem::new(Code::TooOften, "too many concurrent events")
                .with_retry_after(self.body_timeout)),
        }
    }
}
