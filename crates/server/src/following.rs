//! Follows applications and operations, and posts what happens.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_executor::{Clock as _, Engine, Event, SystemClock};
use tidegate_model::argo::Application;
use tidegate_service::applications::Serving;
use tidegate_service::applications::store::AppKey;
use tidegate_service::documents::events::EventDocument;
use tidegate_service::lines::ApplicationLine;
use tidegate_service::queries::Queries;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::bulletin::Bulletin;
use crate::metrics::Metrics;

/// What a stream of events tells.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum News {
    /// How an application stands now.
    Application(Box<ApplicationLine>),
    /// An application is not there any more.
    Gone(Name),
    /// Something happened to an operation, down to its tasks.
    Operation(Box<EventDocument>),
    /// Not all that happened to applications since then is known: their list says how they stand now.
    Reset(Reset),
}

/// Which application.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Name {
    namespace: String,
    name: String,
}

/// Why not all is told.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reset {
    /// In words.
    pub message: String,
}

impl News {
    /// In one word, which is that of the event.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Application(_) => "application",
            Self::Gone(_) => "gone",
            Self::Operation(_) => "operation",
            Self::Reset(_) => "reset",
        }
    }

    /// As JSON.
    pub fn data(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Posts what happens, until the engine has stopped.
pub(crate) async fn follow(
    engine: Engine,
    queries: Arc<Queries>,
    bulletin: Arc<Bulletin>,
    metrics: Arc<Metrics>,
) {
    let mut events = match engine.events_from_now().await {
        Ok(events) => events,
        Err(error) => return tracing::error!(%error, "no events can be told"),
    };
    let serving = queries.served();
    tokio::pin!(serving);
    let mut following: Option<Following> = None;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => post(&bulletin, &event),
                Some(Err(missed)) => tracing::warn!(%missed, "not all events are told"),
                None => return,
            },
            serving = &mut serving, if following.is_none() => match serving {
                Some(serving) => following = Some(Following::begin(serving, Arc::clone(&metrics))),
                None => return,
            },
            changed = next(&mut following) => {
                if let Some(following) = &mut following {
                    following.changed(changed, &bulletin);
                }
            }
        }
    }
}

async fn next(following: &mut Option<Following>) -> Result<AppKey, RecvError> {
    match following {
        Some(following) => following.changes.recv().await,
        None => std::future::pending().await,
    }
}

fn post(bulletin: &Bulletin, event: &Event) {
    let news = News::Operation(Box::new(EventDocument::from(event)));
    let about = (AppKey::named(&event.application).to_string(), Some(event.operation));
    let at = event.at.unwrap_or_else(|| SystemClock.now());
    bulletin.post(news.kind(), about, at, news.data());
}

/// The applications, and what was told of each.
struct Following {
    serving: Serving,
    metrics: Arc<Metrics>,
    changes: broadcast::Receiver<AppKey>,
    /// A digest of the line that was told last.
    told: BTreeMap<AppKey, u64>,
}

impl Following {
    fn begin(serving: Serving, metrics: Arc<Metrics>) -> Self {
        let changes = serving.changes();
        let mut told = BTreeMap::new();
        for (key, application) in serving.all() {
            let line = line(&application);
            metrics.stands(&key, Some((&line, is_dry_run(&application))));
            // How they stand now, their list says.
            told.insert(key, digest(&line));
        }
        Self { serving, metrics, changes, told }
    }

    fn changed(&mut self, changed: Result<AppKey, RecvError>, bulletin: &Bulletin) {
        match changed {
            Ok(key) => {
                let application = self.serving.application(&key);
                self.tell(&key, application.as_deref(), bulletin);
            }
            Err(RecvError::Lagged(_)) => {
                let mut there: BTreeMap<AppKey, Arc<Application>> = self.serving.all().into_iter().collect();
                for key in self.told.keys().cloned().collect::<Vec<_>>() {
                    let application = there.remove(&key);
                    self.tell(&key, application.as_deref(), bulletin);
                }
                for (key, application) in there {
                    self.tell(&key, Some(&application), bulletin);
                }
            }
            // The engine ends as well.
            Err(RecvError::Closed) => {}
        }
    }

    fn tell(&mut self, key: &AppKey, application: Option<&Application>, bulletin: &Bulletin) {
        let news = match application.map(|application| (line(application), is_dry_run(application))) {
            Some((line, is_dry_run)) => {
                self.metrics.stands(key, Some((&line, is_dry_run)));
                let digest = digest(&line);
                if self.told.insert(key.clone(), digest) == Some(digest) {
                    return;
                }
                News::Application(Box::new(line))
            }
            None if self.told.remove(key).is_none() => return,
            None => {
                self.metrics.stands(key, None);
                let AppKey { namespace, name } = key.clone();
                News::Gone(Name { namespace, name })
            }
        };
        bulletin.post(news.kind(), (key.to_string(), None), SystemClock.now(), news.data());
    }
}

fn line(application: &Application) -> ApplicationLine {
    application.into()
}

/// Whether the last operation wrote nothing.
fn is_dry_run(application: &Application) -> bool {
    let state = application.status.operation_state.as_ref();
    state.and_then(|state| state.operation.sync.as_ref()).is_some_and(|sync| sync.dry_run)
}

/// That it was looked at again and found the same is no news.
fn digest(line: &ApplicationLine) -> u64 {
    let line = ApplicationLine { reconciled_at: None, ..line.clone() };
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(&line).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}
