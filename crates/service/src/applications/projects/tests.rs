//! Random projects, random objects: the audit of the cluster says that nothing was written which a project does not permit,
//! whatever changes meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::sim::{AuditEntry, Clock, SimCluster, SimConfig};
use tidegate_cluster::{ApplyRequest, Call, Cluster, Effect, Layer, WriteMode};
use tidegate_executor::{Engine, GateDefinitions, RuntimeClock, Targets};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{
    DeployTarget, Destination, Object, OperationPhase, SyncOptions, SyncRequest, Timestamp,
};
use tidegate_oplog::MemoryLog;
use tidegate_planner::manifests::{Limits, parse};

use super::super::carrying::held_by;
use super::*;

const START: Timestamp = Timestamp::from_millis(1_795_253_400_000);
const NAMESPACES: [&str; 3] = ["web", "shop", "kube-system"];
/// Kinds, and whether they live in namespaces.
const KINDS: [(&str, &str, bool); 6] = [
    ("v1", "ConfigMap", true),
    ("v1", "Secret", true),
    ("rbac.authorization.k8s.io/v1", "Role", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", false),
    ("storage.k8s.io/v1", "StorageClass", false),
    ("v1", "Namespace", false),
];

/// Numbers that are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.roll(of.len())]
    }

    fn some<T: Clone>(&mut self, of: &[T]) -> Vec<T> {
        of.iter().filter(|_| self.roll(2) == 0).cloned().collect()
    }
}

fn named(spec: &Value) -> Arc<AppProject> {
    let value = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"}, "spec": spec,
    });
    Arc::new(serde_json::from_value(value).unwrap())
}

fn only(project: &Arc<AppProject>) -> ProjectSet {
    ProjectSet {
        projects: BTreeMap::from([("shop".to_owned(), Ok(Arc::clone(project)))]),
        ..ProjectSet::default()
    }
}

fn everything() -> Arc<AppProject> {
    named(&serde_json::to_value(project::permissive().spec).unwrap())
}

fn random_project(dice: &mut Dice) -> Arc<AppProject> {
    let kinds = |dice: &mut Dice, namespaced: bool| {
        let of: Vec<&str> = KINDS.iter().filter(|kind| kind.2 == namespaced).map(|kind| kind.1).collect();
        let patterns = dice.some(&of).into_iter().chain(dice.some(&["*Map", "*", "S*"][..]));
        patterns.map(|kind| json!({"group": "*", "kind": kind})).collect::<Vec<_>>()
    };
    let mut spec = json!({
        "sourceRepos": [*dice.one(&["*", "*", "https://git.example/**", "https://git.example/*", "https://other.example/**"])],
        "destinations": dice
            .some(&["web", "shop", "!kube-system", "*", "w*"][..])
            .into_iter()
            .chain(["web"])
            .map(|namespace| json!({"server": "*", "namespace": namespace}))
            .collect::<Vec<_>>(),
        "clusterResourceWhitelist": kinds(dice, false),
        "clusterResourceBlacklist": dice.some(&[json!({"group": "*", "kind": "ClusterRole", "name": "a*"})]),
        "namespaceResourceBlacklist": if dice.roll(3) == 0 { kinds(dice, true) } else { Vec::new() },
    });
    if dice.roll(3) == 0 {
        spec["namespaceResourceWhitelist"] = kinds(dice, true).into();
    }
    named(&spec)
}

fn random_manifests(dice: &mut Dice) -> String {
    let mut text = String::new();
    for name in ["a1", "a2", "b1", "b2", "c1", "c2"] {
        let (version, kind, namespaced) = *dice.one(&KINDS);
        if dice.roll(4) == 0 {
            continue;
        }
        let mut metadata = json!({
            "name": name,
            "annotations": {"argocd.argoproj.io/sync-wave": dice.roll(3).to_string()},
        });
        // One that names a namespace without having one is of the cluster all the same.
        if namespaced || dice.roll(2) == 0 {
            metadata["namespace"] = (*dice.one(&NAMESPACES)).into();
        }
        if dice.roll(4) == 0 {
            metadata["annotations"]["argocd.argoproj.io/hook"] =
                (*dice.one(&["PreSync", "Sync", "PostSync"])).into();
        }
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
        if kind == "StorageClass" {
            object["provisioner"] = "example.com/none".into();
        }
        text.push_str(&format!("---\n{object}\n"));
    }
    text
}

