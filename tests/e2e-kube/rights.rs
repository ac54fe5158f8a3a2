//! Users that may do only some things.

use std::fs;

use serde_json::json;
use tidegate_testkit::kube::User;

use crate::bench::example;
use crate::manifests::{CONFIG, FAST};
use crate::site::Site;

/// The documented role, in our namespace, for a user called like this.
fn grant(site: &Site, user: &str) {
    let role = fs::read_to_string(example("rbac/namespace.yaml")).unwrap();
    site.write("role.yaml", role.replace("name: deployer", &format!("name: {user}")));
    site.run(&["sync", "role.yaml", "--app", &site.app("rights"), "-n", &site.namespace]).expect_code(0);
}

pub async fn the_documented_roles_are_enough() {
    let mut site = Site::new("rights").await;
    let user = site.control.limited_user(&[]).await.unwrap();
    grant(&site, user.name());
    site.write("fast.yaml", FAST);
    let namespace = site.namespace.clone();
    let context = ["--context", user.name(), "-n", &namespace];
    site.look_from_now();
    site.run(&[&["plan", "fast.yaml", "--app", &namespace][..], &context].concat()).expect_code(0);
    site.run(&[&["sync", "fast.yaml", "--app", &namespace, "--wait", "healthy"][..], &context].concat())
        .expect_code(0);
    // Pruned as well, and nothing of what was asked was refused.
    let fewer = FAST.replacen(
        "kind: ConfigMap\nmetadata: {name: config}",
        "kind: ConfigMap\nmetadata: {name: other}",
        1,
    );
    site.write("fast.yaml", fewer);
    site.run(&[&["sync", "fast.yaml", "--app", &namespace, "--prune"][..], &context].concat()).expect_code(0);
    assert!(site.object("/api/v1", "configmaps", "config").await.is_none());
    let refused = site.audit().await.of(&user).only(|event| event.code == 403 && event.is_write());
    assert_eq!(refused.summaries(), Vec::<String>::new());
}

pub async fn what_is_forbidden_is_named() {
    let site = Site::new("forbidden").await;
    let unseen = site.control.namespace("forbidden-unseen").await.unwrap();
    let seen = site.control.namespace("forbidden-seen").await.unwrap();
    let look = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]);
    let user = site.control.limited_user(&[(Some(&seen), look)]).await.unwrap();
    grant(&site, user.name());
    site.write("config.yaml", CONFIG);
    // Where nothing may be read there is no plan; where nothing may be written the plan cannot run.
    for (namespace, verb, phase) in [(&unseen, "get", "Error"), (&seen, "patch", "Failed")] {
        let app = namespace;
        let args =
            ["sync", "config.yaml", "--app", app, "-n", namespace, "--context", user.name(), "-o", "json"];
        let ran = site.run(&args).expect_code(1);
        for word in ["configmaps", verb, namespace, "forbidden"] {
            assert!(ran.out.contains(word), "{word}: {ran:?}");
        }
        // It is on record, and nothing is half done.
        assert_eq!(site.json(&["ops", "list", "--app", app, "-o", "json"])[0]["phase"], phase);
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/config");
        assert!(site.observer().find(&path).await.unwrap().is_none());
    }
    // Nobody may act as somebody else without the right to.
    let args = [
        "sync",
        "config.yaml",
        "--app",
        &site.namespace,
        "-n",
        &site.namespace,
        "--context",
        user.name(),
        "--as",
        User::ENGINE.name(),
    ];
    let ran = site.run(&args).expect_code(1);
    assert!(ran.err.contains("impersonate"), "{ran:?}");
}

/// All that is missing is named at once, before the first write.
pub async fn missing_rights_are_reported_together() {
    let site = Site::new("together").await;
    let namespace = site.namespace.clone();
    let look = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "update"]},
    ]);
    let user = site.control.limited_user(&[(Some(&namespace), look)]).await.unwrap();
    site.write("all.yaml", FAST);
    let place = ["--app", &namespace, "-n", &namespace, "--context", user.name()];
    let ran = site.run(&[&["sync", "all.yaml"][..], &place].concat()).expect_code(1);
    let said = format!("{}{}", ran.out, ran.err);
    for words in [
        format!("patch configmaps in namespace {namespace}"),
        format!("create, patch deployments.apps in namespace {namespace}"),
    ] {
        assert!(said.contains(&words), "{words}: {ran:?}");
    }
    let written = site.audit().await.of(&user).only(|event| event.is_write());
    let claims = written.clone().writes().only(|event| event.kind == "Lease");
    assert!(!claims.0.is_empty(), "the operation had its claim: {written:#?}");
    let tried = written.only(|event| event.kind != "Lease");
    assert_eq!(tried.summaries(), Vec::<String>::new(), "nothing was even tried");
    // A plan that is only looked at needs no such rights.
    site.run(&[&["plan", "all.yaml"][..], &place].concat()).expect_code(0);
    // Without a trial some may come with the operation, so it begins.
    let ran = site.run(&[&["sync", "all.yaml", "--no-dry-run"][..], &place].concat()).expect_code(1);
    assert!(format!("{}{}", ran.out, ran.err).contains("rights are missing"), "{ran:?}");
}
