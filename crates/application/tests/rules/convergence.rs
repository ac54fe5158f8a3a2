//! An Application becomes idle after every change, regardless of its specification. The test counts
//! comparisons and operations in virtual time, using a small simulated cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_application::automated_sync::{self, AutomatedStep, decide};
use tidegate_application::comparison::{self, ComparedResource, ComparisonOutcome};
use tidegate_application::operation::{self, EngineProgress};
use tidegate_application::refresh::{
    self, REFRESH_ANNOTATION, RefreshLevel, complete_refresh, due_at, due_refresh,
};
use tidegate_application::sync_windows::SyncWindows;
use tidegate_model::argo::{Application, ConditionType, OperationRequest, SyncStatusCode as Code};
use tidegate_model::{HealthStatus, OperationPhase, Timestamp};

use crate::{application, at, compared_several, resource};

/// Age after which a comparison is outdated.
const EVERY: Duration = Duration::from_secs(180);
/// Time for which the effects of each change are observed.
const OBSERVATION_TIME: Duration = Duration::from_secs(3600);
/// Maximum number of comparisons during this time that are due only because of their age.
const OLD_MAX: usize = 20;
/// Maximum number of operations during this time if every operation leaves a difference. The delays grow to
/// five minutes.
const HEALS_MAX: usize = 20;
/// Maximum number of operations in all other cases: one for the change, and one for any difference that
/// remains.
const SYNCS_MAX: usize = 2;
/// Maximum number of steps during this time. An Application that keeps triggering itself exceeds it.
const STEPS_MAX: usize = 200;

/// External change to the Application, its source or its cluster.
#[derive(Clone, Debug)]
enum Change {
    /// Changes the specification.
    Spec(Value),
    /// Adds a commit to the repository.
    Commit,
    /// Other programs change the object, or remove the metadata of the namespace.
    Drift { object: bool, namespace: bool },
    /// Removes an object from the manifests, or adds it again.
    Leftover(bool),
    /// Requests a comparison.
    Refresh(&'static str),
    /// Requests a sync.
    Sync,
    /// From now on, syncs fail or succeed.
    Failing(bool),
    /// Other programs start or stop undoing syncs.
    Undone(bool),
    /// Restarts the service.
    Restart,
}

/// Fields in the cluster that a sync writes.
#[derive(Clone, Debug, Default, PartialEq)]
struct LiveFields {
    object: String,
    namespace: Option<BTreeMap<String, String>>,
    leftover: bool,
}

struct TestApplication {
    app: Application,
    live: LiveFields,
    now: Timestamp,
    commit: u32,
    has_leftover: bool,
    is_failing: bool,
    is_undone: bool,
    requested_level: Option<RefreshLevel>,
    comparisons: usize,
    operations: usize,
}

impl TestApplication {
    fn new(spec: &Value) -> Self {
        let mut world = Self {
            app: application(json!({})),
            live: LiveFields::default(),
            now: at(0),
            commit: 1,
            has_leftover: false,
            is_failing: false,
            is_undone: false,
            requested_level: Some(RefreshLevel::Latest),
            comparisons: 0,
            operations: 0,
        };
        world.write(spec);
        world
    }

    fn write(&mut self, spec: &Value) {
        let mut whole = serde_json::to_value(&self.app.spec).unwrap();
        let whole_fields = whole.as_object_mut().unwrap();
        whole_fields.remove("source");
        whole_fields.remove("sources");
        whole_fields.extend(spec.as_object().unwrap().clone());
        self.app.spec = serde_json::from_value(whole).unwrap();
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Spec(spec) => self.write(spec),
            Change::Commit => self.commit += 1,
            Change::Drift { object, namespace } => {
                if *object {
                    "changed by others".clone_into(&mut self.live.object);
                }
                if *namespace {
                    self.live.namespace.iter_mut().for_each(BTreeMap::clear);
                }
            }
            Change::Leftover(there) => self.has_leftover = *there,
            Change::Refresh(word) => {
                self.app.metadata.annotations.insert(REFRESH_ANNOTATION.to_owned(), (*word).to_owned());
            }
            Change::Sync => {
                let asked = OperationRequest { sync: Some(Default::default()), ..Default::default() };
                self.run(asked);
            }
            Change::Failing(is) => self.is_failing = *is,
            Change::Undone(is) => self.is_undone = *is,
            Change::Restart => {
                // Only persisted fields survive a restart.
                let kept = serde_json::to_value(&self.app).unwrap();
                self.app = serde_json::from_value(kept).unwrap();
            }
        }
        self.requested_level = self.requested_level.max(Some(RefreshLevel::Latest));
    }

