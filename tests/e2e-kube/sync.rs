//! What a sync costs and what it leaves alone, by the audit log.

use std::collections::BTreeSet;

use serde_json::json;
use tidegate_testkit::kube::User;

use crate::bench::Running;
use crate::manifests::{CONFIG, FAST};
use crate::site::Site;

const ONLY_CHANGED: [&str; 2] = ["--sync-option", "ApplyOutOfSyncOnly=true"];

fn config_maps(count: usize, value: &str) -> String {
    (0..count)
        .map(|n| {
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}}}\ndata: {{a: {value}}}\n---\n")
        })
        .collect()
}

pub async fn a_plan_and_a_dry_run_write_nothing() {
    let site = Site::new("dry-run").await;
    site.write("fast.yaml", FAST);
    let plan =
        site.run(&["plan", "fast.yaml", "--app", &site.namespace, "-n", &site.namespace]).expect_code(0);
    assert!(plan.out.contains("compared with the context engine at"), "{}", plan.out);
    assert!(!site.state().exists(), "a plan leaves nothing behind");
    site.run(&["sync", "fast.yaml", "--app", &site.namespace, "-n", &site.namespace, "--dry-run"])
        .expect_code(0);
    let asked = site.audit().await.of(User::ENGINE).only(|event| event.is_write());
    assert!(asked.0.iter().any(|event| event.kind == "Deployment"), "everything was tried: {asked:#?}");
    assert!(asked.0.iter().all(|event| event.dry_run), "{asked:#?}");
    assert!(site.object("/api/v1", "configmaps", "config").await.is_none());
    // What would be refused is found out that way.
    site.write("bad.yaml", CONFIG.replace("data: {a: b}", "data: {\"a b\": c}"));
    let ran = site
        .run(&["sync", "bad.yaml", "--app", &site.app("bad"), "-n", &site.namespace, "--dry-run"])
        .expect_code(1);
    assert!(ran.out.contains("ConfigMap"), "{ran:?}");
}

pub async fn without_a_dry_run_each_object_costs_one_request() {
    let site = Site::new("no-dry-run").await;
    site.write("many.yaml", config_maps(50, "b"));
    site.run(&["sync", "many.yaml", "--app", &site.namespace, "-n", &site.namespace, "--no-dry-run"])
        .expect_code(0);
    let about =
        |event: &tidegate_testkit::kube::AuditEvent| event.kind == "ConfigMap" && event.name.starts_with('c');
    let asked = site.audit().await.of(User::ENGINE).only(about);
    let writes = asked.clone().writes();
    assert_eq!(writes.0.len(), 50, "{writes:#?}");
    assert!(asked.0.iter().all(|event| !event.dry_run), "{asked:#?}");
    assert!(asked.0.len() <= 100, "at most one more to look at each: {}", asked.0.len());
}

/// What kubectl applied on the client's side and the manifest does not give goes with our first apply: `diff` says so
/// before, and it counts as out of sync.
pub async fn what_goes_when_fields_of_kubectl_are_taken_over_is_told() {
    let site = Site::new("taken-over").await;
    let namespace = &site.namespace;
    let there = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "config", "labels": {"old": "yes"}}, "data": {"a": "b", "old": "yes"}});
    let place = format!("/api/v1/namespaces/{namespace}/configmaps?fieldManager=kubectl-client-side-apply");
    site.observer().post(&place, &there).await.unwrap();
    site.write("config.yaml", CONFIG);
    let of = |command: &'static str, more: &[&str]| {
        let arguments = [&[command, "config.yaml", "--app", namespace, "-n", namespace], more].concat();
        site.run(&arguments)
    };
    let told = of("diff", &[]).expect_code(1).out;
    assert_eq!(told.matches("old").count(), 2, "{told}");
    of("sync", &ONLY_CHANGED).expect_code(0);
    let object = site.object("/api/v1", "configmaps", "config").await.unwrap();
    assert_eq!(object["data"], json!({"a": "b"}));
    assert!(object["metadata"]["labels"].is_null(), "{object}");
    of("diff", &[]).expect_code(0);
}

