//! Manifests that the server rejects: error messages and remedies.

use serde_json::{Value, json};

use crate::applications;
use crate::kube_bench::KubeBench;

const OPTIONS: &str = "argocd.argoproj.io/sync-options";
const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";
const NOTE: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns a Deployment with these environment variables.
fn deployment(image: &str, env: &Value) -> Value {
    let ports = json!([{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"}]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "dup"},
        "spec": {
            "selector": {"matchLabels": {"a": "dup"}},
            "template": {
                "metadata": {"labels": {"a": "dup"}},
                "spec": {"containers": [{"name": "c", "image": image, "env": env, "ports": ports}]},
            },
        },
    })
}

fn repeated_env() -> Value {
    json!([{"name": "REPEATED", "value": "5"}, {"name": "REPEATED", "value": "6"}])
}

async fn env(bench: &KubeBench) -> Value {
    let found = bench.object("/apis/apps/v1", "deployments", "dup").await.unwrap();
    found["spec"]["template"]["spec"]["containers"][0]["env"].clone()
}

/// Kubernetes stores two variables with the same name, but server-side apply rejects them. The error must
/// mention the alternative, and `auto` must use it: the application becomes stable, and fields removed from
/// the manifest are removed from the cluster.
pub async fn repeated_keys_are_applied_on_the_client_side_if_permitted() {
    let mut bench = KubeBench::new("repeated").await;
    let namespace = bench.namespace.clone();
    let with = |bench: &KubeBench, command: &str, more: &[&str]| {
        let args = [command, "dup.yaml", "--app", &namespace, "-n", &namespace];
        bench.run(&[&args[..], more].concat())
    };
    let auto = &["--sync-option", "ServerSideApply=auto"][..];
    bench.write("dup.yaml", deployment("x:1", &repeated_env()).to_string());
    let ran = with(&bench, "sync", &[]);
    let output = format!("{}{}", ran.out, ran.err);
    assert_eq!(ran.code(), 1, "{output}");
    for word in ["containers[name=\"c\"].env", "REPEATED", "ServerSideApply=false", "ServerSideApply=auto"] {
        assert!(output.contains(word), "{word}: {output}");
    }
    assert!(bench.object("/apis/apps/v1", "deployments", "dup").await.is_none());

    let ran = with(&bench, "sync", auto).expect_code(0);
    let output = format!("{}{}", ran.out, ran.err);
    assert!(output.contains("applied client-side (ServerSideApply=auto)"), "{output}");
    assert_eq!(env(&bench).await, repeated_env());
    with(&bench, "diff", auto).expect_code(0);
    bench.reset_audit();
    with(&bench, "sync", &[auto, &["--sync-option", "ApplyOutOfSyncOnly=true"]].concat()).expect_code(0);
    assert_eq!(bench.writes().await.summaries(), Vec::<String>::new(), "a second sync has nothing to do");
    with(&bench, "sync", auto).expect_code(0);
    let changed = bench.object("/apis/apps/v1", "deployments", "dup").await.unwrap();
    // Version 1.20 doesn't record managers for objects that it can't record completely.
    let entries = changed["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut ours = entries.filter(|entry| entry["manager"] == "tidegate");
    assert!(ours.all(|entry| entry["operation"] == "Update"), "fields change their manager: {changed}");

    // The variable changes, and then the repetition is removed.
    let three = json!([{"name": "REPEATED", "value": "5"}, {"name": "REPEATED", "value": "6"}, {"name": "B", "value": "1"}]);
    bench.write("dup.yaml", deployment("x:2", &three).to_string());
    with(&bench, "diff", auto).expect_code(1);
    with(&bench, "sync", auto).expect_code(0);
    assert_eq!(env(&bench).await, three);
    let one = json!([{"name": "REPEATED", "value": "5"}]);
    bench.write("dup.yaml", deployment("x:2", &one).to_string());
    let found = bench.object("/apis/apps/v1", "deployments", "dup").await.unwrap();
    if found["metadata"]["managedFields"].is_array() {
        with(&bench, "diff", auto).expect_code(1);
    }
    with(&bench, "sync", auto).expect_code(0);
    assert_eq!(env(&bench).await, one);
    with(&bench, "diff", auto).expect_code(0);
    with(&bench, "sync", &[]).expect_code(0);
    with(&bench, "diff", &[]).expect_code(0);
}

/// With client-side apply, a field removed from the manifest must also be a difference, and be removed.
pub async fn fields_that_client_side_apply_would_remove_are_a_difference() {
    let bench = KubeBench::new("client-side").await;
    let namespace = bench.namespace.as_str();
    let with = |command: &str, more: &[&str]| {
        let args = [
            command,
            "dup.yaml",
            "--app",
            namespace,
            "-n",
            namespace,
            "--sync-option",
            "ServerSideApply=false",
        ];
        bench.run(&[&args[..], more].concat())
    };
    let two = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]);
    let one = json!([{"name": "A", "value": "1"}]);
    bench.write("dup.yaml", deployment("x:1", &two).to_string());
    with("sync", &[]).expect_code(0);
    with("diff", &[]).expect_code(0);
    bench.write("dup.yaml", deployment("x:1", &one).to_string());
    with("diff", &[]).expect_code(1);
    with("sync", &["--sync-option", "ApplyOutOfSyncOnly=true"]).expect_code(0);
    assert_eq!(env(&bench).await, one);
    with("diff", &[]).expect_code(0);
}

