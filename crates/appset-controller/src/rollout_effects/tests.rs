//! Rollouts of managed Applications. The cluster's audit log shows the operations, their order and their
//! number.

use std::path::PathBuf;

use ractor::{Actor, ActorProcessingErr};
use serde_json::{Value, json};
use tidegate_applicationset::rollout::{RolloutStepDue, next_rollout_step, rollout_request as ask};
use tidegate_cluster::{Cluster as _, DeleteRequest};
use tidegate_executor::{Engine, GateRequest, RunningMachine};
use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{End, MemberStatus, Options, Request, Stage, UserRequest};
use tidegate_model::argo::{self, Application, ApplicationSet, RevisionHistory};
use tidegate_model::{Gvk, HealthStatus};
use tidegate_testkit::tools;
use tokio::sync::watch;

use super::*;
use crate::applications::testing::{ExtraGates, TEST_TIMEOUT, TestEnvironment, application, manifests};
use crate::member_status::{MemberStatusCache, ObservedAppSet};

/// Returns an ApplicationSet with one step for dev and one step for prod.
fn sample_appset(annotation: Option<&str>) -> ApplicationSet {
    let step = |env: &str| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [env]}]});
    let mut set: Value = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "fleet", "namespace": "argocd", "uid": "u-fleet"},
        "spec": {
            "generators": [], "template": {"metadata": {}, "spec": {"project": "", "destination": {}}},
            "strategy": {"type": "RollingSync", "rollingSync": {"steps": [step("dev"), step("prod")]}},
        },
    });
    if let Some(text) = annotation {
        set["metadata"]["annotations"] = json!({"tidegate.dev/rollout": text});
    }
    serde_json::from_value(set).unwrap()
}

/// Returns the Applications `a` (dev) and `b` (prod).
fn generated_applications() -> Vec<Application> {
    let of = |(name, env): (&str, &str)| {
        let mut one = application(name);
        one.metadata.labels.insert("env".to_owned(), env.to_owned());
        one
    };
    [("a", "dev"), ("b", "prod")].map(of).to_vec()
}

/// A running rollout and its state.
struct RunningRollout {
    rollout: RunningMachine<ProgressiveSync>,
    changes: watch::Receiver<State>,
}

impl RunningRollout {
    async fn await_state<T>(&mut self, mut find: impl FnMut(&Rollout) -> Option<T>) -> T {
        // `on_change` doesn't report state from before this engine started.
        let state = self.rollout.state().await.unwrap();
        if let Some(found) = state.rollout().and_then(&mut find) {
            return found;
        }
        let looking = self.changes.wait_for(|state| state.rollout().and_then(&mut find).is_some());
        let state = tokio::time::timeout(TEST_TIMEOUT, looking).await.unwrap().unwrap().clone();
        state.rollout().and_then(find).unwrap()
    }

    async fn await_end(&self) -> State {
        let over = tokio::time::timeout(TEST_TIMEOUT, self.rollout.wait_until_over()).await;
        let state = self.rollout.state().await.unwrap();
        assert!(over.is_ok(), "{state:#?}");
        state
    }
}

async fn start_rollout(
    environment: &TestEnvironment,
    set: &ApplicationSet,
    id: OperationId,
    request: Option<Request>,
) -> RunningRollout {
    let (tell, changes) = watch::channel(State::New);
    let parts = RolloutContext {
        shared: environment.shared(),
        applications: environment.supervisor(),
        set: AppKey { namespace: "argocd".to_owned(), name: "fleet".to_owned() },
        id: id.into(),
        targets: Arc::new(TargetIdentities::from_appset(set).unwrap()),
        prunes: PruningApplications::default(),
        same: RevisionEquivalence::default(),
        on_change: Arc::new(move |state| drop(tell.send_replace(state.clone()))),
    };
    let input = request.map(|request| Input::Begin(Box::new(request)));
    let work = move || RolloutEffects::new(parts.clone());
    let engine: &Engine = &environment.engine;
    RunningRollout { rollout: engine.run_machine(id, input, work).await.unwrap(), changes }
}

