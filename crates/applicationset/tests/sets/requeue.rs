//! When a set is looked at again by itself (specification, 2.4).

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_applicationset::policy::Options;
use tidegate_applicationset::requeue::{Ended, again_after, asks_for_clusters};

use crate::set;

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
        let set = set(&json!({"generators": generators}));
        let after = |ended| again_after(&set, ended, &Options::default());
        let expected = expected.map(Duration::from_secs);
        assert_eq!(after(Ended::Well), expected, "{generators}");
        let three_minutes = Duration::from_secs(180);
        assert_eq!(after(Ended::Partly), expected.or(Some(three_minutes)), "{generators}");
        assert_eq!(after(Ended::Failed), Some(three_minutes), "{generators}");
    }
    let options = Options { requeue_after: Duration::from_secs(7), ..Options::default() };
    let of_git = set(&json!({"generators": [git(None), other("plugin", None)]}));
    assert_eq!(again_after(&of_git, Ended::Well, &options), Some(Duration::from_secs(7)));
}

#[test]
fn clusters_matter_to_whoever_asks_for_them() {
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
        assert_eq!(asks_for_clusters(&set(&json!({"generators": [generator]}))), expected, "{generator}");
    }
}
