//! Cost and scope of a sync, according to the audit log.

use std::collections::BTreeSet;

use serde_json::json;
use tidegate_testkit::kube::User;

use crate::bench::Running;
use crate::kube_bench::KubeBench;
use crate::manifests::{CONFIG, FAST};

const ONLY_CHANGED: [&str; 2] = ["--sync-option", "ApplyOutOfSyncOnly=true"];

fn config_maps(count: usize, value: &str) -> String {
    (0..count)
        .map(|n| {
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}}}\ndata: {{a: {value}}}\n---\n")
        })
        .collect()
}

pub async fn a_plan_and_a_dry_run_write_nothing() {
    let bench = KubeBench::new("dry-run").await;
    bench.write("fast.yaml", FAST);
    let plan =
        bench.run(&["plan", "fast.yaml", "--app", &bench.namespace, "-n", &bench.namespace]).expect_code(0);
    assert!(plan.out.contains("compared with the context engine at"), "{}", plan.out);
    assert!(!bench.state().exists(), "a plan leaves nothing behind");
    bench
        .run(&["sync", "fast.yaml", "--app", &bench.namespace, "-n", &bench.namespace, "--dry-run"])
        .expect_code(0);
    let audit_events = bench.audit().await.by_user(User::ENGINE).filter(|event| event.is_write());
    assert!(
        audit_events.0.iter().any(|event| event.kind == "Deployment"),
        "all requests were tested: {audit_events:#?}"
    );
    assert!(audit_events.0.iter().all(|event| event.dry_run), "{audit_events:#?}");
    assert!(bench.object("/api/v1", "configmaps", "config").await.is_none());
    // The dry run detects manifests that would be rejected.
    bench.write("bad.yaml", CONFIG.replace("data: {a: b}", "data: {\"a b\": c}"));
    let ran = bench
        .run(&["sync", "bad.yaml", "--app", &bench.app("bad"), "-n", &bench.namespace, "--dry-run"])
        .expect_code(1);
    assert!(ran.out.contains("ConfigMap"), "{ran:?}");
}

/// The situation of Argo CD's issue 12840: the Pod that uses the claim is in a later wave.
pub async fn a_claim_waiting_for_its_first_consumer_does_not_block_its_wave() {
    let bench = KubeBench::new("first-consumer").await;
    let (namespace, class) = (&bench.namespace, bench.app("lazy"));
    bench.write(
        "claim.yaml",
        format!(
            "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata:\n  name: {class}\n  annotations: \
             {{argocd.argoproj.io/sync-wave: \"-1\"}}\nprovisioner: csi.example.org\nvolumeBindingMode: \
             WaitForFirstConsumer\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\n  \
             annotations: {{sim.tidegate.dev/outcome: never-ready}}\nspec:\n  storageClassName: {class}\n  \
             accessModes: [ReadWriteOnce]\n  resources: {{requests: {{storage: 1Gi}}}}\n---\n\
             apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: next\n  annotations: \
             {{argocd.argoproj.io/sync-wave: \"1\"}}\n"
        ),
    );
    bench.run(&["sync", "claim.yaml", "--app", namespace, "-n", namespace]).expect_code(0);
    assert!(bench.object("/api/v1", "configmaps", "next").await.is_some());
    let claim = bench.object("/api/v1", "persistentvolumeclaims", "data").await.unwrap();
    assert_eq!(claim["status"]["phase"], "Pending");
}

pub async fn without_a_dry_run_each_object_costs_one_request() {
    let bench = KubeBench::new("no-dry-run").await;
    bench.write("many.yaml", config_maps(50, "b"));
    bench
        .run(&["sync", "many.yaml", "--app", &bench.namespace, "-n", &bench.namespace, "--no-dry-run"])
        .expect_code(0);
    let about =
        |event: &tidegate_testkit::kube::AuditEvent| event.kind == "ConfigMap" && event.name.starts_with('c');
    let audit_events = bench.audit().await.by_user(User::ENGINE).filter(about);
    let writes = audit_events.clone().successful_writes();
    assert_eq!(writes.0.len(), 50, "{writes:#?}");
    assert!(audit_events.0.iter().all(|event| !event.dry_run), "{audit_events:#?}");
    assert!(audit_events.0.len() <= 100, "at most one more read for each: {}", audit_events.0.len());
}

/// Our first apply removes fields that kubectl applied on the client side and that the manifest lacks. `diff`
/// must report this beforehand, and the object is out of sync.
pub async fn fields_removed_by_the_takeover_from_kubectl_are_reported() {
    let bench = KubeBench::new("taken-over").await;
    let namespace = &bench.namespace;
    let there = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "config", "labels": {"old": "yes"}}, "data": {"a": "b", "old": "yes"}});
    let place = format!("/api/v1/namespaces/{namespace}/configmaps?fieldManager=kubectl-client-side-apply");
    bench.observer().post(&place, &there).await.unwrap();
    bench.write("config.yaml", CONFIG);
    let of = |command: &'static str, more: &[&str]| {
        let arguments = [&[command, "config.yaml", "--app", namespace, "-n", namespace], more].concat();
        bench.run(&arguments)
    };
    let output = of("diff", &[]).expect_code(1).out;
    assert_eq!(output.matches("old").count(), 2, "{output}");
    of("sync", &ONLY_CHANGED).expect_code(0);
    let object = bench.object("/api/v1", "configmaps", "config").await.unwrap();
    assert_eq!(object["data"], json!({"a": "b"}));
    assert!(object["metadata"]["labels"].is_null(), "{object}");
    of("diff", &[]).expect_code(0);
}