    /// Returns the object's content according to the manifests.
    fn desired_content(&self) -> String {
        let spec = &self.app.spec;
        let sources = self.app.sources();
        let paths: Vec<&str> = sources.iter().map(|one| one.path.as_str()).collect();
        format!("{} {} {}", self.commit, paths.join(","), spec.destination.namespace)
    }

    /// Returns the expected labels of the destination namespace, if Tidegate manages them.
    fn labels(&self) -> Option<BTreeMap<String, String>> {
        let policy = self.app.spec.sync_policy.as_ref()?;
        let is_made = policy.sync_options.iter().any(|option| option == "CreateNamespace=true");
        let labels = policy.managed_namespace_metadata.as_ref().map(|one| one.labels.clone());
        is_made.then(|| labels.unwrap_or_default())
    }

    fn namespace_differs(&self) -> bool {
        let Some(labels) = self.labels() else { return false };
        let Some(live) = &self.live.namespace else { return true };
        labels.iter().any(|(name, value)| live.get(name) != Some(value))
    }

    fn outcome(&self) -> ComparisonOutcome {
        if self.app.sources().iter().any(|source| source.path == "broken") {
            return ComparisonOutcome::without_cluster_state(
                ConditionType::ComparisonError,
                "it cannot be read".to_owned(),
            );
        }
        let code = |differs: bool| if differs { Code::OutOfSync } else { Code::Synced };
        let of = |name: &str, differs: bool| {
            let mut one: ComparedResource = resource(name, code(differs), Some(HealthStatus::Healthy));
            one.status.kind = name.to_owned();
            one
        };
        let is_ignored = !self.app.spec.ignore_differences.is_empty();
        let mut resources = vec![of("ConfigMap", self.live.object != self.desired_content() && !is_ignored)];
        if self.labels().is_some_and(|labels| !labels.is_empty()) || self.namespace_differs() {
            resources.push(of("Namespace", self.namespace_differs()));
        }
        if self.live.leftover && !self.has_leftover {
            let mut extra = of("Secret", true);
            extra.status.requires_pruning = true;
            resources.push(extra);
        }
        let commit = format!("c{}", self.commit);
        let revisions: Vec<&str> = self.app.sources().iter().map(|_| commit.as_str()).collect();
        compared_several(&revisions, resources)
    }

    fn compare(&mut self, level: RefreshLevel) {
        self.comparisons += 1;
        let asked = self.app.annotation(REFRESH_ANNOTATION).map(str::to_owned);
        let outcome = self.outcome();
        comparison::apply_comparison(&mut self.app, outcome, level, self.now);
        complete_refresh(&mut self.app, asked.as_deref());
    }

    /// Runs an operation until it ends.
    fn run(&mut self, asked: OperationRequest) {
        self.operations += 1;
        let sync = asked.sync.clone().unwrap();
        self.app.operation = Some(asked);
        let revisions: Vec<String> = self.app.sources().iter().map(|_| format!("c{}", self.commit)).collect();
        if sync.revision.is_empty() && sync.revisions.is_empty() {
            operation::set_revisions(&mut self.app, &revisions);
        }
        let names =
            |kind: &str| sync.resources.is_empty() || sync.resources.iter().any(|one| one.kind == kind);
        if !self.is_failing {
            if names("ConfigMap") {
                self.live.object = self.desired_content();
            }
            if let Some(labels) = self.labels() {
                self.live.namespace.get_or_insert_default().extend(labels);
            }
            if names("Secret") {
                self.live.leftover = self.has_leftover || (self.live.leftover && !sync.prune);
            }
            if self.is_undone {
                "changed by others".clone_into(&mut self.live.object);
            }
        }
        let started_at = self.now;
        self.now = self.now + Duration::from_secs(1);
        operation::apply_progress(
            &mut self.app,
            EngineProgress {
                phase: if self.is_failing { OperationPhase::Failed } else { OperationPhase::Succeeded },
                message: "it is over".to_owned(),
                started_at,
                finished_at: Some(self.now),
                retry_count: 0,
                resources: Vec::new(),
            },
        );
        self.requested_level = self.requested_level.max(Some(RefreshLevel::Latest));
    }

