//! Health evaluation. Scripts run on blocking threads, because they can take up to a second and would stall
//! other tasks on an async thread.

use sha2::{Digest as _, Sha256};
use tidegate_health::{HealthError, HealthRules};
use tidegate_model::{Digest, Health, HealthStatus, Object, ObservedState, Timestamp};

/// Returns the digest of health rules. It is the same in every process, whatever the rules' order and origin.
pub(crate) fn rules_digest(rules: &HealthRules) -> Digest {
    let mut hasher = Sha256::new();
    rules.visit_identity(&mut |part| {
        // Prefix each part with its length, so that adjacent parts can't run together.
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(part);
    });
    Digest(hasher.finalize().into())
}

/// Runs an evaluation on a thread that it may block for a long time. Returns `None` if it panics.
async fn evaluate_blocking<T: Send + 'static>(
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

fn panicked_health() -> Health {
    Health::new(HealthStatus::Unknown, "internal error in the health script; please report this")
}

/// Evaluates an object for the state machine.
pub(crate) async fn observe_object(rules: &HealthRules, object: &Object, now: Timestamp) -> ObservedState {
    let seen = evaluate_blocking(rules, object, move |rules, object| rules.observe(object, now).seen).await;
    seen.unwrap_or_else(|| {
        HealthRules::built_in().observe(object, now).seen.with_health(panicked_health(), true)
    })
}

pub(crate) async fn evaluate_health(
    rules: &HealthRules,
    object: &Object,
    now: Timestamp,
) -> Option<Result<Health, HealthError>> {
    let verdict = evaluate_blocking(rules, object, move |rules, object| rules.assess(object, now)).await;
    verdict.unwrap_or_else(|| Some(Ok(panicked_health())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_health::{Expressions, Script, UserRule};

    use super::*;

    fn script_rule(target: &str, name: &str, text: &str) -> UserRule {
        UserRule::Script(Script::load(target, name, text))
    }

    fn cel_rule(target: &str, source: serde_json::Value) -> UserRule {
        UserRule::Expressions(Expressions::load(target, "health.yaml", source))
    }

    fn digest_of(rules: impl IntoIterator<Item = UserRule>) -> Digest {
        rules_digest(&HealthRules::with_rules(rules).unwrap())
    }

    const HEALTHY: &str = "return {status = 'Healthy', message = 'well'}";

    #[test]
    fn the_digest_depends_on_the_content_of_rules_and_not_on_their_order() {
        let (a, b) =
            (|| script_rule("a/A", "one.lua", HEALTHY), || cel_rule("b/*", json!({"current": "true"})));
        let both = digest_of([a(), b()]);
        assert_eq!(digest_of([b(), a()]), both, "the order of the rules doesn't matter");
        assert_eq!(
            digest_of([script_rule("a/A", "elsewhere.lua", HEALTHY), b()]),
            both,
            "the location of the rules doesn't matter"
        );
        let noted = cel_rule("b/*", json!({"note": "as before", "failed": null, "current": "true"}));
        assert_eq!(digest_of([a(), noted]), both, "fields that no rule reads don't matter");
    }

    #[test]
    fn the_digest_changes_where_a_verdict_can_change() {
        let built_in = rules_digest(&HealthRules::built_in());
        let sets = [
            built_in,
            rules_digest(&HealthRules::built_in().with_convention(false)),
            digest_of([script_rule("a/A", "a", HEALTHY)]),
            digest_of([script_rule("a/B", "a", HEALTHY)]),
            digest_of([script_rule("a/A", "a", "return {status = 'Degraded', message = 'well'}")]),
            digest_of([cel_rule("a/A", json!({"current": "true"}))]),
            digest_of([cel_rule("a/A", json!({"current": "true", "failed": "true"}))]),
            digest_of([cel_rule("a/A", json!({"current": "true", "inProgress": "true"}))]),
            digest_of([script_rule("a/A", "a", HEALTHY), script_rule("a/B", "b", HEALTHY)]),
        ];
        let distinct: std::collections::BTreeSet<_> = sets.iter().collect();
        assert_eq!(distinct.len(), sets.len());
    }
}
