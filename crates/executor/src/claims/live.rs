//! The keeper of a claim in the engine: its calls go to a cluster, its time passes, its news reach an operation.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::{Cluster, ClusterError, ErrorKind, Right};
use tidegate_lifecycle::operation::{CallError, ClaimNews, Input, Subject};
use tidegate_model::{ClaimPlace, IfTaken, Object, OperationId, Timestamp};
use tokio::time::Instant;

use super::hold::{Hold, Moment};
use super::keeper::{self, Around, Keeping, Vigil};
use super::place::Places;
use super::record::{Claimant, Lease, lease_kind};
use super::times::GIVE_BACK_WITHIN;
use crate::clock::Clock;
use crate::effects;
use crate::inbox::{Arrival, Inbox, Note};
use crate::log::{Log, LogFailure, blocking};

/// Holds the claim of one operation, for as long as it is polled.
pub(crate) struct Keeper {
    pub around: Live,
    pub us: Claimant,
    pub places: Places,
    pub if_taken: IfTaken,
    /// Where an earlier keeper of this operation had it.
    pub had: Option<ClaimPlace>,
    /// What earlier keepers of this process have seen while they waited.
    pub vigil: Vigil,
}

/// Tells the operation that nobody keeps its claim any more, however that came about.
struct Last {
    inbox: Inbox,
    news: Option<Result<ClaimNews, CallError>>,
}

impl Drop for Last {
    fn drop(&mut self) {
        let lost = || Err(CallError::transient("whoever kept the claim was lost inside the engine"));
        let input = Input::Claim(self.news.take().unwrap_or_else(lost));
        self.inbox.push_together([
            Arrival::Input(input),
            Arrival::Note(Note::Unclaimed),
            Arrival::Ended(Subject::Claim),
        ]);
    }
}

impl Keeper {
    /// Takes the claim and holds it. Ends when there is nothing to hold, and then says so.
    pub async fn run(self) {
        let Self { around, us, places, if_taken, had, vigil } = self;
        let mut last = Last { inbox: around.inbox.clone(), news: None };
        let hold = Arc::clone(&around.hold);
        let news = Keeping { around, us, places, if_taken, had, vigil }.run().await;
        match &news {
            Ok(ClaimNews::Without { .. }) => hold.open(),
            _ => hold.lost(),
        }
        last.news = Some(news);
    }
}

/// What is around a keeper in the engine.
pub(crate) struct Live {
    pub cluster: Arc<dyn Cluster>,
    pub clock: Arc<dyn Clock>,
    pub log: Log,
    pub log_failure: LogFailure,
    pub inbox: Inbox,
    pub hold: Arc<Hold>,
    pub operation: OperationId,
    /// Since when time is counted: the same for all keepers of one wait.
    pub began: Instant,
}

impl Live {
    fn may_call(&self) -> Result<(), ClusterError> {
        match self.log_failure.get() {
            Some(reason) => Err(ClusterError::new(ErrorKind::Unavailable, reason.as_str())),
            None => Ok(()),
        }
    }
}

impl Around for Live {
    type Moment = Moment;

    async fn read(&self, place: &ClaimPlace) -> Result<Option<Lease>, ClusterError> {
        self.may_call()?;
        Ok(self.cluster.get(&lease_kind(), &place.namespace, &place.name).await?.map(Lease))
    }

    async fn write(&self, lease: Object) -> Result<Lease, ClusterError> {
        self.may_call()?;
        self.cluster.put(lease, Some(self.operation)).await.map(Lease)
    }

    async fn lacks(&self, place: &ClaimPlace) -> Result<Option<String>, ClusterError> {
        self.may_call()?;
        let missing = self.cluster.missing_rights(&rights(place)).await?;
        Ok((!missing.is_empty()).then(|| effects::missing_rights_words(&missing)))
    }

    async fn is_over(&self, operation: &str) -> bool {
        let Ok(operation) = operation.parse::<OperationId>() else { return false };
        let entry = blocking(&self.log, move |log| log.entry(operation.into())).await;
        matches!(entry, Ok(Some(entry)) if !entry.summary.is_open())
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn moment(&self) -> Moment {
        Moment::now()
    }

    fn renewed(&self, began: Moment) {
        self.hold.renewed(began);
    }

    fn tell(&self, news: ClaimNews) {
        if matches!(news, ClaimNews::Without { .. }) {
            self.hold.open();
        }
        self.inbox.tell(Input::Claim(Ok(news)));
    }
}

/// What it takes to make a Lease, renew it and give it back.
fn rights(place: &ClaimPlace) -> BTreeSet<Right> {
    // Whoever is asked whether something may be made does not know its name yet.
    let rights = [("create", ""), ("get", place.name.as_str()), ("update", place.name.as_str())];
    let right = |(verb, name): (_, &str)| Right {
        verb,
        gvk: lease_kind(),
        namespace: place.namespace.clone(),
        name: name.to_owned(),
    };
    rights.into_iter().map(right).collect()
}

/// What is needed to give a claim back.
pub(crate) struct GivingBack {
    pub around: Live,
    pub us: Claimant,
    pub places: Vec<ClaimPlace>,
}

impl GivingBack {
    /// Gives the claim of an operation that is over back, if it has it. Otherwise it runs out.
    pub async fn run(self) {
        let Self { around, us, places } = self;
        let giving = keeper::give_back(&around, &us, &places);
        if tokio::time::timeout(GIVE_BACK_WITHIN, giving).await.is_err() {
            tracing::warn!("a claim could not be given back in time; it runs out");
        }
    }
}
