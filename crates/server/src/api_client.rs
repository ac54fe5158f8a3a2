//! API client for a remote `tidegate serve`, for programs on other machines.

mod api_request;
mod appsets;
mod connection;
mod hook_output;
mod plans;
mod runs;

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate_app_controller::DeletionOptions;
use tidegate_app_controller::sync_request::conflict_policy;
use tidegate_application::AppKey;
use tidegate_application::control_namespace;
use tidegate_application::operation::request_reason;
use tidegate_daemon::application_access::ApplicationListing;
use tidegate_executor::effects::ObjectDifference;
use tidegate_model::argo::{Application, OperationRequest, OperationResource};
use tidegate_model::{OperationId, Warning, normalize_reason};
use tidegate_state::error::ServiceError;
use tidegate_state::summaries::SyncWindowSummary;
use tidegate_views::ExplanationDocument;
use tidegate_views::deletion::DeletionPlan;
use tidegate_views::protocol::Request;

use self::api_request::{ApiRequest, encode_segment};
use self::connection::Connection;
pub use self::hook_output::HookOutputStream;

/// Number of applications per page in list requests.
const PAGE_SIZE: &str = "100";
/// Maximum number of pages to read from a list, far more than a real list has.
const PAGES_MAX: usize = 10_000;

/// API client for a remote `tidegate serve`.
pub struct ApiClient(Connection);

#[derive(Deserialize)]
struct ApplicationPage {
    items: Vec<Application>,
    next: Option<String>,
    #[serde(default)]
    problems: Vec<String>,
}

/// A page of a list, with only the fields that the client uses.
#[derive(Deserialize)]
struct ListPage<T> {
    items: Vec<T>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct DiffResponse {
    objects: Vec<ObjectDifference>,
    warnings: Vec<Warning>,
}

impl ApiClient {
    /// Creates a client that reads its token from a file. `authorities` is a PEM file of trusted certificates
    /// that replace the system's.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid, if the token would be sent to another machine in plain text,
    /// or if a file cannot be used.
    pub fn new(url: &str, token: Option<&Path>, authorities: Option<&Path>) -> Result<Self, ServiceError> {
        Connection::new(url, token, authorities).map(Self)
    }

    async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, ServiceError> {
        self.0.send(ApiRequest::get(path)).await
    }

    /// Returns all applications, or only those with this name.
    pub async fn applications(&self, name: Option<&str>) -> Result<ApplicationListing, ServiceError> {
        let whole = name.and_then(|name| name.split_once('/')).filter(|(namespace, _)| !namespace.is_empty());
        if let Some((namespace, name)) = whole {
            let key = AppKey { namespace: namespace.to_owned(), name: name.to_owned() };
            let found = self.0.find(ApiRequest::get(&application_path(&key, ""))).await?;
            return Ok(ApplicationListing {
                applications: found.into_iter().collect(),
                problems: Vec::new(),
            });
        }
        let mut reached = ApplicationListing::default();
        let mut after = None;
        for _ in 0..PAGES_MAX {
            let mut request =
                ApiRequest::get("/api/v1/argoproj.io/applications").with_parameter("limit", PAGE_SIZE);
            request = name.iter().fold(request, |request, name| request.with_parameter("name", name));
            request =
                after.iter().fold(request, |request, page: &String| request.with_parameter("page", page));
            let page: ApplicationPage = self.0.send(request).await?;
            reached.applications.extend(page.items);
            reached.problems = page.problems;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        name.iter().for_each(|name| AppKey::retain_resolved(&mut reached.applications, AppKey::of, name));
        Ok(reached)
    }

    /// Returns the items of all pages of a list. If `value` is set, it is sent as the query parameter
    /// `parameter`.
    async fn list_all<T: DeserializeOwned>(
        &self,
        path: &str,
        parameter: &str,
        value: Option<&str>,
    ) -> Result<Vec<T>, ServiceError> {
        let (mut lines, mut after) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let request = ApiRequest::get(path).with_parameter("limit", PAGE_SIZE);
            let request =
                value.iter().fold(request, |request, value| request.with_parameter(parameter, value));
            let request =
                after.iter().fold(request, |request, page: &String| request.with_parameter("page", page));
            let part: ListPage<T> = self.0.send(request).await?;
            lines.extend(part.items);
            after = part.next;
            if after.is_none() {
                break;
            }
        }
        Ok(lines)
    }

    /// Returns the named applications, one request each, or all applications if `names` is empty.
    pub async fn find_applications(&self, names: &[String]) -> Result<ApplicationListing, ServiceError> {
        if names.is_empty() {
            return self.applications(None).await;
        }
        let mut reached = ApplicationListing::default();
        let mut known = BTreeSet::new();
        for name in names {
            let found = self.applications(Some(name)).await?.applications;
            reached.applications.extend(found.into_iter().filter(|one| known.insert(AppKey::of(one))));
        }
        Ok(reached)
    }

    /// Returns the only application with this name.
    async fn resolve_name(&self, name: &str) -> Result<AppKey, ServiceError> {
        let found = self.applications(Some(name)).await?.applications;
        Ok(AppKey::single_match(found.iter().map(AppKey::of), name)?)
    }