/// A cluster in front of which something changes just before the write of this number.
struct Turning {
    sim: SimCluster,
    writes: AtomicUsize,
    at: usize,
    turn: Box<dyn Fn() + Send + Sync>,
}

impl Layer for Turning {
    fn inner(&self) -> &dyn Cluster {
        &self.sim
    }

    async fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        if call.effect == Effect::Write && self.writes.fetch_add(1, Ordering::SeqCst) == self.at {
            (self.turn)();
        }
        answer.await
    }
}

struct Stage {
    sim: SimCluster,
    engine: Engine,
    projects: Arc<Projects>,
    turned: Arc<AtomicUsize>,
    mandate: Mandate,
}

impl Stage {
    /// The rules are others from the write of this number on.
    async fn new(at: usize, then: Arc<AppProject>) -> Self {
        let sim = SimCluster::in_memory(SimConfig::default(), Clock::tokio(START));
        for name in NAMESPACES {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let object = Object::try_from(object).unwrap();
            sim.apply(ApplyRequest::new(object, WriteMode::Apply { force: true })).await.unwrap();
        }
        let projects = Arc::new(Projects::new("argocd".to_owned()));
        let turned = Arc::new(AtomicUsize::new(usize::MAX));
        let (known, seen, audited) = (Arc::clone(&projects), Arc::clone(&turned), sim.clone());
        let turn = move || {
            known.set(only(&then));
            seen.store(audited.audit().len(), Ordering::SeqCst);
        };
        let turning = Turning { sim: sim.clone(), writes: AtomicUsize::new(0), at, turn: Box::new(turn) };
        let engine = Engine::builder(Arc::new(MemoryLog::new()))
            .cluster(Destination::Simulated, Arc::new(turning))
            .clock(Arc::new(RuntimeClock::starting_at(START)))
            .start()
            .await
            .unwrap();
        engine.set_permits(Arc::clone(&projects) as Arc<dyn Permits>);
        let target = DeployTarget {
            servers: vec!["https://kubernetes.default.svc".to_owned()],
            name: "in-cluster".to_owned(),
            project: String::new(),
            namespace: "web".to_owned(),
        };
        let repositories = vec!["https://git.example/web".to_owned()];
        let mandate = Mandate { project: "shop".to_owned(), repositories, target, ..Mandate::default() };
        Self { sim, engine, projects, turned, mandate }
    }

    async fn run(&self, manifests: &str, flags: &[&str]) -> OperationView {
        let targets = parse("a.yaml", manifests.as_bytes(), &Limits::default()).unwrap();
        let targets = Targets { targets, mandate: Some(self.mandate.clone()), ..Targets::default() };
        let flags = flags.iter().copied().map(str::to_owned).collect();
        let options = SyncOptions { prune: true, flags, ..SyncOptions::default() };
        let request = SyncRequest { options, ..SyncRequest::new("web", "web", Destination::Simulated) };
        let operation = self.engine.submit(request, targets).await.unwrap();
        let ending = self.engine.wait(operation);
        tokio::time::timeout(Duration::from_secs(3600), ending).await.unwrap().unwrap()
    }
}

