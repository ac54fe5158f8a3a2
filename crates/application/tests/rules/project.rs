//! Project permissions for applications, one row per rule.

use serde_json::{Value, json};
use tidegate_application::project::{
    PermissionError, check_object, check_operation, only_denying_warnings, permissive_project,
};
use tidegate_model::argo::AppProject;
use tidegate_model::{DeployTarget, ObjectKey, ProjectPolicy};

fn project(spec: &Value) -> AppProject {
    let value = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"}, "spec": spec,
    });
    serde_json::from_value(value).unwrap()
}

/// Returns a project that permits everything except what these rules forbid.
fn permissive_except(spec: Value) -> AppProject {
    let mut open = serde_json::to_value(permissive_project().spec).unwrap();
    open.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    project(&open)
}

fn target() -> DeployTarget {
    DeployTarget {
        servers: vec!["https://kubernetes.default.svc".to_owned(), "https://10.0.0.1:6443".to_owned()],
        name: "in-cluster".to_owned(),
        project: String::new(),
        namespace: "web".to_owned(),
    }
}

fn project_policy() -> ProjectPolicy {
    ProjectPolicy {
        project: "shop".to_owned(),
        repositories: vec!["https://git.example/shop/web.git".to_owned()],
        target: target(),
        ..ProjectPolicy::default()
    }
}

#[track_caller]
fn assert_result(checked: Result<(), PermissionError>, expected: &str, row: &str) {
    match (checked, expected) {
        (Ok(()), "") => {}
        (Err(refused), expected) if !expected.is_empty() && refused.to_string().contains(expected) => {}
        (checked, expected) => panic!("{row}: {checked:?} where {expected:?} was expected"),
    }
}

