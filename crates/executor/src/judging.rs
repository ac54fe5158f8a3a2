//! Judging objects. Scripts run on threads for blocking work: one may take a second, and others share ours.

use sha2::{Digest as _, Sha256};
use tidegate_health::{HealthError, HealthRules};
use tidegate_model::{Digest, Health, HealthStatus, Object, Observed, Timestamp};

/// What tells rules from others. The same rules have the same digest in every process, wherever and in whichever order they
/// were read.
pub(crate) fn digest(rules: &HealthRules) -> Digest {
    let mut hasher = Sha256::new();
    rules.each_part(&mut |part| {
        // So that what ends one part never begins the next.
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(part);
    });
    Digest(hasher.finalize().into())
}

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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_health::{Expressions, Script, UserRule};

    use super::*;

    fn script(target: &str, name: &str, text: &str) -> UserRule {
        UserRule::Script(Script::load(target, name, text))
    }

    fn cel(target: &str, source: serde_json::Value) -> UserRule {
        UserRule::Expressions(Expressions::load(target, "health.yaml", source))
    }

    fn of(rules: impl IntoIterator<Item = UserRule>) -> Digest {
        digest(&HealthRules::with_rules(rules).unwrap())
    }

    const WELL: &str = "return {status = 'Healthy', message = 'well'}";

    #[test]
    fn the_digest_is_of_what_rules_say_and_not_of_how_they_came() {
        let (a, b) = (|| script("a/A", "one.lua", WELL), || cel("b/*", json!({"current": "true"})));
        let both = of([a(), b()]);
        assert_eq!(of([b(), a()]), both, "the order of reading");
        assert_eq!(of([script("a/A", "elsewhere.lua", WELL), b()]), both, "the place of reading");
        let noted = cel("b/*", json!({"note": "as before", "failed": null, "current": "true"}));
        assert_eq!(of([a(), noted]), both, "what no rule reads");
    }

    #[test]
    fn the_digest_is_another_where_a_verdict_may_be() {
        let built_in = digest(&HealthRules::built_in());
        let sets = [
            built_in,
            digest(&HealthRules::built_in().with_convention(false)),
            of([script("a/A", "a", WELL)]),
            of([script("a/B", "a", WELL)]),
            of([script("a/A", "a", "return {status = 'Degraded', message = 'well'}")]),
            of([cel("a/A", json!({"current": "true"}))]),
            of([cel("a/A", json!({"current": "true", "failed": "true"}))]),
            of([cel("a/A", json!({"current": "true", "inProgress": "true"}))]),
            of([script("a/A", "a", WELL), script("a/B", "b", WELL)]),
        ];
        let distinct: std::collections::BTreeSet<_> = sets.iter().collect();
        assert_eq!(distinct.len(), sets.len());
    }
}