fn is_permitted(project: &AppProject, mandate: &Mandate, entry: &AuditEntry) -> bool {
    let namespaced = KINDS.iter().find(|kind| kind.1 == entry.kind).is_none_or(|kind| kind.2);
    project::check(project, mandate, "argocd").is_ok()
        && project::check_object(project, &mandate.target, &entry.key(), Some(namespaced)).is_ok()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_that_a_project_does_not_permit() {
    let (mut written, mut refused, mut stopped) = (0, 0, 0);
    for seed in 0..150 {
        let mut dice = Dice(seed);
        // Rules that forbid little let more happen before they change.
        let first = if dice.roll(2) == 0 { everything() } else { random_project(&mut dice) };
        let then = random_project(&mut dice);
        let at = dice.roll(16);
        let stage = Stage::new(at, Arc::clone(&then)).await;
        // There is something to prune, and something that others own already.
        stage.projects.set(only(&everything()));
        stage.run(&random_manifests(&mut dice), &[]).await;
        let before = stage.sim.audit().len();
        let is_before = stage.turned.load(Ordering::SeqCst) == usize::MAX;
        if is_before {
            stage.projects.set(only(&first));
        }
        let flags: &[&str] = if dice.roll(2) == 0 { &["CreateNamespace=true"] } else { &[] };
        let view = stage.run(&random_manifests(&mut dice), flags).await;
        let turned = stage.turned.load(Ordering::SeqCst);
        let audit = stage.sim.audit();
        for (number, entry) in audit.iter().enumerate().skip(before) {
            // The write before which the rules changed had been permitted; one that takes over fields is two requests.
            let is_rest = || {
                let begun = audit.get(turned).filter(|_| number == turned + 1);
                begun.is_some_and(|begun| begun.key() == entry.key())
            };
            let rules = if number > turned && !is_rest() || !is_before { &then } else { &first };
            assert!(is_permitted(rules, &stage.mandate, entry), "seed {seed}: {entry:?} under {rules:?}");
            written += usize::from(!entry.dry_run);
        }
        let words = format!("{} {:?}", view.message, view.resources);
        let is_refused = words.contains("in project");
        refused += usize::from(is_refused);
        stopped += usize::from(is_refused && turned > before && turned != usize::MAX);
        assert!(view.phase == OperationPhase::Succeeded || is_refused, "seed {seed}: {words}");
        stage.engine.shutdown().await;
    }
    // Something of each has happened.
    assert!(written > 50 && refused > 20 && stopped > 3, "{written} {refused} {stopped}");
}

/// A kind that comes with the operation: what its definition says counts, and not what its objects say.
#[tokio::test(start_paused = true)]
async fn an_object_of_the_cluster_is_one_whatever_namespace_it_names() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    let gadget = json!({
        "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {
            "name": "a", "namespace": "web", "annotations": {"argocd.argoproj.io/sync-wave": "1"},
        },
    });
    for (kinds, expected) in [("CustomResourceDefinition", 0), ("*", 1)] {
        let project = named(&json!({
            "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": kinds}],
        }));
        let stage = Stage::new(usize::MAX, Arc::clone(&project)).await;
        stage.projects.set(only(&project));
        let view = stage.run(&format!("---\n{definition}\n---\n{gadget}\n"), &[]).await;
        let audit = stage.sim.audit();
        let made = audit.iter().filter(|entry| entry.kind == "Gadget" && entry.code == 201 && !entry.dry_run);
        assert_eq!(made.count(), expected, "{kinds}: {} {:?}", view.message, view.resources);
        assert_eq!(view.phase == OperationPhase::Succeeded, expected == 1, "{}", view.message);
        let defined = audit.iter().any(|entry| entry.kind == "CustomResourceDefinition" && entry.code == 201);
        assert!(defined, "its kind was permitted");
        stage.engine.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_anybody_to_ask_only_what_was_never_forbidden_goes_on() {
    for (is_implicit, expected) in [(true, OperationPhase::Succeeded), (false, OperationPhase::Failed)] {
        let sim = SimCluster::in_memory(SimConfig::default(), Clock::tokio(START));
        let engine = Engine::builder(Arc::new(MemoryLog::new()))
            .cluster(Destination::Simulated, Arc::new(sim))
            .clock(Arc::new(RuntimeClock::starting_at(START)))
            .start()
            .await
            .unwrap();
        let mandate = Mandate { project: "shop".to_owned(), is_implicit, ..Mandate::default() };
        let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
        let targets = parse("a.yaml", manifest.as_bytes(), &Limits::default()).unwrap();
        let targets = Targets { targets, mandate: Some(mandate), ..Targets::default() };
        let request = SyncRequest::new("web", "default", Destination::Simulated);
        let operation = engine.submit(request, targets).await.unwrap();
        let view = engine.wait(operation).await.unwrap();
        let words = format!("{} {:?}", view.message, view.resources);
        assert_eq!(view.phase, expected, "{words}");
        assert!(
            is_implicit || words.contains("project 'shop', whose rules this process does not know"),
            "{words}"
        );
        engine.shutdown().await;
    }
}

