//! Which rights are missing, by what the server says.

use std::collections::BTreeSet;

use tidegate_cluster::{Cluster as _, MissingRight, Right};

use super::*;

const RULES: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const QUESTION: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

fn right(verb: &'static str, group: &str, kind: &str, namespace: &str) -> Right {
    Right { verb, gvk: Gvk::new(group, "v1", kind), namespace: namespace.to_owned(), name: String::new() }
}

fn missing(verb: &'static str, resource: &str, namespace: &str) -> MissingRight {
    MissingRight { namespace: namespace.to_owned(), resource: resource.to_owned(), verb }
}

fn rules(rules: &Value) -> Reply {
    Reply::Json(201, json!({"status": {"resourceRules": rules, "nonResourceRules": [], "incomplete": false}}))
}

/// Allows what the test says, by verb and resource.
fn answer(asked: &Asked, allowed: &[(&str, &str)]) -> Reply {
    let body: Value = serde_json::from_slice(&asked.body).unwrap();
    let attributes = &body["spec"]["resourceAttributes"];
    let (verb, resource) = (attributes["verb"].as_str().unwrap(), attributes["resource"].as_str().unwrap());
    Reply::Json(201, json!({"status": {"allowed": allowed.contains(&(verb, resource))}}))
}

#[tokio::test]
async fn one_question_for_a_namespace_settles_what_the_rules_give() {
    let (cluster, log) = cluster(|asked| match asked.line().as_str() {
        RULES => Some(rules(&json!([
            {"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]},
            {"verbs": ["patch"], "apiGroups": ["apps"], "resources": ["*"]},
            {"verbs": ["delete"], "apiGroups": ["*"], "resources": ["secrets"], "resourceNames": ["a"]},
        ]))),
        // Somebody else than the rules lets it through.
        QUESTION => Some(answer(asked, &[("update", "deployments")])),
        _ => None,
    });
    let covered = BTreeSet::from([
        right("create", "", "ConfigMap", "shop"),
        right("patch", "apps", "Deployment", "shop"),
        right("delete", "", "Secret", "shop"),
        right("create", "example.org", "Unserved", "shop"),
    ]);
    assert_eq!(cluster.missing_rights(&covered).await.unwrap(), BTreeSet::new());
    let questions =
        |log: &Log| calls(log).iter().filter(|line| line.starts_with("POST")).cloned().collect::<Vec<_>>();
    assert_eq!(questions(&log), [RULES]);
    let lacking = BTreeSet::from([
        right("update", "apps", "Deployment", "shop"),
        right("create", "apps", "Deployment", "shop"),
        right("patch", "", "Secret", "shop"),
        right("create", "", "Namespace", ""),
    ]);
    let expected = BTreeSet::from([
        missing("create", "deployments.apps", "shop"),
        missing("patch", "secrets", "shop"),
        missing("create", "namespaces", ""),
    ]);
    assert_eq!(cluster.missing_rights(&lacking).await.unwrap(), expected);
    assert_eq!(questions(&log).len(), 1 + 1 + 4);
}

#[tokio::test]
async fn a_rule_for_objects_of_certain_names_gives_the_right_to_those() {
    let (cluster, _) = cluster(|asked| match asked.line().as_str() {
        RULES => Some(rules(&json!([
            {"verbs": ["update"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]},
        ]))),
        QUESTION => Some(answer(asked, &[])),
        _ => None,
    });
    for (name, is_missing) in [("a", false), ("", false), ("b", true)] {
        let asked = Right { name: name.to_owned(), ..right("update", "", "Secret", "shop") };
        let found = cluster.missing_rights(&BTreeSet::from([asked])).await.unwrap();
        assert_eq!(found.contains(&missing("update", "secrets", "shop")), is_missing, "{name}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_say_is_believed_to_allow_everything() {
    let (cluster, _) = cluster(|asked| {
        let forbidden = || Reply::Json(403, status(403, "Forbidden", "cannot create reviews"));
        asked.line().starts_with("POST").then(forbidden)
    });
    let rights =
        BTreeSet::from([right("create", "", "ConfigMap", "shop"), right("patch", "", "Namespace", "")]);
    assert_eq!(cluster.missing_rights(&rights).await.unwrap(), BTreeSet::new());
}
