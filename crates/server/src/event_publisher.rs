//! Publishes events from applications, ApplicationSets and operations to the event buffer.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_app_controller::ApplicationService;
use tidegate_application::AppKey;
use tidegate_appset_controller::AppSetService;
use tidegate_appset_controller::summarize_application;
use tidegate_daemon::queries::Queries;
use tidegate_executor::{Clock as _, Engine, Event, SystemClock};
use tidegate_model::argo::Application;
use tidegate_state::stored_plans::StoredPlanMetadata;
use tidegate_state::summaries::ApplicationSummary;
use tidegate_views::appset_summary::AppSetSummary;
use tidegate_views::events::EventDocument;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::event_buffer::{EventBuffer, EventSubject};
use crate::metrics::Metrics;

/// An event in the event stream.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StreamEvent")]
pub(crate) enum StreamEvent {
    /// Current state of an application.
    Application(Box<ApplicationSummary>),
    /// An application was removed.
    ApplicationRemoved(ObjectName),
    /// Current state of an ApplicationSet.
    ApplicationSet(Box<AppSetSummary>),
    /// An ApplicationSet was removed.
    ApplicationSetRemoved(ObjectName),
    /// An application's plan was stored, or a user made a decision about a plan.
    Plan(PlanName),
    /// An event of an operation or of one of its tasks.
    Operation(Box<EventDocument>),
    /// Some changes to applications and ApplicationSets were missed. Clients must read the current state from
    /// the lists.
    Reset(ResetReason),
}

/// Name of an application or ApplicationSet.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ResourceName")]
pub(crate) struct ObjectName {
    /// Namespace of the application or ApplicationSet.
    namespace: String,
    /// Name of the application or ApplicationSet.
    name: String,
}

/// Reference to a plan whose state has changed. Changes to the plan's application, which can also affect the
/// state, have separate events.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanName {
    /// Namespace of the plan's Application.
    namespace: String,
    /// Name of the plan's Application.
    name: String,
    /// Hash of the plan.
    hash: String,
}

/// Reason why events were missed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResetReason {
    /// Human-readable message.
    pub message: String,
}

impl StreamEvent {
    /// Returns the kind of the event, in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Application(_) => "application",
            Self::ApplicationRemoved(_) => "applicationRemoved",
            Self::ApplicationSet(_) => "applicationSet",
            Self::ApplicationSetRemoved(_) => "applicationSetRemoved",
            Self::Plan(_) => "plan",
            Self::Operation(_) => "operation",
            Self::Reset(_) => "reset",
        }
    }

    /// Returns the content as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Publishes events until the engine stops.
pub(crate) async fn publish_events(
    engine: Engine,
    queries: Arc<Queries>,
    event_buffer: Arc<EventBuffer>,
    metrics: Arc<Metrics>,
) {
    let mut events = match engine.events_from_now().await {
        Ok(events) => events,
        Err(error) => return tracing::error!(%error, "failed to read events; clients receive no events"),
    };
    let ready = queries.wait_for_applications();
    tokio::pin!(ready);
    let mut applications: Option<ObjectWatch<ManagedApplications>> = None;
    let mut appsets: Option<ObjectWatch<AppSetService>> = None;
    let mut plans = None;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => publish_operation_event(&event_buffer, &event),
                Some(Err(missed)) => tracing::warn!(%missed, "some events were missed"),
                None => return,
            },
            service = &mut ready, if applications.is_none() => match service {
                Some(service) => {
                    plans = service.plan_changes();
                    let metrics = Arc::clone(&metrics);
                    let appset_service = queries.appsets_if_ready().cloned();
                    let known = ManagedApplications { service, appsets: appset_service.clone(), metrics };
                    applications = Some(ObjectWatch::new(known));
                    appsets = appset_service.map(ObjectWatch::new);
                }
                None => return,
            },
            changed = next_change(applications.as_mut().map(|one| &mut one.changes)) => {
                if let Some(applications) = &mut applications {
                    applications.handle_change(changed, &event_buffer);
                }
            }
            changed = next_change(appsets.as_mut().map(|one| &mut one.changes)) => {
                if let Some(appsets) = &mut appsets {
                    appsets.handle_change(changed, &event_buffer);
                }
            }
            written = next_change(plans.as_mut()) => publish_plan(written, &event_buffer),
        }
    }
}