/// An operation waits for the windows that it began with, unless they let those pass that a person began.
#[tokio::test(start_paused = true)]
async fn an_operation_under_way_waits_for_its_windows() {
    let stage = Stage::new(usize::MAX, everything()).await;
    stage.projects.set(only(&everything()));
    let project = named(&json!({"syncWindows": [{
        "kind": "deny", "schedule": "* * * * *", "duration": "1h", "applications": ["*"], "manualSync": true,
    }]}));
    let windows = Windows::of(&project, "web", &stage.mandate.target, |_| Ok(Zone::UTC)).given;
    for (is_automated, expected) in [(false, "Succeeded"), (true, "sync window shop denies it")] {
        let mandate = Mandate { is_automated, ..stage.mandate.clone() };
        let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
        let targets = parse("a.yaml", manifest.as_bytes(), &Limits::default()).unwrap();
        let targets = Targets { targets, ..held_by(GateDefinitions::default(), windows.clone(), mandate) };
        let request = SyncRequest::new("web", "web", Destination::Simulated);
        let operation = stage.engine.submit(request, targets).await.unwrap();
        let stands = || async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let (view, explanation) = stage.engine.inspect(operation).await.unwrap();
            format!("{:?} {} {explanation:?}", view.phase, view.message)
        };
        let looking = async { while !stands().await.contains(expected) {} };
        assert!(tokio::time::timeout(Duration::from_secs(60), looking).await.is_ok(), "{}", stands().await);
        if is_automated {
            stage.engine.terminate(operation, "test").await.unwrap();
            assert_eq!(stage.engine.wait(operation).await.unwrap().phase, OperationPhase::Failed);
        }
    }
    stage.engine.shutdown().await;
}

#[test]
fn what_is_not_known_permits_nothing() {
    let projects = Projects::new("argocd".to_owned());
    let find = |name: &str| {
        projects.find(name).map(|(_, is_implicit)| is_implicit).map_err(|error| error.to_string())
    };
    assert!(find("default").unwrap_err().contains("not known yet"));
    let broken = || ("broken".to_owned(), Err("a.yaml:3: no".to_owned()));
    let set = |unsure: Option<&str>| ProjectSet {
        projects: BTreeMap::from([("shop".to_owned(), Ok(everything())), broken()]),
        unsure: unsure.map(str::to_owned),
        coming: None,
    };
    let names = |names: &[&str]| names.iter().copied().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(projects.set(set(None)), names(&["broken", "shop"]));
    assert_eq!((find("default"), find("shop")), (Ok(true), Ok(false)));
    assert!(find("other").unwrap_err().contains("other which does not exist"));
    assert!(find("broken").unwrap_err().contains("a.yaml:3: no"));
    assert_eq!(projects.set(set(Some("b.yaml: damaged"))), names(&["default"]));
    assert!(find("default").unwrap_err().contains("b.yaml: damaged"));
    assert_eq!(find("shop"), Ok(false));
    assert_eq!(projects.set(set(Some("b.yaml: damaged"))), names(&[]));
    assert_eq!(projects.set(ProjectSet::default()), names(&["broken", "default", "shop"]));
    assert_eq!(find("default"), Ok(true));
    // Those that may be about to come are waited for, and those that are there count.
    let awaited = |name: &str| match projects.find(name).map_err(NoPlace::from) {
        Err(NoPlace::Unasked(why)) => Some(why),
        _ => None,
    };
    let coming = ProjectSet { coming: Some("apps: its files are still coming".to_owned()), ..set(None) };
    projects.set(coming);
    for name in ["default", "other"] {
        let words = format!("project {name} is not known yet: apps: its files are still coming");
        assert_eq!((find(name), awaited(name)), (Err(words.clone()), Some(words)));
    }
    assert_eq!((find("shop"), awaited("shop")), (Ok(false), None));
    assert_eq!((awaited("broken"), projects.are_coming()), (None, true));
}

/// What Argo CD's settings say of global projects.
fn settings(list: &Value) -> Globals {
    let value = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm", "namespace": "argocd"},
        "data": {"globalProjects": list},
    });
    Globals::of(&Object::try_from(value).unwrap())
}