#[test]
fn permitted_operations() {
    let repository = "application repo https://git.example/shop/web.git is not permitted in project 'shop': ";
    let destination = "application destination server 'https://kubernetes.default.svc' and namespace 'web' do not match any of the allowed destinations in project 'shop': ";
    let in_vain = format!("{repository}none of its sourceRepos match");
    let nowhere = format!("{destination}none of its destinations match");
    let only_denies = format!("{destination}all entries in its destinations are negated (!)");
    let to = |entry: Value| json!({"destinations": [entry]});
    let any = json!({"server": "*", "namespace": "*"});
    let rows = [
        (json!({}), String::new()),
        (json!({"sourceRepos": []}), in_vain.clone()),
        (json!({"sourceRepos": ["https://git.example/shop/*"]}), String::new()),
        (json!({"sourceRepos": ["https://GIT.example/shop/web"]}), String::new()),
        (json!({"sourceRepos": ["https://git.example/*"]}), in_vain.clone()),
        (json!({"sourceRepos": ["https://git.example/**"]}), String::new()),
        // A denying entry takes precedence over all other entries. Entries that only deny don't permit
        // anything.
        (
            json!({"sourceRepos": ["*", "!https://git.example/shop/**"]}),
            format!("{repository}denied by the sourceRepos entry \"!https://git.example/shop/**\""),
        ),
        (json!({"sourceRepos": ["*", "!https://other.example/**"]}), String::new()),
        (json!({"sourceRepos": ["!https://other.example/**"]}), in_vain),
        (
            json!({"sourceRepos": ["https://git.example/{shop"]}),
            "sourceRepos: invalid pattern \"https://git.example/{shop\": a { has no matching }".to_owned(),
        ),
        (json!({"destinations": []}), nowhere.clone()),
        (to(json!({"server": "https://kubernetes.default.svc", "namespace": "web"})), String::new()),
        // Any of the cluster's addresses matches.
        (to(json!({"server": "https://10.0.0.1:6443/", "namespace": "w*"})), String::new()),
        (to(json!({"server": "https://10.0.0.2:6443", "namespace": "*"})), nowhere.clone()),
        (to(json!({"name": "in-cluster", "namespace": "web"})), String::new()),
        (to(json!({"name": "other", "namespace": "web"})), nowhere.clone()),
        (to(json!({"server": "*", "namespace": "shop"})), nowhere.clone()),
        (to(json!({"server": "*"})), nowhere.clone()),
        (to(json!({"namespace": "*"})), nowhere.clone()),
        // A denying entry doesn't permit anything (argo-cd#26743).
        (to(json!({"server": "*", "namespace": "!kube-system"})), only_denies.clone()),
        (to(json!({"name": "!production", "namespace": "*"})), only_denies.clone()),
        (to(json!({"server": "!https://other.example", "namespace": "*"})), only_denies.clone()),
        (to(json!({"server": "!https://other.example", "namespace": "web"})), only_denies),
        (
            json!({"destinations": [
                {"server": "*", "namespace": "allowed-ns"},
                {"server": "*", "namespace": "!kyverno"},
                {"server": "*", "namespace": "!argocd"},
            ]}),
            nowhere.clone(),
        ),
        (
            json!({"destinations": [
                {"server": "*", "namespace": "web"},
                {"server": "!https://other.example", "namespace": "!kyverno"},
            ]}),
            String::new(),
        ),
        (
            json!({"destinations": [any, {"server": "!https://other.example", "namespace": "!web"}]}),
            format!(
                "{destination}denied by the destinations entry with server \"!https://other.example\", namespace \"!web\""
            ),
        ),
        // All spellings of the address match.
        (to(json!({"server": "HTTPS://Kubernetes.default.svc:0443/", "namespace": "web"})), String::new()),
        (
            json!({"destinations": [any, {"server": "!https://10.1:06443", "namespace": "*"}]}),
            format!("{destination}denied by the destinations entry with server"),
        ),
        (
            json!({"destinations": [any, {"server": "*", "namespace": "!w*"}]}),
            format!("{destination}denied by the destinations entry with server \"*\", namespace \"!w*\""),
        ),
        (
            json!({"destinations": [any, {"server": "https://other.example", "namespace": "!w*"}]}),
            String::new(),
        ),
        (
            json!({"destinations": [any, {"name": "!in-*", "namespace": "*"}]}),
            format!("{destination}denied by the destinations entry with name \"!in-*\""),
        ),
        (
            json!({"destinations": [any, {"server": "!https://10.0.0.1*", "namespace": "*"}]}),
            format!("{destination}denied by the destinations entry with server"),
        ),
        (
            to(json!({"server": "[", "namespace": "*"})),
            "destinations: invalid pattern \"[\": a [ has no matching ]".to_owned(),
        ),
        (json!({"permitOnlyProjectScopedClusters": true}), "permitOnlyProjectScopedClusters".to_owned()),
        // An unsupported rule denies everything.
        (json!({"sourceIntegrity": {"git": {}}}), "sets sourceIntegrity".to_owned()),
        (
            json!({"destinationServiceAccounts": [{"server": "*", "defaultServiceAccount": "deployer"}]}),
            String::new(),
        ),
    ];
    for (spec, expected) in rows {
        assert_result(
            check_operation(&permissive_except(spec.clone()), &project_policy(), "argocd"),
            &expected,
            &spec.to_string(),
        );
    }
    // A cluster that is declared for the project is permitted too, unless a rule denies it. A cluster that is
    // declared for another project is not.
    for (of, destinations, expected) in [
        ("shop", json!([]), ""),
        ("shop", json!([{"server": "*", "namespace": "other"}]), ""),
        (
            "shop",
            json!([{"server": "!https://10.0.0.1*", "namespace": "*"}]),
            "denied by the destinations entry with server",
        ),
        (
            "shop",
            json!([{"server": "*", "namespace": "!web"}]),
            "denied by the destinations entry with server",
        ),
        ("another", json!([]), "none of its destinations match"),
        ("", json!([]), "none of its destinations match"),
    ] {
        let target = DeployTarget { project: of.to_owned(), ..target() };
        let there = ProjectPolicy { target, ..project_policy() };
        let spec = json!({"destinations": destinations});
        assert_result(
            check_operation(&permissive_except(spec.clone()), &there, "argocd"),
            expected,
            &format!("{of} {spec}"),
        );
    }
    // A denied namespace applies to the clusters that match the entry's server or name. If the entry has
    // neither, it applies to all clusters.
    let other = "https://other.example";
    for (entry, name, expected) in [
        (
            json!({"namespace": "!web"}),
            "in-cluster",
            "denied by the destinations entry with namespace \"!web\"",
        ),
        (json!({"namespace": "!web"}), "", "denied by the destinations entry with namespace \"!web\""),
        (
            json!({"namespace": "!w*"}),
            "in-cluster",
            "denied by the destinations entry with namespace \"!w*\"",
        ),
        (json!({"namespace": "!kyverno"}), "in-cluster", ""),
        (
            json!({"server": "*", "namespace": "!web"}),
            "in-cluster",
            "denied by the destinations entry with server \"*\"",
        ),
        (json!({"server": other, "namespace": "!web"}), "in-cluster", ""),
        (
            json!({"name": "in-cluster", "namespace": "!web"}),
            "in-cluster",
            "denied by the destinations entry with name \"in-",
        ),
        (
            json!({"name": "in-*", "namespace": "!web"}),
            "in-cluster",
            "denied by the destinations entry with name \"in-*\"",
        ),
        (json!({"name": "other", "namespace": "!web"}), "in-cluster", ""),
        (json!({"name": "*", "namespace": "!kyverno"}), "in-cluster", ""),
        // If the entry has both a server and a name, a match of either is sufficient.
        (
            json!({"server": other, "name": "in-cluster", "namespace": "!web"}),
            "in-cluster",
            "denied by the destinations entry",
        ),
        (
            json!({"server": "*", "name": "other", "namespace": "!web"}),
            "in-cluster",
            "denied by the destinations entry",
        ),
        (json!({"server": other, "name": "other", "namespace": "!web"}), "in-cluster", ""),
        // In an entry that denies both a cluster and a namespace, the namespace is denied on all other
        // clusters.
        (json!({"name": "!other", "namespace": "!web"}), "in-cluster", "denied by the destinations entry"),
        (
            json!({"server": other, "name": "!other", "namespace": "!web"}),
            "in-cluster",
            "denied by the destinations entry",
        ),
        (
            json!({"server": format!("!{other}"), "name": "other", "namespace": "!web"}),
            "in-cluster",
            "denied by the destinations entry",
        ),
        (json!({"name": "!other", "namespace": "!kyverno"}), "in-cluster", ""),
        (
            json!({"name": "!in-cluster", "namespace": "!kyverno"}),
            "in-cluster",
            "denied by the destinations entry",
        ),
        (
            json!({"server": other, "name": "!in-cluster", "namespace": "kyverno"}),
            "in-cluster",
            "denied by the destinations entry",
        ),
        // A cluster without a name might be the denied cluster.
        (json!({"name": "!other", "namespace": "*"}), "in-cluster", ""),
        (json!({"name": "!other", "namespace": "*"}), "", "denied by the destinations entry"),
        // An invalid pattern doesn't permit anything, regardless of the other fields.
        (json!({"server": "[", "namespace": "!kyverno"}), "in-cluster", "destinations: invalid pattern"),
        (json!({"name": "[", "namespace": "!kyverno"}), "", "destinations: invalid pattern"),
        (json!({"server": other, "namespace": "!["}), "in-cluster", "destinations: invalid pattern"),
        (json!({"name": "!other", "namespace": "["}), "in-cluster", "destinations: invalid pattern"),
    ] {
        let target = DeployTarget { name: name.to_owned(), ..target() };
        let there = ProjectPolicy { target, ..project_policy() };
        for destinations in [json!([any, entry]), json!([entry, any])] {
            let spec = json!({"destinations": destinations});
            let checked = check_operation(&permissive_except(spec.clone()), &there, "argocd");
            assert_result(checked, expected, &format!("{name:?} {spec}"));
        }
    }
    // If there are several repositories, all of them must be permitted.
    let two = ProjectPolicy {
        repositories: vec!["https://git.example/shop/web".to_owned(), "https://evil.example/a".to_owned()],
        ..project_policy()
    };
    let one = permissive_except(json!({"sourceRepos": ["https://git.example/**"]}));
    assert_result(
        check_operation(&one, &two, "argocd"),
        "application repo https://evil.example/a is not permitted",
        "two",
    );
}

