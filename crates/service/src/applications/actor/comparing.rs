//! Its comparisons: when one is begun, and what is taken in of it.

use std::sync::Arc;

use ractor::ActorRef;
use tidegate_application::comparison::{self, Outcome};
use tidegate_application::refresh::{self, Level, REFRESH_ANNOTATION};
use tidegate_application::running::Deployed;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::Timestamp;
use tidegate_model::argo::{ComparedTo, ConditionType};
use tokio::time::Instant;

use super::AppState;
use crate::applications::comparing::{self, Compared};
use crate::applications::messages::AppMessage;
use crate::applications::remembered::Memory;
use crate::applications::watching::Mark;

/// With what a comparison was begun.
pub(crate) struct With {
    compared_to: ComparedTo,
    level: Level,
    /// What asked for it, if an annotation did.
    asked: Option<String>,
    /// What had deployed it.
    deployed: Option<Deployed>,
    /// So many operations of it had ended.
    ended: u64,
}

impl AppState {
    pub(super) fn compared(&mut self, compared: Compared, with: With) {
        self.comparing = false;
        let Compared { outcome, objects, since, memory, same, is_refused: _ } = compared;
        self.memory = memory;
        if with.ended != self.ended || self.application.operation.is_some() {
            // What it has written may be told of later.
            self.memory.forget();
        }
        if let Some(objects) = objects
            && let Ok(place) = self.shared.places.resolve(&self.application.spec.destination)
        {
            let since = since.unwrap_or_else(|| Mark::before_all(&place.destination));
            let all_up_to = self.shared.watching.set(&self.key, place, objects, &since);
            match all_up_to {
                Some(mark) => self.memory.holds_up_to(mark),
                // It is to be read again.
                None if self.shared.watching.is_behind(&self.key) => self.memory.forget(),
                None => {}
            }
        }
        if refresh::compared_to(&self.application) != with.compared_to {
            // Something else is wanted by now.
            self.ask(Level::Forced);
            self.refreshes_go_on();
            return;
        }
        self.refreshes_are_done();
        if self.application.is_deleting() && !self.waits_to_go {
            // Its deletion has begun, of which this may have seen a part.
            return;
        }
        let now = self.now();
        comparison::take_in(&mut self.application, outcome, with.level, now);
        refresh::answered(&mut self.application, with.asked.as_deref());
        if self.shared.store.is_shared() {
            self.application.status.controller_namespace = self.shared.store.home();
        }
        // Its branch means what was compared just now.
        self.found = None;
        self.doubt_plan();
        self.superseding.same = same;
        (self.deployments.evidence, self.deployments.is_compared) = (with.deployed, true);
    }

    pub(super) fn compare(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        if self.comparing || self.problem.is_some() || refresh::is_skipped(&self.application) {
            return;
        }
        let Some(level) = refresh::needed(&self.application, self.asked, now, self.shared.every) else {
            return;
        };
        if self.unasked().is_some() {
            // It is looked at again when the cluster has answered, or has not.
            return;
        }
        // What it was told of before is seen now.
        (self.asked, self.stirred, self.comparing) = (None, None, true);
        self.refreshes_begin();
        let with = Box::new(With {
            compared_to: refresh::compared_to(&self.application),
            level,
            asked: self.application.annotation(REFRESH_ANNOTATION).map(str::to_owned),
            deployed: self.deployments.newest.clone(),
            ended: self.ended,
        });
        let memory = std::mem::take(&mut self.memory);
        let (shared, application, actor) =
            (Arc::clone(&self.shared), self.application.clone(), myself.clone());
        self.tasks.spawn(async move {
            let permits = shared.places.permits(&application.spec.destination);
            let _permit = permits.acquire().await;
            let began = SystemClock.now();
            let inner = Arc::clone(&shared);
            let comparing = tokio::spawn(async move {
                let begin = Instant::now();
                let compared = comparing::compare(&inner, &application, (level, memory)).await;
                inner.reconciles.observe(&application, begin.elapsed());
                compared
            })
            .await;
            let compared = Box::new(comparing.unwrap_or_else(|fault| {
                let message = format!("comparing it met a fault: {fault}");
                let outcome = Outcome::failed(ConditionType::UnknownError, message);
                Compared {
                    outcome,
                    objects: None,
                    since: None,
                    memory: Memory::default(),
                    same: None,
                    is_refused: false,
                }
            }));
            drop(actor.send_message(AppMessage::Compared { compared, with, began }));
        });
    }
}
