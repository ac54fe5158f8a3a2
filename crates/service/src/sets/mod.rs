//! ApplicationSets, served: their Applications are made, changed and deleted as they are generated, synced step after step,
//! and deleted in order.
//!
//! ```text
//! SetStore ──▶ SetSupervisor ──links, restarts──▶ ApplicationSetActor, one per set
//!                 ▲       ▲                          │ looks (`pass`): generates, compares, writes
//!      Applications    repositories                  │ begins and tells machines of the engine
//!      changed (board) moved                         ▼
//!                                      Rollout (`rolling`), teardown (`tearing`) ──▶ actors of the Applications
//! ```
//!
//! What is to be done is decided in the crate `applicationset`. What takes long is recorded by a machine before it is done;
//! everything else is safe to be done again.

mod actor;
mod board;
mod foreseeing;
mod known;
mod left;
mod line;
mod members;
mod messages;
mod pass;
mod rolling;
mod serving;
mod shared;
mod shown;
mod standing;
mod supervisor;
mod tearing;
mod watched;
mod wishes;
mod world;
mod writing;

pub mod store;

use std::sync::Arc;

use ractor::{Actor, ActorRef};
use tidegate_applicationset::policy::Options;
use tidegate_applicationset::status::{Failure, Reason};
use tidegate_executor::EngineError;
use tidegate_lifecycle::rollout::Options as Cases;
use tidegate_model::argo::ApplicationSet;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use self::board::SetBoard;
use self::messages::SetSupervisorMessage;
use self::shared::SetShared;
use self::store::SetStore;
use self::supervisor::SetSupervisor;
use crate::applications::Serving;
use crate::applications::store::AppKey;
use crate::error::ServiceError;

pub use board::{FoundSets, SetCourse};
pub use foreseeing::RolloutPreview;
pub use line::{RolloutLine, SetLine};
pub use pass::taken;
pub use serving::{SetDeletion, SetServing};
pub use shown::shown;
pub use tidegate_applicationset::policy::Options as PolicyOptions;
pub use wishes::{AskedRetry, HeldDeletions, SetExplanation, SetWish};

/// What is decided for all ApplicationSets of a process.
#[derive(Clone, Debug, Default)]
pub struct SetOptions {
    /// What may be done with their Applications, and how often they are looked at.
    pub policy: Options,
    /// What is done in cases of which a set says nothing.
    pub cases: Cases,
    /// How patterns of Git files are read.
    pub new_globbing: bool,
}

/// All ApplicationSets of a process, served.
pub struct Sets {
    serving: SetServing,
    supervisor: ActorRef<SetSupervisorMessage>,
    /// What feeds the supervisor; ends with it.
    _feeding: JoinSet<()>,
}

impl Sets {
    /// Serves the sets of a store, whose Applications are served already. Returns when all that are there are known; rollouts
    /// and teardowns that are open in the log are gone on with.
    ///
    /// # Errors
    ///
    /// The engine has stopped.
    pub async fn serve(
        applications: Serving,
        store: Arc<dyn SetStore>,
        options: SetOptions,
    ) -> Result<Self, ServiceError> {
        let SetOptions { mut policy, cases, new_globbing } = options;
        policy.preserved_labels.extend(store.own_labels().iter().map(|label| (*label).to_owned()));
        let mut events = store.watch();
        let generating = tidegate_generate::Options { new_globbing, now: None };
        let shared = Arc::new(SetShared {
            applications: Arc::clone(&applications.shared),
            supervisor: applications.supervisor.clone(),
            store,
            options: policy,
            cases,
            generating,
            board: SetBoard::default(),
        });
        // From before the first of them is looked at.
        let mut changes = shared.applications.board.changes();
        let mut told = shared.applications.told.subscribe();
        let mut clusters = shared.applications.places.changes();
        let (settled, is_settled) = oneshot::channel();
        let arguments = (Arc::clone(&shared), settled);
        let (supervisor, _) =
            Actor::spawn(None, SetSupervisor, arguments).await.map_err(|_| EngineError::Stopped)?;
        let mut feeding = JoinSet::new();
        let to = supervisor.clone();
        feeding.spawn(async move {
            while let Some(event) = events.recv().await {
                drop(to.send_message(SetSupervisorMessage::Store(event)));
            }
        });
        let to = supervisor.clone();
        feeding.spawn(async move {
            loop {
                let message = match changes.recv().await {
                    Ok(key) => SetSupervisorMessage::Member(key),
                    Err(RecvError::Lagged(_)) => SetSupervisorMessage::Missed,
                    Err(RecvError::Closed) => return,
                };
                drop(to.send_message(message));
            }
        });
        let to = supervisor.clone();
        feeding.spawn(async move {
            loop {
                match told.recv().await {
                    Ok(told) => drop(to.send_message(SetSupervisorMessage::Told(told))),
                    // They are generated again by themselves, in their own time.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        });
        let to = supervisor.clone();
        feeding.spawn(async move {
            while clusters.changed().await.is_ok() {
                drop(to.send_message(SetSupervisorMessage::Clusters));
            }
        });
        is_settled.await.map_err(|_| EngineError::Stopped)?;
        applications.settle_turns();
        let serving = SetServing::new(shared, applications, supervisor.clone());
        Ok(Self { serving, supervisor, _feeding: feeding })
    }

    /// What they are asked through.
    pub fn serving(&self) -> SetServing {
        self.serving.clone()
    }

    /// Ends all actors, and returns when none of them writes any more. What was under way is gone on with next time.
    pub async fn stop(self) {
        let _ = self.supervisor.stop_and_wait(None, None).await;
    }
}

/// The name of a set, as the boards have it.
fn key_of(set: &ApplicationSet) -> AppKey {
    AppKey { namespace: set.metadata.home().to_owned(), name: set.metadata.name.clone() }
}

/// Something that could not be written.
fn wrote(reason: Reason, message: &str) -> Failure {
    Failure { reason, message: message.to_owned() }
}
