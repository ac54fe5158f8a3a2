//! Random projects and objects. The cluster's audit log must not contain any write that the project doesn't
//! permit, even if the project changes during the operation.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::sim::{AuditEntry, Clock, SimCluster, SimConfig};
use tidegate_cluster::{ApplyRequest, Call, Cluster, Effect, Layer, PendingCall, WriteMode};
use tidegate_executor::{Engine, GateDefinitions, RuntimeClock, Targets};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{
    DeployTarget, Destination, Object, OperationPhase, SyncOptions, SyncRequest, Timestamp,
};
use tidegate_oplog::MemoryLog;
use tidegate_planner::manifests::{Limits, parse};

use super::super::operation_start::operation_targets;
use super::*;

const START: Timestamp = Timestamp::from_millis(1_795_253_400_000);
const NAMESPACES: [&str; 3] = ["web", "shop", "kube-system"];
/// Kinds. The flag is true for namespaced kinds.
const KINDS: [(&str, &str, bool); 6] = [
    ("v1", "ConfigMap", true),
    ("v1", "Secret", true),
    ("rbac.authorization.k8s.io/v1", "Role", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", false),
    ("storage.k8s.io/v1", "StorageClass", false),
    ("v1", "Namespace", false),
];

/// Reproducible random numbers.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    fn pick_some<T: Clone>(&mut self, of: &[T]) -> Vec<T> {
        of.iter().filter(|_| self.below(2) == 0).cloned().collect()
    }
}

fn project_from_spec(spec: &Value) -> Arc<AppProject> {
    let value = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"}, "spec": spec,
    });
    Arc::new(serde_json::from_value(value).unwrap())
}

fn only_project(project: &Arc<AppProject>) -> ProjectSet {
    ProjectSet {
        projects: BTreeMap::from([("shop".to_owned(), Ok(Arc::clone(project)))]),
        ..ProjectSet::default()
    }
}

fn unrestricted_project() -> Arc<AppProject> {
    project_from_spec(&serde_json::to_value(project::permissive_project().spec).unwrap())
}

fn random_project(dice: &mut RandomNumbers) -> Arc<AppProject> {
    let kinds = |dice: &mut RandomNumbers, namespaced: bool| {
        let of: Vec<&str> = KINDS.iter().filter(|kind| kind.2 == namespaced).map(|kind| kind.1).collect();
        let patterns = dice.pick_some(&of).into_iter().chain(dice.pick_some(&["*Map", "*", "S*"][..]));
        patterns.map(|kind| json!({"group": "*", "kind": kind})).collect::<Vec<_>>()
    };
    let mut spec = json!({
        "sourceRepos": [*dice.pick(&["*", "*", "https://git.example/**", "https://git.example/*", "https://other.example/**"])],
        "destinations": dice
            .pick_some(&["web", "shop", "!kube-system", "*", "w*"][..])
            .into_iter()
            .chain(["web"])
            .map(|namespace| json!({"server": "*", "namespace": namespace}))
            .collect::<Vec<_>>(),
        "clusterResourceWhitelist": kinds(dice, false),
        "clusterResourceBlacklist": dice.pick_some(&[json!({"group": "*", "kind": "ClusterRole", "name": "a*"})]),
        "namespaceResourceBlacklist": if dice.below(3) == 0 { kinds(dice, true) } else { Vec::new() },
    });
    if dice.below(3) == 0 {
        spec["namespaceResourceWhitelist"] = kinds(dice, true).into();
    }
    project_from_spec(&spec)
}

