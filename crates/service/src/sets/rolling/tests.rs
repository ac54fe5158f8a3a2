//! Rollouts at work on Applications that are served: what is begun, in which order, and how often. The audit of the cluster
//! says it.

use ractor::{Actor, ActorProcessingErr};
use serde_json::{Value, json};
use tidegate_applicationset::rollout::{Due, due, request as ask};
use tidegate_executor::{Engine, GateQuestion, Running};
use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{End, MemberStatus, Options, Request, Wish};
use tidegate_model::argo::{Application, ApplicationSet, RevisionHistory};
use tokio::sync::watch;

use super::*;
use crate::applications::testing::{Gates, LIMIT, Served, application, manifests};
use crate::sets::standing::Standings;

/// A set with a step for dev and one for prod.
fn fleet(annotation: Option<&str>) -> ApplicationSet {
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

/// `a` is of dev, `b` of prod.
fn generated() -> Vec<Application> {
    let of = |(name, env): (&str, &str)| {
        let mut one = application(name);
        one.metadata.labels.insert("env".to_owned(), env.to_owned());
        one
    };
    [("a", "dev"), ("b", "prod")].map(of).to_vec()
}

/// A rollout that is at work, and how it stands.
struct AtWork {
    rollout: Running<Progressive>,
    moved: watch::Receiver<State>,
}

impl AtWork {
    async fn until<T>(&mut self, mut find: impl FnMut(&Rollout) -> Option<T>) -> T {
        // What was durable before this engine is told to nobody.
        let state = self.rollout.state().await.unwrap();
        if let Some(found) = state.rollout().and_then(&mut find) {
            return found;
        }
        let looking = self.moved.wait_for(|state| state.rollout().and_then(&mut find).is_some());
        let state = tokio::time::timeout(LIMIT, looking).await.unwrap().unwrap().clone();
        state.rollout().and_then(find).unwrap()
    }

    async fn over(&self) -> State {
        let over = tokio::time::timeout(LIMIT, self.rollout.over()).await;
        let state = self.rollout.state().await.unwrap();
        assert!(over.is_ok(), "{state:#?}");
        state
    }
}

async fn begin(served: &Served, set: &ApplicationSet, id: OperationId, request: Option<Request>) -> AtWork {
    let (tell, moved) = watch::channel(State::New);
    let parts = RollingParts {
        shared: served.shared(),
        applications: served.supervisor(),
        set: AppKey { namespace: "argocd".to_owned(), name: "fleet".to_owned() },
        id: id.into(),
        targets: Arc::new(Targets::of(set).unwrap()),
        prunes: Prunes::default(),
        moved: Arc::new(move |state| drop(tell.send_replace(state.clone()))),
    };
    let input = request.map(|request| Input::Begin(Box::new(request)));
    let work = move || Rolling::new(parts.clone());
    let engine: &Engine = &served.engine;
    AtWork { rollout: engine.run_machine(id, input, work).await.unwrap(), moved }
}

/// What follows for the set now.
async fn follows(
    served: &Served,
    standings: &mut Standings,
    set: &ApplicationSet,
    last: Option<&State>,
) -> Due {
    let (targets, generated) = (Targets::of(set).unwrap(), generated());
    let key = AppKey { namespace: "argocd".to_owned(), name: "fleet".to_owned() };
    let shared = served.shared();
    let mut changes = shared.board.changes();
    loop {
        let found = standings.find(&shared, (&key, &targets), &generated, last, true).await;
        if found.unknown.is_empty() {
            let request = ask(set, &targets, &generated, &found.standing, Options::default()).unwrap();
            return due(request, last, false);
        }
        tokio::time::timeout(LIMIT, changes.recv()).await.unwrap().unwrap();
    }
}

fn asked(due: Due) -> Request {
    let Due::Begin(request) = due else { panic!("{due:?}") };
    *request
}

async fn served(migrates: &str) -> Served {
    served_with(migrates, Gates::default()).await
}

fn history(app: Application) -> Option<Vec<RevisionHistory>> {
    Some(app.status.history).filter(|history| !history.is_empty())
}

async fn served_with(migrates: &str, gates: Gates) -> Served {
    let [a, b] = ["a", "b"].map(|name| manifests(name, "1", migrates));
    Served::with(&[("a", &a), ("b", &b)], gates).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_brought_to_one_commit_step_by_step_and_nothing_follows_from_that() {
    let mut served = served("20ms").await;
    let (set, mut standings) = (fleet(None), Standings::default());
    let request = asked(follows(&served, &mut standings, &set, None).await);
    let id = served.next_id().await;
    // A commit that comes meanwhile is none of this rollout.
    served.commit("b", &manifests("b", "2", "20ms"));
    let state = begin(&served, &set, id, Some(request.clone())).await.over().await;
    let rollout = state.rollout().unwrap();
    assert_eq!(rollout.outcome.as_ref().unwrap().end, End::Completed, "{rollout:?}");
    let ran = served.operations().await;
    let names: Vec<&str> = ran.iter().map(|one| one.application.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(ran[0].finished_at.unwrap() <= ran[1].started_at);
    let made: Vec<OperationId> = ran.iter().map(|one| one.operation).collect();
    assert_eq!((served.made("Job"), served.made("ConfigMap")), (made.clone(), made));
    for (name, spec) in request.members.iter().map(|one| (&one.name, &one.target)) {
        let history = served.kept_with(name, history).await;
        assert_eq!(
            history.iter().map(|one| &one.revision).collect::<Vec<_>>(),
            [&spec.revisions[0]],
            "{name}"
        );
    }
    // The newer commit is another rollout; without it there is none, and a restart changes nothing of that.
    let next = asked(follows(&served, &mut standings, &set, Some(&state)).await);
    assert_ne!(next.targets, request.targets);
    let id = served.next_id().await;
    let state = begin(&served, &set, id, Some(next)).await.over().await;
    assert_eq!(follows(&served, &mut standings, &set, Some(&state)).await, Due::Nothing);
    served.restart().await;
    assert_eq!(follows(&served, &mut Standings::default(), &set, Some(&state)).await, Due::Nothing);
    assert_eq!(served.operations().await.len(), 4);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_the_same_operation_is_gone_on_with_and_an_end_stops_it() {
    let mut served = served("1h").await;
    let (set, mut standings) = (fleet(None), Standings::default());
    let request = asked(follows(&served, &mut standings, &set, None).await);
    let id = served.next_id().await;
    let mut at_work = begin(&served, &set, id, Some(request)).await;
    let runs = |rollout: &Rollout| match rollout.members["a"].progress {
        tidegate_lifecycle::rollout::Progress::Running { operation } => Some(operation),
        _ => None,
    };
    let operation = at_work.until(runs).await;
    served.restart().await;
    let mut at_work = begin(&served, &set, id, None).await;
    assert_eq!(at_work.until(runs).await, operation);
    let terminate = Input::Wish { wish: Wish::Terminate, by: "ann".to_owned(), why: String::new() };
    at_work.rollout.wish(terminate).await.unwrap();
    let state = at_work.over().await;
    assert_eq!(state.rollout().unwrap().outcome.as_ref().unwrap().end, End::Terminated);
    let ran = served.operations().await;
    assert_eq!((ran.len(), ran[0].operation, ran[0].finished_at.is_some()), (1, operation, true));
    assert_eq!(served.made("Job"), [operation]);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_begun_before_the_application_is_as_it_is_generated() {
    let mut served = served("20ms").await;
    served.commit("moved", &manifests("a", "2", "20ms"));
    let (set, mut standings) = (fleet(None), Standings::default());
    let mut request = asked(follows(&served, &mut standings, &set, None).await);
    let mut moved = application("a");
    moved.spec.source.as_mut().unwrap().path = "moved".to_owned();
    request.members[0].target.spec = Targets::of(&set).unwrap().spec(&moved);
    let id = served.next_id().await;
    let mut at_work = begin(&served, &set, id, Some(request)).await;
    at_work.until(|rollout| (rollout.members["a"].status() == MemberStatus::Pending).then_some(())).await;
    served.write(&moved);
    let state = at_work.over().await;
    assert_eq!(state.rollout().unwrap().outcome.as_ref().unwrap().end, End::Completed);
    let history = served.kept_with("a", history).await;
    let paths: Vec<&str> = history.iter().map(|one| one.source.as_ref().unwrap().path.as_str()).collect();
    assert_eq!(paths, ["moved"]);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_nobody_knows_keeps_a_step_closed_and_says_so() {
    for (gate, expected) in [
        ("nobody", "no gate named nobody is registered"),
        ("window:night", "nobody has defined gate window:night; define it in the file of --gates"),
        ("concurrency:db", "gives places to operations, and none to steps"),
    ] {
        let mut served = served("20ms").await;
        let set = fleet(Some(&format!("steps: [{{step: 2, gates: ['{gate}']}}]")));
        let request = asked(follows(&served, &mut Standings::default(), &set, None).await);
        let id = served.next_id().await;
        let mut at_work = begin(&served, &set, id, Some(request)).await;
        let said = at_work.until(|rollout| match &rollout.gates.first()?.verdict {
            Verdict::Closed { reason, .. } => Some(reason.clone()),
            Verdict::Open => Some("open".to_owned()),
        });
        let said = said.await;
        assert!(said.contains(expected), "{gate}: {said}");
        let ran: Vec<String> = served.operations().await.into_iter().map(|one| one.application).collect();
        assert_eq!(ran, ["a"], "{gate}: the step before was not held");
        at_work.rollout.stop().await;
        served.end().await;
    }
}

/// A gate that lets everything through, and tells what it was asked.
struct Porter;

impl Actor for Porter {
    type Msg = GateQuestion;
    type State = mpsc::UnboundedSender<GateQuestion>;
    type Arguments = mpsc::UnboundedSender<GateQuestion>;

    async fn pre_start(
        &self,
        _: ActorRef<GateQuestion>,
        tell: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(tell)
    }

    async fn handle(
        &self,
        _: ActorRef<GateQuestion>,
        question: GateQuestion,
        tell: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        question.reply.send(Verdict::Open);
        Ok(tell.send(question)?)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gates_are_asked_about_the_step_by_the_file_and_by_those_who_are_registered() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let (porter, _) = Actor::spawn(None, Porter, tell).await.unwrap();
    let never = "windows: {never: [{kind: deny, schedule: '* * * * *', duration: 2m, manualSync: true}]}";
    let gates = Gates { file: Some(never), actor: Some(("porter", porter)) };
    let mut served = served_with("20ms", gates).await;
    let set = fleet(Some("steps: [{step: 2, gates: ['porter', 'window:never']}]"));
    let request = asked(follows(&served, &mut Standings::default(), &set, None).await);
    let id = served.next_id().await;
    let mut at_work = begin(&served, &set, id, Some(request)).await;
    let answers = at_work.until(|rollout| (rollout.gates.len() == 2).then(|| rollout.gates.clone())).await;
    let verdict = |gate: &str| answers.iter().find(|one| one.gate == gate).unwrap().verdict.clone();
    assert_eq!(verdict("porter"), Verdict::Open);
    let Verdict::Closed { reason, .. } = verdict("window:never") else { panic!("open") };
    assert!(reason.starts_with("sync window never denies it"), "{reason}");
    let question = told.recv().await.unwrap();
    assert_eq!(
        (question.operation, question.application.as_str(), question.wave),
        (id, "argocd/fleet", 2),
        "the step, from 1"
    );
    at_work.rollout.stop().await;
    served.end().await;
}

#[test]
fn objects_are_deleted_only_for_those_that_are_generated_so() {
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
    let prunes = Prunes::default();
    // A process that goes on with a rollout knows no more than what was written.
    assert_eq!(generated.each_ref().map(|one| prunes.has(one)), [true, true, false, false]);
    prunes.set(&generated);
    assert_eq!(generated.each_ref().map(|one| prunes.has(one)), [true, false, false, false]);
}
