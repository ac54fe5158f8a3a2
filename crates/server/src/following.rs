//! Follows applications, ApplicationSets and operations, and posts what happens.

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
use tidegate_service::plans::KeptLine;
use tidegate_service::queries::Queries;
use tidegate_service::sets::{SetLine, SetServing};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::bulletin::{About, Bulletin};
use crate::metrics::Metrics;

/// What a stream of events tells.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum News {
    /// How an application stands now.
    Application(Box<ApplicationLine>),
    /// An application is not there any more.
    Gone(Name),
    /// How an ApplicationSet stands now.
    ApplicationSet(Box<SetLine>),
    /// An ApplicationSet is not there any more.
    ApplicationSetGone(Name),
    /// A plan of an application is kept, or something is decided about it.
    Plan(PlanName),
    /// Something happened to an operation, down to its tasks.
    Operation(Box<EventDocument>),
    /// Not all that happened to applications and ApplicationSets since then is known: their lists say how they stand now.
    Reset(Reset),
}

/// Which application, or ApplicationSet.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Name {
    namespace: String,
    name: String,
}

/// Which plan, of which application. How it stands follows from the application as well, which is told apart.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanName {
    namespace: String,
    name: String,
    hash: String,
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
            Self::ApplicationSet(_) => "applicationSet",
            Self::ApplicationSetGone(_) => "applicationSetGone",
            Self::Plan(_) => "plan",
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
    let mut applications: Option<Following<ServedApplications>> = None;
    let mut sets: Option<Following<SetServing>> = None;
    let mut plans = None;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => post(&bulletin, &event),
                Some(Err(missed)) => tracing::warn!(%missed, "not all events are told"),
                None => return,
            },
            serving = &mut serving, if applications.is_none() => match serving {
                Some(serving) => {
                    plans = serving.plan_changes();
                    let metrics = Arc::clone(&metrics);
                    let served = queries.sets_now().cloned();
                    let known = ServedApplications { serving, sets: served.clone(), metrics };
                    applications = Some(Following::begin(known));
                    sets = served.map(Following::begin);
                }
                None => return,
            },
            changed = next(applications.as_mut().map(|one| &mut one.changes)) => {
                if let Some(applications) = &mut applications {
                    applications.changed(changed, &bulletin);
                }
            }
            changed = next(sets.as_mut().map(|one| &mut one.changes)) => {
                if let Some(sets) = &mut sets {
                    sets.changed(changed, &bulletin);
                }
            }
            written = next(plans.as_mut()) => post_plan(written, &bulletin),
        }
    }
}

async fn next<T: Clone>(changes: Option<&mut broadcast::Receiver<T>>) -> Result<T, RecvError> {
    match changes {
        Some(changes) => changes.recv().await,
        None => std::future::pending().await,
    }
}

fn post_plan(written: Result<KeptLine, RecvError>, bulletin: &Bulletin) {
    let line = match written {
        Ok(line) => line,
        Err(missed) => return tracing::warn!(%missed, "not all plans are told"),
    };
    let key = AppKey::named(&line.application);
    let about = ServedApplications::about(&key);
    let news = News::Plan(PlanName { namespace: key.namespace, name: key.name, hash: line.hash.to_string() });
    bulletin.post(news.kind(), about, SystemClock.now(), news.data());
}

fn post(bulletin: &Bulletin, event: &Event) {
    let news = News::Operation(Box::new(EventDocument::from(event)));
    let about = About {
        application: AppKey::named(&event.application).to_string(),
        operation: Some(event.operation),
        ..About::default()
    };
    let at = event.at.unwrap_or_else(|| SystemClock.now());
    bulletin.post(news.kind(), about, at, news.data());
}

/// Things that are served, and that a stream of events tells of.
trait Served {
    /// How one of them stands.
    type Line: Serialize;

    fn changes(&self) -> broadcast::Receiver<AppKey>;
    fn all(&self) -> Vec<(AppKey, Self::Line)>;
    fn one(&self, key: &AppKey) -> Option<Self::Line>;
    /// It stands like this now; nothing where it is gone.
    fn stands(&self, _key: &AppKey, _line: Option<&Self::Line>) {}
    /// What tells it from how it stood: that it was looked at again and found the same is no news.
    fn digest(line: &Self::Line) -> u64;
    fn there(line: Self::Line) -> News;
    fn gone(name: Name) -> News;
    fn about(key: &AppKey) -> About;
}

