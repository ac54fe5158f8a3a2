//! Failures of real clusters.

use std::time::Duration;

use serde_json::json;
use tidegate_lifecycle::operation::WaveView;
use tidegate_model::{OperationPhase, Phase};
use tidegate_testkit::kube::{ControlPlane, Options, User};
use tidegate_testkit::scenario::{Scenario, SyncSpec};

use crate::engine::{Bench, wait_until};
use crate::golden;

pub fn config(name: &str, wave: i64, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations:\n    \
         argocd.argoproj.io/sync-wave: \"{wave}\"\n{more}data: {{a: b}}\n---\n"
    )
}

fn server(name: &str, wave: i64, ready_after: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n  annotations:\n    \
         argocd.argoproj.io/sync-wave: \"{wave}\"\n    sim.tidegate.dev/ready-after: {ready_after}\nspec:\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec: \
         {{containers: [{{name: main, image: busybox}}]}}\n---\n"
    )
}

fn hook(name: &str, phase: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations: {{argocd.argoproj.io/hook: \
         {phase}}}\nspec:\n  backoffLimit: 0\n  template:\n    spec: {{restartPolicy: Never, containers: [{{name: \
         main, image: busybox}}]}}\n---\n"
    )
}

fn definition(group: &str, wave: i64) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: widgets.{group}\n  \
         annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}\nspec:\n  group: {group}\n  scope: Namespaced\n  \
         names: {{kind: Widget, plural: widgets}}\n  versions:\n  - {{name: v1, served: true, storage: true, schema: \
         {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}\n---\n"
    )
}

fn widget(group: &str, name: &str, wave: i64, text: &str) -> String {
    format!(
        "apiVersion: {group}/v1\nkind: Widget\nmetadata:\n  name: {name}\n  annotations: \
         {{argocd.argoproj.io/sync-wave: \"{wave}\"}}\nspec: {{text: {text:?}}}\n---\n"
    )
}

fn everything() -> String {
    [
        hook("before", "PreSync"),
        config("a", 0, ""),
        server("api", 1, "3s"),
        config("b", 1, ""),
        hook("during", "Sync"),
        server("web", 2, "1s"),
        config("c", 3, ""),
        hook("after", "PostSync"),
    ]
    .concat()
}

