//! Notifications about operations that start, finish or miss a deadline, posted to webhooks and chats.
//!
//! ```text
//! Engine::all_events ──▶ should_notify ──▶ Notification ──▶ post_once until accepted
//!                                                           └──▶ SubscriberProgress::write
//! ```
//!
//! Progress is written to disk once a target has accepted a notification, so each notification is sent at
//! least once, even if the process crashes. Recipients recognize duplicates by the ID. A failing target
//! doesn't delay others, and its missed events stay in the operation log.

mod delivery;
mod notification;
mod targets;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_executor::{Engine, EngineError, Event};
use tokio::task::JoinSet;

use self::delivery::{DeliveryResult, post_once};
use self::notification::Notification;
use self::targets::Target;
use crate::http_client::HttpClient;
use crate::subscriber_progress::{SubscriberProgress, remove_other_progress};

pub use self::targets::{Targets, TargetsError};

/// Initial retry delay, doubled after each attempt.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(300);
/// Maximum number of events without a notification before progress is written to disk.
const SKIPPED_EVENTS_MAX: u32 = 64;

/// Running notifiers for all targets; stopped on drop.
pub struct Notifier {
    _tasks: JoinSet<()>,
}

impl Notifier {
    /// Starts notifying all targets of events that they haven't received yet. `folder` stores each target's
    /// progress. A target without progress receives only new events. Removed targets lose their progress, so
    /// that a target added again doesn't receive earlier events.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine has stopped or its log cannot be read.
    pub async fn start(targets: Targets, engine: &Engine, folder: &Path) -> Result<Self, EngineError> {
        let web = Arc::new(HttpClient::default());
        let mut tasks = JoinSet::new();
        remove_other_progress(folder, targets.0.iter().map(|target| target.name.as_str()).collect());
        for target in targets.0 {
            let progress = SubscriberProgress::open(folder, &target.name, engine).await?;
            tasks.spawn(notify_target(target, engine.clone(), progress, Arc::clone(&web)));
        }
        Ok(Self { _tasks: tasks })
    }
}

async fn notify_target(
    target: Target,
    engine: Engine,
    mut progress: SubscriberProgress,
    web: Arc<HttpClient>,
) {
    let mut events = engine.all_events(progress.cursor());
    let mut passed = 0_u32;
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(missed) => {
                tracing::warn!(target = target.name, %missed, "some events were missed and not delivered");
                continue;
            }
        };
        if target.should_notify(&event) {
            deliver(&target, &event, &web).await;
            passed = SKIPPED_EVENTS_MAX;
        }
        progress.record_event(&event);
        passed = passed.saturating_add(1);
        if passed > SKIPPED_EVENTS_MAX {
            progress.write().await;
            passed = 0;
        }
    }
}

/// Sends a notification until it is accepted or permanently rejected.
async fn deliver(target: &Target, event: &Event, web: &HttpClient) {
    let Some(notification) = Notification::from_event(event) else { return };
    let mut wait = RETRY_DELAY;
    loop {
        match post_once(web, target, &notification).await {
            DeliveryResult::Accepted => return,
            DeliveryResult::Rejected(reason) => {
                tracing::error!(
                    target = target.name,
                    id = notification.id,
                    reason,
                    "notification rejected permanently"
                );
                return;
            }
            DeliveryResult::RetryLater(reason) => {
                tracing::warn!(
                    target = target.name,
                    id = notification.id,
                    reason,
                    "notification failed; retrying"
                );
                tokio::time::sleep(wait).await;
                wait = wait.saturating_mul(2).min(RETRY_DELAY_MAX);
            }
        }
    }
}