async fn next_step(
    environment: &TestEnvironment,
    standings: &mut MemberStatusCache,
    set: &ApplicationSet,
    last: Option<&State>,
) -> RolloutStepDue {
    let (targets, generated) = (TargetIdentities::from_appset(set).unwrap(), generated_applications());
    let key = AppKey { namespace: "argocd".to_owned(), name: "fleet".to_owned() };
    let shared = environment.shared();
    let mut changes = shared.application_cache.subscribe();
    loop {
        let observed = ObservedAppSet { key: &key, targets: &targets, last };
        let found = standings.collect(&shared, observed, &generated, true).await;
        if found.unknown.is_empty() {
            let request = ask(set, &targets, &generated, &found.members, Options::default()).unwrap();
            return next_rollout_step(request, last, false);
        }
        tokio::time::timeout(TEST_TIMEOUT, changes.recv()).await.unwrap().unwrap();
    }
}

fn expect_request(due: RolloutStepDue) -> Request {
    let RolloutStepDue::Start(request) = due else { panic!("{due:?}") };
    *request
}

async fn start_environment(migrates: &str) -> TestEnvironment {
    start_environment_with_gates(migrates, ExtraGates::default()).await
}

fn history(app: Application) -> Option<Vec<RevisionHistory>> {
    Some(app.status.history).filter(|history| !history.is_empty())
}

