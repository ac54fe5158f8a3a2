//! From facts to events: what programs and people are told of an operation.
//!
//! An event is a function of a fact, and of what the facts before it say about the request and the plan. So whoever reads
//! an operation's log is told the same as whoever listened while it was written, and an event is known by the sequence
//! number of its fact.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_model::{
    Action, Digest, IfTaken, ObjectKey, OperationId, OperationPhase, Override, Phase, Plan, PlannedWave,
    TakenPlan, TaskId, Timestamp, WaveNumbers,
};

use super::fact::{DeadlineScope, Fact};
use super::state::{ClaimNews, Loss, Stage, State, Verdict};

/// Something that happened to an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Whose log has the fact.
    pub operation: OperationId,
    /// Name of the application it works on, as the request has it.
    pub application: String,
    /// Number of the fact it tells of, from 1. Numbers of one operation only grow; most facts are too small to be told,
    /// so many numbers are left out.
    pub sequence: u64,
    /// By the clock of the engine that recorded it. `None` for a few facts that carry no time of their own: they follow
    /// the event before them closely.
    pub at: Option<Timestamp>,
    /// What the fact says, with objects in place of tasks.
    pub what: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum EventKind {
    /// The operation exists.
    Accepted,
    /// Its plan is fixed; or made anew, by an attempt after one whose plan was not valid.
    Planned {
        /// How many waves there are.
        waves: usize,
        /// How many things are to be done, in all waves together: applies, prunes, and what is left as it is.
        tasks: usize,
    },
    /// It has gone to another stage.
    Moved {
        /// The stage it is in from now on.
        to: Stage,
        /// The wave that is at work there; `None` for stages outside of waves.
        wave: Option<WaveName>,
    },
    /// A gate has answered about the wave that waits for it.
    Gate {
        /// Its name as the wave gives it, such as `window:night`.
        gate: String,
        /// Open, or why not.
        verdict: Verdict,
    },
    /// A task has ended.
    Task {
        /// The object that was to be written, run or pruned.
        object: ObjectKey,
        /// `Succeeded`, `Failed` or `Error`.
        phase: OperationPhase,
        /// The task's message: the cluster's words, or the health message. Empty where nothing is to be said.
        message: String,
    },
    /// An object is pruned.
    Prune {
        /// The object of the application that is wanted no more.
        object: ObjectKey,
        /// It is gone; otherwise it is on its way out.
        gone: bool,
    },
    /// A hook was stopped, because the operation or the hook is to end.
    HookStopped {
        /// The hook's object, which may be deleted by now.
        object: ObjectKey,
        /// How it had ended, or `Failed` when it was still at work or could not be stopped. While the operation
        /// terminates also `Succeeded`, where there was no object of it.
        phase: OperationPhase,
        /// Its health message, the reason it was stopped for, or why it could not be deleted.
        message: String,
        /// It could be stopped; otherwise it may still be at work.
        clean: bool,
    },
    /// The cluster took a manifest and warns of it.
    Warned {
        /// The object of the manifest.
        object: ObjectKey,
        /// All warnings of this write or trial, in the cluster's words.
        warnings: Vec<String>,
    },
    /// A deadline has passed.
    DeadlinePassed {
        /// What was too late.
        of: Deadline,
        /// In words, with how long the deadline was.
        message: String,
    },
    /// A namespace that the operation writes into is being deleted. The wave at work ends, and has failed.
    NamespaceTerminating {
        /// `metadata.name` of the namespace.
        namespace: String,
    },
    /// A namespace that the operation writes into is lost. A wave that is at work ends, and has failed.
    NamespaceLost {
        /// `metadata.name` of the namespace.
        namespace: String,
        /// What became of it.
        loss: Loss,
    },
    /// An attempt has failed.
    AttemptFailed {
        /// As the operation's message says it, if no other attempt is made.
        message: String,
        /// Another attempt could end differently.
        retriable: bool,
    },
    /// Another attempt begins.
    RetryStarted {
        /// Its number, from 2.
        attempt: u32,
    },
    /// Something became of the claim on the application.
    Claim {
        /// As whoever keeps the claim told it.
        news: ClaimNews,
        /// What it means for this operation, in words.
        message: String,
    },
    /// A person ends the operation.
    TerminateRequested {
        /// The person's name, as the caller gave it.
        by: String,
    },
    /// A person holds the operation.
    Paused {
        /// The person's name, as the caller gave it.
        by: String,
        /// The person's words; may be empty.
        reason: String,
    },
    /// A person lets it go on.
    Unpaused {
        /// The person's name, as the caller gave it.
        by: String,
    },
    /// A person approves the prunes that wait for confirmation.
    PruneConfirmed {
        /// The person's name, as the caller gave it.
        by: String,
    },
    /// A person approves a wave.
    Approved {
        /// Its position in the plan, from 0; people count from 1.
        wave: u32,
        /// The person's name, as the caller gave it.
        by: String,
        /// The person's words; may be empty.
        reason: String,
    },
    /// A person skips a task, marks it as done, or has it tried again.
    Overridden {
        /// The task's object.
        object: ObjectKey,
        /// What was decided.
        what: Override,
        /// The person's name, as the caller gave it.
        by: String,
        /// The person's words; empty only where something is tried again.
        reason: String,
    },
    /// Its objects are judged by other health rules than before.
    HealthRulesChanged {
        /// Which, as whoever has them tells them apart.
        digest: Digest,
    },
    /// The cluster does not answer. Told once, until it has answered again.
    ClusterSilent {
        /// What was met.
        message: String,
    },
    /// Changes in the cluster are not seen, or are seen again.
    Watching {
        /// What the cluster says; `None` when they are seen again.
        trouble: Option<String>,
    },
    /// The operation is over. No event follows.
    Finished {
        /// `Succeeded`, `Failed` or `Error`.
        phase: OperationPhase,
        /// The operation's last message.
        message: String,
    },
    /// It carries out a plan that was kept before.
    PlanTaken {
        /// Which one, and who has approved it.
        plan: Box<TakenPlan>,
    },
}

