//! Golden operations: small deployments that between them use everything an operation can do.

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

pub use golden::all;

/// One deployment.
#[derive(Clone)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Operations that ran before, so that there is something in the cluster.
    pub before: Vec<Sync>,
    /// The operation under test.
    pub sync: Sync,
    /// What people do meanwhile.
    pub script: Vec<Act>,
    /// How it must end.
    pub ends: OperationPhase,
    /// Part of its final message.
    pub says: &'static str,
}

/// One operation.
#[derive(Clone)]
pub struct Sync {
    /// YAML.
    pub manifests: String,
    /// What is asked.
    pub request: SyncRequest,
}

/// What a person does as soon as an operation looks like this.
#[derive(Clone, Copy)]
pub struct Act {
    /// When.
    pub when: fn(&OperationView) -> bool,
    /// What.
    pub what: What,
}

/// What a person can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// End it.
    Terminate,
    /// Hold it.
    Pause,
    /// Let it go on.
    Unpause,
    /// Approve its prunes.
    Confirm,
    /// Skip this task, mark it as done, or have it tried again.
    Override(Override, &'static str),
}

impl Sync {
    /// A sync of these manifests as application `shop` in namespace `default`.
    pub fn of(manifests: &str) -> Self {
        Self { manifests: manifests.to_owned(), request: request() }
    }

    /// With other options.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut SyncRequest)) -> Self {
        change(&mut self.request);
        self
    }

    /// The manifests, parsed.
    pub fn targets(&self) -> Targets {
        let targets =
            tidegate_planner::manifests::parse("golden.yaml", self.manifests.as_bytes(), &Limits::default());
        Targets { targets: targets.expect("a golden manifest is valid"), ..Targets::default() }
    }
}

fn request() -> SyncRequest {
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

/// Some retries, one second apart.
pub fn retries(limit: i64) -> RetryPolicy {
    let backoff = Backoff { duration: Duration::from_secs(1), factor: 2, max: Duration::from_secs(60) };
    RetryPolicy { limit, backoff, restart: false }
}
