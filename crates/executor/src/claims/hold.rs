//! What a claim covers: writes are kept back until it is certain that the operation still has it.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::{Call, Cluster, ClusterError, Effect, ErrorKind, Layer};
use tokio::sync::watch;
use tokio::time::Instant;

use super::times::{COVERED_WITHIN, COVERS};
use crate::clock::slept;

/// How certain it is that the operation has its claim. Shared between whoever renews it and whoever writes.
pub(crate) struct Hold {
    standing: watch::Sender<Standing>,
}

/// A moment by a clock that only goes forward, and how long the machine had slept by then: the clock stands still
/// meanwhile, and claims do not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    at: Instant,
    slept: Duration,
}

impl Moment {
    pub fn now() -> Self {
        Self { at: Instant::now(), slept: slept() }
    }

    fn ago(self) -> Duration {
        self.at.elapsed().saturating_add(slept().saturating_sub(self.slept))
    }
}

#[derive(Clone, Copy, Debug)]
enum Standing {
    /// No renewal has succeeded yet: nothing is written.
    Unknown,
    /// A renewal that began at this moment has succeeded.
    Renewed(Moment),
    /// No claim is needed any more.
    Open,
}

impl Hold {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { standing: watch::Sender::new(Standing::Unknown) })
    }

    /// A renewal that began at this moment has succeeded.
    pub fn renewed(&self, moment: Moment) {
        self.standing.send_replace(Standing::Renewed(moment));
    }

    /// Nothing is covered any more.
    pub fn lost(&self) {
        self.standing.send_replace(Standing::Unknown);
    }

    /// The operation goes on without a claim.
    pub fn open(&self) {
        self.standing.send_replace(Standing::Open);
    }

    fn covers(standing: Standing) -> bool {
        match standing {
            Standing::Unknown => false,
            Standing::Renewed(moment) => moment.ago() < COVERS,
            Standing::Open => true,
        }
    }

    /// Returns when a write is covered, or gives up: the cluster does not answer those who renew the claim either.
    pub async fn covered(&self) -> Result<(), ClusterError> {
        let mut changes = self.standing.subscribe();
        let waiting = async {
            loop {
                let standing = *changes.borrow_and_update();
                if Self::covers(standing) || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(COVERED_WITHIN, waiting).await.map_err(|_| {
            let words =
                "the operation's claim on its application could not be renewed, so nothing is written";
            ClusterError::new(ErrorKind::Timeout, words)
        })
    }
}

/// A cluster that is written to only while the claim is held.
pub(crate) struct Covered {
    pub cluster: Arc<dyn Cluster>,
    pub hold: Arc<Hold>,
}

impl Layer for Covered {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        if call.effect == Effect::Write {
            self.hold.covered().await?;
        }
        answer.await
    }
}
