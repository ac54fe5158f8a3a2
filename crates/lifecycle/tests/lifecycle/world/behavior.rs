//! Behavior of objects, and disturbances between the machine and the cluster.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_lifecycle::operation::CallError;
use tidegate_model::{Health, HealthStatus, Task};

/// Answer of the cluster to one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Success,
    /// The call fails with a transient error.
    Busy,
    /// The call fails with a transient error, and the server requests a delay of this many milliseconds.
    RetryAfter(u64),
    /// A backend of the cluster doesn't respond.
    Stalled,
    /// The cluster doesn't respond.
    Unreachable,
    Rejected(String),
    /// The object must not be pruned, for this reason. Only for prunes.
    LeftAlone(String),
}

impl Reply {
    pub fn into_result<T>(self, value: T) -> Result<T, CallError> {
        match self {
            Self::Success | Self::LeftAlone(_) => Ok(value),
            Self::Busy => Err(CallError::transient("the server is busy")),
            Self::RetryAfter(millis) => Err(CallError {
                retry_after: Some(Duration::from_millis(millis)),
                ..CallError::transient("too many requests")
            }),
            Self::Stalled => {
                Err(CallError { has_few_retries: true, ..CallError::transient("failed calling webhook") })
            }
            Self::Unreachable => Err(CallError::outage("connection refused")),
            Self::Rejected(message) => Err(CallError::permanent(message)),
        }
    }
}

/// Evidence that an object's health refers to its current spec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EvidenceKind {
    Generation,
    Identity,
    Nothing,
}

/// Future behavior of a task's object. Each call uses up one reply; when none are left, calls succeed.
#[derive(Clone, Debug)]
pub struct Behavior {
    pub check: VecDeque<Reply>,
    /// Replies to calls that apply, prune or free a name.
    pub write: VecDeque<Reply>,
    /// Replies to calls that release, delete or stop a hook.
    pub end: VecDeque<Reply>,
    /// Health values, each with its start in milliseconds after the write. Empty for kinds without health.
    pub health: Vec<(i64, Health)>,
    pub evidence: EvidenceKind,
    /// Duration of the object's deletion in milliseconds. `i64::MAX` means forever.
    pub deletion_delay: i64,
    /// True if the object can't be changed and is therefore deleted and recreated.
    pub is_recreated: bool,
    /// Reason why the object still exists while it is being deleted.
    pub kept_by: String,
    /// Run times of other operations' hooks, in milliseconds. Each hook takes the object's name just before
    /// the object itself would be created.
    pub rivals: VecDeque<i64>,
    /// Delay between the write and the deletion by another client.
    pub deleted_after: Option<i64>,
    /// True if the health rule for the kind fails, so that the health is Unknown.
    pub has_broken_health_rule: bool,
    /// True if the hook's Job is created suspended and must be started.
    pub starts_suspended: bool,
    /// True if the hook runner succeeds.
    pub runner_succeeds: bool,
    /// Log of the object's containers, or `None` if logs aren't available.
    pub log: Option<String>,
    /// Warnings that the cluster returns for dry runs and writes.
    pub warnings: Vec<String>,
}

impl Behavior {
    /// Returns the default behavior: the object becomes healthy a second after the write, if its kind has
    /// health.
    pub fn default_for(task: &Task) -> Self {
        let health = match task.gvk.kind.as_str() {
            "ConfigMap" | "Namespace" => Vec::new(),
            _ => vec![
                (0, health_of(HealthStatus::Progressing, "starting")),
                (1000, health_of(HealthStatus::Healthy, "")),
            ],
        };
        Self {
            check: VecDeque::new(),
            write: VecDeque::new(),
            end: VecDeque::new(),
            health,
            evidence: EvidenceKind::Generation,
            deletion_delay: 0,
            is_recreated: false,
            kept_by: String::new(),
            rivals: VecDeque::new(),
            deleted_after: None,
            has_broken_health_rule: false,
            warnings: Vec::new(),
            starts_suspended: false,
            runner_succeeds: true,
            log: None,
        }
    }

    /// Makes the object fail permanently.
    pub fn degrade(&mut self, message: &str) {
        self.health = vec![
            (0, health_of(HealthStatus::Progressing, "starting")),
            (1000, health_of(HealthStatus::Degraded, message)),
        ];
    }

    pub fn health_at(&self, age: i64) -> Option<Health> {
        let now = self.health.iter().rev().find(|(from, _)| *from <= age);
        now.or(self.health.first()).map(|(_, health)| health.clone())
    }
}

pub fn health_of(status: HealthStatus, message: &str) -> Health {
    Health::new(status, message)
}

/// Small generator of repeatable pseudo-random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    pub fn chance(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// Disturbances between the machine and the cluster. None by default, so that every answer arrives
/// immediately.
#[derive(Clone, Debug)]
pub struct Disturbances {
    pub rng: Rng,
    /// Maximum delay of an answer, in milliseconds.
    pub max_delay: u64,
    /// Chance in percent that a command is executed twice.
    pub repeat_chance: u64,
    /// Chance in percent that an observation is repeated, old or lost.
    pub distortion_chance: u64,
    /// Chance in percent, at each step, that the engine crashes and recovers.
    pub crash_chance: u64,
    /// Chance in percent, at each step, that a user pauses, unpauses, confirms or terminates the operation.
    pub request_chance: u64,
    pub can_terminate: bool,
}

impl Disturbances {
    pub fn calm() -> Self {
        Self {
            rng: Rng(0),
            max_delay: 0,
            repeat_chance: 0,
            distortion_chance: 0,
            crash_chance: 0,
            request_chance: 0,
            can_terminate: false,
        }
    }
}