/// A wave by the words of its manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaveName {
    /// The phase it belongs to: `PreSync`, `Sync` …
    pub phase: Phase,
    /// Its number in the phase, as the `sync-wave` annotations of its objects have it, also where they are deleted; may be
    /// negative.
    pub wave: i64,
}

impl WaveName {
    /// Of a wave of a plan, with the numbers that people know its waves by.
    pub fn of(wave: &PlannedWave, numbers: &WaveNumbers) -> Self {
        Self { phase: wave.phase, wave: numbers.shown(wave.phase, wave.wave) }
    }
}

/// What a deadline was set for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deadline {
    /// The operation, from its start, by its request.
    Operation,
    /// The wave at work, from its opening, by the wave's timeout.
    Wave,
    /// A hook, from when it was applied or handed to its runner.
    Hook(ObjectKey),
}

/// Tells the facts of one operation as events, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Narrator {
    /// Number of the fact it has told last, or passed over.
    sequence: u64,
    about: Option<About>,
    plan: Arc<Plan>,
    /// Whether health rules were known before.
    judged: bool,
    /// Whether the cluster did not answer when it was last called.
    silent: bool,
}

/// Whose facts they are.
#[derive(Clone, Debug, PartialEq)]
struct About {
    operation: OperationId,
    application: String,
    /// It deletes the application.
    is_deletion: bool,
    /// It waits for a claim that another operation has.
    waits: bool,
}

impl Narrator {
    /// One that goes on after the fact with this number, where the operation stands as it did then.
    pub fn of(state: &State, sequence: u64) -> Self {
        let about = state.header().map(|header| About {
            operation: header.operation,
            application: header.request.application.clone(),
            is_deletion: header.request.deletion.is_some(),
            waits: waits(header.request.claim.as_ref().map(|claim| claim.if_taken)),
        });
        let plan = state.operation().map(|operation| Arc::clone(&operation.plan)).unwrap_or_default();
        let header = state.header();
        let judged = header.is_some_and(|header| header.health_rules.is_some());
        let silent = header.is_some_and(|header| header.outage.is_some());
        Self { sequence, about, plan, judged, silent }
    }

