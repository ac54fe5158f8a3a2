//! As whom is written, one row for each rule.

use serde_json::{Value, json};
use tidegate_application::accounts::{Accounts, account};
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

fn found(accounts: Accounts, entries: &Value, home: &str, namespace: &str) -> Result<Option<String>, String> {
    let servers = ["https://kubernetes.default.svc".to_owned(), "https://10.0.0.1:6443/".to_owned()];
    let found = account(accounts, &project(entries), &application(home, namespace), &servers);
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
        // By whichever address the cluster is known, and however the address ends.
        (json!([entry("https://10.0.0.1:6443", "web", "deployer")]), "argocd", "web", web),
        (json!([entry("https://kubernetes.default.svc/", "w*", "deployer")]), "argocd", "web", web),
        // The first counts, and not the one that says more.
        (json!([entry("*", "w*", "deployer"), entry("*", "web", "other")]), "argocd", "web", web),
        (json!([entry("*", "shop", "other"), entry("*", "*", "deployer")]), "argocd", "web", web),
        (json!([entry("*", "*", "tools:robot")]), "argocd", "web", "system:serviceaccount:tools:robot"),
        // An application that names no namespace: its own.
        (json!([entry("*", "", "deployer")]), "team", "", "system:serviceaccount:team:deployer"),
        (json!([entry("*", "*", "deployer")]), "", "", "system:serviceaccount:argocd:deployer"),
    ] {
        let user = found(Accounts::Required, &entries, home, namespace);
        assert_eq!(user, Ok(Some(expected.to_owned())), "{entries}");
        assert_eq!(found(Accounts::WhereNamed, &entries, home, namespace), user, "{entries}");
        assert_eq!(found(Accounts::Ignored, &entries, home, namespace), Ok(None), "{entries}");
    }
}

#[test]
fn without_an_account_nothing_is_written_and_it_is_said_what_to_add() {
    for (entries, namespace) in [
        (json!([]), "web"),
        (json!([entry("https://10.0.0.2:6443", "*", "deployer")]), "web"),
        (json!([entry("*", "shop", "deployer")]), "web"),
        // No namespace is not every namespace.
        (json!([{"server": "*", "defaultServiceAccount": "deployer"}]), "web"),
        (json!([entry("*", "web", "deployer")]), ""),
    ] {
        let error = found(Accounts::Required, &entries, "argocd", namespace).unwrap_err();
        let expected = format!(
            "no matching service account found for destination server 'https://kubernetes.default.svc' and namespace '{namespace}' in project 'shop': add an entry"
        );
        assert!(error.starts_with(&expected), "{entries}: {error}");
        assert_eq!(found(Accounts::WhereNamed, &entries, "argocd", namespace), Ok(None), "{entries}");
    }
}

#[test]
fn what_can_be_no_account_is_refused_whoever_has_to_have_one() {
    for name in [
        "", " ", "*", "deploy*", "a[b]", "{a,b}", "!a", "a/b", "a\\b", "a b", "Deployer", ":a", "a:",
        "a:b:c", "*:a", "ä",
    ] {
        for accounts in [Accounts::Required, Accounts::WhereNamed] {
            let error = found(accounts, &json!([entry("*", "*", name)]), "argocd", "web").unwrap_err();
            let expected = format!("default service account contains invalid chars '{name}' (project 'shop'");
            assert!(error.contains(&expected), "{name:?}: {error}");
        }
    }
    for entries in [json!([entry("[", "*", "a")]), json!([entry("*", "[", "a")])] {
        for accounts in [Accounts::Required, Accounts::WhereNamed] {
            let error = found(accounts, &entries, "argocd", "web").unwrap_err();
            assert!(error.contains("project 'shop': destinationServiceAccounts: pattern"), "{error}");
        }
    }
}
