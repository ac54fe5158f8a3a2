//! The extension API. Gates, hook runners, health judges and notifiers are ractor actors in the embedding
//! program.
//!
//! Spawn the actor, then register it by name with [`EngineBuilder`](crate::EngineBuilder). Annotations refer
//! to that name:
//!
//! | actor | message | referenced by |
//! | --- | --- | --- |
//! | gate | [`GateRequest`] | `tidegate.dev/gate: <name>` on any resource of the wave |
//! | hook runner | [`HookRun`] | `tidegate.dev/hook-runner: <name>` on the hook |
//! | health judge | [`HealthRequest`] | `tidegate.dev/health-judge: <name>` on the resource |
//! | notifier | [`Event`](crate::Event) | receives every event: those after its registration, or all after a position |
//!
//! If an extension isn't registered, panics or doesn't reply in time, the engine keeps running, and no gate
//! opens by accident. A gate is *closed because …*, a health judge reports *Progressing because …*, and the
//! hook of a hook runner is *Failed because …*.

use std::collections::BTreeMap;
use std::time::Duration;

/// The actor library, re-exported in the engine's version.
pub use ractor;
use ractor::{ActorRef, RpcReplyPort};
use tidegate_lifecycle::operation::Verdict;
use tidegate_model::{Health, HealthStatus, Object, ObjectKey, OperationId, Phase};
use tokio::sync::watch;

/// Maximum time to wait for a reply from a gate or a health judge.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Asks a gate whether a wave or a step of a progressive sync may start. For a step, `operation` is the
/// rollout, `application` is the ApplicationSet as `namespace/name`, and `wave` is the number of the step,
/// starting at 1.
///
/// The engine sends the request once. Whenever the verdict changes, the gate sends another, until
/// [`GateReply::is_wanted`] returns false. A gate that can't do that sends a single verdict, with the time at
/// which the engine must ask again.
#[derive(Debug)]
pub struct GateRequest {
    /// ID of the operation.
    pub operation: OperationId,
    /// Name of the operation's application.
    pub application: String,
    /// Phase of the wave.
    pub phase: Phase,
    /// Wave in the phase.
    pub wave: i64,
    /// Objects of the wave.
    pub objects: Vec<ObjectKey>,
    /// Receiver of the verdicts: open, or closed with a reason.
    pub reply: GateReply,
}

/// Receiver of a gate's verdicts. A gate may send any number of them, and the newest counts. Can be cloned
/// and stored.
#[derive(Clone, Debug)]
pub struct GateReply(watch::Sender<Option<Verdict>>);

impl GateReply {
    pub(crate) fn new() -> (Self, watch::Receiver<Option<Verdict>>) {
        let (reply, answers) = watch::channel(None);
        (Self(reply), answers)
    }

    /// Sends a verdict. Returns false if it isn't needed anymore, because the wave has started or the
    /// operation has finished.
    pub fn send(&self, verdict: Verdict) -> bool {
        self.0.send(Some(verdict)).is_ok()
    }

    /// Returns true if the wave is waiting for a verdict, or if a later verdict can still affect it.
    pub fn is_wanted(&self) -> bool {
        !self.0.is_closed()
    }

    /// Waits until no more verdicts are needed, so that the gate can stop its work.
    pub async fn wait_until_unwanted(&self) {
        self.0.closed().await;
    }
}

/// Asks a runner to run a hook.
///
/// If the engine is killed and restarted, a runner may receive the same operation, hook and attempt twice. It
/// must do the work for these three values only once.
#[derive(Debug)]
pub struct HookRun {
    /// ID of the hook's operation.
    pub operation: OperationId,
    /// Name of the operation's application.
    pub application: String,
    /// Attempt of the operation, starting at 1.
    pub attempt: u32,
    /// Planned manifest. The engine doesn't write it to the cluster.
    pub manifest: Object,
    /// Cancellation signal.
    pub cancellation: Cancellation,
    /// Receiver of the hook's result. The engine enforces only the hook's own timeout.
    pub reply: RpcReplyPort<HookResult>,
}

/// Signal that a running hook was canceled by a user, a deadline, a lost claim, or the failure of its
/// operation. Its result is then ignored.
#[derive(Clone, Debug)]
pub struct Cancellation(watch::Receiver<bool>);

impl Cancellation {
    pub(crate) fn new() -> (watch::Sender<bool>, Self) {
        let (cancel, cancelled) = watch::channel(false);
        (cancel, Self(cancelled))
    }

    /// Returns true if the hook was canceled.
    pub fn is_canceled(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when the hook is canceled. Never completes if the hook finishes normally, or if the engine
    /// stops; the next engine then runs the hook again.
    pub async fn wait_until_canceled(&mut self) {
        if self.0.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Result of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookResult {
    /// Success, with a message.
    Succeeded(String),
    /// Failure, with a reason.
    Failed(String),
}

/// Asks a judge for the health of an object.
#[derive(Debug)]
pub struct HealthRequest {
    /// The live object.
    pub object: Object,
    /// Receiver of the object's health.
    pub reply: RpcReplyPort<Health>,
}

/// Registered extensions by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extensions {
    pub gates: BTreeMap<String, ActorRef<GateRequest>>,
    pub runners: BTreeMap<String, ActorRef<HookRun>>,
    pub judges: BTreeMap<String, ActorRef<HealthRequest>>,
}

impl Extensions {
    /// Returns the names of the registered extensions.
    pub fn names(&self) -> crate::effects::ExtensionNames {
        crate::effects::ExtensionNames {
            gates: self.gates.keys().cloned().collect(),
            hook_runners: self.runners.keys().cloned().collect(),
            health_judges: self.judges.keys().cloned().collect(),
        }
    }

    /// Asks a health judge about an object. Errors become a Progressing status with a reason.
    pub async fn request_health(&self, name: &str, object: Object) -> Health {
        let progressing = |reason| Health::new(HealthStatus::Progressing, reason);
        let Some(judge) = self.judges.get(name) else {
            return progressing(format!("no health judge named {name} is registered with this engine"));
        };
        match request_answer(judge, |reply| HealthRequest { object, reply }).await {
            Ok(health) => health,
            Err(problem) => progressing(format!("health judge {name} {problem}")),
        }
    }

    /// Hands a hook to its runner, and waits for the result.
    pub async fn run_hook(
        &self,
        name: &str,
        run: impl FnOnce(RpcReplyPort<HookResult>) -> HookRun,
    ) -> HookResult {
        let Some(runner) = self.runners.get(name) else {
            return HookResult::Failed(format!("no hook runner named {name} is registered with this engine"));
        };
        let (send, receive) = tokio::sync::oneshot::channel();
        if runner.send_message(run(send.into())).is_err() {
            return HookResult::Failed(format!("hook runner {name} is not running"));
        }
        receive
            .await
            .unwrap_or_else(|_| HookResult::Failed(format!("hook runner {name} ended without a result")))
    }
}

/// Sends a request to an actor, and waits a limited time for the reply.
async fn request_answer<Q, A>(
    actor: &ActorRef<Q>,
    question: impl FnOnce(RpcReplyPort<A>) -> Q,
) -> Result<A, String>
where
    Q: ractor::Message,
{
    let (send, receive) = tokio::sync::oneshot::channel();
    if actor.send_message(question(send.into())).is_err() {
        return Err("is not running".to_owned());
    }
    match tokio::time::timeout(ANSWER_TIMEOUT, receive).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err("ended without a result".to_owned()),
        Err(_) => Err(format!("did not respond within {} s", ANSWER_TIMEOUT.as_secs())),
    }
}
