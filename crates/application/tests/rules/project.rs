//! What the applications of a project may do, one row for each rule.

use serde_json::{Value, json};
use tidegate_application::project::{NotPermitted, check, check_object, permissive};
use tidegate_model::argo::AppProject;
use tidegate_model::{DeployTarget, Mandate, ObjectKey};

fn project(spec: &Value) -> AppProject {
    let value = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"}, "spec": spec,
    });
    serde_json::from_value(value).unwrap()
}

/// A project that permits everything but for what is said.
fn open_but(spec: Value) -> AppProject {
    let mut open = serde_json::to_value(permissive().spec).unwrap();
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

fn mandate() -> Mandate {
    Mandate {
        project: "shop".to_owned(),
        repositories: vec!["https://git.example/shop/web.git".to_owned()],
        target: target(),
        ..Mandate::default()
    }
}

#[track_caller]
fn says(checked: Result<(), NotPermitted>, expected: &str, row: &str) {
    match (checked, expected) {
        (Ok(()), "") => {}
        (Err(refused), expected) if !expected.is_empty() && refused.to_string().contains(expected) => {}
        (checked, expected) => panic!("{row}: {checked:?} where {expected:?} was expected"),
    }
}

#[test]
fn what_an_application_may_ask_for() {
    let repository = "application repo https://git.example/shop/web.git is not permitted in project 'shop': ";
    let destination = "application destination server 'https://kubernetes.default.svc' and namespace 'web' do not match any of the allowed destinations in project 'shop': ";
    let in_vain = format!("{repository}none of its sourceRepos matches");
    let nowhere = format!("{destination}none of its destinations matches");
    let to = |entry: Value| json!({"destinations": [entry]});
    let any = json!({"server": "*", "namespace": "*"});
    let rows = [
        (json!({}), String::new()),
        (json!({"sourceRepos": []}), in_vain.clone()),
        (json!({"sourceRepos": ["https://git.example/shop/*"]}), String::new()),
        (json!({"sourceRepos": ["https://GIT.example/shop/web"]}), String::new()),
        (json!({"sourceRepos": ["https://git.example/*"]}), in_vain.clone()),
        (json!({"sourceRepos": ["https://git.example/**"]}), String::new()),
        // An entry that denies goes before all others; those that only deny permit nothing.
        (
            json!({"sourceRepos": ["*", "!https://git.example/shop/**"]}),
            format!("{repository}sourceRepos denies \"!https://git.example/shop/**\""),
        ),
        (json!({"sourceRepos": ["*", "!https://other.example/**"]}), String::new()),
        (json!({"sourceRepos": ["!https://other.example/**"]}), in_vain),
        (json!({"sourceRepos": ["https://git.example/{shop"]}), "sourceRepos: pattern".to_owned()),
        (json!({"destinations": []}), nowhere.clone()),
        (to(json!({"server": "https://kubernetes.default.svc", "namespace": "web"})), String::new()),
        // By whichever address it is known.
        (to(json!({"server": "https://10.0.0.1:6443/", "namespace": "w*"})), String::new()),
        (to(json!({"server": "https://10.0.0.2:6443", "namespace": "*"})), nowhere.clone()),
        (to(json!({"name": "in-cluster", "namespace": "web"})), String::new()),
        (to(json!({"name": "other", "namespace": "web"})), nowhere.clone()),
        (to(json!({"server": "*", "namespace": "shop"})), nowhere.clone()),
        (to(json!({"server": "*"})), nowhere.clone()),
        (to(json!({"namespace": "*"})), nowhere.clone()),
        // What denies permits the rest.
        (to(json!({"server": "*", "namespace": "!kube-system"})), String::new()),
        (to(json!({"name": "!production", "namespace": "*"})), String::new()),
        (
            json!({"destinations": [any, {"server": "*", "namespace": "!w*"}]}),
            format!("{destination}destinations denies server \"*\", namespace \"!w*\""),
        ),
        (
            json!({"destinations": [any, {"server": "https://other.example", "namespace": "!w*"}]}),
            String::new(),
        ),
        (
            json!({"destinations": [any, {"name": "!in-*", "namespace": "*"}]}),
            format!("{destination}destinations denies name \"!in-*\""),
        ),
        (
            json!({"destinations": [any, {"server": "!https://10.0.0.1*", "namespace": "*"}]}),
            format!("{destination}destinations denies server"),
        ),
        (to(json!({"server": "[", "namespace": "*"})), "destinations: pattern".to_owned()),
        (json!({"permitOnlyProjectScopedClusters": true}), "permitOnlyProjectScopedClusters".to_owned()),
        // What is not checked forbids everything.
        (json!({"sourceIntegrity": {"git": {}}}), "has sourceIntegrity".to_owned()),
        (
            json!({"destinationServiceAccounts": [{"server": "*", "defaultServiceAccount": "deployer"}]}),
            String::new(),
        ),
    ];
    for (spec, expected) in rows {
        says(check(&open_but(spec.clone()), &mandate(), "argocd"), &expected, &spec.to_string());
    }
    // A cluster that is declared for it is permitted besides, but for what is denied, and that of another project is not.
    for (of, destinations, expected) in [
        ("shop", json!([]), ""),
        ("shop", json!([{"server": "*", "namespace": "other"}]), ""),
        ("shop", json!([{"server": "!https://10.0.0.1*", "namespace": "*"}]), "destinations denies server"),
        ("another", json!([]), "none of its destinations matches"),
        ("", json!([]), "none of its destinations matches"),
    ] {
        let target = DeployTarget { project: of.to_owned(), ..target() };
        let there = Mandate { target, ..mandate() };
        let spec = json!({"destinations": destinations});
        says(check(&open_but(spec.clone()), &there, "argocd"), expected, &format!("{of} {spec}"));
    }
    // All of several repositories.
    let two = Mandate {
        repositories: vec!["https://git.example/shop/web".to_owned(), "https://evil.example/a".to_owned()],
        ..mandate()
    };
    let one = open_but(json!({"sourceRepos": ["https://git.example/**"]}));
    says(check(&one, &two, "argocd"), "application repo https://evil.example/a is not permitted", "two");
}

#[test]
fn where_an_application_may_be() {
    let of = |namespaces: Value| open_but(json!({"sourceNamespaces": namespaces}));
    for (namespaces, namespace, home, expected) in [
        (json!([]), "", "argocd", ""),
        (json!([]), "argocd", "argocd", ""),
        (json!([]), "team", "team", ""),
        (json!([]), "team", "argocd", "application in namespace team is not permitted to use project 'shop'"),
        (json!([]), "", "team", "application in namespace argocd is not permitted"),
        (json!(["team", "x-*"]), "team", "argocd", ""),
        (json!(["team", "x-*"]), "x-1", "argocd", ""),
        (json!(["team", "x-*"]), "teams", "argocd", "not permitted"),
        (json!(["["]), "team", "argocd", "sourceNamespaces: pattern"),
    ] {
        let asked = Mandate { namespace: namespace.to_owned(), ..mandate() };
        says(check(&of(namespaces.clone()), &asked, home), expected, &format!("{namespaces} {namespace}"));
    }
}

/// As Argo CD's own: whoever may write applications in a namespace that is served may not deploy anything anywhere.
#[test]
fn the_default_project_is_for_the_applications_beside_it() {
    for (namespace, is_permitted) in [("", true), ("argocd", true), ("team", false)] {
        let asked = Mandate { namespace: namespace.to_owned(), ..mandate() };
        let checked = check(&permissive(), &asked, "argocd");
        assert_eq!(checked.is_ok(), is_permitted, "{namespace}: {checked:?}");
    }
}

#[test]
fn what_may_be_written() {
    let deployment = ObjectKey::new("apps", "Deployment", "web", "api");
    let role = ObjectKey::new("rbac.authorization.k8s.io", "ClusterRole", "", "reader");
    let namespace = ObjectKey::new("", "Namespace", "", "web");
    let elsewhere = ObjectKey::new("", "ConfigMap", "kube-system", "a");
    let deployments = json!([{"group": "apps", "kind": "Deploy*"}]);
    let roles = |name: &str| json!([{"group": "rbac.*", "kind": "ClusterRole", "name": name}]);
    let rows = [
        (json!({}), &deployment, Some(true), ""),
        (json!({}), &role, Some(false), ""),
        // Kinds in namespaces: all if not said, none if nothing is listed.
        (
            json!({"namespaceResourceWhitelist": []}),
            &deployment,
            Some(true),
            "its namespaceResourceWhitelist does not have it",
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
            "its namespaceResourceBlacklist has it",
        ),
        (
            json!({"namespaceResourceWhitelist": deployments, "namespaceResourceBlacklist": deployments}),
            &deployment,
            Some(true),
            "namespaceResourceBlacklist has it",
        ),
        (json!({"namespaceResourceBlacklist": deployments}), &role, Some(false), ""),
        // Kinds of the cluster: none if nothing is listed.
        (
            json!({"clusterResourceWhitelist": []}),
            &role,
            Some(false),
            "resource rbac.authorization.k8s.io:ClusterRole is not permitted in project shop: its clusterResourceWhitelist does not have reader",
        ),
        (json!({"clusterResourceWhitelist": []}), &deployment, Some(true), ""),
        (json!({"clusterResourceWhitelist": roles("")}), &role, Some(false), ""),
        (json!({"clusterResourceWhitelist": roles("read*")}), &role, Some(false), ""),
        (json!({"clusterResourceWhitelist": roles("admin")}), &role, Some(false), "does not have reader"),
        (
            json!({"clusterResourceBlacklist": roles("")}),
            &role,
            Some(false),
            "its clusterResourceBlacklist has reader",
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
            "clusterResourceWhitelist: pattern",
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
            "destinations denies",
        ),
        (json!({"destinations": [{"server": "*", "namespace": "web"}]}), &role, Some(false), ""),
        // Where nobody knows whether the kind lives in namespaces, both must be permitted.
        (json!({}), &deployment, None, ""),
        (
            json!({"clusterResourceWhitelist": []}),
            &deployment,
            None,
            "clusterResourceWhitelist does not have api",
        ),
        (
            json!({"namespaceResourceWhitelist": []}),
            &deployment,
            None,
            "namespaceResourceWhitelist does not have it",
        ),
    ];
    for (spec, object, namespaced, expected) in rows {
        let checked = check_object(&open_but(spec.clone()), &target(), object, namespaced);
        says(checked, expected, &format!("{spec} {object}"));
    }
    // Nothing said is nothing permitted but kinds in namespaces.
    let empty = project(&json!({}));
    says(check(&empty, &mandate(), "argocd"), "none of its sourceRepos matches", "empty");
    says(check_object(&empty, &target(), &role, Some(false)), "does not have reader", "empty");
}