/// A user of kubectl also owns the server's defaults. They aren't removed, so `diff` must not report them.
/// Rejections by the server must be reported.
pub async fn objects_applied_by_kubectl_show_only_real_differences() {
    let bench = KubeBench::new("kubectl").await;
    let namespace = &bench.namespace;
    let manifest = |env: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    spec:\n      containers: [{{name: web, image: web, env: [{env}]}}]\n"
        )
    };
    let there = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "web", "image": "web", "env": [{"name": "COLOUR", "value": "red"}]}]}}}});
    let place =
        format!("/apis/apps/v1/namespaces/{namespace}/deployments?fieldManager=kubectl-client-side-apply");
    bench.observer().post(&place, &there).await.unwrap();
    let diff = |env: &str| {
        bench.write("web.yaml", manifest(env));
        bench.run(&["diff", "web.yaml", "--app", namespace, "-n", namespace, "-o", "json"])
    };
    let output: serde_json::Value =
        serde_json::from_str(&diff("{name: COLOUR, value: blue}").expect_code(1).out).unwrap();
    let object = &output["objects"][0];
    let paths: Vec<&str> =
        object["changes"].as_array().unwrap().iter().map(|change| change["path"].as_str().unwrap()).collect();
    assert!(paths.iter().any(|path| path.ends_with("/env/0/value")), "{output:#}");
    assert!(
        paths.iter().all(|path| path.ends_with("/env/0/value") || path.contains("annotations")),
        "{output:#}"
    );
    assert_eq!(object["estimate"], false, "{output:#}");
    diff("{name: '', value: blue}").expect_code(2);
}

pub async fn a_second_sync_makes_no_unnecessary_writes() {
    let mut bench = KubeBench::new("second").await;
    let namespace = bench.namespace.clone();
    let sync = ["sync", "many.yaml", "--app", &namespace, "-n", &namespace];
    bench.write("many.yaml", config_maps(20, "b"));
    bench.run(&sync).expect_code(0);
    bench.reset_audit();
    bench.run(&[&sync[..], &ONLY_CHANGED].concat()).expect_code(0);
    assert_eq!(bench.writes().await.summaries(), Vec::<String>::new());
    bench.run(&sync).expect_code(0);
    assert!(bench.writes().await.0.len() <= 20, "at most one write for each object");
    // One of the objects now differs.
    bench.reset_audit();
    bench.write("many.yaml", config_maps(20, "b").replacen("{a: b}", "{a: changed}", 1));
    bench.run(&[&sync[..], &ONLY_CHANGED].concat()).expect_code(0);
    assert_eq!(bench.writes().await.summaries(), [format!("patch ConfigMap {namespace}/c0")]);
}

pub async fn objects_removed_from_the_manifests_are_pruned() {
    let mut bench = KubeBench::new("prune").await;
    let namespace = bench.namespace.clone();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let strange =
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "strange"}});
    bench.observer().post(&path, &strange).await.unwrap();
    bench.write("many.yaml", config_maps(3, "b"));
    let sync = ["sync", "many.yaml", "--app", &namespace, "-n", &namespace];
    bench.run(&sync).expect_code(0);
    bench.reset_audit();
    bench.write("many.yaml", config_maps(2, "b"));
    bench.run(&sync).expect_code(0);
    assert!(bench.object("/api/v1", "configmaps", "c2").await.is_some(), "not without --prune");
    bench.run(&[&sync[..], &["--prune"]].concat()).expect_code(0);
    let deleted = bench.writes().await.filter(|event| event.verb == "delete").summaries();
    assert_eq!(deleted, [format!("delete ConfigMap {namespace}/c2")]);
    assert!(bench.object("/api/v1", "configmaps", "strange").await.is_some());
}