/// Whoever applied with kubectl owns what the server filled in, too. That does not go, and `diff` does not say so; and what
/// the server would refuse is said.
pub async fn what_kubectl_applied_differs_only_where_it_differs() {
    let site = Site::new("kubectl").await;
    let namespace = &site.namespace;
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
    site.observer().post(&place, &there).await.unwrap();
    let diff = |env: &str| {
        site.write("web.yaml", manifest(env));
        site.run(&["diff", "web.yaml", "--app", namespace, "-n", namespace, "-o", "json"])
    };
    let told: serde_json::Value =
        serde_json::from_str(&diff("{name: COLOUR, value: blue}").expect_code(1).out).unwrap();
    let object = &told["objects"][0];
    let paths: Vec<&str> =
        object["changes"].as_array().unwrap().iter().map(|change| change["path"].as_str().unwrap()).collect();
    assert!(paths.iter().any(|path| path.ends_with("/env/0/value")), "{told:#}");
    assert!(
        paths.iter().all(|path| path.ends_with("/env/0/value") || path.contains("annotations")),
        "{told:#}"
    );
    assert_eq!(object["estimate"], false, "{told:#}");
    diff("{name: '', value: blue}").expect_code(2);
}

pub async fn a_second_sync_writes_nothing_it_need_not() {
    let mut site = Site::new("second").await;
    let namespace = site.namespace.clone();
    let sync = ["sync", "many.yaml", "--app", &namespace, "-n", &namespace];
    site.write("many.yaml", config_maps(20, "b"));
    site.run(&sync).expect_code(0);
    site.look_from_now();
    site.run(&[&sync[..], &ONLY_CHANGED].concat()).expect_code(0);
    assert_eq!(site.writes().await.summaries(), Vec::<String>::new());
    site.run(&sync).expect_code(0);
    assert!(site.writes().await.0.len() <= 20, "never more than one write for each object");
    // One of them differs now.
    site.look_from_now();
    site.write("many.yaml", config_maps(20, "b").replacen("{a: b}", "{a: changed}", 1));
    site.run(&[&sync[..], &ONLY_CHANGED].concat()).expect_code(0);
    assert_eq!(site.writes().await.summaries(), [format!("patch ConfigMap {namespace}/c0")]);
}

pub async fn what_is_no_longer_wanted_is_pruned() {
    let mut site = Site::new("prune").await;
    let namespace = site.namespace.clone();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let strange =
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "strange"}});
    site.observer().post(&path, &strange).await.unwrap();
    site.write("many.yaml", config_maps(3, "b"));
    let sync = ["sync", "many.yaml", "--app", &namespace, "-n", &namespace];
    site.run(&sync).expect_code(0);
    site.look_from_now();
    site.write("many.yaml", config_maps(2, "b"));
    site.run(&sync).expect_code(0);
    assert!(site.object("/api/v1", "configmaps", "c2").await.is_some(), "not without --prune");
    site.run(&[&sync[..], &["--prune"]].concat()).expect_code(0);
    let deleted = site.writes().await.only(|event| event.verb == "delete").summaries();
    assert_eq!(deleted, [format!("delete ConfigMap {namespace}/c2")]);
    assert!(site.object("/api/v1", "configmaps", "strange").await.is_some());
}

/// A diff looks where a sync would: at what the log knows of the application, and in the whole cluster only where it knows
/// nothing.
pub async fn what_is_no_longer_wanted_is_looked_for_where_it_was_put() {
    let site = Site::new("where").await;
    let robot = format!("robot-of-{}", site.namespace);
    let to =
        ["--app", &site.namespace, "-n", &site.namespace, "--as", &robot, "--as-group", "system:masters"];
    site.write("many.yaml", config_maps(3, "b"));
    // Only a sync that prunes looks for all there is of the application, and knows it from then on.
    site.run(&[&["sync", "many.yaml", "--prune"][..], &to].concat()).expect_code(0);
    site.write("many.yaml", config_maps(2, "b"));
    let diff = async |more: &[&str]| {
        let mark = site.control.mark();
        let ran = site.run(&[&["diff", "many.yaml", "-o", "json"][..], &to, more].concat()).expect_code(1);
        let asked = site.control.audit_since(mark).await.unwrap();
        let lists = asked.only(|event| event.impersonated.as_ref() == Some(&robot) && event.verb == "list");
        let kinds: BTreeSet<String> = lists.0.into_iter().map(|event| event.kind).collect();
        (ran.out, kinds)
    };
    let (known, few) = diff(&[]).await;
    let (searched, many) = diff(&["--state-dir", "elsewhere"]).await;
    assert_eq!(known, searched, "the same answer");
    assert!(known.contains("\"extra\"") && known.contains("c2"), "{known}");
    assert!(few.iter().all(|kind| kind == "ConfigMap"), "{few:?}");
    assert!(many.len() > 5, "nothing is known there, so all is searched: {many:?}");
    assert!(!site.path().join("elsewhere").exists(), "a diff leaves nothing behind");
}