#[test]
fn which_projects_are_global_for_which() {
    let mut shop = everything().as_ref().clone();
    shop.metadata.labels = BTreeMap::from([("tier".to_owned(), "prod".to_owned())]);
    let expression = |operator: &str, values: &str| {
        format!(
            "[{{projectName: platform, labelSelector: {{matchExpressions: [{{key: tier, operator: {operator}{values}}}]}}}}]"
        )
    };
    for (list, expected) in [
        (Value::Null, Ok("")),
        (json!(""), Ok("")),
        (json!("[]"), Ok("")),
        (json!("[{projectName: platform}]"), Ok("platform")),
        (json!("- projectName: platform\n  labelSelector: {matchLabels: {tier: prod}}\n"), Ok("platform")),
        (json!("[{projectName: platform, labelSelector: {matchLabels: {tier: test}}}]"), Ok("")),
        (json!(expression("In", ", values: [prod, test]")), Ok("platform")),
        (json!(expression("NotIn", ", values: [prod]")), Ok("")),
        (json!(expression("Exists", "")), Ok("platform")),
        (json!(expression("DoesNotExist", "")), Ok("")),
        // A project is none of its own; of several all count, in their order.
        (json!("[{projectName: b}, {projectName: shop}, {projectName: a}]"), Ok("b a")),
        (json!(expression("Near", "")), Err("\"Near\" is no operator")),
        (json!("[{labelSelector: {}}]"), Err("is no list of labelSelector and projectName")),
        (json!("[{projectName: ''}]"), Err("an entry without projectName")),
        (json!("[{projectName: a, labelSelector: {matchLabel: {tier: prod}}}]"), Err("field \"matchLabel\"")),
        (json!("projectName: a"), Err("is no list")),
        (json!(["a"]), Err("is not text")),
    ] {
        let found = settings(&list).about(&shop).map(|names| names.join(" "));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{list}"),
            (Err(found), Err(part)) => {
                assert!(
                    found.starts_with("globalProjects in the ConfigMap argocd-cm") && found.contains(part),
                    "{found}"
                );
            }
            (found, expected) => panic!("{list}: {found:?} where {expected:?} was expected"),
        }
    }
}

#[tokio::test]
async fn the_rules_of_a_global_project_count_where_it_is_one_and_as_they_are_now() {
    let projects = Projects::new("argocd".to_owned());
    let secret = ObjectKey {
        group: String::new(),
        kind: "Secret".to_owned(),
        namespace: "web".to_owned(),
        name: "a".to_owned(),
    };
    let mandate = |name: &str| Mandate {
        project: name.to_owned(),
        target: sent_to("web").1.target,
        ..Mandate::default()
    };
    let refusal = |name: &str| projects.refusal(&mandate(name), &secret, true).unwrap_or_default();
    let platform = |spec: Value| {
        let mut platform = named(&spec).as_ref().clone();
        platform.metadata.name = "platform".to_owned();
        Arc::new(platform)
    };
    let set = |platform: Option<Arc<AppProject>>| {
        let platform = platform.map(|one| ("platform".to_owned(), Ok(one)));
        let shop = ("shop".to_owned(), Ok(everything()));
        ProjectSet { projects: platform.into_iter().chain([shop]).collect(), ..ProjectSet::default() }
    };
    let denies = || platform(json!({"namespaceResourceBlacklist": [{"group": "*", "kind": "Secret"}]}));
    let names = |names: &[&str]| names.iter().copied().map(str::to_owned).collect::<BTreeSet<_>>();
    let told = |globals| projects.set_globals(GlobalsTold::Cluster(globals));
    projects.set(set(Some(denies())));
    assert_eq!((refusal("shop"), refusal("default")), (String::new(), String::new()));
    // One without a selector is about all, also about a project that nobody has written down.
    assert_eq!(told(settings(&json!("[{projectName: platform}]"))), names(&["default", "shop"]));
    for name in ["shop", "default"] {
        assert!(refusal(name).contains("namespaceResourceBlacklist"), "{name}: {}", refusal(name));
    }
    assert_eq!(projects.find("default").map(|(_, is_implicit)| is_implicit), Ok(false));
    // Its rules are those of now.
    projects.set(set(Some(platform(json!({})))));
    assert_eq!(refusal("shop"), "");
    // Where it is gone, or where nobody can read who it is, nobody knows what it forbids.
    projects.set(set(None));
    assert!(refusal("shop").contains("its global project platform is not there"), "{}", refusal("shop"));
    told(settings(&json!("[")));
    assert!(refusal("shop").contains("globalProjects in the ConfigMap argocd-cm"), "{}", refusal("shop"));
    assert_eq!(told(Globals::Unseen), names(&["default", "shop"]));
    assert!(refusal("shop").contains("not known yet"), "{}", refusal("shop"));
    // What files say counts before what the cluster says.
    projects.set_globals(GlobalsTold::Files(Some(Globals::default())));
    assert_eq!((refusal("shop"), refusal("default")), (String::new(), String::new()));
}