#[test]
fn a_project_that_only_denies_warns() {
    for (spec, expected) in [
        (json!({}), &[][..]),
        (json!({"destinations": []}), &[]),
        (json!({"destinations": [{"server": "*", "namespace": "!kyverno"}]}), &["destinations"]),
        (json!({"destinations": [{"name": "!prod", "namespace": "*"}]}), &["destinations"]),
        (
            json!({"destinations": [{"server": "*", "namespace": "!kyverno"}, {"server": "*", "namespace": "a"}]}),
            &[],
        ),
        (
            json!({"sourceRepos": ["!https://a.example/**"], "destinations": [{"server": "!b", "namespace": "*"}]}),
            &["sourceRepos", "destinations"],
        ),
    ] {
        let warnings = only_denying_warnings(&permissive_except(spec.clone()));
        assert_eq!(warnings.len(), expected.len(), "{spec}: {warnings:?}");
        for (warning, field) in warnings.iter().zip(expected) {
            let text = format!("project 'shop' permits nothing: all entries in its {field} are negated (!)");
            assert!(warning.starts_with(&text), "{spec}: {warning}");
        }
    }
}

#[test]
fn permitted_application_namespaces() {
    let of = |namespaces: Value| permissive_except(json!({"sourceNamespaces": namespaces}));
    for (namespaces, namespace, home, expected) in [
        (json!([]), "", "argocd", ""),
        (json!([]), "argocd", "argocd", ""),
        (json!([]), "team", "team", ""),
        (json!([]), "team", "argocd", "application in namespace team is not permitted to use project 'shop'"),
        (json!([]), "", "team", "application in namespace argocd is not permitted"),
        (json!(["team", "x-*"]), "team", "argocd", ""),
        (json!(["team", "x-*"]), "x-1", "argocd", ""),
        (json!(["team", "x-*"]), "teams", "argocd", "not permitted"),
        (json!(["["]), "team", "argocd", "sourceNamespaces: invalid pattern \"[\": a [ has no matching ]"),
    ] {
        let asked = ProjectPolicy { namespace: namespace.to_owned(), ..project_policy() };
        assert_result(
            check_operation(&of(namespaces.clone()), &asked, home),
            expected,
            &format!("{namespaces} {namespace}"),
        );
    }
}

