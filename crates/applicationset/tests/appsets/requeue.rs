//! Scheduled reconciliations.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_applicationset::requeue::{ReconcileOutcome, requeue_delay, uses_clusters};
use tidegate_applicationset::sync_policy::AppSetRuleOptions;

use crate::appset;

fn git(seconds: Option<i64>) -> Value {
    let mut git = json!({"repoURL": "r", "revision": "main"});
    if let Some(seconds) = seconds {
        git["requeueAfterSeconds"] = json!(seconds);
    }
    json!({"git": git})
}

fn other(name: &str, seconds: Option<i64>) -> Value {
    let mut generator = match name {
        "plugin" => json!({"configMapRef": {"name": "p"}}),
        "clusterDecisionResource" => json!({"configMapRef": "c"}),
        _ => json!({}),
    };
    if let Some(seconds) = seconds {
        generator["requeueAfterSeconds"] = json!(seconds);
    }
    json!({ name: generator })
}

#[test]
fn each_generator_has_its_interval() {
    let list = || json!({"list": {"elements": []}});
    let clusters = || json!({"clusters": {}});
    let matrix = |a: Value, b: Value| json!({"matrix": {"generators": [a, b]}});
    let merge = |a: Value, b: Value| json!({"merge": {"generators": [a, b], "mergeKeys": ["k"]}});
    for (generators, expected) in [
        (json!([list()]), None),
        (json!([list(), clusters()]), None),
        (json!([git(None)]), Some(180)),
        (json!([git(Some(0))]), Some(180)),
        (json!([git(Some(-5))]), Some(180)),
        (json!([git(Some(20))]), Some(20)),
        (json!([git(Some(i64::MAX))]), Some(8760 * 3600)),
        (json!([other("clusterDecisionResource", None)]), Some(180)),
        (json!([other("clusterDecisionResource", Some(60))]), Some(60)),
        (json!([other("scmProvider", None)]), Some(1800)),
        (json!([other("pullRequest", None)]), Some(1800)),
        (json!([other("plugin", None)]), Some(1800)),
        (json!([other("plugin", Some(15))]), Some(15)),
        (json!([other("pullRequest", Some(0))]), None),
        (json!([list(), git(None), other("pullRequest", Some(600))]), Some(180)),
        (json!([matrix(list(), other("scmProvider", None))]), Some(1800)),
        (json!([matrix(git(Some(90)), merge(other("plugin", Some(40)), list()))]), Some(40)),
        (json!([matrix(list(), clusters())]), None),
    ] {
        let set = appset(&json!({"generators": generators}));
        let after = |ended| requeue_delay(&set, ended, &AppSetRuleOptions::default());
        let expected = expected.map(Duration::from_secs);
        assert_eq!(after(ReconcileOutcome::Complete), expected, "{generators}");
        let three_minutes = Duration::from_secs(180);
        assert_eq!(after(ReconcileOutcome::Partial), expected.or(Some(three_minutes)), "{generators}");
        assert_eq!(after(ReconcileOutcome::Failed), Some(three_minutes), "{generators}");
    }
    let options = AppSetRuleOptions { requeue_after: Duration::from_secs(7), ..AppSetRuleOptions::default() };
    let of_git = appset(&json!({"generators": [git(None), other("plugin", None)]}));
    assert_eq!(requeue_delay(&of_git, ReconcileOutcome::Complete, &options), Some(Duration::from_secs(7)));
}

#[test]
fn only_some_generators_use_clusters() {
    for (generator, expected) in [
        (json!({"list": {}}), false),
        (git(None), false),
        (json!({"clusters": {}}), true),
        (other("clusterDecisionResource", None), true),
        (
            json!({"matrix": {"generators": [git(None), {"merge": {"generators": [{"clusters": {}}], "mergeKeys": []}}]}}),
            true,
        ),
        (json!({"matrix": {"generators": [git(None), {"list": {}}]}}), false),
    ] {
        assert_eq!(uses_clusters(&appset(&json!({"generators": [generator]}))), expected, "{generator}");
    }
}
