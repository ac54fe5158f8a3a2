//! Results of reconcile passes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use tidegate_applicationset::changes::{AppSetChanges, AppSetOutput};
use tidegate_applicationset::pass_results::{FinishedPass, PassResults};
use tidegate_applicationset::requeue::ReconcileOutcome;
use tidegate_applicationset::status::{ConditionReason, ReconcileFailure};

use crate::{changes, generated_application, generated_output, live_application, with_policy};

fn failure(message: &str) -> ReconcileFailure {
    ReconcileFailure { reason: ConditionReason::UpdateApplicationError, message: message.to_owned() }
}

fn pass<'a>(generated: Option<AppSetOutput>, changes: &'a AppSetChanges) -> FinishedPass<'a> {
    FinishedPass { generated: generated.map(Arc::new), failure: None, changes, awaited: None }
}

fn rejected(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), "occurs twice".to_owned())])
}

#[test]
fn the_outcome_of_a_pass() {
    let none = AppSetChanges::default();
    let failed = AppSetOutput { errors: vec!["no connection".to_owned()], ..AppSetOutput::default() };
    for (generated, reason, expected) in [
        (Some(AppSetOutput::default()), None, ReconcileOutcome::Complete),
        (Some(AppSetOutput::default()), Some(failure("a")), ReconcileOutcome::Partial),
        (Some(failed.clone()), None, ReconcileOutcome::Failed),
        (None, Some(failure("a")), ReconcileOutcome::Failed),
    ] {
        let mut results = PassResults::default();
        assert!(!results.is_complete(), "before the first pass");
        results.record(FinishedPass { failure: reason, ..pass(generated, &none) });
        assert_eq!(results.outcome(), expected);
        assert_eq!(results.is_complete(), expected != ReconcileOutcome::Failed);
    }
}

#[test]
fn rejected_names_are_those_of_the_last_whole_output() {
    let none = AppSetChanges::default();
    let mut results = PassResults::default();
    results.record(pass(Some(AppSetOutput { rejected: rejected("a"), ..AppSetOutput::default() }), &none));
    assert_eq!(*results.last_rejected, rejected("a"));
    let errors = vec!["no connection".to_owned()];
    for partial in [
        Some(AppSetOutput { errors: errors.clone(), ..AppSetOutput::default() }),
        Some(AppSetOutput { without_output: errors, ..AppSetOutput::default() }),
        None,
    ] {
        results.record(pass(partial, &none));
        assert_eq!(*results.last_rejected, rejected("a"));
    }
    results.record(pass(Some(AppSetOutput::default()), &none));
    assert!(results.last_rejected.is_empty());
}

#[test]
fn each_pass_replaces_the_reasons_of_the_previous_one() {
    let (set, there) = (with_policy("create-only"), [live_application("a", &json!({}))]);
    let mut changed = generated_application("a");
    changed.spec.project = "shop".to_owned();
    let mut other = generated_application("b");
    other.spec.destination.name = "moon".to_owned();
    let output = generated_output(vec![changed, other]);
    let found = changes(&set, &output, &there);
    let mut results = PassResults::default();
    results.record(FinishedPass { awaited: Some(rejected("a")), ..pass(Some(output), &found) });
    let names = |all: &BTreeMap<String, String>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!((names(&results.unmanaged), names(&results.refused)), (vec!["a".into()], vec!["b".into()]));
    let none = AppSetChanges::default();
    results.record(pass(Some(AppSetOutput::default()), &none));
    assert!(results.unmanaged.is_empty() && results.refused.is_empty());
    assert_eq!(results.awaited, rejected("a"), "this pass did not compare any manifests");
    results.record(FinishedPass { awaited: Some(BTreeMap::new()), ..pass(None, &none) });
    assert!(results.awaited.is_empty());
}

#[test]
fn failures_are_combined() {
    let mut results = PassResults::default();
    results.add_failure(failure("a"));
    results.add_failure(failure("b"));
    assert_eq!(results.failure, Some(failure("a; b")));
}