/// An operation must survive outages of its API server and of etcd.
pub async fn an_operation_survives_outages_of_the_api_server_and_etcd() {
    let control = ControlPlane::start(Options::default()).unwrap();
    for (name, outage) in [("killed", Outage::Kill), ("paused", Outage::Pause)] {
        let bench = Bench::for_test(&control, name).await;
        let (id, view) = bench
            .run_with(&SyncSpec::new(&everything()), &mut Vec::new(), async |engine, id| {
                wait_until(engine, id, |view| {
                    view.waves.iter().any(|wave| wave.wave == 1 && wave.state == "AwaitingHealth")
                        || view.finished_at.is_some()
                })
                .await;
                outage.cause(&control).await;
            })
            .await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{name}: {} {:#?}", view.message, view.resources);
        let writes = bench.writes(id).await;
        for object in ["before", "a", "api", "b", "during", "web", "c", "after"] {
            let created = writes.0.iter().filter(|event| event.name == object && event.code == 201).count();
            assert_eq!(created, 1, "{name}: {object} is created once: {:#?}", writes.summaries());
        }
    }
}

#[derive(Clone, Copy)]
enum Outage {
    Kill,
    Pause,
}

impl Outage {
    async fn cause(self, control: &ControlPlane) {
        match self {
            Self::Kill => {
                control.kill_api_server();
                control.restart_api_server().unwrap();
            }
            Self::Pause => {
                control.pause_etcd().unwrap();
                // Wait for the duration of the outage.
                tokio::time::sleep(Duration::from_secs(10)).await;
                control.resume_etcd().unwrap();
            }
        }
    }
}

/// A binding with a changed role must be recreated in both apply modes, without other deletions.
pub async fn a_changed_binding_is_recreated() {
    let control = ControlPlane::shared();
    for flag in ["ServerSideApply=true", "ServerSideApply=false"] {
        let bench = Bench::for_test(control, "role").await;
        let binding = |role: &str, subject: &str| {
            SyncSpec::new(&format!(
                "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: readers}}\nroleRef: \
                 {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}\nsubjects: [{{apiGroup: \
                 rbac.authorization.k8s.io, kind: User, name: {subject}}}]\n"
            ))
            .with_request(|request| request.options.flags.push(flag.to_owned()))
        };
        for (role, subject, verbs) in
            [("view", "jane", &[""][..]), ("edit", "jane", &["delete"]), ("edit", "joe", &[""])]
        {
            let (id, view) = bench.run(&binding(role, subject)).await;
            assert_eq!(
                view.phase,
                OperationPhase::Succeeded,
                "{flag} {role}: {} {:?}",
                view.message,
                view.resources
            );
            let deletions: Vec<String> = bench
                .writes(id)
                .await
                .0
                .iter()
                .filter(|event| event.verb == "delete")
                .map(|event| event.verb.clone())
                .collect();
            let expected: Vec<&str> = verbs.iter().copied().filter(|verb| !verb.is_empty()).collect();
            assert_eq!(deletions, expected, "{flag} {role} {subject}");
            let place = format!(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings/readers",
                bench.namespace
            );
            let found = control.client(User::OBSERVER).get(&place).await.unwrap();
            assert_eq!(
                (&found["roleRef"]["name"], &found["subjects"][0]["name"]),
                (&json!(role), &json!(subject))
            );
        }
    }
}

/// If a pruned object never disappears, its wave must end at the deadline, as on the simulated cluster.
pub async fn a_stuck_finalizer_ends_its_wave_at_the_deadline() {
    let held = config("old", 0, "    sim.tidegate.dev/outcome: stuck-deleting\n");
    let next = [config("new", 0, "    tidegate.dev/wave-timeout: 10s\n"), config("later", 1, "")].concat();
    let setup_syncs = vec![SyncSpec::new(&[held, config("new", 0, "")].concat())];
    let sync = SyncSpec::new(&next).with_request(|request| request.options.prune = true);
    let (expected_phase, expected_message) = (OperationPhase::Failed, "did not complete within 10 s");
    golden::compare(Scenario {
        name: "finalizer",
        setup_syncs,
        sync,
        actions: Vec::new(),
        expected_phase,
        expected_message,
    })
    .await;
}

/// A terminating namespace rejects all new objects, so nothing may be written.
pub async fn a_terminating_namespace_accepts_no_write() {
    let control = ControlPlane::shared();
    let bench = Bench::for_test(control, "terminating").await;
    let (observer, place) =
        (control.client(User::OBSERVER), format!("/api/v1/namespaces/{}", bench.namespace));
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
    });
    observer.post(&format!("{place}/configmaps"), &held).await.unwrap();
    observer.delete(&place, &json!({})).await.unwrap();
    let (id, view) = bench.run(&SyncSpec::new(&[config("a", 0, ""), config("b", 1, "")].concat())).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    assert!(
        view.message.contains("is being deleted, but this operation writes objects to it"),
        "{}",
        view.message
    );
    assert_eq!(bench.writes(id).await.summaries(), [""; 0]);
    observer
        .patch(&format!("{place}/configmaps/held"), &json!({"metadata": {"finalizers": null}}))
        .await
        .unwrap();
    observer.wait_until(&place, |namespace| namespace.is_none()).await;
}

/// If a namespace is deleted after the last write, during a hook, the operation must fail. The message must
/// contain the namespace's name, even without permission to read namespaces.
pub async fn a_namespace_deleted_during_a_hook_fails_the_operation() {
    let control = ControlPlane::shared();
    let observer = control.client(User::OBSERVER);
    for limited in [false, true] {
        let namespace = control.create_namespace("going").await.unwrap();
        let rules = json!([
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
            {"apiGroups": ["", "batch"], "resources": ["configmaps", "jobs", "pods"], "verbs": ["*"]},
        ]);
        let user = control.create_limited_user(&[(Some(&namespace), rules)]).await.unwrap();
        let user = if limited { &user } else { User::ENGINE };
        let bench = Bench::new(control, namespace, user).await;
        let place = format!("/api/v1/namespaces/{}", bench.namespace);
        let annotation = "annotations: {sim.tidegate.dev/ready-after: 10m, ";
        let slow = hook("smoke", "PostSync").replace("annotations: {", annotation);
        let (_, view) = bench
            .run_with(
                &SyncSpec::new(&[config("a", 0, ""), slow].concat()),
                &mut Vec::new(),
                async |engine, id| {
                    wait_until(engine, id, |view| {
                        let waits =
                            |wave: &WaveView| wave.state == "AwaitingHealth" && wave.phase == Phase::PostSync;
                        view.waves.iter().any(waits) || view.finished_at.is_some()
                    })
                    .await;
                    observer.delete(&place, &json!({})).await.unwrap();
                },
            )
            .await;
        assert_eq!(view.phase, OperationPhase::Failed, "{limited}: {}", view.message);
        let text = format!("namespace {} is being deleted", bench.namespace);
        assert!(view.message.starts_with(&text), "{limited}: {} {:#?}", view.message, view.resources);
        observer.wait_until(&place, |namespace| namespace.is_none()).await;
    }
}