    /// Sends a request for an application. Returns once the server has stored it durably.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is rejected, fails, or is not a request for an application.
    pub async fn send_request(&self, request: &Request) -> Result<(), ServiceError> {
        let (name, what, body) = match request {
            Request::SyncApplication { name, operation } => (name, "sync", sync_body(operation)),
            Request::TerminateApplication { name, reason, .. } => {
                (name, "terminate", add_reason(json!({}), reason))
            }
            Request::RollbackApplication { name, id, prune, reason, .. } => {
                (name, "rollback", add_reason(json!({"id": id, "prune": prune}), reason))
            }
            Request::RefreshApplication { name, hard } => (name, "refresh", json!({"hard": hard})),
            Request::DeleteApplication { name, cascade, no_hooks, reason, .. } => {
                let path = application_path(&self.resolve_name(name).await?, "");
                let api_request =
                    ApiRequest::delete(&path).with_parameter("cascade", cascade.as_str()).with_reason(reason);
                let api_request =
                    if *no_hooks { api_request.with_parameter("noHooks", "true") } else { api_request };
                return self.0.send::<Value>(api_request).await.map(drop);
            }
            _ => {
                return Err(ServiceError::refused(
                    "this request is available only locally, not with --server",
                ));
            }
        };
        let path = application_path(&self.resolve_name(name).await?, &format!("/{what}"));
        self.0.send::<Value>(ApiRequest::post(&path, body)).await.map(drop)
    }

    /// Previews the changes of a sync. `revisions` has one entry per source; empty selects the application's
    /// own revisions.
    pub async fn diff(
        &self,
        name: &str,
        revisions: &[String],
    ) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
        let request = ApiRequest::get(&application_path(&self.resolve_name(name).await?, "/diff/objects"));
        let request = match revisions {
            [one] => request.with_parameter("revision", one),
            several => several.iter().fold(request, |request, one| request.with_parameter("revisions", one)),
        };
        let DiffResponse { objects, warnings } = self.0.send(request).await?;
        Ok((objects, warnings))
    }

    /// Returns the effects of deleting an application.
    pub async fn plan_application_deletion(
        &self,
        name: &str,
        options: DeletionOptions,
    ) -> Result<DeletionPlan, ServiceError> {
        let DeletionOptions { cascade, no_hooks } = options;
        let request = ApiRequest::get(&application_path(&self.resolve_name(name).await?, "/deletion"));
        let request = request.with_parameter("cascade", cascade.as_str());
        self.0.send(if no_hooks { request.with_parameter("noHooks", "true") } else { request }).await
    }

    /// Returns the message of an application's newest operation, if any. Also works for deleted applications.
    pub async fn last_message(&self, application: &str) -> Result<Option<String>, ServiceError> {
        let request = ApiRequest::get("/api/v1/operations")
            .with_parameter("application", application)
            .with_parameter("limit", "1");
        let OperationPage { items } = self.0.send(request).await?;
        Ok(items.into_iter().next().and_then(|one| one.message))
    }

    /// Returns an application's open operations, newest first.
    pub async fn open_operations(&self, application: &str) -> Result<Vec<OperationId>, ServiceError> {
        let request = ApiRequest::get("/api/v1/operations")
            .with_parameter("application", application)
            .with_parameter("open", "true");
        let OperationPage { items } = self.0.send(request.with_parameter("limit", PAGE_SIZE)).await?;
        Ok(items.into_iter().map(|one| one.id).collect())
    }

    /// Returns the state of an application's sync windows, including whether a sync is currently permitted.
    pub async fn sync_window(&self, key: &AppKey) -> Result<SyncWindowSummary, ServiceError> {
        self.get(&application_path(key, "/window")).await
    }

    /// Explains the current state of an operation.
    pub async fn explain_operation(
        &self,
        operation: OperationId,
    ) -> Result<ExplanationDocument, ServiceError> {
        self.get(&format!("/api/v1/operations/{operation}/explain")).await
    }
}

/// A page of operations, with only the fields that the client uses.
#[derive(Deserialize)]
struct OperationPage {
    items: Vec<Operation>,
}

#[derive(Deserialize)]
struct Operation {
    id: OperationId,
    message: Option<String>,
}

/// Returns the path of an application or one of its subresources.
fn application_path(AppKey { namespace, name }: &AppKey, what: &str) -> String {
    let namespace = if namespace.is_empty() { control_namespace() } else { namespace };
    format!("/api/v1/applications/{}/{}{what}", encode_segment(namespace), encode_segment(name))
}

/// Returns the request body for an operation. The server adds the options of the application's sync policy.
fn sync_body(operation: &OperationRequest) -> Value {
    let sync = operation.sync.clone().unwrap_or_default();
    let resource = |one: &OperationResource| json!({"group": one.group, "kind": one.kind, "namespace": one.namespace, "name": one.name});
    let mut body = json!({
        "revision": (!sync.revision.is_empty()).then_some(sync.revision),
        "prune": sync.prune,
        "dryRun": sync.dry_run,
        "resources": sync.resources.iter().map(resource).collect::<Vec<_>>(),
    });
    // Send these fields only if needed, because older servers reject unknown fields.
    if let Some(body) = body.as_object_mut() {
        body.extend(conflict_policy(operation).map(|policy| ("policy".to_owned(), policy.into())));
        if !sync.revisions.is_empty() {
            body.insert("revisions".to_owned(), sync.revisions.into());
        }
    }
    add_reason(body, request_reason(operation))
}

/// Adds a non-empty reason to a request body. Older servers reject this field.
fn add_reason(mut body: Value, reason: &str) -> Value {
    let reason = normalize_reason(reason);
    if let Some(body) = body.as_object_mut().filter(|_| !reason.is_empty()) {
        body.insert("reason".to_owned(), reason.into());
    }
    body
}
