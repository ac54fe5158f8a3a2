//! Plans stored by a remote `tidegate serve`.

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_application::AppKey;
use tidegate_executor::effects::ObjectDifference;
use tidegate_model::{Plan, Warning};
use tidegate_state::error::ServiceError;
use tidegate_state::summaries::PlanSummary;
use tidegate_views::protocol::Request;

use super::api_request::{ApiRequest, encode_segment};
use super::{ApiClient, DiffResponse as Differences, add_reason, sync_body};

#[derive(Deserialize)]
struct PlanResponse {
    summary: PlanSummary,
    plan: Plan,
}

impl ApiClient {
    /// Sends a query or request for stored plans, and returns their summaries.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is rejected, fails, or is not a request for plans.
    pub async fn request_plans(&self, request: &Request) -> Result<Vec<PlanSummary>, ServiceError> {
        match request {
            Request::Plans { name, .. } => self.list_plans(name.as_deref()).await,
            Request::ApprovePlan { name, hash, reason, .. } => {
                self.act_on_plan(name, hash, "approve", json!({"reason": reason})).await
            }
            Request::SyncPlan { name, hash, allow_drift, reason, .. } => {
                let body = add_reason(json!({"allowDrift": allow_drift}), reason);
                self.act_on_plan(name, hash, "sync", body).await
            }
            _ => Err(ServiceError::refused("this request is available only locally, not with --server")),
        }
    }

    /// Returns a stored plan or creates a new one, depending on the request.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Self::request_plans`].
    pub async fn request_plan(&self, request: &Request) -> Result<(PlanSummary, Plan), ServiceError> {
        let hash = match request {
            Request::StoredPlan { name, hash, .. } => self.resolve_hash(name, hash).await?,
            Request::PlanApplication { name, operation } => {
                let mut body = sync_body(operation);
                if let Some(body) = body.as_object_mut() {
                    let key = self.resolve_name(name).await?;
                    body.insert("application".to_owned(), format!("{}/{}", key.namespace, key.name).into());
                    ["dryRun", "policy", "reason"].into_iter().for_each(|word| drop(body.remove(word)));
                }
                let made: PlanSummary = self.0.send(ApiRequest::post("/api/v1/plans", body)).await?;
                made.hash
            }
            _ => {
                return Err(ServiceError::refused(
                    "this request is available only locally, not with --server",
                ));
            }
        };
        let PlanResponse { summary, plan } =
            self.get(&format!("/api/v1/plans/{}/whole", encode_segment(&hash))).await?;
        Ok((summary, plan))
    }

    /// Returns the changes that an application's stored plan would make to the cluster now.
    ///
    /// # Errors
    ///
    /// Returns an error if the plan does not exist or was already executed, or if its cluster cannot be read.
    pub async fn diff_plan(
        &self,
        name: &str,
        hash: &str,
    ) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
        let hash = self.resolve_hash(name, hash).await?;
        let found: Differences =
            self.get(&format!("/api/v1/plans/{}/diff/objects", encode_segment(&hash))).await?;
        Ok((found.objects, found.warnings))
    }

    async fn list_plans(&self, name: Option<&str>) -> Result<Vec<PlanSummary>, ServiceError> {
        self.list_all("/api/v1/plans", "application", name).await
    }

    /// Expands a hash prefix to the full hash of an application's plan.
    async fn resolve_hash(&self, name: &str, hash: &str) -> Result<String, ServiceError> {
        let AppKey { namespace, name } = self.resolve_name(name).await?;
        let request = ApiRequest::get(&format!("/api/v1/plans/{}", encode_segment(hash)));
        let found = self
            .0
            .send::<PlanSummary>(request.with_parameter("application", &format!("{namespace}/{name}")))
            .await;
        let unknown = |error| match error {
            ServiceError::Refused { message } => ServiceError::BadInput { message },
            error => error,
        };
        found.map(|line| line.hash).map_err(unknown)
    }

    async fn act_on_plan(
        &self,
        name: &str,
        hash: &str,
        action: &str,
        body: Value,
    ) -> Result<Vec<PlanSummary>, ServiceError> {
        let hash = self.resolve_hash(name, hash).await?;
        let line = self.0.send(ApiRequest::post(&format!("/api/v1/plans/{hash}/{action}"), body)).await?;
        Ok(vec![line])
    }
}
