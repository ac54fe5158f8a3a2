//! What will happen to an object, and what the weather is like between the machine and the cluster.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_lifecycle::operation::CallError;
use tidegate_model::{Health, HealthStatus, Task};

/// How the cluster answers one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Fine,
    /// It may go better the next time.
    Busy,
    /// As `Busy`, and the server says when to come again, in milliseconds.
    Later(u64),
    /// Something behind the cluster does not answer.
    Stalled,
    /// The cluster does not answer.
    Away,
    No(String),
}

impl Reply {
    pub fn into_result<T>(self, value: T) -> Result<T, CallError> {
        match self {
            Self::Fine => Ok(value),
            Self::Busy => Err(CallError::transient("the server is busy")),
            Self::Later(millis) => Err(CallError {
                retry_after: Some(Duration::from_millis(millis)),
                ..CallError::transient("too many requests")
            }),
            Self::Stalled => {
                Err(CallError { few_tries: true, ..CallError::transient("failed calling webhook") })
            }
            Self::Away => Err(CallError::outage("connection refused")),
            Self::No(message) => Err(CallError::permanent(message)),
        }
    }
}

/// What an object's status proves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Proof {
    Generation,
    Identity,
    Nothing,
}

/// What will happen to the object of a task. Replies are used up one by one; after the last every call is fine.
#[derive(Clone, Debug)]
pub struct Fate {
    pub check: VecDeque<Reply>,
    /// To applying, pruning and clearing.
    pub write: VecDeque<Reply>,
    /// To releasing, deleting and stopping.
    pub end: VecDeque<Reply>,
    /// Health from so many milliseconds after the write; empty for kinds without health.
    pub health: Vec<(i64, Health)>,
    pub proof: Proof,
    /// How long it stays when it is deleted; `i64::MAX` for ever.
    pub lingers: i64,
    /// Whether it cannot be changed: it is deleted and created again.
    pub recreated: bool,
    /// What keeps it meanwhile.
    pub kept_by: String,
    /// Hooks of other operations that come into its place when it is about to be created, and how long each runs.
    pub rivals: VecDeque<i64>,
    /// When somebody deletes it, after the write.
    pub vanishes: Option<i64>,
    /// The rule for its kind fails: what is Unknown is so because of that.
    pub broken: bool,
    /// Whether a runner's work succeeds.
    pub runs: bool,
    /// What its containers write; `None` where nobody serves logs.
    pub log: Option<String>,
    /// What the cluster warns of, in trials and in earnest.
    pub warnings: Vec<String>,
}

impl Fate {
    /// A second after the write it is well, if its kind has health at all.
    pub fn of(task: &Task) -> Self {
        let health = match task.gvk.kind.as_str() {
            "ConfigMap" | "Namespace" => Vec::new(),
            _ => vec![
                (0, seen(HealthStatus::Progressing, "starting")),
                (1000, seen(HealthStatus::Healthy, "")),
            ],
        };
        Self {
            check: VecDeque::new(),
            write: VecDeque::new(),
            end: VecDeque::new(),
            health,
            proof: Proof::Generation,
            lingers: 0,
            recreated: false,
            kept_by: String::new(),
            rivals: VecDeque::new(),
            vanishes: None,
            broken: false,
            warnings: Vec::new(),
            runs: true,
            log: None,
        }
    }

    /// It never gets well.
    pub fn degrades(&mut self, message: &str) {
        self.health = vec![
            (0, seen(HealthStatus::Progressing, "starting")),
            (1000, seen(HealthStatus::Degraded, message)),
        ];
    }

    pub fn health_at(&self, age: i64) -> Option<Health> {
        let now = self.health.iter().rev().find(|(from, _)| *from <= age);
        now.or(self.health.first()).map(|(_, health)| health.clone())
    }
}

pub fn seen(status: HealthStatus, message: &str) -> Health {
    Health::new(status, message)
}

/// Small, repeatable pseudo-random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// What goes wrong between the machine and the cluster. Calm: nothing, and every answer comes at once.
#[derive(Clone, Debug)]
pub struct Weather {
    pub dice: Dice,
    /// Longest way of an answer, in milliseconds.
    pub slow: u64,
    /// Chance in percent that a command is carried out twice.
    pub twice: u64,
    /// Chance in percent that a sight is repeated, old, or lost.
    pub blurred: u64,
    /// Chance in percent, at each step, that the engine dies and recovers.
    pub crashes: u64,
    /// Chance in percent, at each step, that somebody pauses, unpauses, confirms or terminates.
    pub meddling: u64,
    pub may_terminate: bool,
}

impl Weather {
    pub fn calm() -> Self {
        Self { dice: Dice(0), slow: 0, twice: 0, blurred: 0, crashes: 0, meddling: 0, may_terminate: false }
    }
}
