//! Rules for impersonated service accounts, one row each.

use serde_json::{Value, json};
use tidegate_application::impersonation::{ImpersonationMode, impersonated_user};
use tidegate_model::argo::{AppProject, Application};

fn project(entries: &Value) -> AppProject {
    let value = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"},
        "spec": {"destinationServiceAccounts": entries},
    });
    serde_json::from_value(value).unwrap()
}

fn application(home: &str, namespace: &str) -> Application {
    let value = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "web", "namespace": home},
        "spec": {"project": "shop", "destination": {"name": "in-cluster", "namespace": namespace}},
    });
    serde_json::from_value(value).unwrap()
}

fn find_user(
    accounts: ImpersonationMode,
    entries: &Value,
    home: &str,
    namespace: &str,
) -> Result<Option<String>, String> {
    let servers = ["https://kubernetes.default.svc".to_owned(), "https://10.0.0.1:6443/".to_owned()];
    let found = impersonated_user(accounts, &project(entries), &application(home, namespace), &servers);
    found.map_err(|error| error.to_string())
}

fn entry(server: &str, namespace: &str, name: &str) -> Value {
    json!({"server": server, "namespace": namespace, "defaultServiceAccount": name})
}

#[test]
fn the_first_entry_that_matches_names_the_account() {
    let web = "system:serviceaccount:web:deployer";
    for (entries, home, namespace, expected) in [
        (json!([entry("*", "*", "deployer")]), "argocd", "web", web),
        (json!([entry("https://kubernetes.default.svc", "web", "deployer")]), "argocd", "web", web),
        // Any address of the cluster matches, with or without a trailing slash.
        (json!([entry("https://10.0.0.1:6443", "web", "deployer")]), "argocd", "web", web),
        (json!([entry("https://kubernetes.default.svc/", "w*", "deployer")]), "argocd", "web", web),
        // The first match applies, even if a later match is more specific.
        (json!([entry("*", "w*", "deployer"), entry("*", "web", "other")]), "argocd", "web", web),
        (json!([entry("*", "shop", "other"), entry("*", "*", "deployer")]), "argocd", "web", web),
        (json!([entry("*", "*", "tools:robot")]), "argocd", "web", "system:serviceaccount:tools:robot"),
        // If an application doesn't have a destination namespace, its own namespace is used.
        (json!([entry("*", "", "deployer")]), "team", "", "system:serviceaccount:team:deployer"),
        (json!([entry("*", "*", "deployer")]), "", "", "system:serviceaccount:argocd:deployer"),
    ] {
        let user = find_user(ImpersonationMode::Required, &entries, home, namespace);
        assert_eq!(user, Ok(Some(expected.to_owned())), "{entries}");
        assert_eq!(find_user(ImpersonationMode::WhereNamed, &entries, home, namespace), user, "{entries}");
        assert_eq!(find_user(ImpersonationMode::Ignored, &entries, home, namespace), Ok(None), "{entries}");
    }
}

#[test]
fn without_an_account_nothing_is_written_and_the_error_has_a_remedy() {
    for (entries, namespace) in [
        (json!([]), "web"),
        (json!([entry("https://10.0.0.2:6443", "*", "deployer")]), "web"),
        (json!([entry("*", "shop", "deployer")]), "web"),
        // An entry without a namespace doesn't match every namespace.
        (json!([{"server": "*", "defaultServiceAccount": "deployer"}]), "web"),
        (json!([entry("*", "web", "deployer")]), ""),
    ] {
        let error = find_user(ImpersonationMode::Required, &entries, "argocd", namespace).unwrap_err();
        let expected = format!(
            "no matching service account found for destination server 'https://kubernetes.default.svc' and namespace '{namespace}' in project 'shop': add an entry"
        );
        assert!(error.starts_with(&expected), "{entries}: {error}");
        assert_eq!(
            find_user(ImpersonationMode::WhereNamed, &entries, "argocd", namespace),
            Ok(None),
            "{entries}"
        );
    }
}

#[test]
fn invalid_accounts_are_rejected_in_every_mode() {
    for name in [
        "", " ", "*", "deploy*", "a[b]", "{a,b}", "!a", "a/b", "a\\b", "a b", "Deployer", ":a", "a:",
        "a:b:c", "*:a", "ä",
    ] {
        for accounts in [ImpersonationMode::Required, ImpersonationMode::WhereNamed] {
            let error = find_user(accounts, &json!([entry("*", "*", name)]), "argocd", "web").unwrap_err();
            let expected = format!("default service account contains invalid chars '{name}' (project 'shop'");
            assert!(error.contains(&expected), "{name:?}: {error}");
        }
    }
    for entries in [json!([entry("[", "*", "a")]), json!([entry("*", "[", "a")])] {
        for accounts in [ImpersonationMode::Required, ImpersonationMode::WhereNamed] {
            let error = find_user(accounts, &entries, "argocd", "web").unwrap_err();
            let expected =
                "project 'shop': destinationServiceAccounts: invalid pattern \"[\": a [ has no matching ]";
            assert!(error.contains(expected), "{error}");
        }
    }
}