fn random_manifests(dice: &mut RandomNumbers) -> String {
    let mut text = String::new();
    for name in ["a1", "a2", "b1", "b2", "c1", "c2"] {
        let (version, kind, namespaced) = *dice.pick(&KINDS);
        if dice.below(4) == 0 {
            continue;
        }
        let mut metadata = json!({
            "name": name,
            "annotations": {"argocd.argoproj.io/sync-wave": dice.below(3).to_string()},
        });
        // A cluster-scoped object remains cluster-scoped even if it specifies a namespace.
        if namespaced || dice.below(2) == 0 {
            metadata["namespace"] = (*dice.pick(&NAMESPACES)).into();
        }
        if dice.below(4) == 0 {
            metadata["annotations"]["argocd.argoproj.io/hook"] =
                (*dice.pick(&["PreSync", "Sync", "PostSync"])).into();
        }
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
        if kind == "StorageClass" {
            object["provisioner"] = "example.com/none".into();
        }
        text.push_str(&format!("---\n{object}\n"));
    }
    text
}

/// Cluster in which the rules change just before the write with a given number.
struct ChangingCluster {
    sim: SimCluster,
    writes: AtomicUsize,
    change_at: usize,
    change: Box<dyn Fn() + Send + Sync>,
}

impl Layer for ChangingCluster {
    fn inner(&self) -> &dyn Cluster {
        &self.sim
    }

    async fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        if call.effect == Effect::Write && self.writes.fetch_add(1, Ordering::SeqCst) == self.change_at {
            (self.change)();
        }
        answer.await
    }
}

struct Fixture {
    sim: SimCluster,
    engine: Engine,
    projects: Arc<Projects>,
    change_count: Arc<AtomicUsize>,
    policy: ProjectPolicy,
}

impl Fixture {
    /// Replaces the rules just before the write with the given number.
    async fn new(change_at: usize, then: Arc<AppProject>) -> Self {
        let sim = SimCluster::in_memory(SimConfig::default(), Clock::tokio(START));
        for name in NAMESPACES {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let object = Object::try_from(object).unwrap();
            sim.apply(ApplyRequest::new(object, WriteMode::Apply { force: true })).await.unwrap();
        }
        let projects = Arc::new(Projects::new("argocd".to_owned()));
        let change_count = Arc::new(AtomicUsize::new(usize::MAX));
        let (known, seen, audited) = (Arc::clone(&projects), Arc::clone(&change_count), sim.clone());
        let turn = move || {
            known.set_projects(only_project(&then));
            seen.store(audited.audit().len(), Ordering::SeqCst);
        };
        let turning = ChangingCluster {
            sim: sim.clone(),
            writes: AtomicUsize::new(0),
            change_at,
            change: Box::new(turn),
        };
        let engine = Engine::builder(Arc::new(MemoryLog::new()))
            .cluster(Destination::Simulated, Arc::new(turning))
            .clock(Arc::new(RuntimeClock::starting_at(START)))
            .start()
            .await
            .unwrap();
        engine.set_policy_check(Arc::clone(&projects) as Arc<dyn PolicyCheck>);
        let target = DeployTarget {
            servers: vec!["https://kubernetes.default.svc".to_owned()],
            name: "in-cluster".to_owned(),
            project: String::new(),
            namespace: "web".to_owned(),
        };
        let repositories = vec!["https://git.example/web".to_owned()];
        let policy =
            ProjectPolicy { project: "shop".to_owned(), repositories, target, ..ProjectPolicy::default() };
        Self { sim, engine, projects, change_count, policy }
    }

    async fn run(&self, manifests: &str, flags: &[&str]) -> OperationView {
        let targets = parse("a.yaml", manifests.as_bytes(), &Limits::default()).unwrap();
        let targets = Targets { targets, mandate: Some(self.policy.clone()), ..Targets::default() };
        let flags = flags.iter().copied().map(str::to_owned).collect();
        let options = SyncOptions { prune: true, flags, ..SyncOptions::default() };
        let request = SyncRequest { options, ..SyncRequest::new("web", "web", Destination::Simulated) };
        let operation = self.engine.submit(request, targets).await.unwrap();
        let ending = self.engine.wait(operation);
        tokio::time::timeout(Duration::from_secs(3600), ending).await.unwrap().unwrap()
    }
}

