//! What goes wrong on real clusters.

use std::time::Duration;

use serde_json::json;
use tidegate_lifecycle::operation::WaveView;
use tidegate_model::{OperationPhase, Phase};
use tidegate_testkit::kube::{ControlPlane, Options, User};
use tidegate_testkit::scenario::{Scenario, Sync};

use crate::engine::{Bench, until};
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

/// An operation lives through the loss of its API server, and of the store behind it.
pub async fn the_api_server_dies_and_etcd_stands_still() {
    let control = ControlPlane::start(Options::default()).unwrap();
    for (name, outage) in [("killed", Outage::Kill), ("paused", Outage::Pause)] {
        let bench = Bench::of(&control, name).await;
        let (id, view) = bench
            .run_with(&Sync::of(&everything()), &mut Vec::new(), async |engine, id| {
                until(engine, id, |view| {
                    view.waves.iter().any(|wave| wave.wave == 1 && wave.state == "AwaitingHealth")
                        || view.finished_at.is_some()
                })
                .await;
                outage.strike(&control).await;
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
    async fn strike(self, control: &ControlPlane) {
        match self {
            Self::Kill => {
                control.kill_api_server();
                control.restart_api_server().unwrap();
            }
            Self::Pause => {
                control.pause_etcd().unwrap();
                // Not a wait for anything: the outage lasts ten seconds.
                tokio::time::sleep(Duration::from_secs(10)).await;
                control.resume_etcd().unwrap();
            }
        }
    }
}

/// A binding that gives another role now is made anew in both ways to apply, and nothing else is deleted.
pub async fn a_binding_gives_another_role() {
    let control = ControlPlane::shared();
    for flag in ["ServerSideApply=true", "ServerSideApply=false"] {
        let bench = Bench::of(control, "role").await;
        let binding = |role: &str, subject: &str| {
            Sync::of(&format!(
                "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: readers}}\nroleRef: \
                 {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}\nsubjects: [{{apiGroup: \
                 rbac.authorization.k8s.io, kind: User, name: {subject}}}]\n"
            ))
            .with(|request| request.options.flags.push(flag.to_owned()))
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
            let found = control.caller(User::OBSERVER).get(&place).await.unwrap();
            assert_eq!(
                (&found["roleRef"]["name"], &found["subjects"][0]["name"]),
                (&json!(role), &json!(subject))
            );
        }
    }
}

/// What is pruned and never goes ends its wave when the wave's time is over, as on the simulated cluster.
pub async fn a_finalizer_never_clears() {
    let held = config("old", 0, "    sim.tidegate.dev/outcome: stuck-deleting\n");
    let next = [config("new", 0, "    tidegate.dev/wave-timeout: 10s\n"), config("later", 1, "")].concat();
    let before = vec![Sync::of(&[held, config("new", 0, "")].concat())];
    let sync = Sync::of(&next).with(|request| request.options.prune = true);
    let (ends, says) = (OperationPhase::Failed, "did not pass within 10 s");
    golden::compare(Scenario { name: "finalizer", before, sync, script: Vec::new(), ends, says }).await;
}

/// A namespace that is going takes nothing, and nothing is half done.
pub async fn a_namespace_is_terminating() {
    let control = ControlPlane::shared();
    let bench = Bench::of(control, "terminating").await;
    let (observer, place) =
        (control.caller(User::OBSERVER), format!("/api/v1/namespaces/{}", bench.namespace));
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
    });
    observer.post(&format!("{place}/configmaps"), &held).await.unwrap();
    observer.delete(&place, &json!({})).await.unwrap();
    let (id, view) = bench.run(&Sync::of(&[config("a", 0, ""), config("b", 1, "")].concat())).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    assert!(
        view.message.contains("is being deleted, and objects of this operation go into it"),
        "{}",
        view.message
    );
    assert_eq!(bench.writes(id).await.summaries(), [""; 0]);
    observer
        .patch(&format!("{place}/configmaps/held"), &json!({"metadata": {"finalizers": null}}))
        .await
        .unwrap();
    observer.until(&place, |namespace| namespace.is_none()).await;
}

/// A namespace that begins to go after the last write, while a hook still runs there, fails the operation by its name; for
/// whoever may see it in one way or another.
pub async fn a_namespace_goes_while_the_operation_runs() {
    let control = ControlPlane::shared();
    let observer = control.caller(User::OBSERVER);
    for limited in [false, true] {
        let namespace = control.namespace("going").await.unwrap();
        let rules = json!([
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
            {"apiGroups": ["", "batch"], "resources": ["configmaps", "jobs", "pods"], "verbs": ["*"]},
        ]);
        let user = control.limited_user(&[(Some(&namespace), rules)]).await.unwrap();
        let user = if limited { &user } else { User::ENGINE };
        let bench = Bench::new(control, namespace, user).await;
        let place = format!("/api/v1/namespaces/{}", bench.namespace);
        let annotation = "annotations: {sim.tidegate.dev/ready-after: 10m, ";
        let slow = hook("smoke", "PostSync").replace("annotations: {", annotation);
        let (_, view) = bench
            .run_with(&Sync::of(&[config("a", 0, ""), slow].concat()), &mut Vec::new(), async |engine, id| {
                until(engine, id, |view| {
                    let waits =
                        |wave: &WaveView| wave.state == "AwaitingHealth" && wave.phase == Phase::PostSync;
                    view.waves.iter().any(waits) || view.finished_at.is_some()
                })
                .await;
                observer.delete(&place, &json!({})).await.unwrap();
            })
            .await;
        assert_eq!(view.phase, OperationPhase::Failed, "{limited}: {}", view.message);
        let words = format!("namespace {} is being deleted", bench.namespace);
        assert!(view.message.starts_with(&words), "{limited}: {} {:#?}", view.message, view.resources);
        observer.until(&place, |namespace| namespace.is_none()).await;
    }
}

/// A kind that goes away during the operation fails what needs it, and only that.
pub async fn a_definition_is_deleted_meanwhile() {
    let control = ControlPlane::shared();
    let bench = Bench::of(control, "definition").await;
    let group = format!("{}.example.com", bench.namespace);
    let all = [
        definition(&group, 0),
        widget(&group, "one", 0, ""),
        server("api", 1, "3s"),
        widget(&group, "two", 2, ""),
    ];
    let observer = control.caller(User::OBSERVER);
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}");
    let (_, view) = bench
        .run_with(&Sync::of(&all.concat()), &mut Vec::new(), async |engine, id| {
            until(engine, id, |view| {
                view.waves.iter().any(|wave| wave.wave == 1 && wave.state == "AwaitingHealth")
                    || view.finished_at.is_some()
            })
            .await;
            observer.delete(&path, &json!({})).await.unwrap();
            observer.until(&path, |definition| definition.is_none()).await;
        })
        .await;
    assert_eq!(view.phase, OperationPhase::Failed, "{} {:#?}", view.message, view.resources);
    let told = view.resources.iter().find(|result| result.name == "two").unwrap();
    assert!(told.message.contains("no matches for kind"), "{told:#?}");
    let served = view.resources.iter().find(|result| result.name == "api").unwrap();
    assert!(served.status.is_some(), "{served:#?}");
}

