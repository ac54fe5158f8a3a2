//! A machine's subscriptions: watched Applications, and tasks that are aborted with their command.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_executor::{DurableMachine, MachineSender};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;

use tidegate_application::AppKey;

/// Task that is aborted on drop or when the machine's actor stops.
pub(super) struct SubscriptionTask {
    _cancel: oneshot::Sender<()>,
}

impl SubscriptionTask {
    pub fn spawn<M: DurableMachine>(
        post: &MachineSender<M>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let (up, ended) = oneshot::channel();
        post.spawn(async move {
            tokio::select! {
                biased;
                _ = ended => {}
                () = work => {}
            }
        });
        Self { _cancel: up }
    }
}

/// Applications that a machine watches through a single subscription.
#[derive(Default)]
pub(super) struct WatchedApplications {
    keys: Arc<Mutex<BTreeSet<AppKey>>>,
    /// Lock held from an observation to its report, so that an older observation is never reported after a
    /// newer one.
    report_lock: Arc<Mutex<()>>,
    task: Option<SubscriptionTask>,
}

impl WatchedApplications {
    fn copy_keys(keys: &Mutex<BTreeSet<AppKey>>) -> BTreeSet<AppKey> {
        keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Watches an Application: calls `observe` now and on every change. All watched Applications share one
    /// `observe`.
    pub fn watch<M: DurableMachine>(
        &mut self,
        key: AppKey,
        changes: impl FnOnce() -> Receiver<AppKey>,
        post: &MachineSender<M>,
        observe: impl Fn(&AppKey) + Send + Sync + 'static,
    ) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        let turn = Arc::clone(&self.report_lock);
        let observe = move |key: &AppKey| {
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            observe(key);
        };
        if self.task.is_some() {
            return observe(&key);
        }
        // Subscribe before the first observation, so that no change is missed.
        let mut changes = changes();
        observe(&key);
        let keys = Arc::clone(&self.keys);
        self.task = Some(SubscriptionTask::spawn(post, async move {
            loop {
                match changes.recv().await {
                    Ok(key) => {
                        let is_watched = keys.lock().unwrap_or_else(PoisonError::into_inner).contains(&key);
                        if is_watched {
                            observe(&key);
                        }
                    }
                    Err(RecvError::Lagged(_)) => Self::copy_keys(&keys).iter().for_each(&observe),
                    Err(RecvError::Closed) => return,
                }
            }
        }));
    }

    /// Stops watching an Application.
    pub fn unwatch(&self, key: &AppKey) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