fn is_permitted(project: &AppProject, policy: &ProjectPolicy, entry: &AuditEntry) -> bool {
    let namespaced = KINDS.iter().find(|kind| kind.1 == entry.kind).is_none_or(|kind| kind.2);
    project::check_operation(project, policy, "argocd").is_ok()
        && project::check_object(project, &policy.target, &entry.key(), Some(namespaced)).is_ok()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_that_the_project_does_not_permit() {
    let (mut written, mut refused, mut stopped) = (0, 0, 0);
    for seed in 0..150 {
        let mut dice = RandomNumbers(seed);
        // With permissive rules, more writes happen before the rules change.
        let first = if dice.below(2) == 0 { unrestricted_project() } else { random_project(&mut dice) };
        let then = random_project(&mut dice);
        let at = dice.below(16);
        let stage = Fixture::new(at, Arc::clone(&then)).await;
        // Create objects to be pruned, and objects that belong to other owners.
        stage.projects.set_projects(only_project(&unrestricted_project()));
        stage.run(&random_manifests(&mut dice), &[]).await;
        let before = stage.sim.audit().len();
        let is_before = stage.change_count.load(Ordering::SeqCst) == usize::MAX;
        if is_before {
            stage.projects.set_projects(only_project(&first));
        }
        let flags: &[&str] = if dice.below(2) == 0 { &["CreateNamespace=true"] } else { &[] };
        let view = stage.run(&random_manifests(&mut dice), flags).await;
        let turned = stage.change_count.load(Ordering::SeqCst);
        let audit = stage.sim.audit();
        for (number, entry) in audit.iter().enumerate().skip(before) {
            // A write that takes over fields sends two requests. If the first request was permitted before
            // the change, the second request may follow.
            let is_rest = || {
                let started = audit.get(turned).filter(|_| number == turned + 1);
                started.is_some_and(|started| started.key() == entry.key())
            };
            let rules = if number > turned && !is_rest() || !is_before { &then } else { &first };
            assert!(is_permitted(rules, &stage.policy, entry), "seed {seed}: {entry:?} under {rules:?}");
            written += usize::from(!entry.dry_run);
        }
        let text = format!("{} {:?}", view.message, view.resources);
        let is_refused = text.contains("in project");
        refused += usize::from(is_refused);
        stopped += usize::from(is_refused && turned > before && turned != usize::MAX);
        assert!(view.phase == OperationPhase::Succeeded || is_refused, "seed {seed}: {text}");
        stage.engine.shutdown().await;
    }
    // Make sure that each outcome occurred often enough.
    assert!(written > 50 && refused > 20 && stopped > 3, "{written} {refused} {stopped}");
}

/// If the operation installs the kind, the scope in the kind's definition is used, not the namespaces of its
/// objects.
#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_is_the_same_whatever_namespace_it_names() {
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
        let project = project_from_spec(&json!({
            "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": kinds}],
        }));
        let stage = Fixture::new(usize::MAX, Arc::clone(&project)).await;
        stage.projects.set_projects(only_project(&project));
        let view = stage.run(&format!("---\n{definition}\n---\n{gadget}\n"), &[]).await;
        let audit = stage.sim.audit();
        let created =
            audit.iter().filter(|entry| entry.kind == "Gadget" && entry.code == 201 && !entry.dry_run);
        assert_eq!(created.count(), expected, "{kinds}: {} {:?}", view.message, view.resources);
        assert_eq!(view.phase == OperationPhase::Succeeded, expected == 1, "{}", view.message);
        let defined = audit.iter().any(|entry| entry.kind == "CustomResourceDefinition" && entry.code == 201);
        assert!(defined, "its kind was permitted");
        stage.engine.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_projects_only_unrestricted_operations_continue() {
    for (is_implicit, expected) in [(true, OperationPhase::Succeeded), (false, OperationPhase::Failed)] {
        let sim = SimCluster::in_memory(SimConfig::default(), Clock::tokio(START));
        let engine = Engine::builder(Arc::new(MemoryLog::new()))
            .cluster(Destination::Simulated, Arc::new(sim))
            .clock(Arc::new(RuntimeClock::starting_at(START)))
            .start()
            .await
            .unwrap();
        let policy = ProjectPolicy { project: "shop".to_owned(), is_implicit, ..ProjectPolicy::default() };
        let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
        let targets = parse("a.yaml", manifest.as_bytes(), &Limits::default()).unwrap();
        let targets = Targets { targets, mandate: Some(policy), ..Targets::default() };
        let request = SyncRequest::new("web", "default", Destination::Simulated);
        let operation = engine.submit(request, targets).await.unwrap();
        let view = engine.wait(operation).await.unwrap();
        let text = format!("{} {:?}", view.message, view.resources);
        assert_eq!(view.phase, expected, "{text}");
        assert!(
            is_implicit
                || text.contains("project 'shop', but this process does not have that project's policy"),
            "{text}"
        );
        engine.shutdown().await;
    }
}

