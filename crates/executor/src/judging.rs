//! Judging objects. Scripts run on threads for blocking work: one may take a second, and others share ours.

use tidegate_health::{HealthError, HealthRules};
use tidegate_model::{Health, HealthStatus, Object, Observed, Timestamp};

/// Runs it where the rule for the object may take its time. `None`: it failed in a way no rule should.
async fn with_time<T: Send + 'static>(
    rules: &HealthRules,
    object: &Object,
    judge: impl FnOnce(&HealthRules, &Object) -> T + Send + 'static,
) -> Option<T> {
    if rules.script(object.group(), object.kind()).is_none() {
        return Some(judge(rules, object));
    }
    let (rules, object) = (rules.clone(), object.clone());
    tokio::task::spawn_blocking(move || judge(&rules, &object)).await.ok()
}

fn failed() -> Health {
    Health::new(HealthStatus::Unknown, "the health script met a fault inside the engine; please report this")
}

/// What the machine is told of an object.
pub(crate) async fn observe(rules: &HealthRules, object: &Object, now: Timestamp) -> Observed {
    let seen = with_time(rules, object, move |rules, object| rules.observe(object, now).seen).await;
    seen.unwrap_or_else(|| HealthRules::built_in().observe(object, now).seen.judged(failed(), true))
}

/// The verdict on an object.
pub(crate) async fn assess(
    rules: &HealthRules,
    object: &Object,
    now: Timestamp,
) -> Option<Result<Health, HealthError>> {
    let verdict = with_time(rules, object, move |rules, object| rules.assess(object, now)).await;
    verdict.unwrap_or_else(|| Some(Ok(failed())))
}