async fn next_change<T: Clone>(changes: Option<&mut broadcast::Receiver<T>>) -> Result<T, RecvError> {
    match changes {
        Some(changes) => changes.recv().await,
        None => std::future::pending().await,
    }
}

fn publish_plan(written: Result<StoredPlanMetadata, RecvError>, event_buffer: &EventBuffer) {
    let line = match written {
        Ok(line) => line,
        Err(missed) => return tracing::warn!(%missed, "some plan events were missed"),
    };
    let key = AppKey::parse(&line.application);
    let about = ManagedApplications::subject(&key);
    let news =
        StreamEvent::Plan(PlanName { namespace: key.namespace, name: key.name, hash: line.hash.to_string() });
    event_buffer.publish(news.kind(), about, SystemClock.now(), news.to_json());
}

fn publish_operation_event(event_buffer: &EventBuffer, event: &Event) {
    let news = StreamEvent::Operation(Box::new(EventDocument::from(event)));
    let about = EventSubject {
        application: AppKey::parse(&event.application).to_string(),
        operation: Some(event.operation),
        ..EventSubject::default()
    };
    let at = event.at.unwrap_or_else(|| SystemClock.now());
    event_buffer.publish(news.kind(), about, at, news.to_json());
}

/// Managed objects observed for the event stream.
trait ManagedObjects {
    /// Current state of one object.
    type Summary: Serialize;

    fn changes(&self) -> broadcast::Receiver<AppKey>;
    fn all_summaries(&self) -> Vec<(AppKey, Self::Summary)>;
    fn find_summary(&self, key: &AppKey) -> Option<Self::Summary>;
    /// Returns true if this process manages an object. Otherwise, another replica publishes its changes.
    fn is_managed(&self, key: &AppKey) -> bool;
    /// Records the current state, or `None` if the object is gone or another replica manages it.
    fn record_state(&self, _key: &AppKey, _line: Option<&Self::Summary>) {}
    /// Returns a digest of the state. A change is published only if it changes the digest.
    fn digest(line: &Self::Summary) -> u64;
    fn changed_event(line: Self::Summary) -> StreamEvent;
    fn removed_event(name: ObjectName) -> StreamEvent;
    fn subject(key: &AppKey) -> EventSubject;
}

/// Managed applications. The flag in a summary is true if the last operation was a dry run.
struct ManagedApplications {
    service: ApplicationService,
    /// Source of the reasons for waits in progressive syncs.
    appsets: Option<AppSetService>,
    metrics: Arc<Metrics>,
}

impl ManagedObjects for ManagedApplications {
    type Summary = (ApplicationSummary, bool);

    fn changes(&self) -> broadcast::Receiver<AppKey> {
        self.service.subscribe()
    }

    fn all_summaries(&self) -> Vec<(AppKey, Self::Summary)> {
        self.service.all().into_iter().map(|(key, one)| (key, self.summarize(&one))).collect()
    }

    fn find_summary(&self, key: &AppKey) -> Option<Self::Summary> {
        self.service.application(key).as_deref().map(|one| self.summarize(one))
    }

    fn is_managed(&self, key: &AppKey) -> bool {
        self.service.check_managed(key).is_ok()
    }

    fn record_state(&self, key: &AppKey, line: Option<&Self::Summary>) {
        self.metrics.record_application(key, line.map(|(line, is_dry_run)| (line, *is_dry_run)));
    }

    fn digest((line, _): &Self::Summary) -> u64 {
        compute_digest(&ApplicationSummary { reconciled_at: None, ..line.clone() })
    }

    fn changed_event((line, _): Self::Summary) -> StreamEvent {
        StreamEvent::Application(Box::new(line))
    }

    fn removed_event(name: ObjectName) -> StreamEvent {
        StreamEvent::ApplicationRemoved(name)
    }

    fn subject(key: &AppKey) -> EventSubject {
        EventSubject { application: key.to_string(), ..EventSubject::default() }
    }
}

