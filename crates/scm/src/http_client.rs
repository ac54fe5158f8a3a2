//! HTTP client with connections, trusted certificates and rate limits.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy;
use tidegate_web::{
    BlockedAddresses, Client, Clock, LINK_LOCAL_REASON, SystemTrust, TrustError, create_client,
    create_connector, direct_transport, link_local_ip, root_cause,
};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::problem::Problem;
use crate::token_cache::Tokens;

/// Maximum delay accepted from a server. Longer delays are capped.
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

/// Limits for one generator's requests to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum time to establish a connection.
    pub connect: Duration,
    /// Maximum time for a single response.
    pub response: Duration,
    /// Maximum time for all requests together.
    pub total: Duration,
    /// Maximum number of requests. Each page of a list, each branch and each path may need one.
    pub requests: usize,
    /// Maximum number of concurrent requests.
    pub concurrency: usize,
    /// Maximum number of pages per list.
    pub pages: usize,
    /// Maximum size of a single response in bytes.
    pub page_bytes: usize,
    /// Maximum total size of all responses in bytes.
    pub bytes: usize,
    /// Maximum number of redirects for one request.
    pub redirects: usize,
}

impl Default for Limits {
    /// Returns limits that suffice for slow servers and organizations with thousands of repositories.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            response: Duration::from_secs(60),
            total: Duration::from_secs(10 * 60),
            requests: 20_000,
            concurrency: 8,
            pages: 1_000,
            page_bytes: 16 << 20,
            bytes: 512 << 20,
            redirects: 5,
        }
    }
}

/// Certificate authorities trusted by a generator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Authorities {
    /// The operating system's authorities.
    #[default]
    System,
    /// Only these authorities, in PEM format. `origin` describes their source in messages.
    Custom { pem: String, origin: String },
    /// Any certificate, without verification.
    Unverified,
}

/// HTTP client shared by all generators in a process.
pub struct Web {
    pub(crate) limits: Limits,
    /// URL of Bitbucket Cloud, which generators can't configure.
    bitbucket: String,
    trust: SystemTrust,
    /// Cached access tokens of GitHub Apps.
    pub(crate) tokens: Tokens,
    pub(crate) clock: Clock,
    /// End of the delay imposed by a server's rate limit, by identity.
    requested_waits: Mutex<BTreeMap<Vec<u8>, Instant>>,
    stop_sender: watch::Sender<bool>,
}

impl Default for Web {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Web {
    /// Creates a client with the given limits.
    pub fn new(limits: Limits) -> Self {
        let (trust, tokens, clock, waits) = Default::default();
        let bitbucket = "https://api.bitbucket.org/2.0".to_owned();
        Self {
            limits,
            bitbucket,
            trust,
            tokens,
            clock,
            requested_waits: waits,
            stop_sender: watch::Sender::new(false),
        }
    }

    /// Sets a different URL for Bitbucket Cloud.
    #[must_use]
    pub fn with_bitbucket(self, api: impl Into<String>) -> Self {
        Self { bitbucket: api.into(), ..self }
    }

    /// Sets a different clock for the expiry of temporary tokens.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    pub(crate) fn bitbucket(&self) -> &str {
        &self.bitbucket
    }

    /// Cancels all current and future requests, which then fail.
    pub fn stop(&self) {
        self.stop_sender.send_replace(true);
    }

    /// Runs requests until they are complete, time out or are canceled.
    pub(crate) fn run<T>(&self, work: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        let runtime =
            runtime.map_err(|error| Problem::new(format!("cannot start the network runtime: {error}")))?;
        let mut stopped = self.stop_sender.subscribe();
        let limit = self.limits.total;
        let answer = runtime.block_on(async {
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => Err(Problem::new("the request was interrupted")),
                done = tokio::time::timeout(limit, work) => done.unwrap_or_else(|_| {
                    let seconds = limit.as_secs_f64();
                    Err(Problem::new(format!("the response was not complete after {seconds} s; narrow the filters")))
                }),
            }
        });
        // A normal shutdown would wait for pending name lookups.
        runtime.shutdown_background();
        answer
    }

    /// Creates an HTTP client that trusts the given authorities.
    pub(crate) fn client(&self, trusted: &Authorities) -> Result<Client, Problem> {
        let believed = match trusted {
            Authorities::System => tidegate_web::TrustedServers::System,
            Authorities::Custom { pem, .. } => tidegate_web::TrustedServers::Authorities(pem),
            Authorities::Unverified => tidegate_web::TrustedServers::Anyone,
        };
        let tls = self.trust.tls_config(believed, None).map_err(|error| match (error, trusted) {
            (TrustError::Authorities, Authorities::Custom { origin, .. }) => {
                Problem::new(format!("{origin} contains no PEM certificates"))
            }
            (error, _) => Problem::new(error.to_string()),
        })?;
        Ok(create_client(
            &tls,
            direct_transport(create_connector(self.limits.connect, BlockedAddresses::LINK_LOCAL)),
        ))
    }

    /// Returns the remaining delay for an identity, if a server requested one.
    pub(crate) fn remaining_wait(&self, who: &[u8]) -> Option<Duration> {
        let waits = self.requested_waits.lock().unwrap_or_else(PoisonError::into_inner);
        let left = waits.get(who)?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Records a delay requested by a server for an identity.
    pub(crate) fn record_wait(&self, who: Vec<u8>, wait: Duration) {
        let now = Instant::now();
        let mut waits = self.requested_waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.retain(|_, until| *until > now);
        waits.insert(who, now + wait.min(WAIT_MAX));
    }
}

/// Fails if a request's host is blocked, unless it is configured explicitly.
pub(crate) fn check_host(at: &Uri, named: &Uri) -> Result<(), Problem> {
    let literal = |uri: &Uri| link_local_ip(uri.host().unwrap_or_default());
    match literal(at) {
        Some(address) if literal(named) != Some(address) => Err(Problem::new(LINK_LOCAL_REASON)),
        _ => Ok(()),
    }
}

/// Describes a connection error, for use after the name of the server.
pub(crate) fn connection_error_text(error: &legacy::Error) -> String {
    let cause = root_cause(error);
    if cause == LINK_LOCAL_REASON {
        return format!("cannot be reached: {cause}");
    }
    if cause.contains("certificate") {
        return format!(
            "has an untrusted certificate: {cause}; add its CA with caRef, or in a file specified by SSL_CERT_FILE"
        );
    }
    match error.is_connect() {
        true => format!("cannot be reached: {cause}"),
        false => format!("closed the connection: {cause}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_is_contacted_if_configured() {
        for (at, named, expected) in [
            ("http://169.254.169.254/x", "https://git.example.com/", false),
            ("http://169.254.169.254/x", "http://169.254.169.254/", true),
            ("http://169.254.169.254/x", "http://169.254.0.1/", false),
            ("http://10.0.0.1/x", "https://git.example.com/", true),
        ] {
            assert_eq!(
                check_host(&at.parse().unwrap(), &named.parse().unwrap()).is_ok(),
                expected,
                "{at} for {named}"
            );
        }
    }
}
