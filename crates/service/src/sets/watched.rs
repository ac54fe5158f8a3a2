//! What a machine keeps up about Applications: tasks that end when they are not owed any more, and those it watches.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_executor::{Durable, Post};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;

use crate::applications::store::AppKey;

/// A task that ends when this is dropped, and with the actor of its machine.
pub(super) struct Kept {
    _up: oneshot::Sender<()>,
}

impl Kept {
    pub fn spawn<M: Durable>(post: &Post<M>, work: impl Future<Output = ()> + Send + 'static) -> Self {
        let (up, ended) = oneshot::channel();
        post.spawn(async move {
            tokio::select! {
                biased;
                _ = ended => {}
                () = work => {}
            }
        });
        Self { _up: up }
    }
}

/// The Applications that a machine watches, by one look at what changes, however many they are.
#[derive(Default)]
pub(super) struct Watched {
    keys: Arc<Mutex<BTreeSet<AppKey>>>,
    /// Held from a look until what it has seen is told: an older sight would be believed that is told after a newer one.
    turn: Arc<Mutex<()>>,
    listening: Option<Kept>,
}

impl Watched {
    fn keys(keys: &Mutex<BTreeSet<AppKey>>) -> BTreeSet<AppKey> {
        keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Watches an Application: `look` is called now, and whenever it changes. All that are watched have the same `look`.
    pub fn begin<M: Durable>(
        &mut self,
        key: AppKey,
        changes: impl FnOnce() -> Receiver<AppKey>,
        post: &Post<M>,
        look: impl Fn(&AppKey) + Send + Sync + 'static,
    ) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        let turn = Arc::clone(&self.turn);
        let look = move |key: &AppKey| {
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            look(key);
        };
        if self.listening.is_some() {
            return look(&key);
        }
        // From before the first look.
        let mut changes = changes();
        look(&key);
        let keys = Arc::clone(&self.keys);
        self.listening = Some(Kept::spawn(post, async move {
            loop {
                match changes.recv().await {
                    Ok(key) => {
                        let is_watched = keys.lock().unwrap_or_else(PoisonError::into_inner).contains(&key);
                        if is_watched {
                            look(&key);
                        }
                    }
                    Err(RecvError::Lagged(_)) => Self::keys(&keys).iter().for_each(&look),
                    Err(RecvError::Closed) => return,
                }
            }
        }));
    }

    /// Watches it no more.
    pub fn end(&self, key: &AppKey) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