    /// One that goes on after the fact with this number, where only a later state is known: facts were compacted. `facts`
    /// are those it will tell.
    pub fn of_later(state: &State, sequence: u64, facts: &[Fact]) -> Self {
        let later = Self::of(state, sequence);
        // Then the later plan is not the one these facts begin with, which nobody knows any more: what names no object of it
        // is told.
        let plans = facts.iter().any(|fact| matches!(fact, Fact::Planned { .. }));
        if plans { Self { plan: Arc::default(), ..later } } else { later }
    }

    /// Number of the fact it has told last, or passed over.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The event that the next fact is; `None` where it is too small to be told.
    pub fn tell(&mut self, fact: &Fact) -> Option<Event> {
        self.sequence = self.sequence.saturating_add(1);
        match fact {
            Fact::Accepted { operation, request, .. } => {
                self.about = Some(About {
                    operation: *operation,
                    application: request.application.clone(),
                    is_deletion: request.deletion.is_some(),
                    waits: waits(request.claim.as_ref().map(|claim| claim.if_taken)),
                });
            }
            Fact::Planned { plan, .. } => self.plan = Arc::clone(plan),
            Fact::RetryPlansAnew { .. } => self.plan = Arc::default(),
            // What was not valid is planned anew.
            Fact::RetryStarted { .. } if !self.plan.errors().is_empty() => self.plan = Arc::default(),
            _ => {}
        }
        let judged = self.judged;
        self.judged |= matches!(fact, Fact::HealthRulesKnown { .. });
        let silent = self.silent;
        if matches!(fact, Fact::CallFailed { outage: true, .. }) {
            self.silent = true;
        } else if fact.is_answer() || matches!(fact, Fact::Planned { .. } | Fact::Claim { .. }) {
            self.silent = false;
        }
        let about = self.about.as_ref()?;
        let (what, at) = match fact {
            Fact::HealthRulesKnown { .. } if !judged => return None,
            Fact::CallFailed { .. } if silent => return None,
            fact => self.of_operation(about, fact).or_else(|| self.of_task(fact))?,
        };
        let About { operation, application, .. } = about;
        Some(Event {
            operation: *operation,
            application: application.clone(),
            sequence: self.sequence,
            at,
            what,
        })
    }

    fn of_operation(&self, about: &About, fact: &Fact) -> Option<(EventKind, Option<Timestamp>)> {
        let (what, at) = match fact {
            Fact::Accepted { at, .. } => (EventKind::Accepted, at),
            Fact::Planned { plan, at, .. } => {
                (EventKind::Planned { waves: plan.waves.len(), tasks: plan.tasks.len() }, at)
            }
            Fact::Moved { to, at } => (EventKind::Moved { to: to.clone(), wave: self.wave(to) }, at),
            Fact::GateAnswered { gate, verdict, at } => {
                (EventKind::Gate { gate: gate.clone(), verdict: verdict.clone() }, at)
            }
            Fact::DeadlinePassed { scope, message, at } => {
                let of = match scope {
                    DeadlineScope::Operation => Deadline::Operation,
                    DeadlineScope::Wave => Deadline::Wave,
                    DeadlineScope::Hook(task) => Deadline::Hook(self.object(*task)?),
                };
                (EventKind::DeadlinePassed { of, message: message.clone() }, at)
            }
            Fact::NamespaceTerminating { namespace, at } => {
                (EventKind::NamespaceTerminating { namespace: namespace.clone() }, at)
            }
            Fact::NamespaceLost { namespace, loss: Loss::Terminating, at } => {
                (EventKind::NamespaceTerminating { namespace: namespace.clone() }, at)
            }
            Fact::NamespaceLost { namespace, loss, at } => {
                (EventKind::NamespaceLost { namespace: namespace.clone(), loss: *loss }, at)
            }
            Fact::AttemptFailed { message, retriable, at } => {
                (EventKind::AttemptFailed { message: message.clone(), retriable: *retriable }, at)
            }
            Fact::RetryStarted { attempt, at } | Fact::RetryPlansAnew { attempt, at } => {
                (EventKind::RetryStarted { attempt: *attempt }, at)
            }
            Fact::Claim { news, at } => {
                (EventKind::Claim { news: news.clone(), message: claim(about.waits, news) }, at)
            }
            Fact::TerminateRequested { by, at } => (EventKind::TerminateRequested { by: by.clone() }, at),
            Fact::Paused { by, reason, at } => {
                (EventKind::Paused { by: by.clone(), reason: reason.clone() }, at)
            }
            Fact::Unpaused { by, at } => (EventKind::Unpaused { by: by.clone() }, at),
            Fact::PruneConfirmed { by, at } => (EventKind::PruneConfirmed { by: by.clone() }, at),
            Fact::Approved { wave, by, reason, at } => {
                (EventKind::Approved { wave: *wave, by: by.clone(), reason: reason.clone() }, at)
            }
            Fact::HealthRulesKnown { digest, at } => (EventKind::HealthRulesChanged { digest: *digest }, at),
            Fact::CallFailed { outage: true, message, at, .. } => {
                (EventKind::ClusterSilent { message: message.clone() }, at)
            }
            Fact::PlanTaken { plan, at } => (EventKind::PlanTaken { plan: plan.clone() }, at),
            Fact::Watching { trouble, at } => (EventKind::Watching { trouble: trouble.clone() }, at),
            Fact::Finished { phase, message, at } => {
                (EventKind::Finished { phase: *phase, message: message.clone() }, at)
            }
            _ => return None,
        };
        Some((what, Some(*at)))
    }

