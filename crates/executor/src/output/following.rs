//! Which hooks of an operation run, for one reader.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_lifecycle::operation::EventKind;
use tidegate_model::{Digest, ObjectKey, OperationId};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::hook;
use super::queue::Queue;
use super::{HookOutput, Output, RunningHooks};
use crate::effects::Mask;
use crate::error::EngineError;
use crate::events::Told;
use crate::manifests;
use crate::shared::Shared;

/// Containers of one operation that are followed at once for one reader.
const CONTAINERS_MAX: usize = 16;
/// However much happens, it is not looked more often which hooks run.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long after the end of an operation its hooks are read to their end.
const READ_ON_FOR: Duration = Duration::from_secs(3);

/// Asks which hooks of the operation run.
pub(crate) trait Ask: Send + 'static {
    fn ask(&self) -> impl Future<Output = Result<RunningHooks, EngineError>> + Send;
}

/// Follows the hooks of an operation that is at work. `first` are those that run when it begins.
pub(crate) fn follow(
    shared: Arc<Shared>,
    operation: OperationId,
    told: broadcast::Receiver<Arc<Told>>,
    first: RunningHooks,
    asking: impl Ask,
) -> HookOutput {
    let queue = Arc::<Queue>::default();
    let reader = Reader {
        shared,
        queue: Arc::clone(&queue),
        mine: Arc::new(Semaphore::new(CONTAINERS_MAX)),
        mask: OnceCell::new(),
        noted: Mutex::default(),
    };
    let ending = Ending(Arc::clone(&queue));
    let following = tokio::spawn(async move {
        let _ending = ending;
        go_on(&Arc::new(reader), operation, told, first, asking).await;
    });
    HookOutput { queue, following: following.abort_handle() }
}

/// Tells the reader that nothing follows, whatever has ended the task.
struct Ending(Arc<Queue>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

async fn go_on(
    reader: &Arc<Reader>,
    operation: OperationId,
    mut told: broadcast::Receiver<Arc<Told>>,
    first: RunningHooks,
    asking: impl Ask,
) {
    let mut followed: BTreeMap<String, watch::Sender<bool>> = BTreeMap::new();
    // They end with it, whatever ends it.
    let mut hooks = JoinSet::new();
    let mut running = Some(first);
    loop {
        if let Some(RunningHooks { destination, targets, hooks: run }) = running.take() {
            let uids: BTreeSet<&str> = run.iter().map(|hook| hook.uid.as_str()).collect();
            for (_, ended) in followed.iter().filter(|(uid, _)| !uids.contains(uid.as_str())) {
                ended.send_replace(true);
            }
            let Some(cluster) = reader.shared.clusters.get(&destination) else { return };
            if !run.is_empty() && !reader.knows_what_to_mask(targets).await {
                return;
            }
            for one in run {
                if !followed.contains_key(&one.uid) {
                    let (ended, has_ended) = watch::channel(false);
                    followed.insert(one.uid.clone(), ended);
                    hooks.spawn(hook::follow(Arc::clone(reader), cluster.at_once(), one, has_ended));
                }
            }
        }
        while hooks.try_join_next().is_some() {}
        match something_happens(operation, &mut told).await {
            Happening::Something => {}
            Happening::End => break,
            Happening::Nothing => return,
        }
        tokio::time::sleep(LOOK_EVERY).await;
        match asking.ask().await {
            Ok(now) => running = Some(now),
            // Its actor is being started again: that is told as well.
            Err(EngineError::Restarted { .. }) => {}
            // It may have ended meanwhile.
            Err(EngineError::NotRunning { .. }) => break,
            Err(_) => return,
        }
    }
    for ended in followed.values() {
        ended.send_replace(true);
    }
    let reading_on = async { while hooks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(READ_ON_FOR, reading_on).await;
}

/// What became of an operation.
enum Happening {
    Something,
    /// It is over.
    End,
    /// Nothing more will happen to it here.
    Nothing,
}

/// Waits until something of the operation is durable.
async fn something_happens(operation: OperationId, told: &mut broadcast::Receiver<Arc<Told>>) -> Happening {
    loop {
        match told.recv().await {
            Ok(told) if told.operation == operation => {
                let is_over =
                    told.events.iter().any(|event| matches!(event.what, EventKind::Finished { .. }));
                return if is_over { Happening::End } else { Happening::Something };
            }
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return Happening::Something,
            Err(RecvError::Closed) => return Happening::Nothing,
        }
    }
}

/// Who is told, and what is known for that.
pub(super) struct Reader {
    pub shared: Arc<Shared>,
    queue: Arc<Queue>,
    /// Places for containers.
    mine: Arc<Semaphore>,
    /// What must not show of the operation's Secrets.
    mask: OnceCell<Arc<Mask>>,
    /// What was noted of all hooks, or of one: each is said once.
    noted: Mutex<BTreeSet<(Option<ObjectKey>, String)>>,
}

/// A place to follow a container.
pub(super) struct Place {
    _mine: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Reader {
    /// Reads what must not show. Where that is not known, nothing may.
    async fn knows_what_to_mask(&self, targets: Digest) -> bool {
        let read = || async { manifests::mask(&self.shared.log, targets).await.ok_or(()) };
        let is_known = self.mask.get_or_try_init(read).await.is_ok();
        if !is_known {
            let why = "the manifests of the operation cannot be read, so values of its Secrets would show";
            self.queue.push(Output::Note {
                hook: None,
                message: format!("the output of hooks is not shown: {why}"),
            });
        }
        is_known
    }

    pub fn mask(&self) -> Arc<Mask> {
        self.mask.get().map(Arc::clone).unwrap_or_default()
    }

    /// A place for one more container, if there is one.
    pub fn place(&self) -> Option<Place> {
        let mine = Arc::clone(&self.mine).try_acquire_owned().ok()?;
        let of_all = Arc::clone(&self.shared.output.containers).try_acquire_owned().ok()?;
        Some(Place { _mine: mine, _of_all: of_all })
    }

    pub fn tell(&self, output: Output) {
        self.queue.push(output);
    }

    /// Says something once, of one hook or of all.
    pub fn note(&self, hook: Option<ObjectKey>, message: &str) {
        let message = self.mask().hidden(message.to_owned());
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.insert((hook.clone(), message.clone())) {
            self.queue.push(Output::Note { hook, message });
        }
    }
}

/// How much more of a hook is told.
pub(super) struct Allowance(AtomicUsize);

impl Allowance {
    pub fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    /// Takes so many bytes, if there are as many left.
    pub fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}