impl ManagedObjects for AppSetService {
    type Summary = AppSetSummary;

    fn changes(&self) -> broadcast::Receiver<AppKey> {
        self.subscribe()
    }

    fn all_summaries(&self) -> Vec<(AppKey, AppSetSummary)> {
        self.all().into_iter().map(|(key, one)| (key, self.summarize(&one))).collect()
    }

    fn find_summary(&self, key: &AppKey) -> Option<AppSetSummary> {
        self.get(key).map(|one| self.summarize(&one))
    }

    fn is_managed(&self, key: &AppKey) -> bool {
        self.check_managed(key).is_ok()
    }

    fn digest(line: &AppSetSummary) -> u64 {
        compute_digest(line)
    }

    fn changed_event(line: AppSetSummary) -> StreamEvent {
        StreamEvent::ApplicationSet(Box::new(line))
    }

    fn removed_event(name: ObjectName) -> StreamEvent {
        StreamEvent::ApplicationSetRemoved(name)
    }

    fn subject(key: &AppKey) -> EventSubject {
        EventSubject { appset: key.to_string(), ..EventSubject::default() }
    }
}

/// Watched objects, with the last published state of each.
struct ObjectWatch<S> {
    objects: S,
    changes: broadcast::Receiver<AppKey>,
    /// Digest of the last published state.
    published_digests: BTreeMap<AppKey, u64>,
}

impl<S: ManagedObjects> ObjectWatch<S> {
    fn new(objects: S) -> Self {
        let changes = objects.changes();
        let mut published_digests = BTreeMap::new();
        for (key, line) in objects.all_summaries() {
            if objects.is_managed(&key) {
                objects.record_state(&key, Some(&line));
                // The initial state needs no event, because clients can read it from the lists.
                published_digests.insert(key, S::digest(&line));
            }
        }
        Self { objects, changes, published_digests }
    }

    fn handle_change(&mut self, changed: Result<AppKey, RecvError>, event_buffer: &EventBuffer) {
        match changed {
            Ok(key) => {
                let line = self.objects.find_summary(&key);
                self.publish_state(key, line, event_buffer);
            }
            Err(RecvError::Lagged(_)) => {
                let mut there: BTreeMap<AppKey, S::Summary> =
                    self.objects.all_summaries().into_iter().collect();
                for key in self.published_digests.keys().cloned().collect::<Vec<_>>() {
                    let line = there.remove(&key);
                    self.publish_state(key, line, event_buffer);
                }
                for (key, line) in there {
                    self.publish_state(key, Some(line), event_buffer);
                }
            }
            // The engine is also stopping.
            Err(RecvError::Closed) => {}
        }
    }

    fn publish_state(&mut self, key: AppKey, line: Option<S::Summary>, event_buffer: &EventBuffer) {
        let about = S::subject(&key);
        let news = match line {
            Some(line) => {
                if !self.objects.is_managed(&key) {
                    self.objects.record_state(&key, None);
                    // After a handover, publish the state again, because the other replica may not have published it.
                    self.published_digests.remove(&key);
                    return;
                }
                self.objects.record_state(&key, Some(&line));
                let digest = S::digest(&line);
                if self.published_digests.insert(key, digest) == Some(digest) {
                    return;
                }
                S::changed_event(line)
            }
            None if self.published_digests.remove(&key).is_none() => return,
            None => {
                self.objects.record_state(&key, None);
                let AppKey { namespace, name } = key;
                S::removed_event(ObjectName { namespace, name })
            }
        };
        event_buffer.publish(news.kind(), about, SystemClock.now(), news.to_json());
    }
}

impl ManagedApplications {
    /// Returns an application's state, and true if the last operation was a dry run.
    fn summarize(&self, application: &Application) -> (ApplicationSummary, bool) {
        let state = application.status.operation_state.as_ref();
        let sync = state.and_then(|state| state.operation.sync.as_ref());
        let line = summarize_application(application, self.appsets.as_ref());
        (line, sync.is_some_and(|sync| sync.dry_run))
    }
}

fn compute_digest(line: &impl Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(line).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}
