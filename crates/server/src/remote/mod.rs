//! The API of a `tidegate serve` elsewhere, asked: what programs do that steer one from another machine.

mod ask;
mod connection;
mod output;
mod plans;
mod runs;
mod sets;

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate_application::CONTROL_NAMESPACE;
use tidegate_application::operation::reason;
use tidegate_executor::effects::ObjectDifference;
use tidegate_model::argo::{Application, OperationRequest, OperationResource};
use tidegate_model::{Cascade, OperationId, Warning, reason_line};
use tidegate_service::applications::asking::policy;
use tidegate_service::applications::store::AppKey;
use tidegate_service::control::protocol::Request;
use tidegate_service::documents::ExplanationDocument;
use tidegate_service::documents::deletion::DeletionPlan;
use tidegate_service::error::ServiceError;
use tidegate_service::lines::WindowLine;
use tidegate_service::reach::Reached;

use self::ask::{Asking, part};
use self::connection::Connection;
pub use self::output::RemoteOutput;

/// So many applications are asked for at once.
const PAGE: &str = "100";
/// More pages than there are.
const PAGES_MAX: usize = 10_000;

/// The API of a `tidegate serve` elsewhere.
pub struct Remote(Connection);

#[derive(Deserialize)]
struct Page {
    items: Vec<Application>,
    next: Option<String>,
    #[serde(default)]
    problems: Vec<String>,
}

/// A part of a list of which nothing else is told.
#[derive(Deserialize)]
struct Part<T> {
    items: Vec<T>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Whole {
    objects: Vec<ObjectDifference>,
    findings: Vec<Warning>,
}

impl Remote {
    /// The one at a URL, asked with the token of a file; `authorities` are the certificates it is trusted by, in PEM, instead of
    /// those that this system trusts.
    ///
    /// # Errors
    ///
    /// The URL is none, a token would be sent in clear to another machine, or a file cannot be used.
    pub fn new(url: &str, token: Option<&Path>, authorities: Option<&Path>) -> Result<Self, ServiceError> {
        Connection::new(url, token, authorities).map(Self)
    }

    async fn read<A: DeserializeOwned>(&self, path: &str) -> Result<A, ServiceError> {
        self.0.ask(Asking::get(path)).await
    }

    /// The applications, or those that are meant.
    pub async fn applications(&self, name: Option<&str>) -> Result<Reached, ServiceError> {
        let whole = name.and_then(|name| name.split_once('/')).filter(|(namespace, _)| !namespace.is_empty());
        if let Some((namespace, name)) = whole {
            let key = AppKey { namespace: namespace.to_owned(), name: name.to_owned() };
            let found = self.0.find(Asking::get(&one(&key, ""))).await?;
            return Ok(Reached { applications: found.into_iter().collect(), problems: Vec::new() });
        }
        let mut reached = Reached::default();
        let mut after = None;
        for _ in 0..PAGES_MAX {
            let mut asking = Asking::get("/api/v1/argoproj.io/applications").with("limit", PAGE);
            asking = name.iter().fold(asking, |asking, name| asking.with("name", name));
            asking = after.iter().fold(asking, |asking, page: &String| asking.with("page", page));
            let page: Page = self.0.ask(asking).await?;
            let is_meant = |one: &Application| name.is_none_or(|name| AppKey::of(one).is_meant(name));
            reached.applications.extend(page.items.into_iter().filter(is_meant));
            reached.problems = page.problems;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(reached)
    }

    /// All of a list that is given in parts, or what of it is asked for.
    async fn all<T: DeserializeOwned>(
        &self,
        path: &str,
        (name, only): (&str, Option<&str>),
    ) -> Result<Vec<T>, ServiceError> {
        let (mut lines, mut after) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let asking = Asking::get(path).with("limit", PAGE);
            let asking = only.iter().fold(asking, |asking, only| asking.with(name, only));
            let asking = after.iter().fold(asking, |asking, page: &String| asking.with("page", page));
            let part: Part<T> = self.0.ask(asking).await?;
            lines.extend(part.items);
            after = part.next;
            if after.is_none() {
                break;
            }
        }
        Ok(lines)
    }

    /// Those of several names, each asked for; all, where none is named.
    pub async fn named(&self, names: &[String]) -> Result<Reached, ServiceError> {
        if names.is_empty() {
            return self.applications(None).await;
        }
        let mut reached = Reached::default();
        let mut known = BTreeSet::new();
        for name in names {
            let found = self.applications(Some(name)).await?.applications;
            reached.applications.extend(found.into_iter().filter(|one| known.insert(AppKey::of(one))));
        }
        Ok(reached)
    }

    /// The only application that is meant.
    async fn key(&self, name: &str) -> Result<AppKey, ServiceError> {
        let found = self.applications(Some(name)).await?.applications;
        AppKey::only(found.iter().map(AppKey::of), name)
    }

