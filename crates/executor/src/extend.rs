//! The extension API: gates, hook runners, health judges and notifiers are ractor actors of your own.
//!
//! Spawn the actor, then register it by name with [`EngineBuilder`](crate::EngineBuilder); annotations name it:
//!
//! | actor | message it gets | named by |
//! | --- | --- | --- |
//! | gate | [`GateQuestion`] | `tidegate.dev/gate: <name>` on any resource of the wave |
//! | hook runner | [`HookRun`] | `tidegate.dev/hook-runner: <name>` on the hook |
//! | health judge | [`HealthQuestion`] | `tidegate.dev/health-judge: <name>` on the resource |
//! | notifier | [`Event`](crate::Event) | gets every event: those from its registration on, or all after what it has seen |
//!
//! An extension that is not registered, panics or does not answer in time never opens anything by accident and never
//! takes an operation down: a gate is then *closed because …*, a health judge *Progressing because …*, a hook runner's
//! hook *Failed because …*.

use std::collections::BTreeMap;
use std::time::Duration;

/// The actor library, in the version the engine uses.
pub use ractor;
use ractor::{ActorRef, RpcReplyPort};
use tidegate_lifecycle::operation::Verdict;
use tidegate_model::{Health, HealthStatus, Object, ObjectKey, OperationId, Phase};
use tokio::sync::watch;

/// How long a gate or a health judge may take to answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// May this wave begin? Or this step of a progressive sync: then `operation` is the rollout, `application` the
/// `namespace/name` of the ApplicationSet, and `wave` the number of the step, from 1.
///
/// It is asked once. A gate whose answer changes later says so by itself, for as long as somebody
/// [listens](GateReply::is_wanted); one that cannot answers once, and says when to ask again.
#[derive(Debug)]
pub struct GateQuestion {
    /// The operation that asks.
    pub operation: OperationId,
    /// Name of the application that the operation works on.
    pub application: String,
    /// Phase of the wave.
    pub phase: Phase,
    /// Wave inside the phase.
    pub wave: i64,
    /// What the wave holds.
    pub objects: Vec<ObjectKey>,
    /// Answers go here: open, or closed because.
    pub reply: GateReply,
}

/// Where the answers of a gate go: any number of them, of which the newest counts. It can be cloned, and kept for as long as
/// the gate likes.
#[derive(Clone, Debug)]
pub struct GateReply(watch::Sender<Option<Verdict>>);

impl GateReply {
    pub(crate) fn new() -> (Self, watch::Receiver<Option<Verdict>>) {
        let (reply, answers) = watch::channel(None);
        (Self(reply), answers)
    }

    /// Answers. Returns whether anybody listens: nobody does once the wave has begun, or the operation has ended.
    pub fn send(&self, verdict: Verdict) -> bool {
        self.0.send(Some(verdict)).is_ok()
    }

    /// Whether the wave still waits for an answer, or a later one may matter to it.
    pub fn is_wanted(&self) -> bool {
        !self.0.is_closed()
    }

    /// Returns when nobody listens any more, for a gate that works for its answers.
    pub async fn unwanted(&self) {
        self.0.closed().await;
    }
}

/// Carry out this hook.
///
/// It may come twice for the same operation, hook and attempt, when the engine was killed in between: do the work
/// once, by these three.
#[derive(Debug)]
pub struct HookRun {
    /// Id of the operation that the hook belongs to.
    pub operation: OperationId,
    /// Name of the application that the operation works on.
    pub application: String,
    /// Which attempt of the operation, from 1.
    pub attempt: u32,
    /// The manifest as the plan has it. It is not written to the cluster.
    pub manifest: Object,
    /// Tells whether the hook was cancelled meanwhile.
    pub cancellation: Cancellation,
    /// How it ended goes here. There is no time limit but the hook's own.
    pub reply: RpcReplyPort<HookEnd>,
}

/// Whether a hook at work was cancelled: by a person, a deadline, a lost claim, or the failure of its operation. Nobody waits
/// for its end any more then, and what it did is not taken into account.
#[derive(Clone, Debug)]
pub struct Cancellation(watch::Receiver<bool>);

impl Cancellation {
    pub(crate) fn new() -> (watch::Sender<bool>, Self) {
        let (cancel, cancelled) = watch::channel(false);
        (cancel, Self(cancelled))
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when it is cancelled. It never does for a hook that ends by itself, and for one whose engine goes away: that
    /// one is run again, by whichever engine goes on.
    pub async fn cancelled(&mut self) {
        if self.0.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// How the work of a hook ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookEnd {
    /// Done; with a word about it.
    Succeeded(String),
    /// Failed; with the reason.
    Failed(String),
}

/// How well does this object do?
#[derive(Debug)]
pub struct HealthQuestion {
    /// The object as it is in the cluster.
    pub object: Object,
    /// The answer goes here.
    pub reply: RpcReplyPort<Health>,
}

/// The registered extensions, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extensions {
    pub gates: BTreeMap<String, ActorRef<GateQuestion>>,
    pub runners: BTreeMap<String, ActorRef<HookRun>>,
    pub judges: BTreeMap<String, ActorRef<HealthQuestion>>,
}

impl Extensions {
    /// The names under which extensions were registered, without the extensions.
    pub fn names(&self) -> crate::effects::ExtensionNames {
        crate::effects::ExtensionNames {
            gates: self.gates.keys().cloned().collect(),
            hook_runners: self.runners.keys().cloned().collect(),
            health_judges: self.judges.keys().cloned().collect(),
        }
    }

    /// Asks a health judge. Whatever goes wrong, the answer is "Progressing because".
    pub async fn ask_judge(&self, name: &str, object: Object) -> Health {
        let progressing = |reason| Health::new(HealthStatus::Progressing, reason);
        let Some(judge) = self.judges.get(name) else {
            return progressing(format!("no health judge named {name} is registered with this engine"));
        };
        match ask(judge, |reply| HealthQuestion { object, reply }).await {
            Ok(health) => health,
            Err(problem) => progressing(format!("health judge {name} {problem}")),
        }
    }

    /// Hands a hook to a runner and waits for its end.
    pub async fn run_hook(&self, name: &str, run: impl FnOnce(RpcReplyPort<HookEnd>) -> HookRun) -> HookEnd {
        let Some(runner) = self.runners.get(name) else {
            return HookEnd::Failed(format!("no hook runner named {name} is registered with this engine"));
        };
        let (send, receive) = tokio::sync::oneshot::channel();
        if runner.send_message(run(send.into())).is_err() {
            return HookEnd::Failed(format!("hook runner {name} is not running"));
        }
        receive
            .await
            .unwrap_or_else(|_| HookEnd::Failed(format!("hook runner {name} ended without an answer")))
    }
}

/// Asks an actor and waits a limited time for its answer.
async fn ask<Q, A>(actor: &ActorRef<Q>, question: impl FnOnce(RpcReplyPort<A>) -> Q) -> Result<A, String>
where
    Q: ractor::Message,
{
    let (send, receive) = tokio::sync::oneshot::channel();
    if actor.send_message(question(send.into())).is_err() {
        return Err("is not running".to_owned());
    }
    match tokio::time::timeout(ANSWER_WITHIN, receive).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err("ended without an answer".to_owned()),
        Err(_) => Err(format!("did not answer within {} s", ANSWER_WITHIN.as_secs())),
    }
}