/// If a kind is deleted during the operation, only objects that need it may fail.
pub async fn a_definition_deleted_meanwhile_fails_only_its_objects() {
    let control = ControlPlane::shared();
    let bench = Bench::for_test(control, "definition").await;
    let group = format!("{}.example.com", bench.namespace);
    let all = [
        definition(&group, 0),
        widget(&group, "one", 0, ""),
        server("api", 1, "3s"),
        widget(&group, "two", 2, ""),
    ];
    let observer = control.client(User::OBSERVER);
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}");
    let (_, view) = bench
        .run_with(&SyncSpec::new(&all.concat()), &mut Vec::new(), async |engine, id| {
            wait_until(engine, id, |view| {
                view.waves.iter().any(|wave| wave.wave == 1 && wave.state == "AwaitingHealth")
                    || view.finished_at.is_some()
            })
            .await;
            observer.delete(&path, &json!({})).await.unwrap();
            observer.wait_until(&path, |definition| definition.is_none()).await;
        })
        .await;
    assert_eq!(view.phase, OperationPhase::Failed, "{} {:#?}", view.message, view.resources);
    let resource_result = view.resources.iter().find(|result| result.name == "two").unwrap();
    assert!(resource_result.message.contains("no matches for kind"), "{resource_result:#?}");
    let served = view.resources.iter().find(|result| result.name == "api").unwrap();
    assert!(served.status.is_some(), "{served:#?}");
}

/// Two objects are too large for the cluster. The dry run rejects one of them, and only the store rejects the
/// other.
pub async fn too_large_objects_are_reported() {
    let control = ControlPlane::shared();
    let bench = Bench::for_test(control, "large").await;
    let group = format!("{}.example.com", bench.namespace);
    let long = "x".repeat(1_600_000);
    let map = config("big", 1, "").replace("data: {a: b}", &format!("data: {{a: {long}}}"));
    let (id, view) = bench.run(&SyncSpec::new(&[config("a", 0, ""), map].concat())).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    let resource_result = view.resources.iter().find(|result| result.name == "big").unwrap();
    assert!(resource_result.message.contains("Too long"), "{}", resource_result.message);
    assert_eq!(bench.writes(id).await.summaries(), [""; 0], "nothing is partially done");
    bench.run(&SyncSpec::new(&definition(&group, 0))).await;
    let (_, view) =
        bench.run(&SyncSpec::new(&[config("a", 0, ""), widget(&group, "big", 1, &long)].concat())).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    let resource_result = view.resources.iter().find(|result| result.name == "big").unwrap();
    assert!(
        resource_result.message.contains("too large") && resource_result.message.contains("big"),
        "{}",
        resource_result.message
    );
}

/// API server 1.20 panics during the server-side apply of an APIService. Only that object may fail, and no
/// operation may wait forever.
pub async fn a_panic_of_the_server_fails_only_its_object() {
    let control = ControlPlane::shared();
    let bench = Bench::for_test(control, "given-up").await;
    let service = |more: &str| {
        let group = format!("{}.example.com", bench.namespace);
        let spec = "groupPriorityMinimum: 100, versionPriority: 10, service: {name: none, namespace: none}";
        format!(
            "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {{name: v1.{group}, annotations: \
             {{{more}}}}}\nspec: {{group: {group}, version: v1, {spec}}}\n---\n"
        )
    };
    // Use a dry run, because a group without a server would disturb the discovery of other groups.
    let attempt = |text: &str| SyncSpec::new(text).with_request(|request| request.options.dry_run = true);
    let (_, view) = bench.run(&attempt(&[config("a", 0, ""), service("")].concat())).await;
    if control.minor() <= 20 {
        assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
        let resource_result = view.resources.iter().find(|result| result.kind == "APIService").unwrap();
        assert!(resource_result.message.contains("set ServerSideApply=false"), "{}", resource_result.message);
    }
    let client_side = "argocd.argoproj.io/sync-options: ServerSideApply=false";
    let (_, view) = bench.run(&attempt(&service(client_side))).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
}

/// Without permission to write Secrets, the error must contain the missing permission, and nothing may be
/// written.
pub async fn missing_rights_prevent_all_writes() {
    let control = ControlPlane::shared();
    let namespace = control.create_namespace("rights").await.unwrap();
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]},
    ]);
    let user = control.create_limited_user(&[(Some(&namespace), rules)]).await.unwrap();
    let bench = Bench::new(control, namespace, &user).await;
    let secret =
        config("key", 1, "").replace("kind: ConfigMap", "kind: Secret").replace("\ndata:", "\nstringData:");
    let (id, view) = bench.run(&SyncSpec::new(&[config("a", 0, ""), secret].concat())).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    for word in ["forbidden", "patch", "secrets", &bench.namespace] {
        assert!(view.message.contains(word), "{word}: {}", view.message);
    }
    assert_eq!(bench.writes(id).await.summaries(), [""; 0], "nothing is partially done");
    let (_, view) = bench.run(&SyncSpec::new(&config("a", 0, ""))).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "it does what is permitted: {}", view.message);
}
