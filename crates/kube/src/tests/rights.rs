//! Tests of deriving missing permissions from the server's response.

use std::collections::BTreeSet;

use tidegate_cluster::{Cluster as _, MissingRight, Right};

use super::*;

const RULES_REVIEW: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const ACCESS_REVIEW: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

fn right(verb: &'static str, group: &str, kind: &str, namespace: &str) -> Right {
    Right { verb, gvk: Gvk::new(group, "v1", kind), namespace: namespace.to_owned(), name: String::new() }
}

fn missing_right(verb: &'static str, resource: &str, namespace: &str) -> MissingRight {
    MissingRight { namespace: namespace.to_owned(), resource: resource.to_owned(), verb }
}

fn rules_reply(rules: &Value) -> Reply {
    Reply::Json(201, json!({"status": {"resourceRules": rules, "nonResourceRules": [], "incomplete": false}}))
}

/// Allows the given verbs and resources.
fn reply_to_review(request: &ReceivedRequest, allowed: &[(&str, &str)]) -> Reply {
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let attributes = &body["spec"]["resourceAttributes"];
    let (verb, resource) = (attributes["verb"].as_str().unwrap(), attributes["resource"].as_str().unwrap());
    Reply::Json(201, json!({"status": {"allowed": allowed.contains(&(verb, resource))}}))
}

#[tokio::test]
async fn one_review_of_the_rules_covers_a_namespace() {
    let (cluster, log) = scripted_cluster(|request| match request.summary_line().as_str() {
        RULES_REVIEW => Some(rules_reply(&json!([
            {"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]},
            {"verbs": ["patch"], "apiGroups": ["apps"], "resources": ["*"]},
            {"verbs": ["delete"], "apiGroups": ["*"], "resources": ["secrets"], "resourceNames": ["a"]},
        ]))),
        // An authorizer other than RBAC grants the permission. The rules don't cover it.
        ACCESS_REVIEW => Some(reply_to_review(request, &[("update", "deployments")])),
        _ => None,
    });
    let covered = BTreeSet::from([
        right("create", "", "ConfigMap", "shop"),
        right("patch", "apps", "Deployment", "shop"),
        right("delete", "", "Secret", "shop"),
        right("create", "example.org", "Unserved", "shop"),
    ]);
    assert_eq!(cluster.missing_rights(&covered).await.unwrap(), BTreeSet::new());
    let questions = |log: &RequestLog| {
        logged_calls(log).iter().filter(|line| line.starts_with("POST")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(questions(&log), [RULES_REVIEW]);
    let lacking = BTreeSet::from([
        right("update", "apps", "Deployment", "shop"),
        right("create", "apps", "Deployment", "shop"),
        right("patch", "", "Secret", "shop"),
        right("create", "", "Namespace", ""),
    ]);
    let expected = BTreeSet::from([
        missing_right("create", "deployments.apps", "shop"),
        missing_right("patch", "secrets", "shop"),
        missing_right("create", "namespaces", ""),
    ]);
    assert_eq!(cluster.missing_rights(&lacking).await.unwrap(), expected);
    assert_eq!(questions(&log).len(), 1 + 1 + 4);
}

#[tokio::test]
async fn a_rule_with_object_names_grants_the_right_to_those_objects() {
    let (cluster, _) = scripted_cluster(|request| match request.summary_line().as_str() {
        RULES_REVIEW => Some(rules_reply(&json!([
            {"verbs": ["update"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]},
        ]))),
        ACCESS_REVIEW => Some(reply_to_review(request, &[])),
        _ => None,
    });
    for (name, is_missing) in [("a", false), ("", false), ("b", true)] {
        let requested = Right { name: name.to_owned(), ..right("update", "", "Secret", "shop") };
        let found = cluster.missing_rights(&BTreeSet::from([requested])).await.unwrap();
        assert_eq!(found.contains(&missing_right("update", "secrets", "shop")), is_missing, "{name}");
    }
}

#[tokio::test]
async fn a_server_without_reviews_is_assumed_to_permit_everything() {
    let (cluster, _) = scripted_cluster(|request| {
        let forbidden = || Reply::Json(403, status_body(403, "Forbidden", "cannot create reviews"));
        request.summary_line().starts_with("POST").then(forbidden)
    });
    let rights =
        BTreeSet::from([right("create", "", "ConfigMap", "shop"), right("patch", "", "Namespace", "")]);
    assert_eq!(cluster.missing_rights(&rights).await.unwrap(), BTreeSet::new());
}