async fn start_environment_with_gates(migrates: &str, gates: ExtraGates) -> TestEnvironment {
    let [a, b] = ["a", "b"].map(|name| manifests(name, "1", migrates));
    TestEnvironment::with_gates(&[("a", &a), ("b", &b)], gates).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_reach_one_commit_step_by_step_and_nothing_else_starts() {
    let mut environment = start_environment("20ms").await;
    let (set, mut standings) = (sample_appset(None), MemberStatusCache::default());
    let request = expect_request(next_step(&environment, &mut standings, &set, None).await);
    let id = environment.next_id().await;
    // A commit after the rollout's request isn't part of the rollout.
    environment.commit("b", &manifests("b", "2", "20ms"));
    let state = start_rollout(&environment, &set, id, Some(request.clone())).await.await_end().await;
    let rollout = state.rollout().unwrap();
    assert_eq!(rollout.outcome.as_ref().unwrap().end, End::Completed, "{rollout:?}");
    let ran = environment.operations().await;
    let names: Vec<&str> = ran.iter().map(|one| one.application.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(ran[0].finished_at.unwrap() <= ran[1].started_at);
    let created: Vec<OperationId> = ran.iter().map(|one| one.operation).collect();
    assert_eq!(
        (environment.operations_that_created("Job"), environment.operations_that_created("ConfigMap")),
        (created.clone(), created)
    );
    for (name, spec) in request.members.iter().map(|one| (&one.name, &one.target)) {
        let history = environment.until_persisted(name, history).await;
        assert_eq!(
            history.iter().map(|one| &one.revision).collect::<Vec<_>>(),
            [&spec.revisions[0]],
            "{name}"
        );
    }
    // The newer commit causes another rollout. After that, nothing else starts, even after a restart.
    let next = expect_request(next_step(&environment, &mut standings, &set, Some(&state)).await);
    assert_ne!(next.targets, request.targets);
    let id = environment.next_id().await;
    let state = start_rollout(&environment, &set, id, Some(next)).await.await_end().await;
    assert_eq!(next_step(&environment, &mut standings, &set, Some(&state)).await, RolloutStepDue::Nothing);
    environment.restart().await;
    assert_eq!(
        next_step(&environment, &mut MemberStatusCache::default(), &set, Some(&state)).await,
        RolloutStepDue::Nothing
    );
    assert_eq!(environment.operations().await.len(), 3, "the second commit is about b alone");
    environment.shutdown().await;
}

/// Returns the members that have work to do.
fn members_to_sync(request: &Request) -> Vec<&str> {
    let open = request.members.iter().filter(|member| member.done_by.is_none());
    open.map(|member| member.name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unrelated_commit_neither_supersedes_nor_starts_a_rollout() {
    let mut environment = start_environment("20ms").await;
    let set = sample_appset(Some("steps: [{step: 2, gates: [approval]}]"));
    let mut standings = MemberStatusCache::default();
    let request = expect_request(next_step(&environment, &mut standings, &set, None).await);
    let id = environment.next_id().await;
    let mut at_work = start_rollout(&environment, &set, id, Some(request)).await;
    let is_held = |rollout: &Rollout| (rollout.stage == Stage::Held { step: 1 }).then_some(());
    at_work.await_state(is_held).await;
    environment.commit("elsewhere", "");
    let held = at_work.rollout.state().await.unwrap();
    assert_eq!(next_step(&environment, &mut standings, &set, Some(&held)).await, RolloutStepDue::Nothing);
    environment.restart().await;
    let mut standings = MemberStatusCache::default();
    let mut at_work = start_rollout(&environment, &set, id, None).await;
    at_work.await_state(is_held).await;
    assert_eq!(next_step(&environment, &mut standings, &set, Some(&held)).await, RolloutStepDue::Nothing);
    let approve = Input::UserRequest {
        request: UserRequest::Approve { step: None },
        by: "ann".to_owned(),
        reason: String::new(),
    };
    at_work.rollout.request(approve).await.unwrap();
    let state = at_work.await_end().await;
    assert_eq!(state.rollout().unwrap().outcome.as_ref().unwrap().end, End::Completed);
    assert_eq!(environment.operations().await.len(), 2);
    // After the rollout, an unrelated commit doesn't start another one either, even if a user syncs an
    // Application to that commit.
    let elsewhere = environment.commit("elsewhere", "# more");
    assert_eq!(next_step(&environment, &mut standings, &set, Some(&state)).await, RolloutStepDue::Nothing);
    environment.sync("a").await;
    let is_there = |deployed: &tidegate_application::machine::Deployments| {
        let evidence = deployed.evidence.as_ref();
        evidence.is_some_and(|done| done.revisions == [elsewhere.as_str()]).then_some(())
    };
    environment.wait_until("a", |_, deployed| is_there(deployed)).await;
    assert_eq!(next_step(&environment, &mut standings, &set, Some(&state)).await, RolloutStepDue::Nothing);
    assert_eq!(
        next_step(&environment, &mut MemberStatusCache::default(), &set, Some(&state)).await,
        RolloutStepDue::Nothing
    );
    // A change to one Application's manifests only affects that Application.
    environment.commit("b", &manifests("b", "2", "20ms"));
    let next = expect_request(next_step(&environment, &mut standings, &set, Some(&state)).await);
    assert_eq!(members_to_sync(&next), ["b"]);
    assert!(matches!(
        next_step(&environment, &mut standings, &set, Some(&held)).await,
        RolloutStepDue::SendInputs(_)
    ));
    environment.shutdown().await;
}

/// A member's files change. Tidegate can't compare the manifests, because a program is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_that_cannot_be_compared_supersede_nothing() {
    let mut environment = start_environment("20ms").await;
    let chart = |environment: &TestEnvironment, remark: &str, value: &str| {
        let map = format!(
            "# {remark}\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: chart}}, data: {{value: {value}}}}}\n"
        );
        let chart = "{apiVersion: v2, name: b, version: 0.1.0}";
        environment.commit_files("b", &[("Chart.yaml", chart), ("templates/map.yaml", &map)])
    };
    chart(&environment, "one", "a");
    environment.with_helm(PathBuf::from("/nonexistent/helm"), false).await;
    let set = sample_appset(Some("steps: [{step: 2, gates: [approval]}]"));
    let request =
        expect_request(next_step(&environment, &mut MemberStatusCache::default(), &set, None).await);
    let id = environment.next_id().await;
    let mut at_work = start_rollout(&environment, &set, id, Some(request)).await;
    let is_held = |rollout: &Rollout| (rollout.stage == Stage::Held { step: 1 }).then_some(());
    at_work.await_state(is_held).await;
    let held = at_work.rollout.state().await.unwrap();
    chart(&environment, "two", "a");
    for restarts in [false, true] {
        if restarts {
            environment.restart().await;
        }
        let mut standings = MemberStatusCache::default();
        assert_eq!(next_step(&environment, &mut standings, &set, Some(&held)).await, RolloutStepDue::Nothing);
        // Each pass compares the manifests again, and its result explains why they can't be compared.
        let targets = TargetIdentities::from_appset(&set).unwrap();
        let key = AppKey { namespace: "argocd".to_owned(), name: "fleet".to_owned() };
        let observed = ObservedAppSet { key: &key, targets: &targets, last: Some(&held) };
        let found =
            standings.collect(&environment.shared(), observed, &generated_applications(), false).await;
        assert_eq!(found.awaited.keys().collect::<Vec<_>>(), ["b"]);
        assert!(found.awaited["b"].contains("helm was not found"), "{:?}", found.awaited);
    }
    if let Some(helm) = tools::helm() {
        environment.with_helm(helm, false).await;
        let mut standings = MemberStatusCache::default();
        assert_eq!(next_step(&environment, &mut standings, &set, Some(&held)).await, RolloutStepDue::Nothing);
        chart(&environment, "two", "b");
        let due = next_step(&environment, &mut standings, &set, Some(&held)).await;
        assert!(matches!(due, RolloutStepDue::SendInputs(_)), "{due:?}");
    }
    environment.shutdown().await;
}

/// Returns a hook, and a Deployment that takes a while to become ready.
fn slow_manifests(name: &str) -> String {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
        "name": format!("slow-{name}"), "annotations": {"sim.tidegate.dev/ready-after": "3s"},
    }, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
        "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "a", "image": "a"}]},
    }}});
    format!("{}\n---\n{deployment}\n", manifests(name, "1", "20ms"))
}