    /// Performs all steps that are due until a time, like the actor of the Application.
    fn run_until(&mut self, end: Timestamp) -> Result<(), TestCaseError> {
        for _ in 0..STEPS_MAX {
            if let Some(level) = due_refresh(&self.app, self.requested_level.take(), self.now, EVERY) {
                self.compare(level);
                continue;
            }
            let mut next = due_at(&self.app, self.now, EVERY);
            match automated_sync::apply_comparison(&mut self.app, &SyncWindows::default(), self.now) {
                AutomatedStep::Start(asked) => {
                    self.run(*asked);
                    continue;
                }
                AutomatedStep::Wait(until) => next = Some(next.map_or(until, |next| next.min(until))),
                AutomatedStep::Nothing => {}
            }
            let next = next.unwrap_or(end);
            prop_assert!(next > self.now, "the next step must not be due immediately");
            if next >= end {
                self.now = end;
                return Ok(());
            }
            self.now = next;
        }
        prop_assert!(false, "the application takes more than {STEPS_MAX} steps: {:#?}", self.app);
        Ok(())
    }

    /// Asserts that, one hour after a change, the cost was bounded and the remaining differences are
    /// explained.
    fn assert_quiet(&mut self, change: &Change) -> Result<(), TestCaseError> {
        let before = (self.comparisons, self.operations);
        self.change(change);
        self.run_until(self.now + OBSERVATION_TIME)?;
        let (comparisons, operations) = (self.comparisons - before.0, self.operations - before.1);
        let most = if self.is_undone { HEALS_MAX } else { SYNCS_MAX };
        prop_assert!(operations <= most, "{operations} operations after {change:?}: {:#?}", self.app);
        let most = OLD_MAX + operations + 2;
        prop_assert!(comparisons <= most, "{comparisons} comparisons after {change:?}: {:#?}", self.app);
        let decision = decide(&self.app, self.now);
        let sync = self.app.status.sync.as_ref().unwrap();
        let is_automated = tidegate_application::automated(&self.app).is_some();
        if sync.status == Code::OutOfSync && is_automated {
            let is_explained = decision.idle.is_some()
                || decision.error.is_some()
                || matches!(decision.next, AutomatedStep::Wait(_));
            prop_assert!(is_explained, "nothing explains why the application is not synced: {:#?}", self.app);
        }
        let heals = tidegate_application::automated(&self.app).is_some_and(|one| one.self_heal == Some(true));
        if heals && decision.error.is_none() && !self.is_undone && sync.status != Code::Unknown {
            prop_assert!(!self.namespace_differs(), "the namespace is not healed: {:#?}", self.app);
        }
        prop_assert_eq!(refresh::due_refresh(&self.app, None, self.now - EVERY, EVERY), None);
        Ok(())
    }
}

fn labels() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(null),
        json!({}),
        json!({"labels": {"team": "a"}}),
        json!({"labels": {"team": "b", "tier": "web"}}),
        json!({"labels": {"tier": "web"}, "annotations": {"example.com/owner": "ann"}}),
    ])
}

