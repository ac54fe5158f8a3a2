//! Rules that projects inherit from global projects, one row per rule.

use serde_json::{Value, json};
use tidegate_application::global_projects::with_global_rules;
use tidegate_application::project::{check_object, check_operation};
use tidegate_model::argo::AppProject;
use tidegate_model::{DeployTarget, ObjectKey, ProjectPolicy};

fn project(name: &str, spec: &Value) -> AppProject {
    let value = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": name}, "spec": spec,
    });
    serde_json::from_value(value).unwrap()
}

fn key(group: &str, kind: &str, namespace: &str) -> ObjectKey {
    ObjectKey {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: "a".to_owned(),
    }
}

/// Returns the requests that a project permits, out of a fixed list: a repository, a destination, and kinds.
fn permitted(project: &AppProject) -> Vec<&'static str> {
    let target = DeployTarget {
        servers: vec!["https://kubernetes.default.svc".to_owned()],
        name: "in-cluster".to_owned(),
        namespace: "web".to_owned(),
        ..DeployTarget::default()
    };
    let mandate = ProjectPolicy {
        project: "shop".to_owned(),
        repositories: vec!["https://git.example/shop/web.git".to_owned()],
        target: target.clone(),
        ..ProjectPolicy::default()
    };
    let object = |key: ObjectKey| {
        let namespaced = !key.namespace.is_empty();
        check_object(project, &target, &key, Some(namespaced)).is_ok()
    };
    let all = [
        ("application", check_operation(project, &mandate, "argocd").is_ok()),
        ("ConfigMap", object(key("", "ConfigMap", "web"))),
        ("Secret", object(key("", "Secret", "web"))),
        ("ClusterRole", object(key("rbac.authorization.k8s.io", "ClusterRole", ""))),
        ("Namespace", object(key("", "Namespace", ""))),
    ];
    all.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
}

#[test]
fn inherited_rules() {
    let own = json!({
        "sourceRepos": ["https://git.example/**"],
        "destinations": [{"server": "*", "namespace": "web"}],
        "clusterResourceWhitelist": [{"group": "", "kind": "Namespace"}],
    });
    let without = |field: &str| {
        let mut spec = own.clone();
        spec.as_object_mut().unwrap().remove(field);
        spec
    };
    let kind = |kind: &str| json!([{"group": "*", "kind": kind}]);
    let (all, none) = (["application", "ConfigMap", "Secret", "Namespace"], [""; 0]);
    for (row, own, globals, expected) in [
        ("no global project", own.clone(), vec![], all.to_vec()),
        ("a global project without rules", own.clone(), vec![json!({})], all.to_vec()),
        ("permitted repositories", without("sourceRepos"), vec![json!({"sourceRepos": ["*"]})], all.to_vec()),
        (
            "a denied repository",
            own.clone(),
            vec![json!({"sourceRepos": ["!https://git.example/shop/*"]})],
            vec!["ConfigMap", "Secret", "Namespace"],
        ),
        (
            "permitted destinations",
            without("destinations"),
            vec![json!({"destinations": [{"server": "*", "namespace": "*"}]})],
            all.to_vec(),
        ),
        (
            "a denied destination",
            own.clone(),
            vec![json!({"destinations": [{"server": "*", "namespace": "!web"}]})],
            vec!["Namespace"],
        ),
        (
            "permitted cluster-scoped kinds",
            own.clone(),
            vec![json!({"clusterResourceWhitelist": kind("ClusterRole")})],
            vec!["application", "ConfigMap", "Secret", "ClusterRole", "Namespace"],
        ),
        (
            "denied cluster-scoped kinds",
            own.clone(),
            vec![json!({"clusterResourceBlacklist": kind("Namespace")})],
            vec!["application", "ConfigMap", "Secret"],
        ),
        (
            "permitted namespaced kinds, for a project without its own list",
            own.clone(),
            vec![json!({"namespaceResourceWhitelist": kind("ConfigMap")})],
            vec!["application", "ConfigMap", "Namespace"],
        ),
        (
            "an empty list of namespaced kinds",
            own.clone(),
            vec![json!({"namespaceResourceWhitelist": []})],
            vec!["application", "Namespace"],
        ),
        (
            "denied namespaced kinds",
            own.clone(),
            vec![json!({"namespaceResourceBlacklist": kind("Secret")})],
            vec!["application", "ConfigMap", "Namespace"],
        ),
        (
            "two global projects",
            own.clone(),
            vec![
                json!({"namespaceResourceBlacklist": kind("Secret")}),
                json!({"clusterResourceBlacklist": kind("Namespace")}),
            ],
            vec!["application", "ConfigMap"],
        ),
        ("all rules from a global project", json!({}), vec![own.clone()], all.to_vec()),
        (
            "other fields, which are not inherited",
            own.clone(),
            vec![json!({
                "permitOnlyProjectScopedClusters": true, "sourceNamespaces": ["other"],
                "signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}], "sourceIntegrity": {},
            })],
            all.to_vec(),
        ),
        ("a project without rules", json!({}), vec![json!({"sourceRepos": ["*"]})], none.to_vec()),
    ] {
        let globals: Vec<_> = globals.iter().map(|spec| project("platform", spec)).collect();
        let merged = with_global_rules(&project("shop", &own), &globals);
        assert_eq!(permitted(&merged), expected, "{row}");
        assert_eq!(merged.metadata.name, "shop", "{row}");
        assert!(merged.spec.signature_keys.is_empty() && merged.spec.source_namespaces.is_empty(), "{row}");
    }
}

#[test]
fn windows_of_both_count() {
    let window =
        |kind: &str| json!({"syncWindows": [{"kind": kind, "schedule": "0 * * * *", "duration": "1h"}]});
    let merged =
        with_global_rules(&project("shop", &window("allow")), [&project("platform", &window("deny"))]);
    let kinds: Vec<_> = merged
        .spec
        .sync_windows
        .iter()
        .map(|one| serde_json::to_value(one).unwrap()["kind"].clone())
        .collect();
    assert_eq!(kinds, ["allow", "deny"]);
}