/// Syncs `b` as a user would, until it is Synced but not yet Healthy.
async fn sync_manually(environment: &TestEnvironment) {
    environment.sync("b").await;
    let is_progressing = |now: &Application, deployed: &tidegate_application::machine::Deployments| {
        let health = now.status.health.as_ref().map(|health| health.status);
        let is_synced =
            now.status.sync.as_ref().is_some_and(|sync| sync.status == argo::SyncStatusCode::Synced);
        let is_it = deployed.evidence.is_some() && is_synced && now.operation.is_none();
        (is_it && health == Some(HealthStatus::Progressing)).then_some(())
    };
    environment.wait_until("b", is_progressing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_a_person_synced_to_its_target_is_awaited_not_synced() {
    for is_before in [true, false] {
        let mut environment =
            TestEnvironment::new(&[("a", &manifests("a", "1", "20ms")), ("b", &slow_manifests("b"))]).await;
        let set = sample_appset(Some("steps: [{step: 2, gates: [approval]}]"));
        if is_before {
            sync_manually(&environment).await;
        }
        let request =
            expect_request(next_step(&environment, &mut MemberStatusCache::default(), &set, None).await);
        let id = environment.next_id().await;
        let mut at_work = start_rollout(&environment, &set, id, Some(request)).await;
        let is_held = |rollout: &Rollout| (rollout.stage == Stage::Held { step: 1 }).then_some(());
        at_work.await_state(is_held).await;
        if !is_before {
            sync_manually(&environment).await;
        }
        let approve = Input::UserRequest {
            request: UserRequest::Approve { step: None },
            by: "ann".to_owned(),
            reason: String::new(),
        };
        at_work.rollout.request(approve).await.unwrap();
        let adopted = |rollout: &Rollout| match rollout.members["b"].progress {
            Progress::Settling { operation, adopted: true } => Some(operation),
            _ => None,
        };
        let by_hand = at_work.await_state(adopted).await;
        let state = at_work.await_end().await;
        let rollout = state.rollout().unwrap();
        assert_eq!(rollout.outcome.as_ref().unwrap().end, End::Completed, "{rollout:?}");
        assert_eq!(rollout.members["b"].progress, Progress::Healthy { operation: by_hand });
        let ran: Vec<String> =
            environment.operations().await.into_iter().map(|one| one.application).collect();
        assert_eq!(ran, if is_before { ["b", "a"] } else { ["a", "b"] });
        assert_eq!(environment.operations_that_created("Job").len(), 2, "each hook ran once");
        environment.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_drifted_after_a_manual_sync_is_synced_again() {
    let mut environment =
        TestEnvironment::new(&[("a", &manifests("a", "1", "20ms")), ("b", &slow_manifests("b"))]).await;
    let set = sample_appset(Some("steps: [{step: 2, gates: [approval]}]"));
    let request =
        expect_request(next_step(&environment, &mut MemberStatusCache::default(), &set, None).await);
    let id = environment.next_id().await;
    let mut at_work = start_rollout(&environment, &set, id, Some(request)).await;
    let is_held = |rollout: &Rollout| (rollout.stage == Stage::Held { step: 1 }).then_some(());
    at_work.await_state(is_held).await;
    sync_manually(&environment).await;
    let gvk = Gvk::new("", "v1", "ConfigMap");
    let settings = environment.sim.get(&gvk, "web", "settings-b").await.unwrap().unwrap();
    environment.sim.delete(DeleteRequest::for_object(&settings)).await.unwrap();
    environment
        .wait_until("b", |now, _| {
            let sync = now.status.sync.as_ref()?;
            (sync.status == argo::SyncStatusCode::OutOfSync).then_some(())
        })
        .await;
    let approve = Input::UserRequest {
        request: UserRequest::Approve { step: None },
        by: "ann".to_owned(),
        reason: String::new(),
    };
    at_work.rollout.request(approve).await.unwrap();
    let state = at_work.await_end().await;
    assert_eq!(state.rollout().unwrap().outcome.as_ref().unwrap().end, End::Completed);
    assert_eq!(environment.operations().await.len(), 3);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_resumes_the_same_operation_and_a_termination_stops_it() {
    let mut environment = start_environment("1h").await;
    let (set, mut standings) = (sample_appset(None), MemberStatusCache::default());
    let request = expect_request(next_step(&environment, &mut standings, &set, None).await);
    let id = environment.next_id().await;
    let mut at_work = start_rollout(&environment, &set, id, Some(request)).await;
    let runs = |rollout: &Rollout| match rollout.members["a"].progress {
        tidegate_lifecycle::rollout::Progress::Running { operation } => Some(operation),
        _ => None,
    };
    let operation = at_work.await_state(runs).await;
    environment.restart().await;
    let mut at_work = start_rollout(&environment, &set, id, None).await;
    assert_eq!(at_work.await_state(runs).await, operation);
    let terminate =
        Input::UserRequest { request: UserRequest::Terminate, by: "ann".to_owned(), reason: String::new() };
    at_work.rollout.request(terminate).await.unwrap();
    let state = at_work.await_end().await;
    assert_eq!(state.rollout().unwrap().outcome.as_ref().unwrap().end, End::Terminated);
    let ran = environment.operations().await;
    assert_eq!((ran.len(), ran[0].operation, ran[0].finished_at.is_some()), (1, operation, true));
    assert_eq!(environment.operations_that_created("Job"), [operation]);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_starts_before_the_application_matches_what_is_generated() {
    let mut environment = start_environment("20ms").await;
    environment.commit("moved", &manifests("a", "2", "20ms"));
    let (set, mut standings) = (sample_appset(None), MemberStatusCache::default());
    let mut request = expect_request(next_step(&environment, &mut standings, &set, None).await);
    let mut moved = application("a");
    moved.spec.source.as_mut().unwrap().path = "moved".to_owned();
    request.members[0].target.spec = TargetIdentities::from_appset(&set).unwrap().spec_identity(&moved);
    let id = environment.next_id().await;
    let mut at_work = start_rollout(&environment, &set, id, Some(request)).await;
    at_work
        .await_state(|rollout| (rollout.members["a"].status() == MemberStatus::Pending).then_some(()))
        .await;
    environment.write(&moved);
    let state = at_work.await_end().await;
    assert_eq!(state.rollout().unwrap().outcome.as_ref().unwrap().end, End::Completed);
    let history = environment.until_persisted("a", history).await;
    let paths: Vec<&str> = history.iter().map(|one| one.source.as_ref().unwrap().path.as_str()).collect();
    assert_eq!(paths, ["moved"]);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undefined_gate_keeps_a_step_closed_and_is_reported() {
    for (gate, expected) in [
        ("nobody", "no gate named nobody is registered"),
        (
            "window:night",
            "gate window:night is not defined; define it in the file passed to `tidegate serve --gates`",
        ),
        ("concurrency:db", "limits operations, not steps"),
    ] {
        let mut environment = start_environment("20ms").await;
        let set = sample_appset(Some(&format!("steps: [{{step: 2, gates: ['{gate}']}}]")));
        let request =
            expect_request(next_step(&environment, &mut MemberStatusCache::default(), &set, None).await);
        let id = environment.next_id().await;
        let mut at_work = start_rollout(&environment, &set, id, Some(request)).await;
        let verdict = at_work.await_state(|rollout| match &rollout.gates.first()?.verdict {
            Verdict::Closed { reason, .. } => Some(reason.clone()),
            Verdict::Open => Some("open".to_owned()),
        });
        let verdict = verdict.await;
        assert!(verdict.contains(expected), "{gate}: {verdict}");
        let ran: Vec<String> =
            environment.operations().await.into_iter().map(|one| one.application).collect();
        assert_eq!(ran, ["a"], "{gate}: the step before was not held");
        at_work.rollout.stop().await;
        environment.shutdown().await;
    }
}

/// A gate that always opens and reports its requests.
struct OpenGate;

impl Actor for OpenGate {
    type Msg = GateRequest;
    type State = mpsc::UnboundedSender<GateRequest>;
    type Arguments = mpsc::UnboundedSender<GateRequest>;

    async fn pre_start(
        &self,
        _: ActorRef<GateRequest>,
        tell: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(tell)
    }

    async fn handle(
        &self,
        _: ActorRef<GateRequest>,
        question: GateRequest,
        tell: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        question.reply.send(Verdict::Open);
        Ok(tell.send(question)?)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_gates_and_registered_gates_are_queried_about_the_step() {
    let (sender, mut reports) = mpsc::unbounded_channel();
    let (porter, _) = Actor::spawn(None, OpenGate, sender).await.unwrap();
    let never = "windows: {never: [{kind: deny, schedule: '* * * * *', duration: 2m, manualSync: true}]}";
    let gates = ExtraGates { file: Some(never), actor: Some(("porter", porter)) };
    let mut environment = start_environment_with_gates("20ms", gates).await;
    let set = sample_appset(Some("steps: [{step: 2, gates: ['porter', 'window:never']}]"));
    let request =
        expect_request(next_step(&environment, &mut MemberStatusCache::default(), &set, None).await);
    let id = environment.next_id().await;
    let mut at_work = start_rollout(&environment, &set, id, Some(request)).await;
    let answers =
        at_work.await_state(|rollout| (rollout.gates.len() == 2).then(|| rollout.gates.clone())).await;
    let verdict = |gate: &str| answers.iter().find(|one| one.gate == gate).unwrap().verdict.clone();
    assert_eq!(verdict("porter"), Verdict::Open);
    let Verdict::Closed { reason, .. } = verdict("window:never") else { panic!("open") };
    assert!(reason.starts_with("sync window never denies syncs"), "{reason}");
    let question = reports.recv().await.unwrap();
    assert_eq!(
        (question.operation, question.application.as_str(), question.wave),
        (id, "argocd/fleet", 2),
        "the step, from 1"
    );
    at_work.rollout.stop().await;
    environment.shutdown().await;
}

#[test]
fn pruning_happens_only_for_applications_generated_with_it() {
    let of = |name: &str, automated: Value| {
        let mut one = application(name);
        one.spec.sync_policy = serde_json::from_value(json!({"automated": automated})).unwrap();
        one
    };
    let generated = [
        of("prunes", json!({"prune": true})),
        of("off", json!({"prune": true, "enabled": false})),
        of("keeps", json!({})),
        application("manual"),
    ];
    let prunes = PruningApplications::default();
    // A process that resumes a rollout has only the stored Applications until the first pass.
    assert_eq!(generated.each_ref().map(|one| prunes.contains(one)), [true, true, false, false]);
    prunes.set(&generated);
    assert_eq!(generated.each_ref().map(|one| prunes.contains(one)), [true, false, false, false]);
}
