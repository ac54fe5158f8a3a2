//! ApplicationSets managed by a remote `tidegate serve`.

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_application::AppKey;
use tidegate_application::control_namespace;
use tidegate_appset_controller::PolicyOptions;
use tidegate_daemon::application_access::AppSetListing;
use tidegate_model::argo::ApplicationSet;
use tidegate_state::error::ServiceError;
use tidegate_views::appset_actions::{AppSetAction, AppSetDeletionPreview, AppSetExplanation};
use tidegate_views::protocol::Request;

use super::api_request::{ApiRequest, encode_segment};
use super::{ApiClient, PAGE_SIZE, PAGES_MAX};

#[derive(Deserialize)]
struct AppSetPage {
    items: Vec<ApplicationSet>,
    next: Option<String>,
    #[serde(default)]
    problems: Vec<String>,
    #[serde(default)]
    options: PolicyOptions,
}

impl ApiClient {
    /// Returns all ApplicationSets, or only those with this name.
    pub async fn appsets(&self, name: Option<&str>) -> Result<AppSetListing, ServiceError> {
        let mut reached = AppSetListing::default();
        let mut after = None;
        for _ in 0..PAGES_MAX {
            let request =
                ApiRequest::get("/api/v1/argoproj.io/applicationsets").with_parameter("limit", PAGE_SIZE);
            let request =
                after.iter().fold(request, |request, page: &String| request.with_parameter("page", page));
            let page: AppSetPage = self.0.send(request).await?;
            reached.appsets.extend(page.items);
            (reached.problems, reached.options) = (page.problems, page.options);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        name.iter().for_each(|name| AppKey::retain_resolved(&mut reached.appsets, AppKey::of_appset, name));
        Ok(reached)
    }

    /// Returns the path of the only ApplicationSet with this name. `what` is the subresource, or empty.
    async fn appset_path(&self, name: &str, what: &str) -> Result<String, ServiceError> {
        let key = match name.split_once('/') {
            Some((namespace, name)) => AppKey { namespace: namespace.to_owned(), name: name.to_owned() },
            None => {
                let mut found = self.appsets(Some(name)).await?.appsets.into_iter();
                match (found.next(), found.next()) {
                    (Some(only), None) => AppKey::of_appset(&only),
                    (None, _) => {
                        return Err(ServiceError::BadInput {
                            message: format!(
                                "ApplicationSet {name} not found; `tidegate appset list` lists all \
                                 ApplicationSets"
                            ),
                        });
                    }
                    _ => {
                        return Err(ServiceError::BadInput {
                            message: format!("several ApplicationSets are named {name}; use NAMESPACE/NAME"),
                        });
                    }
                }
            }
        };
        let namespace = if key.namespace.is_empty() { control_namespace() } else { &key.namespace };
        Ok(format!(
            "/api/v1/applicationsets/{}/{}{what}",
            encode_segment(namespace),
            encode_segment(&key.name)
        ))
    }

    /// Explains the current state of an ApplicationSet.
    pub async fn explain_appset(&self, name: &str) -> Result<AppSetExplanation, ServiceError> {
        self.get(&self.appset_path(name, "/explain").await?).await
    }

    /// Previews the order in which an ApplicationSet's Applications would be deleted.
    pub async fn plan_appset_deletion(&self, name: &str) -> Result<AppSetDeletionPreview, ServiceError> {
        self.get(&self.appset_path(name, "/deletion").await?).await
    }

    /// Sends a request for an ApplicationSet. Returns once the server has stored it durably.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is rejected, fails, or is not a request for an ApplicationSet.
    pub async fn send_appset_request(&self, request: &Request) -> Result<(), ServiceError> {
        let api_request = match request {
            Request::RequestAppSetAction { name, action, reason, .. } => {
                let (what, body) = encode_request(action, reason);
                ApiRequest::post(&self.appset_path(name, what).await?, body)
            }
            Request::RefreshApplicationSet { name } => {
                ApiRequest::post(&self.appset_path(name, "/refresh").await?, json!({}))
            }
            Request::DeleteApplicationSet { name, orphan, reason, .. } => {
                let orphan = if *orphan { "true" } else { "false" };
                ApiRequest::delete(&self.appset_path(name, "").await?)
                    .with_parameter("orphan", orphan)
                    .with_reason(reason)
            }
            _ => {
                return Err(ServiceError::refused(
                    "this request is available only locally, not with --server",
                ));
            }
        };
        self.0.send::<Value>(api_request).await.map(drop)
    }
}

/// Returns the last path segment and the request body for an action.
fn encode_request(action: &AppSetAction, reason: &str) -> (&'static str, Value) {
    match action {
        AppSetAction::Approve { step } => ("/approve", json!({"step": step, "reason": reason})),
        AppSetAction::ApproveDeletions { token } => {
            ("/approve", json!({"deletions": token, "reason": reason}))
        }
        AppSetAction::Skip { step, member } => {
            ("/skip", json!({"step": step, "application": member, "reason": reason}))
        }
        AppSetAction::Retry { step, member } => {
            ("/retry", json!({"step": step, "application": member, "reason": reason}))
        }
        AppSetAction::Pause => ("/pause", json!({"reason": reason})),
        AppSetAction::Resume => ("/resume", json!({"reason": reason})),
        AppSetAction::Terminate => ("/terminate", json!({"reason": reason})),
    }
}