    /// Tells what to do with an application. Returns when that is durable.
    ///
    /// # Errors
    ///
    /// It is refused, or cannot be done; also a request that is not about an application.
    pub async fn tell(&self, request: &Request) -> Result<(), ServiceError> {
        let (name, what, body) = match request {
            Request::SyncApplication { name, operation } => (name, "sync", sync(operation)),
            Request::TerminateApplication { name, reason, .. } => {
                (name, "terminate", because(json!({}), reason))
            }
            Request::RollbackApplication { name, id, prune, reason, .. } => {
                (name, "rollback", because(json!({"id": id, "prune": prune}), reason))
            }
            Request::RefreshApplication { name, hard } => (name, "refresh", json!({"hard": hard})),
            Request::DeleteApplication { name, cascade, reason, .. } => {
                let path = one(&self.key(name).await?, "");
                let asking = Asking::delete(&path).with("cascade", cascade.as_str()).because(reason);
                return self.0.ask::<Value>(asking).await.map(drop);
            }
            _ => return Err(ServiceError::refused("this is asked of a process on this machine only")),
        };
        let path = one(&self.key(name).await?, &format!("/{what}"));
        self.0.ask::<Value>(Asking::post(&path, body)).await.map(drop)
    }

    /// What a sync of an application would change, to the revisions that are named, one for each source, or to its own.
    pub async fn diff(
        &self,
        name: &str,
        revisions: &[String],
    ) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
        let asking = Asking::get(&one(&self.key(name).await?, "/diff/objects"));
        let asking = match revisions {
            [one] => asking.with("revision", one),
            several => several.iter().fold(asking, |asking, one| asking.with("revisions", one)),
        };
        let Whole { objects, findings } = self.0.ask(asking).await?;
        Ok((objects, findings))
    }

    /// What the deletion of an application would do.
    pub async fn plan_application_deletion(
        &self,
        name: &str,
        cascade: Cascade,
    ) -> Result<DeletionPlan, ServiceError> {
        let asking = Asking::get(&one(&self.key(name).await?, "/deletion"));
        self.0.ask(asking.with("cascade", cascade.as_str())).await
    }

    /// What the newest operation of an application says, which may be gone by now; nothing where there is none.
    pub async fn last_message(&self, application: &str) -> Result<Option<String>, ServiceError> {
        let asking = Asking::get("/api/v1/operations").with("application", application).with("limit", "1");
        let Newest { items } = self.0.ask(asking).await?;
        Ok(items.into_iter().next().and_then(|one| one.message))
    }

    /// The operations of an application that are not over, the newest first.
    pub async fn open_operations(&self, application: &str) -> Result<Vec<OperationId>, ServiceError> {
        let asking = Asking::get("/api/v1/operations").with("application", application).with("open", "true");
        let Newest { items } = self.0.ask(asking.with("limit", PAGE)).await?;
        Ok(items.into_iter().map(|one| one.id).collect())
    }

    /// Whether sync windows let an application be synced now.
    pub async fn window(&self, key: &AppKey) -> Result<WindowLine, ServiceError> {
        self.read(&one(key, "/window")).await
    }

    /// Why an operation is where it is.
    pub async fn explain(&self, operation: OperationId) -> Result<ExplanationDocument, ServiceError> {
        self.read(&format!("/api/v1/operations/{operation}/explain")).await
    }
}

/// A page of operations, as far as it matters here.
#[derive(Deserialize)]
struct Newest {
    items: Vec<Operation>,
}

#[derive(Deserialize)]
struct Operation {
    id: OperationId,
    message: Option<String>,
}

/// The path of an application, or of something of it.
fn one(AppKey { namespace, name }: &AppKey, what: &str) -> String {
    let namespace = if namespace.is_empty() { CONTROL_NAMESPACE } else { namespace };
    format!("/api/v1/applications/{}/{}{what}", part(namespace), part(name))
}

/// The body that asks for an operation. What the policy of the application says of it, the server adds.
fn sync(operation: &OperationRequest) -> Value {
    let sync = operation.sync.clone().unwrap_or_default();
    let resource = |one: &OperationResource| json!({"group": one.group, "kind": one.kind, "namespace": one.namespace, "name": one.name});
    let mut body = json!({
        "revision": (!sync.revision.is_empty()).then_some(sync.revision),
        "prune": sync.prune,
        "dryRun": sync.dry_run,
        "resources": sync.resources.iter().map(resource).collect::<Vec<_>>(),
    });
    // A server of an earlier version knows neither a policy nor several revisions, and refuses what it does not know.
    if let Some(body) = body.as_object_mut() {
        body.extend(policy(operation).map(|policy| ("policy".to_owned(), policy.into())));
        if !sync.revisions.is_empty() {
            body.insert("revisions".to_owned(), sync.revisions.into());
        }
    }
    because(body, reason(operation))
}

/// A body that says why something is wanted, where somebody has said it: a server of an earlier version takes no reason.
fn because(mut body: Value, reason: &str) -> Value {
    let reason = reason_line(reason);
    if let Some(body) = body.as_object_mut().filter(|_| !reason.is_empty()) {
        body.insert("reason".to_owned(), reason.into());
    }
    body
}
