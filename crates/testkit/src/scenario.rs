//! Golden operations: small deployments that together cover every feature of operations.

use std::time::Duration;

use tidegate_executor::Targets;
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{
    Backoff, Destination, OperationPhase, Override, ResourceSelector, RetryPolicy, SyncOptions, SyncRequest,
    Tracking, WaitFor,
};
use tidegate_planner::Limits;

mod deletions;
mod golden;
mod manifests;

pub use golden::{DEPENDENCY_GRAPH, all};

/// A deployment.
#[derive(Clone)]
pub struct Scenario {
    /// Name of the scenario.
    pub name: &'static str,
    /// Operations to run first, to populate the cluster.
    pub setup_syncs: Vec<SyncSpec>,
    /// Operation to test.
    pub sync: SyncSpec,
    /// User actions during the operation.
    pub actions: Vec<UserAction>,
    /// Expected final phase of the operation.
    pub expected_phase: OperationPhase,
    /// Text that the final message must contain.
    pub expected_message: &'static str,
}

/// Manifests to sync, and the request for the operation.
#[derive(Clone)]
pub struct SyncSpec {
    /// Manifests as YAML.
    pub manifests: String,
    /// Request for the operation.
    pub request: SyncRequest,
}

/// User action with a trigger.
#[derive(Clone, Copy)]
pub struct UserAction {
    /// Trigger of the action.
    pub trigger: fn(&OperationView) -> bool,
    /// Action to perform.
    pub kind: UserActionKind,
}

/// User actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserActionKind {
    /// Terminates the operation.
    Terminate,
    /// Pauses the operation.
    Pause,
    /// Resumes the operation.
    Resume,
    /// Confirms the operation's prunes.
    ApprovePrunes,
    /// Skips the named task, marks it as done, or retries it.
    Override(Override, &'static str),
}

impl SyncSpec {
    /// Creates a sync of the given manifests, for the application `shop` in the `default` namespace.
    pub fn new(manifests: &str) -> Self {
        Self { manifests: manifests.to_owned(), request: default_request() }
    }

    /// Changes the request.
    #[must_use]
    pub fn with_request(mut self, change: impl FnOnce(&mut SyncRequest)) -> Self {
        change(&mut self.request);
        self
    }

    /// Parses the manifests.
    pub fn targets(&self) -> Targets {
        let targets =
            tidegate_planner::manifests::parse("golden.yaml", self.manifests.as_bytes(), &Limits::default());
        Targets { targets: targets.expect("a golden manifest is valid"), ..Targets::default() }
    }
}

fn default_request() -> SyncRequest {
    SyncRequest {
        application: "shop".into(),
        namespace: "default".into(),
        destination: Destination::Simulated,
        revision: "0123456789abcdef".into(),
        options: SyncOptions::default(),
        selection: Vec::<ResourceSelector>::new(),
        retry: RetryPolicy::default(),
        deadline: None,
        wait: WaitFor::Synced,
        wave_delay: None,
        initiated_by: "test".into(),
        sources: Vec::new(),
        ignore_differences: Vec::new(),
        tracking: Tracking::default(),
        claim: None,
        deletion: None,
    }
}

/// Returns a scenario without user actions that succeeds.
fn scenario(name: &'static str, sync: SyncSpec) -> Scenario {
    Scenario {
        name,
        setup_syncs: Vec::new(),
        sync,
        actions: Vec::new(),
        expected_phase: OperationPhase::Succeeded,
        expected_message: "successfully synced",
    }
}

/// Returns a scenario without user actions that fails.
fn failing_scenario(name: &'static str, sync: SyncSpec, expected_message: &'static str) -> Scenario {
    Scenario { expected_phase: OperationPhase::Failed, expected_message, ..scenario(name, sync) }
}

/// Returns a retry policy with a delay of one second.
pub fn retry_policy(limit: i64) -> RetryPolicy {
    let backoff = Backoff { duration: Duration::from_secs(1), factor: 2, max: Duration::from_secs(60) };
    RetryPolicy { limit, backoff, restart: false }
}
