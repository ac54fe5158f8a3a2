//! Users with limited rights.

use std::fs;

use serde_json::json;
use tidegate_testkit::kube::User;

use crate::bench::example;
use crate::kube_bench::KubeBench;
use crate::manifests::{CONFIG, FAST};

/// Grants the documented role in our namespace to the user with this name.
fn grant(bench: &KubeBench, user: &str) {
    let role = fs::read_to_string(example("rbac/namespace.yaml")).unwrap();
    bench.write("role.yaml", role.replace("name: deployer", &format!("name: {user}")));
    bench.run(&["sync", "role.yaml", "--app", &bench.app("rights"), "-n", &bench.namespace]).expect_code(0);
}

pub async fn the_documented_roles_are_sufficient() {
    let mut bench = KubeBench::new("rights").await;
    let user = bench.control.create_limited_user(&[]).await.unwrap();
    grant(&bench, user.name());
    bench.write("fast.yaml", FAST);
    let namespace = bench.namespace.clone();
    let context = ["--context", user.name(), "-n", &namespace];
    bench.reset_audit();
    bench.run(&[&["plan", "fast.yaml", "--app", &namespace][..], &context].concat()).expect_code(0);
    bench
        .run(&[&["sync", "fast.yaml", "--app", &namespace, "--wait", "healthy"][..], &context].concat())
        .expect_code(0);
    // This sync also prunes. No request was rejected.
    let fewer = FAST.replacen(
        "kind: ConfigMap\nmetadata: {name: config}",
        "kind: ConfigMap\nmetadata: {name: other}",
        1,
    );
    bench.write("fast.yaml", fewer);
    bench
        .run(&[&["sync", "fast.yaml", "--app", &namespace, "--prune"][..], &context].concat())
        .expect_code(0);
    assert!(bench.object("/api/v1", "configmaps", "config").await.is_none());
    let refused = bench.audit().await.by_user(&user).filter(|event| event.code == 403 && event.is_write());
    assert_eq!(refused.summaries(), Vec::<String>::new());
}

pub async fn forbidden_requests_are_named() {
    let bench = KubeBench::new("forbidden").await;
    let unseen = bench.control.create_namespace("forbidden-unseen").await.unwrap();
    let seen = bench.control.create_namespace("forbidden-seen").await.unwrap();
    let look = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]);
    let user = bench.control.create_limited_user(&[(Some(&seen), look)]).await.unwrap();
    grant(&bench, user.name());
    bench.write("config.yaml", CONFIG);
    // Without read access, there is no plan. Without write access, the plan fails.
    for (namespace, verb, phase) in [(&unseen, "get", "Error"), (&seen, "patch", "Failed")] {
        let app = namespace;
        let args =
            ["sync", "config.yaml", "--app", app, "-n", namespace, "--context", user.name(), "-o", "json"];
        let ran = bench.run(&args).expect_code(1);
        for word in ["configmaps", verb, namespace, "forbidden"] {
            assert!(ran.out.contains(word), "{word}: {ran:?}");
        }
        // The operation is recorded, and no write is partial.
        assert_eq!(bench.json(&["ops", "list", "--app", app, "-o", "json"])[0]["phase"], phase);
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/config");
        assert!(bench.observer().find(&path).await.unwrap().is_none());
    }
    // Impersonation requires the right to impersonate.
    let impersonation = ["--context", user.name(), "--as", User::ENGINE.name()];
    let args = [&["sync", "config.yaml"][..], &bench.target_args(), &impersonation].concat();
    let ran = bench.run(&args).expect_code(1);
    assert!(ran.err.contains("impersonate"), "{ran:?}");
}

/// All missing rights must be reported together, before the first write.
pub async fn missing_rights_are_reported_together() {
    let bench = KubeBench::new("together").await;
    let namespace = bench.namespace.clone();
    let look = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "update"]},
    ]);
    let user = bench.control.create_limited_user(&[(Some(&namespace), look)]).await.unwrap();
    bench.write("all.yaml", FAST);
    let place = ["--app", &namespace, "-n", &namespace, "--context", user.name()];
    let ran = bench.run(&[&["sync", "all.yaml"][..], &place].concat()).expect_code(1);
    let output = format!("{}{}", ran.out, ran.err);
    for text in [
        format!("patch configmaps in namespace {namespace}"),
        format!("create, patch deployments.apps in namespace {namespace}"),
    ] {
        assert!(output.contains(&text), "{text}: {ran:?}");
    }
    let written = bench.audit().await.by_user(&user).filter(|event| event.is_write());
    let claims = written.clone().successful_writes().filter(|event| event.kind == "Lease");
    assert!(!claims.0.is_empty(), "the operation held its claim: {written:#?}");
    let tried = written.filter(|event| event.kind != "Lease");
    assert_eq!(tried.summaries(), Vec::<String>::new(), "there was no attempt");
    // A plan that isn't executed doesn't need these rights.
    bench.run(&[&["plan", "all.yaml"][..], &place].concat()).expect_code(0);
    // Without a dry run, the operation starts, because some rights may be granted while it is running.
    let ran = bench.run(&[&["sync", "all.yaml", "--no-dry-run"][..], &place].concat()).expect_code(1);
    assert!(format!("{}{}", ran.out, ran.err).contains("missing permissions"), "{ran:?}");
}