/// As in Argo CD, permission to write applications in a managed namespace must not include permission to
/// deploy anything anywhere.
#[test]
fn the_default_project_is_for_the_applications_beside_it() {
    for (namespace, is_permitted) in [("", true), ("argocd", true), ("team", false)] {
        let asked = ProjectPolicy { namespace: namespace.to_owned(), ..project_policy() };
        let checked = check_operation(&permissive_project(), &asked, "argocd");
        assert_eq!(checked.is_ok(), is_permitted, "{namespace}: {checked:?}");
    }
}

#[test]
fn permitted_objects() {
    let deployment = ObjectKey::new("apps", "Deployment", "web", "api");
    let role = ObjectKey::new("rbac.authorization.k8s.io", "ClusterRole", "", "reader");
    let namespace = ObjectKey::new("", "Namespace", "", "web");
    let elsewhere = ObjectKey::new("", "ConfigMap", "kube-system", "a");
    let deployments = json!([{"group": "apps", "kind": "Deploy*"}]);
    let roles = |name: &str| json!([{"group": "rbac.*", "kind": "ClusterRole", "name": name}]);
    let rows = [
        (json!({}), &deployment, Some(true), ""),
        (json!({}), &role, Some(false), ""),
        // Namespaced kinds: all are permitted by default, but none if the list is empty.
        (
            json!({"namespaceResourceWhitelist": []}),
            &deployment,
            Some(true),
            "its namespaceResourceWhitelist does not contain the kind",
        ),
        (json!({"namespaceResourceWhitelist": deployments}), &deployment, Some(true), ""),
        (
            json!({"namespaceResourceWhitelist": deployments}),
            &elsewhere,
            Some(true),
            "resource :ConfigMap is not permitted in project shop",
        ),
        (
            json!({"namespaceResourceBlacklist": deployments}),
            &deployment,
            Some(true),
            "its namespaceResourceBlacklist contains the kind",
        ),
        (
            json!({"namespaceResourceWhitelist": deployments, "namespaceResourceBlacklist": deployments}),
            &deployment,
            Some(true),
            "namespaceResourceBlacklist contains the kind",
        ),
        (json!({"namespaceResourceBlacklist": deployments}), &role, Some(false), ""),
        // Cluster-scoped kinds: only those in the list are permitted.
        (
            json!({"clusterResourceWhitelist": []}),
            &role,
            Some(false),
            "resource rbac.authorization.k8s.io:ClusterRole is not permitted in project shop: no entry in \
             its clusterResourceWhitelist matches reader",
        ),
        (json!({"clusterResourceWhitelist": []}), &deployment, Some(true), ""),
        (json!({"clusterResourceWhitelist": roles("")}), &role, Some(false), ""),
        (json!({"clusterResourceWhitelist": roles("read*")}), &role, Some(false), ""),
        (
            json!({"clusterResourceWhitelist": roles("admin")}),
            &role,
            Some(false),
            "clusterResourceWhitelist matches reader",
        ),
        (
            json!({"clusterResourceBlacklist": roles("")}),
            &role,
            Some(false),
            "an entry in its clusterResourceBlacklist matches reader",
        ),
        (json!({"clusterResourceBlacklist": roles("admin")}), &role, Some(false), ""),
        (
            json!({"clusterResourceWhitelist": [{"group": "", "kind": "Namespace"}]}),
            &namespace,
            Some(false),
            "",
        ),
        (
            json!({"clusterResourceWhitelist": [{"group": "", "kind": "["}]}),
            &namespace,
            Some(false),
            "clusterResourceWhitelist: invalid pattern \"[\": a [ has no matching ]",
        ),
        // Namespaces of objects.
        (json!({"destinations": [{"server": "*", "namespace": "web"}]}), &deployment, Some(true), ""),
        (
            json!({"destinations": [{"server": "*", "namespace": "web"}]}),
            &elsewhere,
            Some(true),
            "namespace kube-system is not permitted in project 'shop'",
        ),
        (
            json!({"destinations": [{"server": "*", "namespace": "!kube-*"}]}),
            &elsewhere,
            Some(true),
            "denied by the destinations entry",
        ),
        (
            json!({"destinations": [{"server": "*", "namespace": "*"}, {"namespace": "!kube-*"}]}),
            &elsewhere,
            Some(true),
            "denied by the destinations entry with namespace \"!kube-*\"",
        ),
        (json!({"destinations": [{"server": "*", "namespace": "web"}]}), &role, Some(false), ""),
        // If the scope of the kind is unknown, the object must be permitted in both scopes.
        (json!({}), &deployment, None, ""),
        (
            json!({"clusterResourceWhitelist": []}),
            &deployment,
            None,
            "no entry in its clusterResourceWhitelist matches api",
        ),
        (
            json!({"namespaceResourceWhitelist": []}),
            &deployment,
            None,
            "namespaceResourceWhitelist does not contain the kind",
        ),
    ];
    for (spec, object, namespaced, expected) in rows {
        let checked = check_object(&permissive_except(spec.clone()), &target(), object, namespaced);
        assert_result(checked, expected, &format!("{spec} {object}"));
    }
    // By default, only namespaced kinds are permitted.
    let empty = project(&json!({}));
    assert_result(
        check_operation(&empty, &project_policy(), "argocd"),
        "none of its sourceRepos match",
        "empty",
    );
    assert_result(
        check_object(&empty, &target(), &role, Some(false)),
        "clusterResourceWhitelist matches reader",
        "empty",
    );
}