/// Objects that are too large for the cluster: one that the dry run refuses, one that only the store refuses.
pub async fn objects_are_too_large() {
    let control = ControlPlane::shared();
    let bench = Bench::of(control, "large").await;
    let group = format!("{}.example.com", bench.namespace);
    let long = "x".repeat(1_600_000);
    let map = config("big", 1, "").replace("data: {a: b}", &format!("data: {{a: {long}}}"));
    let (id, view) = bench.run(&Sync::of(&[config("a", 0, ""), map].concat())).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    let told = view.resources.iter().find(|result| result.name == "big").unwrap();
    assert!(told.message.contains("Too long"), "{}", told.message);
    assert_eq!(bench.writes(id).await.summaries(), [""; 0], "nothing is half done");
    bench.run(&Sync::of(&definition(&group, 0))).await;
    let (_, view) =
        bench.run(&Sync::of(&[config("a", 0, ""), widget(&group, "big", 1, &long)].concat())).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    let told = view.resources.iter().find(|result| result.name == "big").unwrap();
    assert!(told.message.contains("too large") && told.message.contains("big"), "{}", told.message);
}

/// The API server 1.20 panics at server-side apply of an APIService: that object fails, and nothing waits for ever.
pub async fn a_request_that_the_server_gives_up() {
    let control = ControlPlane::shared();
    let bench = Bench::of(control, "given-up").await;
    let service = |more: &str| {
        let group = format!("{}.example.com", bench.namespace);
        let spec = "groupPriorityMinimum: 100, versionPriority: 10, service: {name: none, namespace: none}";
        format!(
            "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {{name: v1.{group}, annotations: \
             {{{more}}}}}\nspec: {{group: {group}, version: v1, {spec}}}\n---\n"
        )
    };
    // Only tried: a group that nobody serves would disturb the discovery of others.
    let attempt = |text: &str| Sync::of(text).with(|request| request.options.dry_run = true);
    let (_, view) = bench.run(&attempt(&[config("a", 0, ""), service("")].concat())).await;
    if control.minor() <= 20 {
        assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
        let told = view.resources.iter().find(|result| result.kind == "APIService").unwrap();
        assert!(told.message.contains("ServerSideApply=false avoids that"), "{}", told.message);
    }
    let client_side = "argocd.argoproj.io/sync-options: ServerSideApply=false";
    let (_, view) = bench.run(&attempt(&service(client_side))).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
}

/// A user who may not write Secrets is told which right is missing, and nothing is half done.
pub async fn rights_are_missing() {
    let control = ControlPlane::shared();
    let namespace = control.namespace("rights").await.unwrap();
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]},
    ]);
    let user = control.limited_user(&[(Some(&namespace), rules)]).await.unwrap();
    let bench = Bench::new(control, namespace, &user).await;
    let secret =
        config("key", 1, "").replace("kind: ConfigMap", "kind: Secret").replace("\ndata:", "\nstringData:");
    let (id, view) = bench.run(&Sync::of(&[config("a", 0, ""), secret].concat())).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    for word in ["forbidden", "patch", "secrets", &bench.namespace] {
        assert!(view.message.contains(word), "{word}: {}", view.message);
    }
    assert_eq!(bench.writes(id).await.summaries(), [""; 0], "nothing is half done");
    let (_, view) = bench.run(&Sync::of(&config("a", 0, ""))).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "what it may do, it does: {}", view.message);
}