/// An operation waits for the sync windows that applied when it started. A manual sync doesn't wait for
/// windows that permit manual syncs.
#[tokio::test(start_paused = true)]
async fn a_running_operation_waits_for_its_sync_windows() {
    let stage = Fixture::new(usize::MAX, unrestricted_project()).await;
    stage.projects.set_projects(only_project(&unrestricted_project()));
    let project = project_from_spec(&json!({"syncWindows": [{
        "kind": "deny", "schedule": "* * * * *", "duration": "1h", "applications": ["*"], "manualSync": true,
    }]}));
    let windows =
        SyncWindows::for_application(&project, "web", &stage.policy.target, |_| Ok(TimeZoneRules::UTC))
            .stored_form;
    for (is_automated, expected) in [(false, "Succeeded"), (true, "sync window shop denies syncs")] {
        let policy = ProjectPolicy { is_automated, ..stage.policy.clone() };
        let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
        let targets = parse("a.yaml", manifest.as_bytes(), &Limits::default()).unwrap();
        let targets =
            Targets { targets, ..operation_targets(GateDefinitions::default(), windows.clone(), policy) };
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
fn unknown_projects_permit_nothing() {
    let projects = Projects::new("argocd".to_owned());
    let find = |name: &str| {
        projects.find(name).map(|(_, is_implicit)| is_implicit).map_err(|error| error.to_string())
    };
    assert!(find("default").unwrap_err().contains("not been read yet"));
    let broken = || ("broken".to_owned(), Err("a.yaml:3: no".to_owned()));
    let set = |unsure: Option<&str>| ProjectSet {
        projects: BTreeMap::from([("shop".to_owned(), Ok(unrestricted_project())), broken()]),
        unreadable_reason: unsure.map(str::to_owned),
        pending_reason: None,
    };
    let names = |names: &[&str]| names.iter().copied().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(projects.set_projects(set(None)), names(&["broken", "shop"]));
    assert_eq!((find("default"), find("shop")), (Ok(true), Ok(false)));
    assert!(find("other").unwrap_err().contains("other which does not exist"));
    assert!(find("broken").unwrap_err().contains("a.yaml:3: no"));
    assert_eq!(projects.set_projects(set(Some("b.yaml: damaged"))), names(&["default"]));
    assert!(find("default").unwrap_err().contains("b.yaml: damaged"));
    assert_eq!(find("shop"), Ok(false));
    assert_eq!(projects.set_projects(set(Some("b.yaml: damaged"))), names(&[]));
    assert_eq!(projects.set_projects(ProjectSet::default()), names(&["broken", "default", "shop"]));
    assert_eq!(find("default"), Ok(true));
    // Applications wait for a missing project. Existing projects can be used.
    let awaited = |name: &str| match projects.find(name).map_err(DestinationError::from) {
        Err(DestinationError::Unchecked(reason)) => Some(reason),
        _ => None,
    };
    let coming =
        ProjectSet { pending_reason: Some("apps: its files are still coming".to_owned()), ..set(None) };
    projects.set_projects(coming);
    for name in ["default", "other"] {
        let text = format!("project {name} has not been read yet: apps: its files are still coming");
        assert_eq!((find(name), awaited(name)), (Err(text.clone()), Some(text)));
    }
    assert_eq!((find("shop"), awaited("shop")), (Ok(false), None));
    assert_eq!((awaited("broken"), projects.has_pending_projects()), (None, true));
}

/// Parses global projects from the text of Argo CD's setting.
fn global_projects_from_list(list: &Value) -> GlobalProjects {
    let value = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm", "namespace": "argocd"},
        "data": {"globalProjects": list},
    });
    GlobalProjects::from_object(&Object::try_from(value).unwrap())
}