fn sent_to(namespace: &str) -> (Application, Place) {
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "web", "namespace": "argocd"},
        "spec": {"project": "shop", "destination": {"name": "in-cluster", "namespace": namespace}},
    });
    let target = DeployTarget {
        servers: vec!["https://kubernetes.default.svc".to_owned()],
        name: "in-cluster".to_owned(),
        namespace: namespace.to_owned(),
        ..DeployTarget::default()
    };
    let place = Place {
        destination: Destination::Simulated,
        cluster: Arc::new(SimCluster::in_memory(SimConfig::default(), Clock::tokio(START))),
        namespace: namespace.to_owned(),
        target,
    };
    (serde_json::from_value(application).unwrap(), place)
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_begun_as_the_account_of_its_project() {
    let project = named(&json!({
        "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
        "destinationServiceAccounts": [{"server": "*", "namespace": "web", "defaultServiceAccount": "deployer"}],
    }));
    let (web, shop) = (sent_to("web"), sent_to("shop"));
    let known = |accounts| {
        let projects = Projects::new("argocd".to_owned()).with_accounts(accounts);
        projects.set(only(&project));
        projects
    };
    let user = |projects: &Projects, (application, place): &(Application, Place)| {
        let mandate = projects.mandate(application, place).map_err(|none| none.to_string());
        let users = [mandate, projects.unchecked(application, place)];
        let users = users.map(|mandate| mandate.map(|mandate| mandate.user));
        assert_eq!(users[0], users[1], "it is deleted as it is written");
        users[0].clone()
    };
    let deployer = Ok("system:serviceaccount:web:deployer".to_owned());
    let required = known(Accounts::Required);
    assert_eq!(user(&required, &web), deployer);
    let none = user(&required, &shop).unwrap_err();
    assert!(none.contains("no matching service account found") && none.contains("'shop'"), "{none}");
    assert_eq!(required.unknown_fields(&web.0), Vec::<String>::new());
    let named = known(Accounts::WhereNamed);
    assert_eq!((user(&named, &web), user(&named, &shop)), (deployer, Ok(String::new())));
    let ignored = known(Accounts::Ignored);
    assert_eq!(user(&ignored, &web), Ok(String::new()));
    let told = ignored.unknown_fields(&web.0).join("; ");
    assert!(told.contains("destinationServiceAccounts of project 'shop' have no effect"), "{told}");
    assert!(told.contains("--impersonate"), "{told}");
    // Whose account it is that nobody knows, nobody writes.
    let unknown = Projects::new("argocd".to_owned()).with_accounts(Accounts::WhereNamed);
    assert!(user(&unknown, &web).unwrap_err().contains("not known yet"));
}

#[tokio::test(start_paused = true)]
async fn where_nobody_can_act_as_the_account_nothing_is_written() {
    let project = everything();
    let mut stage = Stage::new(usize::MAX, Arc::clone(&project)).await;
    stage.projects.set(only(&project));
    stage.mandate.user = "system:serviceaccount:web:deployer".to_owned();
    let before = stage.sim.audit().len();
    let view = stage.run("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", &[]).await;
    assert_eq!(view.phase, OperationPhase::Error, "{}", view.message);
    assert!(
        view.message.contains("nobody can act as system:serviceaccount:web:deployer"),
        "{}",
        view.message
    );
    assert_eq!(stage.sim.audit().len(), before);
    stage.engine.shutdown().await;
}
