//! `http:NAME` gates, which ask an HTTP endpoint whether a wave may start. The engine polls the endpoint
//! while the wave is waiting. Only an unambiguous yes opens the gate.

mod client;
mod config;
mod template;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use tidegate_lifecycle::operation::Verdict;

use self::client::EndpointAnswer;
pub(crate) use self::client::HttpClient;
pub(crate) use self::config::EndpointRequest;
pub use self::config::{HeaderSource, HttpGate, HttpMethod};
use super::gate_subject::GateSubject;

/// Name prefix of endpoint gates.
pub(crate) const HTTP_PREFIX: &str = "http:";

/// Maximum delay after an unusable response, unless the interval is longer.
const RETRY_MAX: Duration = Duration::from_secs(300);
/// Delay after the first unusable response. Doubles with each further one.
const RETRY_MIN: Duration = Duration::from_secs(2);

/// Reports the endpoint's verdicts while the future is polled.
pub(super) async fn poll_gate(
    subject: &GateSubject,
    gate: &HttpGate,
    web: &HttpClient,
    tell: impl Fn(Verdict),
) {
    match gate.build_request(subject) {
        Ok(question) => {
            let (seed, question) = ((subject.operation, &subject.gate), &question);
            poll_endpoint(question, seed, || web.send(question), tell).await;
        }
        Err(problem) => tell(Verdict::closed(problem)),
    }
}

/// Polls the endpoint, even after a yes, because other gates may block the wave for a long time.
async fn poll_endpoint<A: Future<Output = EndpointAnswer>>(
    question: &EndpointRequest,
    seed: impl std::hash::Hash,
    ask: impl Fn() -> A,
    tell: impl Fn(Verdict),
) {
    let mut silent = 0_u32;
    for round in 0_u64.. {
        let answer = ask().await;
        silent = if matches!(answer, EndpointAnswer::Unusable(_)) { silent.saturating_add(1) } else { 0 };
        tell(match answer {
            EndpointAnswer::Allowed => Verdict::Open,
            EndpointAnswer::Denied(reason) | EndpointAnswer::Unusable(reason) => Verdict::closed(reason),
        });
        tokio::time::sleep(add_jitter(poll_delay(question.interval, silent), &seed, round)).await;
    }
}

/// Returns the delay before the next request after `silent` consecutive unusable responses.
fn poll_delay(interval: Duration, silent: u32) -> Duration {
    match silent {
        0 => interval,
        _ => {
            let doubled = RETRY_MIN.saturating_mul(2_u32.saturating_pow(silent.saturating_sub(1)));
            doubled.min(RETRY_MAX.max(interval))
        }
    }
}

/// Adds a jitter of up to one fifth, so that operations don't poll in lockstep.
fn add_jitter(wait: Duration, seed: impl std::hash::Hash, round: u64) -> Duration {
    let mut hasher = DefaultHasher::new();
    (seed, round).hash(&mut hasher);
    let part = u32::try_from(hasher.finish() % 200).unwrap_or_default();
    wait.saturating_add(wait.saturating_mul(part) / 1000)
}

#[cfg(test)]
mod tests;