#[test]
fn projects_inherit_from_the_matching_global_projects() {
    let mut shop = unrestricted_project().as_ref().clone();
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
        // A project doesn't inherit from itself. If several global projects match, all of them apply, in
        // order.
        (json!("[{projectName: b}, {projectName: shop}, {projectName: a}]"), Ok("b a")),
        (json!(expression("Near", "")), Err("unknown operator \"Near\"")),
        (json!("[{labelSelector: {}}]"), Err("is not a list of entries with labelSelector and projectName")),
        (json!("[{projectName: ''}]"), Err("an entry without projectName")),
        (json!("[{projectName: a, labelSelector: {matchLabel: {tier: prod}}}]"), Err("field \"matchLabel\"")),
        (json!("projectName: a"), Err("is not a list")),
        (json!(["a"]), Err("is not a")),
    ] {
        let found = global_projects_from_list(&list).inherited_by(&shop).map(|names| names.join(" "));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{list}"),
            (Err(found), Err(part)) => {
                assert!(
                    found.starts_with("globalProjects in the argocd-cm ConfigMap") && found.contains(part),
                    "{found}"
                );
            }
            (found, expected) => panic!("{list}: {found:?} where {expected:?} was expected"),
        }
    }
}

#[tokio::test]
async fn current_rules_of_global_projects_apply_to_matching_projects() {
    let projects = Projects::new("argocd".to_owned());
    let secret = ObjectKey {
        group: String::new(),
        kind: "Secret".to_owned(),
        namespace: "web".to_owned(),
        name: "a".to_owned(),
    };
    let policy = |name: &str| ProjectPolicy {
        project: name.to_owned(),
        target: application_in_namespace("web").1.target,
        ..ProjectPolicy::default()
    };
    let refusal = |name: &str| projects.refusal_reason(&policy(name), &secret, true).unwrap_or_default();
    let platform = |spec: Value| {
        let mut platform = project_from_spec(&spec).as_ref().clone();
        platform.metadata.name = "platform".to_owned();
        Arc::new(platform)
    };
    let set = |platform: Option<Arc<AppProject>>| {
        let platform = platform.map(|one| ("platform".to_owned(), Ok(one)));
        let shop = ("shop".to_owned(), Ok(unrestricted_project()));
        ProjectSet { projects: platform.into_iter().chain([shop]).collect(), ..ProjectSet::default() }
    };
    let denies = || platform(json!({"namespaceResourceBlacklist": [{"group": "*", "kind": "Secret"}]}));
    let names = |names: &[&str]| names.iter().copied().map(str::to_owned).collect::<BTreeSet<_>>();
    let set_globals = |globals| projects.set_globals(GlobalProjectsUpdate::Cluster(globals));
    projects.set_projects(set(Some(denies())));
    assert_eq!((refusal("shop"), refusal("default")), (String::new(), String::new()));
    // A global project without a selector applies to all projects, including a `default` project that isn't
    // defined.
    assert_eq!(
        set_globals(global_projects_from_list(&json!("[{projectName: platform}]"))),
        names(&["default", "shop"])
    );
    for name in ["shop", "default"] {
        assert!(refusal(name).contains("namespaceResourceBlacklist"), "{name}: {}", refusal(name));
    }
    assert_eq!(projects.find("default").map(|(_, is_implicit)| is_implicit), Ok(false));
    // Changes to the global project's rules take effect.
    projects.set_projects(set(Some(platform(json!({})))));
    assert_eq!(refusal("shop"), "");
    // If the global project or the setting is missing, the restrictions can't be determined.
    projects.set_projects(set(None));
    assert!(refusal("shop").contains("the global project platform does not exist"), "{}", refusal("shop"));
    set_globals(global_projects_from_list(&json!("[")));
    assert!(refusal("shop").contains("globalProjects in the argocd-cm ConfigMap"), "{}", refusal("shop"));
    assert_eq!(set_globals(GlobalProjects::Unread), names(&["default", "shop"]));
    assert!(refusal("shop").contains("not been read yet"), "{}", refusal("shop"));
    // Files take precedence over the cluster.
    projects.set_globals(GlobalProjectsUpdate::Files(Some(GlobalProjects::default())));
    assert_eq!((refusal("shop"), refusal("default")), (String::new(), String::new()));
}