/// Applications; of each also whether its last operation wrote nothing.
struct ServedApplications {
    serving: Serving,
    /// What they wait for in progressive syncs, these know.
    sets: Option<SetServing>,
    metrics: Arc<Metrics>,
}

impl Served for ServedApplications {
    type Line = (ApplicationLine, bool);

    fn changes(&self) -> broadcast::Receiver<AppKey> {
        self.serving.changes()
    }

    fn all(&self) -> Vec<(AppKey, Self::Line)> {
        self.serving.all().into_iter().map(|(key, one)| (key, self.line(&one))).collect()
    }

    fn one(&self, key: &AppKey) -> Option<Self::Line> {
        self.serving.application(key).as_deref().map(|one| self.line(one))
    }

    fn stands(&self, key: &AppKey, line: Option<&Self::Line>) {
        self.metrics.stands(key, line.map(|(line, is_dry_run)| (line, *is_dry_run)));
    }

    fn digest((line, _): &Self::Line) -> u64 {
        digest(&ApplicationLine { reconciled_at: None, ..line.clone() })
    }

    fn there((line, _): Self::Line) -> News {
        News::Application(Box::new(line))
    }

    fn gone(name: Name) -> News {
        News::Gone(name)
    }

    fn about(key: &AppKey) -> About {
        About { application: key.to_string(), ..About::default() }
    }
}

impl Served for SetServing {
    type Line = SetLine;

    fn changes(&self) -> broadcast::Receiver<AppKey> {
        self.changes()
    }

    fn all(&self) -> Vec<(AppKey, SetLine)> {
        self.all().into_iter().map(|(key, one)| (key, self.line(&one))).collect()
    }

    fn one(&self, key: &AppKey) -> Option<SetLine> {
        self.set(key).map(|one| self.line(&one))
    }

    fn digest(line: &SetLine) -> u64 {
        digest(line)
    }

    fn there(line: SetLine) -> News {
        News::ApplicationSet(Box::new(line))
    }

    fn gone(name: Name) -> News {
        News::ApplicationSetGone(name)
    }

    fn about(key: &AppKey) -> About {
        About { set: key.to_string(), ..About::default() }
    }
}

/// What is followed, and what was told of each.
struct Following<S> {
    served: S,
    changes: broadcast::Receiver<AppKey>,
    /// A digest of the line that was told last.
    told: BTreeMap<AppKey, u64>,
}

impl<S: Served> Following<S> {
    fn begin(served: S) -> Self {
        let changes = served.changes();
        let mut told = BTreeMap::new();
        for (key, line) in served.all() {
            served.stands(&key, Some(&line));
            // How they stand now, their list says.
            told.insert(key, S::digest(&line));
        }
        Self { served, changes, told }
    }

    fn changed(&mut self, changed: Result<AppKey, RecvError>, bulletin: &Bulletin) {
        match changed {
            Ok(key) => {
                let line = self.served.one(&key);
                self.tell(key, line, bulletin);
            }
            Err(RecvError::Lagged(_)) => {
                let mut there: BTreeMap<AppKey, S::Line> = self.served.all().into_iter().collect();
                for key in self.told.keys().cloned().collect::<Vec<_>>() {
                    let line = there.remove(&key);
                    self.tell(key, line, bulletin);
                }
                for (key, line) in there {
                    self.tell(key, Some(line), bulletin);
                }
            }
            // The engine ends as well.
            Err(RecvError::Closed) => {}
        }
    }

    fn tell(&mut self, key: AppKey, line: Option<S::Line>, bulletin: &Bulletin) {
        let about = S::about(&key);
        let news = match line {
            Some(line) => {
                self.served.stands(&key, Some(&line));
                let digest = S::digest(&line);
                if self.told.insert(key, digest) == Some(digest) {
                    return;
                }
                S::there(line)
            }
            None if self.told.remove(&key).is_none() => return,
            None => {
                self.served.stands(&key, None);
                let AppKey { namespace, name } = key;
                S::gone(Name { namespace, name })
            }
        };
        bulletin.post(news.kind(), about, SystemClock.now(), news.data());
    }
}

impl ServedApplications {
    /// How an application stands, and whether its last operation wrote nothing.
    fn line(&self, application: &Application) -> (ApplicationLine, bool) {
        let state = application.status.operation_state.as_ref();
        let sync = state.and_then(|state| state.operation.sync.as_ref());
        let line = ApplicationLine::with_sets(application, self.sets.as_ref());
        (line, sync.is_some_and(|sync| sync.dry_run))
    }
}

fn digest(line: &impl Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(line).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}
