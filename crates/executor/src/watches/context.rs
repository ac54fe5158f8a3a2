//! What every watch of a cluster does: look at objects, and tell what is seen.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tidegate_cluster::{Cluster, Detail, ErrorKind, Scope};
use tidegate_health::HealthRules;
use tidegate_model::{Gvk, Object, Observation, Observed, Timestamp};
use tokio::sync::Semaphore;

use super::board::{Board, Place, Seeing, Subscriber, Trouble};
use crate::clock::Clock;
use crate::extend::Extensions;
use crate::judging;

/// Objects of one kind that are looked at side by side; the cluster's own bound holds as well.
const LOOKS: usize = 8;
/// A look that took so long before it failed was one at a cluster that hangs.
const HANGS_AFTER: Duration = Duration::from_secs(5);

/// What every watch of a cluster needs.
pub(super) struct Context {
    pub cluster: Arc<dyn Cluster>,
    pub clock: Arc<dyn Clock>,
    pub extensions: Arc<Extensions>,
    pub health: HealthRules,
    /// Bounds the calls to the cluster. An open watch is not a call; opening it is.
    pub permits: Arc<Semaphore>,
}

impl Context {
    /// Tells one what was seen, as of now.
    pub fn send(&self, subscriber: &Subscriber, seen: Observed) {
        Self::send_as_of(self.clock.now(), subscriber, seen);
    }

    fn send_as_of(at: Timestamp, subscriber: &Subscriber, seen: Observed) {
        subscriber.tell(Observation { at, seen });
    }

    /// An object as the watch has it. Expressions in its annotations may ask for more than its metadata.
    pub async fn listed(&self, scope: &Scope, board: &Board, object: &Object) {
        let place = place_of(object);
        if scope.detail == Detail::Metadata && HealthRules::is_annotated(object) && board.has(&place) {
            self.look(&scope.gvk, &place, board).await;
        } else {
            self.present(board, object).await;
        }
    }

    /// Tells everyone who asked about this object that it is there.
    async fn present(&self, board: &Board, object: &Object) {
        let place = place_of(object);
        // Most objects of a kind are none of our business: do not judge them.
        if !board.has(&place) {
            return;
        }
        let at = self.clock.now();
        let seen = judging::observe(&self.health, object, at).await;
        let mut shared = None;
        for subscriber in board.seen(&place, &seen, at) {
            match &subscriber.judged {
                None => Self::send_as_of(at, &subscriber, seen.clone()),
                Some(judged) => {
                    let object = shared.get_or_insert_with(|| Arc::new(object.clone()));
                    judged.send_replace(Some((Arc::clone(object), seen.clone())));
                }
            }
        }
    }

    /// Tells everyone who asked about this object that it is gone. `as_of` is when we began to look: an object made
    /// since then may be there all the same.
    pub fn gone(as_of: Timestamp, board: &Board, place: &Place, uid: Option<String>) {
        let gone = Observed::Gone { uid };
        for subscriber in board.seen(place, &gone, as_of) {
            if let Some(judged) = &subscriber.judged {
                judged.send_replace(None);
            }
            Self::send_as_of(as_of, &subscriber, gone.clone());
        }
    }

    /// Looks at one object. A failed look is made good by the watch or the next look.
    pub async fn look(&self, gvk: &Gvk, place: &Place, board: &Board) {
        let Ok(permit) = self.permits.acquire().await else { return };
        let began = self.clock.now();
        let found = self.cluster.get(gvk, &place.0, &place.1).await;
        drop(permit);
        let now = self.clock.now();
        match &found {
            // One that is refused at once is refused to the watch as well, which tells it.
            Err(error) if error.kind.is_outage() && now.since(began) >= HANGS_AFTER => {
                board.failing(Seeing::Looks, Trouble { message: error.to_string(), since: began });
            }
            Err(error) if error.kind.is_outage() => {}
            _ => board.working(Seeing::Looks, now),
        }
        match found {
            Ok(Some(object)) => self.present(board, &object).await,
            Ok(None) => Self::gone(began, board, place, None),
            Err(error) if error.kind == ErrorKind::NotFound => Self::gone(began, board, place, None),
            Err(error) => {
                // Not in its words: a cluster may quote what it was sent, and this reaches nobody's mask.
                tracing::debug!(kind = %gvk, name = place.1, why = %error.kind, "could not look at an awaited object");
            }
        }
    }

    pub async fn look_at(&self, gvk: &Gvk, board: &Board, places: Vec<Place>) {
        let looks = futures_util::stream::iter(places);
        looks.for_each_concurrent(LOOKS, |place| async move { self.look(gvk, &place, board).await }).await;
    }
}

pub(super) fn place_of(object: &Object) -> Place {
    (object.namespace().to_owned(), object.name().to_owned())
}