fn application_in_namespace(namespace: &str) -> (Application, ResolvedDestination) {
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
    let place = ResolvedDestination {
        destination: Destination::Simulated,
        cluster: Arc::new(SimCluster::in_memory(SimConfig::default(), Clock::tokio(START))),
        namespace: namespace.to_owned(),
        target,
    };
    (serde_json::from_value(application).unwrap(), place)
}

#[tokio::test(start_paused = true)]
async fn an_operation_impersonates_the_account_of_its_project() {
    let project = project_from_spec(&json!({
        "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
        "destinationServiceAccounts": [{"server": "*", "namespace": "web", "defaultServiceAccount": "deployer"}],
    }));
    let (web, shop) = (application_in_namespace("web"), application_in_namespace("shop"));
    let known = |accounts| {
        let projects = Projects::new("argocd".to_owned()).with_impersonation(accounts);
        projects.set_projects(only_project(&project));
        projects
    };
    let user = |projects: &Projects, (application, place): &(Application, ResolvedDestination)| {
        let policy = projects.policy(application, place).map_err(|none| none.to_string());
        let users = [policy, projects.unchecked_policy(application, place)];
        let users = users.map(|policy| policy.map(|policy| policy.user));
        assert_eq!(users[0], users[1], "deletions impersonate the same user as writes");
        users[0].clone()
    };
    let deployer = Ok("system:serviceaccount:web:deployer".to_owned());
    let required = known(ImpersonationMode::Required);
    assert_eq!(user(&required, &web), deployer);
    let none = user(&required, &shop).unwrap_err();
    assert!(none.contains("no matching service account found") && none.contains("'shop'"), "{none}");
    assert_eq!(required.unknown_fields(&web.0), Vec::<String>::new());
    let named = known(ImpersonationMode::WhereNamed);
    assert_eq!((user(&named, &web), user(&named, &shop)), (deployer, Ok(String::new())));
    let ignored = known(ImpersonationMode::Ignored);
    assert_eq!(user(&ignored, &web), Ok(String::new()));
    let fields = ignored.unknown_fields(&web.0).join("; ");
    assert!(fields.contains("destinationServiceAccounts of project 'shop' have no effect"), "{fields}");
    assert!(fields.contains("--impersonate"), "{fields}");
    // Nothing is written if the service account can't be determined.
    let unknown = Projects::new("argocd".to_owned()).with_impersonation(ImpersonationMode::WhereNamed);
    assert!(user(&unknown, &web).unwrap_err().contains("not been read yet"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_where_impersonation_is_not_possible() {
    let project = unrestricted_project();
    let mut stage = Fixture::new(usize::MAX, Arc::clone(&project)).await;
    stage.projects.set_projects(only_project(&project));
    stage.policy.user = "system:serviceaccount:web:deployer".to_owned();
    let before = stage.sim.audit().len();
    let view = stage.run("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", &[]).await;
    assert_eq!(view.phase, OperationPhase::Error, "{}", view.message);
    assert!(
        view.message
            .contains("this connection to the cluster cannot impersonate system:serviceaccount:web:deployer"),
        "{}",
        view.message
    );
    assert_eq!(stage.sim.audit().len(), before);
    stage.engine.shutdown().await;
}
