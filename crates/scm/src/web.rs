//! The way to servers: connections, whom to trust, and who has asked us to wait.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy;
use tidegate_web::{
    Barred, Client, Clock, LINK_LOCAL, Trust, TrustError, cause, client, connector, direct, link_local,
};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::apps::Tokens;
use crate::problem::Problem;

/// Who asks us to wait is believed for so long; then it is asked again.
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

/// How much patience there is with a server, for one question of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time for a connection.
    pub connect: Duration,
    /// Time for the answer to one request.
    pub answer: Duration,
    /// Time for all requests.
    pub all: Duration,
    /// Requests: one for each page, branch and path.
    pub requests: usize,
    /// Requests that are under way at once.
    pub at_once: usize,
    /// Pages of one list.
    pub pages: usize,
    /// Bytes of one answer.
    pub page_bytes: usize,
    /// Bytes of all answers.
    pub bytes: usize,
    /// Times that a server may send us on.
    pub redirects: usize,
}

impl Default for Limits {
    /// Room for organisations of thousands of repositories; a server that answers at all answers within these.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(60),
            all: Duration::from_secs(10 * 60),
            requests: 20_000,
            at_once: 8,
            pages: 1_000,
            page_bytes: 16 << 20,
            bytes: 512 << 20,
            redirects: 5,
        }
    }
}

/// Whom a generator trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trusted {
    /// Whom this system trusts.
    #[default]
    System,
    /// These authorities alone, in PEM; and where they are written down.
    These { pem: String, origin: String },
    /// Everybody.
    Anyone,
}

/// The way to servers, for all questions of a process.
pub struct Web {
    pub(crate) limits: Limits,
    /// Where Bitbucket Cloud is, whose repositories have no field for that.
    bitbucket: String,
    trust: Trust,
    /// Tokens of GitHub Apps.
    pub(crate) tokens: Tokens,
    pub(crate) clock: Clock,
    /// Until when a server has asked somebody to wait.
    waits: Mutex<BTreeMap<Vec<u8>, Instant>>,
    stopped: watch::Sender<bool>,
}

impl Default for Web {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Web {
    /// With so much patience.
    pub fn new(limits: Limits) -> Self {
        let (trust, tokens, clock, waits) = Default::default();
        let bitbucket = "https://api.bitbucket.org/2.0".to_owned();
        Self { limits, bitbucket, trust, tokens, clock, waits, stopped: watch::Sender::new(false) }
    }

    /// With another place for Bitbucket Cloud than the public one.
    #[must_use]
    pub fn with_bitbucket(self, api: impl Into<String>) -> Self {
        Self { bitbucket: api.into(), ..self }
    }

    /// With another clock than the machine's, by which tokens end that are given for a while.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    pub(crate) fn bitbucket(&self) -> &str {
        &self.bitbucket
    }

    /// Ends all questions, now and from now on: their answers are errors.
    pub fn stop(&self) {
        self.stopped.send_replace(true);
    }

    /// Works on a question until it is answered, or over for another reason.
    pub(crate) fn run<T>(&self, work: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        let runtime =
            runtime.map_err(|error| Problem::new(format!("this machine lacks what it takes: {error}")))?;
        let mut stopped = self.stopped.subscribe();
        let limit = self.limits.all;
        let answer = runtime.block_on(async {
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => Err(Problem::new("it was interrupted")),
                done = tokio::time::timeout(limit, work) => done.unwrap_or_else(|_| {
                    let seconds = limit.as_secs_f64();
                    Err(Problem::new(format!("the answer was not complete after {seconds} s; ask for less")))
                }),
            }
        });
        // A name that is being looked up would hold us for as long as that takes.
        runtime.shutdown_background();
        answer
    }

    /// Makes connections to those who are trusted.
    pub(crate) fn client(&self, trusted: &Trusted) -> Result<Client, Problem> {
        let believed = match trusted {
            Trusted::System => tidegate_web::Trusted::System,
            Trusted::These { pem, .. } => tidegate_web::Trusted::Authorities(pem),
            Trusted::Anyone => tidegate_web::Trusted::Anyone,
        };
        let tls = self.trust.config(believed, None).map_err(|error| match (error, trusted) {
            (TrustError::Authorities, Trusted::These { origin, .. }) => {
                Problem::new(format!("{origin} holds no certificates in PEM"))
            }
            (error, _) => Problem::new(error.to_string()),
        })?;
        Ok(client(&tls, direct(connector(self.limits.connect, Barred::LINK_LOCAL))))
    }

    /// For how long somebody is still asked to wait.
    pub(crate) fn wait_of(&self, who: &[u8]) -> Option<Duration> {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let left = waits.get(who)?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Somebody is asked to wait for so long.
    pub(crate) fn wait(&self, who: Vec<u8>, wait: Duration) {
        let now = Instant::now();
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.retain(|_, until| *until > now);
        waits.insert(who, now + wait.min(WAIT_MAX));
    }
}

/// Refuses a host that nobody may ask, unless it is the one that was named.
pub(crate) fn check(at: &Uri, named: &Uri) -> Result<(), Problem> {
    let literal = |uri: &Uri| link_local(uri.host().unwrap_or_default());
    match literal(at) {
        Some(address) if literal(named) != Some(address) => Err(Problem::new(LINK_LOCAL)),
        _ => Ok(()),
    }
}

/// What to say of a connection that failed.
pub(crate) fn failed(error: &legacy::Error) -> String {
    let cause = cause(error);
    if cause == LINK_LOCAL {
        return cause;
    }
    if cause.contains("certificate") {
        return format!(
            "its certificate is not trusted: {cause}; name its authority by caRef, or in a file by SSL_CERT_FILE"
        );
    }
    match error.is_connect() {
        true => format!("cannot be reached: {cause}"),
        false => format!("broke the connection: {cause}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_is_asked_where_it_was_named() {
        for (at, named, expected) in [
            ("http://169.254.169.254/x", "https://git.example.com/", false),
            ("http://169.254.169.254/x", "http://169.254.169.254/", true),
            ("http://169.254.169.254/x", "http://169.254.0.1/", false),
            ("http://10.0.0.1/x", "https://git.example.com/", true),
        ] {
            assert_eq!(
                check(&at.parse().unwrap(), &named.parse().unwrap()).is_ok(),
                expected,
                "{at} for {named}"
            );
        }
    }
}