/// `Validate=false` must drop unknown fields at every depth, also with server-side apply.
pub async fn unknown_fields_are_dropped_without_validation() {
    let bench = KubeBench::new("unknown").await;
    let namespace = bench.namespace.as_str();
    let mut manifest = deployment("x:1", &json!([{"name": "A", "value": "1", "valu": "2"}]));
    manifest["spec"]["colour"] = "blue".into();
    manifest["bogus"] = json!({"a": 1});
    bench.write("dup.yaml", manifest.to_string());
    let with = |command: &str, more: &[&str]| {
        let args = [command, "dup.yaml", "--app", namespace, "-n", namespace];
        bench.run(&[&args[..], more].concat())
    };
    let ran = with("sync", &[]);
    let output = format!("{}{}", ran.out, ran.err);
    assert_eq!(ran.code(), 1, "{output}");
    assert!(output.contains("bogus") && output.contains("Validate=false"), "{output}");
    let unchecked = ["--sync-option", "Validate=false"];
    let ran = with("sync", &unchecked).expect_code(0);
    let output = format!("{}{}", ran.out, ran.err);
    assert!(output.contains("unknown field \"spec.colour\" is ignored"), "{output}");
    assert_eq!(env(&bench).await, json!([{"name": "A", "value": "1"}]));
    with("diff", &unchecked).expect_code(0);
    with("sync", &unchecked).expect_code(0);
    // A client-side apply has the same hint. Old servers drop the fields without an error.
    let ran = with("sync", &["--sync-option", "ServerSideApply=false"]);
    let output = format!("{}{}", ran.out, ran.err);
    let is_refused = output.contains("strict decoding error: unknown field");
    assert_eq!(ran.code(), i32::from(is_refused), "{output}");
    assert_eq!(output.contains("Validate=false"), is_refused, "{output}");
}

