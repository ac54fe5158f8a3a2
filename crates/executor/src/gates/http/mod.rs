//! `http:NAME`: an endpoint is asked whether a wave may begin, again and again while the wave is held. Anything but a clear yes
//! keeps it closed.

mod client;
mod config;
mod template;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use tidegate_lifecycle::operation::Verdict;

use self::client::Said;
pub(crate) use self::client::Web;
pub(crate) use self::config::Question;
pub use self::config::{HeaderSource, HttpGate, HttpMethod};
use super::asked::Asked;

/// What a gate's name begins with that an endpoint opens.
pub(crate) const HTTP: &str = "http:";

/// Longest time until an endpoint is asked again that gives no usable answer, unless its interval is longer.
const RETRY_MAX: Duration = Duration::from_secs(300);
/// Wait after the first question without a usable answer; doubled after each more.
const RETRY_MIN: Duration = Duration::from_secs(2);

/// Tells what the endpoint says, for as long as this is polled.
pub(super) async fn keep(asked: &Asked, gate: &HttpGate, web: &Web, tell: impl Fn(Verdict)) {
    match gate.question(asked) {
        Ok(question) => {
            let (seed, question) = ((asked.operation, &asked.gate), &question);
            again_and_again(question, seed, || web.ask(question), tell).await;
        }
        Err(problem) => tell(Verdict::closed(problem)),
    }
}

/// Asks for as long as this is polled. A yes too is asked for again: other gates may keep the wave closed for long.
async fn again_and_again<A: Future<Output = Said>>(
    question: &Question,
    seed: impl std::hash::Hash,
    ask: impl Fn() -> A,
    tell: impl Fn(Verdict),
) {
    let mut silent = 0_u32;
    for round in 0_u64.. {
        let said = ask().await;
        silent = if matches!(said, Said::Nothing(_)) { silent.saturating_add(1) } else { 0 };
        tell(match said {
            Said::Yes => Verdict::Open,
            Said::No(reason) | Said::Nothing(reason) => Verdict::closed(reason),
        });
        tokio::time::sleep(spread(wait(question.interval, silent), &seed, round)).await;
    }
}

/// How long until it is asked again, after so many questions in a row without a usable answer.
fn wait(interval: Duration, silent: u32) -> Duration {
    match silent {
        0 => interval,
        _ => {
            let doubled = RETRY_MIN.saturating_mul(2_u32.saturating_pow(silent.saturating_sub(1)));
            doubled.min(RETRY_MAX.max(interval))
        }
    }
}

/// Up to a fifth longer, so that many operations do not ask in the same moment for ever.
fn spread(wait: Duration, seed: impl std::hash::Hash, round: u64) -> Duration {
    let mut hasher = DefaultHasher::new();
    (seed, round).hash(&mut hasher);
    let part = u32::try_from(hasher.finish() % 200).unwrap_or_default();
    wait.saturating_add(wait.saturating_mul(part) / 1000)
}

#[cfg(test)]
mod tests;