    fn of_task(&self, fact: &Fact) -> Option<(EventKind, Option<Timestamp>)> {
        Some(match fact {
            Fact::TaskCompleted { task, phase, message, at }
            | Fact::TaskFailed { task, phase, message, at } => {
                let object = self.object(*task)?;
                (EventKind::Task { object, phase: *phase, message: message.clone() }, Some(*at))
            }
            Fact::Overridden { task, what, by, reason, at } => {
                let (object, by, reason) = (self.object(*task)?, by.clone(), reason.clone());
                (EventKind::Overridden { object, what: *what, by, reason }, Some(*at))
            }
            Fact::DeletionBegun { task } => (self.prune(*task, false)?, None),
            Fact::PruneSent { task, gone } => (self.prune(*task, *gone)?, None),
            Fact::ObjectGone { task } => (self.prune(*task, true)?, None),
            Fact::HookStopped { task, phase, message, clean } => {
                let (object, message) = (self.object(*task)?, message.clone());
                (EventKind::HookStopped { object, phase: *phase, message, clean: *clean }, None)
            }
            Fact::Warned { task, warnings } => {
                (EventKind::Warned { object: self.object(*task)?, warnings: warnings.clone() }, None)
            }
            _ => return None,
        })
    }

    fn object(&self, task: TaskId) -> Option<ObjectKey> {
        self.plan.task(task).map(tidegate_model::Task::key)
    }

    /// Older hook objects go as well; that is no prune.
    fn prune(&self, task: TaskId, gone: bool) -> Option<EventKind> {
        let task = self.plan.task(task).filter(|task| task.action == Action::Prune)?;
        Some(EventKind::Prune { object: task.key(), gone })
    }

    fn wave(&self, stage: &Stage) -> Option<WaveName> {
        let Stage::Wave { index, .. } = stage else { return None };
        let wave = self.plan.waves.get(TaskId(*index).index())?;
        let is_deletion = self.about.as_ref().is_some_and(|about| about.is_deletion);
        Some(WaveName::of(wave, &self.plan.wave_numbers(is_deletion)))
    }
}

fn waits(if_taken: Option<IfTaken>) -> bool {
    if_taken.is_some_and(|if_taken| if_taken != IfTaken::Refuse)
}

/// What news of a claim mean, for people.
fn claim(waits: bool, news: &ClaimNews) -> String {
    match news {
        ClaimNews::Held { .. } => "has the claim on the application".to_owned(),
        ClaimNews::Taken { holder, at_work } if waits || *at_work => {
            format!("waiting for the end of {holder}")
        }
        ClaimNews::Taken { holder, .. } => {
            format!("the application is claimed by {holder}; looking whether that is still at work")
        }
        ClaimNews::Without { reason } => format!("going on without a claim on the application: {reason}"),
        ClaimNews::Lost { holder: Some(holder) } => format!("lost the claim on the application to {holder}"),
        ClaimNews::Lost { holder: None } => {
            "lost the claim on the application to an operation that is over".to_owned()
        }
        ClaimNews::EndWanted { by } => format!("asked to end by {by}"),
    }
}