fn policy() -> impl Strategy<Value = Value> {
    let automated = prop::sample::select(vec![
        json!(null),
        json!({}),
        json!({"selfHeal": true}),
        json!({"selfHeal": true, "prune": true}),
        json!({"selfHeal": true, "prune": true, "allowEmpty": true}),
        json!({"prune": true}),
        json!({"enabled": false, "selfHeal": true}),
    ]);
    let options = prop::sample::subsequence(
        vec!["CreateNamespace=true", "ApplyOutOfSyncOnly=true", "PruneLast=true", "Replace=true"],
        0..=4,
    );
    let retry =
        prop::sample::select(vec![json!(null), json!({"limit": 2}), json!({"limit": -1, "refresh": true})]);
    (automated, options, retry, labels()).prop_map(|(automated, options, retry, metadata)| {
        let mut policy = json!({"syncOptions": options});
        for (name, value) in
            [("automated", automated), ("retry", retry), ("managedNamespaceMetadata", metadata)]
        {
            if !value.is_null() {
                policy[name] = value;
            }
        }
        policy
    })
}

fn spec() -> impl Strategy<Value = Value> {
    let source = |path: &str| json!({"repoURL": "./repo", "path": path});
    let sources = prop::sample::select(vec![
        json!({"source": source("web")}),
        json!({"source": source("api")}),
        json!({"source": source("broken")}),
        json!({"sources": [source("web"), source("api")]}),
        json!({"source": {"repoURL": "https://ann:secret@git.example/repo", "path": "web"}}),
    ]);
    let ignored =
        prop::sample::select(vec![json!([]), json!([{"kind": "ConfigMap", "jsonPointers": ["/data"]}])]);
    let namespace = prop::sample::select(vec!["shop", "shop", "store"]);
    (sources, policy(), ignored, namespace).prop_map(|(mut spec, policy, ignored, namespace)| {
        spec["syncPolicy"] = policy;
        spec["ignoreDifferences"] = ignored;
        spec["destination"] = json!({"name": "in-cluster", "namespace": namespace});
        spec
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => spec().prop_map(Change::Spec),
        2 => Just(Change::Commit),
        2 => any::<(bool, bool)>().prop_map(|(object, namespace)| Change::Drift { object, namespace }),
        1 => any::<bool>().prop_map(Change::Leftover),
        1 => prop::sample::select(vec!["normal", "hard"]).prop_map(Change::Refresh),
        1 => Just(Change::Sync),
        1 => any::<bool>().prop_map(Change::Failing),
        1 => any::<bool>().prop_map(Change::Undone),
        1 => Just(Change::Restart),
    ]
}

proptest! {
    #[test]
    fn an_application_becomes_quiet_after_every_change(
        first in spec(),
        changes in prop::collection::vec(change(), 1..8),
    ) {
        let mut world = TestApplication::new(&first);
        world.run_until(at(3600))?;
        for change in &changes {
            world.assert_quiet(change)?;
        }
    }
}

/// The specification sets a new label on a managed namespace. As in Argo CD, self-heal applies it once.
/// Without `selfHeal`, a user must sync.
#[test]
fn foreign_namespace_metadata_is_healed_once() {
    let spec = |labels: Value, automated: Value| {
        json!({"source": {"repoURL": "./repo", "path": "web"}, "syncPolicy": {
            "automated": automated, "syncOptions": ["CreateNamespace=true"],
            "managedNamespaceMetadata": {"labels": labels},
        }})
    };
    for (automated, healed) in
        [(json!({"selfHeal": true}), true), (json!({}), false), (json!({"enabled": false}), false)]
    {
        let mut world = TestApplication::new(&spec(json!({"team": "a"}), automated.clone()));
        world.run_until(at(3600)).unwrap();
        let before = world.operations;
        let changed = Change::Spec(spec(json!({"team": "b"}), automated.clone()));
        world.assert_quiet(&changed).unwrap();
        assert_eq!(world.operations - before, usize::from(healed), "{automated}");
        let team = world.live.namespace.as_ref().and_then(|labels| labels.get("team").cloned());
        let expected = match (healed, before) {
            (true, _) => Some("b"),
            (false, 0) => None,
            (false, _) => Some("a"),
        };
        assert_eq!(team.as_deref(), expected, "{automated}");
    }
}