/// A diff must search for objects as a sync does: the objects in the log's inventory, and the whole cluster
/// only if there is no inventory.
pub async fn prunable_objects_are_searched_where_they_were_created() {
    let bench = KubeBench::new("where").await;
    let robot = format!("robot-of-{}", bench.namespace);
    let to =
        ["--app", &bench.namespace, "-n", &bench.namespace, "--as", &robot, "--as-group", "system:masters"];
    bench.write("many.yaml", config_maps(3, "b"));
    // Only a sync with pruning searches for all objects of the application. Afterwards, all of them are in
    // the inventory.
    bench.run(&[&["sync", "many.yaml", "--prune"][..], &to].concat()).expect_code(0);
    bench.write("many.yaml", config_maps(2, "b"));
    let diff = async |more: &[&str]| {
        let mark = bench.control.audit_mark();
        let ran = bench.run(&[&["diff", "many.yaml", "-o", "json"][..], &to, more].concat()).expect_code(1);
        let audit_events = bench.control.audit_since(mark).await.unwrap();
        let lists =
            audit_events.filter(|event| event.impersonated.as_ref() == Some(&robot) && event.verb == "list");
        let kinds: BTreeSet<String> = lists.0.into_iter().map(|event| event.kind).collect();
        (ran.out, kinds)
    };
    let (known, few) = diff(&[]).await;
    let (searched, many) = diff(&["--state-dir", "elsewhere"]).await;
    assert_eq!(known, searched, "the same response");
    assert!(known.contains("\"extra\"") && known.contains("c2"), "{known}");
    assert!(few.iter().all(|kind| kind == "ConfigMap"), "{few:?}");
    assert!(many.len() > 5, "without an inventory, all kinds are searched: {many:?}");
    assert!(!bench.path().join("elsewhere").exists(), "a diff leaves nothing behind");
}

pub async fn the_namespace_is_created_with_its_metadata() {
    let bench = KubeBench::without_namespace("made");
    bench.write("config.yaml", CONFIG);
    let refused = bench
        .run(&["sync", "config.yaml", "--app", &bench.namespace, "--namespace-label", "a=b"])
        .expect_code(2);
    assert!(refused.err.contains("CreateNamespace=true"), "{}", refused.err);
    let option = ["--sync-option", "CreateNamespace=true"];
    let metadata = ["--namespace-label", "team=shop", "--namespace-annotation", "example.com/a=b=c"];
    bench
        .run(&[&["sync", "config.yaml"][..], &bench.target_args(), &option, &metadata].concat())
        .expect_code(0);
    let namespace = bench.observer().get(&format!("/api/v1/namespaces/{}", bench.namespace)).await.unwrap();
    assert_eq!(namespace["metadata"]["labels"]["team"], "shop", "{namespace}");
    assert_eq!(namespace["metadata"]["annotations"]["example.com/a"], "b=c", "{namespace}");
    assert!(bench.object("/api/v1", "configmaps", "config").await.is_some());
}

pub async fn a_traced_sync_ends_even_if_standard_error_is_not_read() {
    let bench = KubeBench::new("unheard").await;
    bench.write("config.yaml", CONFIG);
    let args = ["-vv", "sync", "config.yaml", "--app", &bench.namespace, "-n", &bench.namespace];
    let mut command = bench.command(&args);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stderr(writer);
    Running::start_without_stderr(command).finish().expect_code(0);
}

/// Two teams, with separate state directories and namespaces, use the same application name.
pub async fn a_namesake_application_of_another_team_loses_nothing() {
    let (a, b) = (KubeBench::new("team-a").await, KubeBench::new("team-b").await);
    let app = a.namespace.clone();
    let config = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    a.write("ta.yaml", config("conf-a"));
    b.write("tb.yaml", config("conf-b"));
    a.run(&["sync", "ta.yaml", "--app", &app, "-n", &a.namespace]).expect_code(0);
    let of_b = ["tb.yaml", "--app", &app, "-n", &b.namespace, "--prune"];
    // Bypasses the guard against equal names, because the names are intended here.
    let found = format!("ConfigMap {}/conf-a", a.namespace);
    let plan = b.bench.run(&[&["plan"][..], &of_b].concat()).expect_code(0);
    assert!(plan.out.contains("found elsewhere") && plan.out.contains(&found), "{plan:?}");
    let ran = b.bench.run(&[&["sync"][..], &of_b].concat()).expect_code(0);
    assert!(ran.out.contains(&found), "{ran:?}");
    assert!(a.object("/api/v1", "configmaps", "conf-a").await.is_some());
    let deletions =
        async || a.audit().await.by_user(User::ENGINE).filter(|event| event.verb == "delete").0.len();
    assert_eq!(deletions().await, 0);
    b.bench.run(&[&["sync", "--adopt"][..], &of_b].concat()).expect_code(0);
    assert_eq!(deletions().await, 1);
    assert!(a.object("/api/v1", "configmaps", "conf-a").await.is_none());
}

/// Without `--prune`, an empty state directory must not cause a list of every kind of the cluster.
pub async fn a_first_sync_lists_only_its_own_kinds() {
    let bench = KubeBench::new("cheap").await;
    bench.write("config.yaml", CONFIG);
    // Uses a separate user, because other tests use the same control plane.
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let user = bench.control.create_limited_user(&[(None, all)]).await.unwrap();
    let mark = bench.control.audit_mark();
    let place = ["--app", &bench.namespace, "-n", &bench.namespace, "--context", user.name()];
    bench.run(&[&["sync", "config.yaml"][..], &place].concat()).expect_code(0);
    let audit_events = bench.control.audit_since(mark).await.unwrap().by_user(&user);
    let lists: BTreeSet<String> =
        audit_events.0.iter().filter(|event| event.verb == "list").map(|event| event.kind.clone()).collect();
    assert_eq!(lists, BTreeSet::from(["ConfigMap".to_owned()]));
}