/// An Application that was Synced under Argo CD. Its condition must contain the remedy. With `auto`, no
/// remedy is needed.
pub async fn an_application_with_repeated_keys_migrates() {
    let bench = applications::bench_with_crds().await;
    let namespace = &bench.namespace;
    let mut there = deployment("x:1", &repeated_env());
    let id = format!("{namespace}_shop:apps/Deployment:{namespace}/dup");
    there["metadata"]["annotations"] = json!({TRACKING_ID: id});
    there["metadata"]["annotations"][NOTE] = there.to_string().into();
    let place = format!("/apis/apps/v1/namespaces/{namespace}/deployments?fieldManager=argocd-controller");
    bench.observer().post(&place, &there).await.unwrap();
    bench.write("repo/shop/dup.yaml", deployment("x:2", &repeated_env()).to_string());
    bench.run(&["example", "commit", "repo"]).expect_code(0);
    let service = applications::serve(&bench);
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "shop"},
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": namespace},
            "source": {
                "repoURL": bench.path().join("repo").display().to_string(), "path": "shop", "targetRevision": "main",
            },
        },
    });
    bench.observer().post(&applications::path(&bench), &application).await.unwrap();
    let names = |app: &Value| app["status"]["conditions"].to_string().contains("ServerSideApply=false");
    applications::wait_until(&bench, names).await;
    service.signal("TERM");
    service.finish().expect_code(0);

    let of = namespace.as_str();
    let mut service =
        bench.start(&["serve", "--app-namespace", of, "--project-namespace", of, "--server-side-apply=auto"]);
    service.wait_for_line("managing");
    bench.run(&["app", "sync", "shop"]).expect_code(0);
    let app = applications::wait_until(&bench, applications::is_done).await;
    assert!(!names(&app), "{}", app["status"]["conditions"]);
    let found = bench.object("/apis/apps/v1", "deployments", "dup").await.unwrap();
    let container = &found["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&container["image"], &container["env"]), (&json!("x:2"), &repeated_env()));
    service.signal("TERM");
    service.finish().expect_code(0);
}

fn job(image: &str, options: &str) -> String {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "build", "annotations": {OPTIONS: options}},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    });
    job.to_string()
}

/// The plan must detect the immutable field. The sync must report the field, both values and the remedy
/// instead of the server's internal types.
pub async fn an_immutable_field_is_named() {
    let bench = KubeBench::new("fixed").await;
    let namespace = bench.namespace.as_str();
    let with = |command: &str, more: &[&str]| {
        let args = [command, "it.yaml", "--app", namespace, "-n", namespace];
        bench.run(&[&args[..], more].concat())
    };
    let (one, two) = ("registry.example.org/job:1", "registry.example.org/job:2");
    for (options, way_out) in
        [("Replace=true", "Replace=true,Force=true"), ("Prune=false", "sync option Force=true")]
    {
        bench.write("it.yaml", job(one, options));
        with("sync", &[]).expect_code(0);
        bench.write("it.yaml", job(two, options));
        let change =
            format!("spec.template.spec.containers[0].image would change from \"{one}\" to \"{two}\"");
        let planned = with("plan", &[]).expect_code(0);
        let planned = format!("{}{}", planned.out, planned.err);
        let ran = with("sync", &[]);
        let output = format!("{}{}", ran.out, ran.err);
        assert_eq!(ran.code(), 1, "{output}");
        for output in [&planned, &output] {
            let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
            for text in [change.as_str(), "spec.template: field is immutable", way_out] {
                assert!(output.contains(text), "{text}: {output}");
            }
            assert!(!output.contains("TerminationMessagePath"), "{output}");
        }
        bench.write("it.yaml", job(two, "Replace=true,Force=true"));
        let planned = with("plan", &[]).expect_code(0);
        assert!(!format!("{}{}", planned.out, planned.err).contains("immutable"), "{planned:?}");
        with("sync", &[]).expect_code(0);
        bench.write("it.yaml", job(one, "Replace=true,Force=true"));
        with("sync", &[]).expect_code(0);
    }
}

/// For a Secret, the output must contain the field, but no value.
pub async fn immutable_secrets_are_reported_without_values() {
    let bench = KubeBench::new("fixed-secret").await;
    let namespace = bench.namespace.as_str();
    let secret = |value: &str| {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "immutable": true,
            "stringData": {"password": value},
        });
        bench.write("it.yaml", secret.to_string());
    };
    let with = |command: &str| bench.run(&[command, "it.yaml", "--app", namespace, "-n", namespace]);
    secret("hunter2-before");
    with("sync").expect_code(0);
    secret("hunter2-after");
    for command in ["plan", "sync", "diff"] {
        let ran = with(command);
        let output = format!("{}{}", ran.out, ran.err);
        assert!(output.contains("data.password would change from"), "{command}: {output}");
        // The value must not appear in plain or encoded form.
        assert!(!output.contains("hunter2") && !output.contains("aHVudGVyMi"), "{command}: {output}");
    }
}