pub async fn the_namespace_is_made_with_its_metadata() {
    let site = Site::without_namespace("made");
    site.write("config.yaml", CONFIG);
    let refused = site
        .run(&["sync", "config.yaml", "--app", &site.namespace, "--namespace-label", "a=b"])
        .expect_code(2);
    assert!(refused.err.contains("CreateNamespace=true"), "{}", refused.err);
    let made = [
        "sync",
        "config.yaml",
        "--app",
        &site.namespace,
        "-n",
        &site.namespace,
        "--sync-option",
        "CreateNamespace=true",
    ];
    let metadata = ["--namespace-label", "team=shop", "--namespace-annotation", "example.com/a=b=c"];
    site.run(&[&made[..], &metadata].concat()).expect_code(0);
    let namespace = site.observer().get(&format!("/api/v1/namespaces/{}", site.namespace)).await.unwrap();
    assert_eq!(namespace["metadata"]["labels"]["team"], "shop", "{namespace}");
    assert_eq!(namespace["metadata"]["annotations"]["example.com/a"], "b=c", "{namespace}");
    assert!(site.object("/api/v1", "configmaps", "config").await.is_some());
}

pub async fn a_traced_sync_ends_though_nobody_reads_standard_error() {
    let site = Site::new("unheard").await;
    site.write("config.yaml", CONFIG);
    let args = ["-vv", "sync", "config.yaml", "--app", &site.namespace, "-n", &site.namespace];
    let mut command = site.command(&args);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stderr(writer);
    Running::start_unheard(command).finish().expect_code(0);
}

/// Two teams, each with a state directory and a namespace of its own, have called their applications alike.
pub async fn another_team_with_an_application_of_the_same_name_loses_nothing() {
    let (a, b) = (Site::new("team-a").await, Site::new("team-b").await);
    let app = a.namespace.clone();
    let config = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    a.write("ta.yaml", config("conf-a"));
    b.write("tb.yaml", config("conf-b"));
    a.run(&["sync", "ta.yaml", "--app", &app, "-n", &a.namespace]).expect_code(0);
    let of_b = ["tb.yaml", "--app", &app, "-n", &b.namespace, "--prune"];
    // Past the guard that keeps the applications of sites apart: here they are to have one name.
    let found = format!("ConfigMap {}/conf-a", a.namespace);
    let plan = b.bench.run(&[&["plan"][..], &of_b].concat()).expect_code(0);
    assert!(plan.out.contains("found elsewhere") && plan.out.contains(&found), "{plan:?}");
    let ran = b.bench.run(&[&["sync"][..], &of_b].concat()).expect_code(0);
    assert!(ran.out.contains(&found), "{ran:?}");
    assert!(a.object("/api/v1", "configmaps", "conf-a").await.is_some());
    let deletions = async || a.audit().await.of(User::ENGINE).only(|event| event.verb == "delete").0.len();
    assert_eq!(deletions().await, 0);
    b.bench.run(&[&["sync", "--adopt"][..], &of_b].concat()).expect_code(0);
    assert_eq!(deletions().await, 1);
    assert!(a.object("/api/v1", "configmaps", "conf-a").await.is_none());
}

/// Without `--prune` an empty state directory is no reason to list every kind of the cluster.
pub async fn a_first_sync_lists_no_kinds_but_its_own() {
    let site = Site::new("cheap").await;
    site.write("config.yaml", CONFIG);
    // A user of its own, for others work on the same control plane.
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let user = site.control.limited_user(&[(None, all)]).await.unwrap();
    let mark = site.control.mark();
    let place = ["--app", &site.namespace, "-n", &site.namespace, "--context", user.name()];
    site.run(&[&["sync", "config.yaml"][..], &place].concat()).expect_code(0);
    let asked = site.control.audit_since(mark).await.unwrap().of(&user);
    let lists: BTreeSet<String> =
        asked.0.iter().filter(|event| event.verb == "list").map(|event| event.kind.clone()).collect();
    assert_eq!(lists, BTreeSet::from(["ConfigMap".to_owned()]));
}
