//! Notifications: that operations begin, end or miss a deadline, posted to webhooks and chats.
//!
//! ```text
//! Engine::all_events(seen) ──▶ wanted? ──▶ Letter ──▶ POST, again and again until it is taken ──▶ seen, on the disk
//! ```
//!
//! What was seen is on the disk after a letter was taken, so each is sent at least once, whatever dies in between; its id tells
//! a repetition. A target that takes nothing keeps only itself waiting: what it has not seen is in the log of operations.

mod letter;
mod post;
mod targets;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_executor::{Engine, EngineError, Event};
use tokio::task::JoinSet;

use self::letter::Letter;
use self::post::{Posted, post};
use self::targets::Target;
use crate::outgoing::Web;
use crate::seen::{Kept, forget_others};

pub use self::targets::{Targets, WrongTargets};

/// How long until a letter is sent again; twice as long each time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(300);
/// So many events that concern nobody may pass before it is written down that they were seen.
const PASSED_MAX: u32 = 64;

/// Notifies until it is dropped.
pub struct Notifying {
    _tasks: JoinSet<()>,
}

impl Notifying {
    /// Notifies all targets of what they have not seen yet. `folder` is where it is kept how far that is; a target that is
    /// new there has seen all that was recorded before, and one that is none now is new when it comes back: nobody is told
    /// what happened while they did not want to know.
    ///
    /// # Errors
    ///
    /// The engine has stopped, or its log cannot be read.
    pub async fn begin(targets: Targets, engine: &Engine, folder: &Path) -> Result<Self, EngineError> {
        let web = Arc::new(Web::default());
        let mut tasks = JoinSet::new();
        forget_others(folder, targets.0.iter().map(|target| target.name.as_str()).collect());
        for target in targets.0 {
            let kept = Kept::open(folder, &target.name, engine).await?;
            tasks.spawn(notify(target, engine.clone(), kept, Arc::clone(&web)));
        }
        Ok(Self { _tasks: tasks })
    }
}

async fn notify(target: Target, engine: Engine, mut kept: Kept, web: Arc<Web>) {
    let mut events = engine.all_events(kept.seen());
    let mut passed = 0_u32;
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(missed) => {
                tracing::warn!(target = target.name, %missed, "somebody is not notified of everything");
                continue;
            }
        };
        if target.wants(&event) {
            deliver(&target, &event, &web).await;
            passed = PASSED_MAX;
        }
        kept.note(&event);
        passed = passed.saturating_add(1);
        if passed > PASSED_MAX {
            kept.write().await;
            passed = 0;
        }
    }
}

/// Returns when it was taken, or will never be.
async fn deliver(target: &Target, event: &Event, web: &Web) {
    let Some(letter) = Letter::of(event) else { return };
    let mut wait = AGAIN_AFTER;
    loop {
        match post(web, target, &letter).await {
            Posted::Taken => return,
            Posted::Refused(why) => {
                tracing::error!(
                    target = target.name,
                    id = letter.id,
                    why,
                    "a notification is refused for good"
                );
                return;
            }
            Posted::Later(why) => {
                tracing::warn!(target = target.name, id = letter.id, why, "a notification is sent again");
                tokio::time::sleep(wait).await;
                wait = wait.saturating_mul(2).min(AGAIN_AFTER_MAX);
            }
        }
    }
}
