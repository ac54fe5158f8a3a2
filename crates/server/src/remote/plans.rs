//! Kept plans of a `tidegate serve` elsewhere.

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_executor::effects::ObjectDifference;
use tidegate_model::{Plan, Warning};
use tidegate_service::applications::store::AppKey;
use tidegate_service::control::protocol::Request;
use tidegate_service::error::ServiceError;
use tidegate_service::lines::PlanLine;

use super::ask::{Asking, part};
use super::{Remote, Whole as Differences, because, sync};

#[derive(Deserialize)]
struct Whole {
    line: PlanLine,
    plan: Plan,
}

impl Remote {
    /// A question about kept plans, or a wish for one, and the lines that answer it.
    ///
    /// # Errors
    ///
    /// It is refused, or cannot be done; also a request that is not about plans.
    pub async fn plans(&self, request: &Request) -> Result<Vec<PlanLine>, ServiceError> {
        match request {
            Request::Plans { name, .. } => self.lines(name.as_deref()).await,
            Request::ApprovePlan { name, hash, reason, .. } => {
                self.act(name, hash, ("approve", json!({"reason": reason}))).await
            }
            Request::SyncPlan { name, hash, allow_drift, reason, .. } => {
                let body = because(json!({"allowDrift": allow_drift}), reason);
                self.act(name, hash, ("sync", body)).await
            }
            _ => Err(ServiceError::refused("this is asked of a process on this machine only")),
        }
    }

    /// A kept plan, or one that is made.
    ///
    /// # Errors
    ///
    /// As [`Self::plans`].
    pub async fn plan(&self, request: &Request) -> Result<(PlanLine, Plan), ServiceError> {
        let hash = match request {
            Request::KeptPlan { name, hash, .. } => self.whose(name, hash).await?,
            Request::PlanApplication { name, operation } => {
                let mut body = sync(operation);
                if let Some(body) = body.as_object_mut() {
                    let key = self.key(name).await?;
                    body.insert("application".to_owned(), format!("{}/{}", key.namespace, key.name).into());
                    ["dryRun", "policy", "reason"].into_iter().for_each(|word| drop(body.remove(word)));
                }
                let made: PlanLine = self.0.ask(Asking::post("/api/v1/plans", body)).await?;
                made.hash
            }
            _ => return Err(ServiceError::refused("this is asked of a process on this machine only")),
        };
        let Whole { line, plan } = self.read(&format!("/api/v1/plans/{}/whole", part(&hash))).await?;
        Ok((line, plan))
    }

    /// What a kept plan of an application would change now.
    ///
    /// # Errors
    ///
    /// There is none, it was carried out, or its cluster cannot be looked at.
    pub async fn diff_plan(
        &self,
        name: &str,
        hash: &str,
    ) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
        let hash = self.whose(name, hash).await?;
        let found: Differences = self.read(&format!("/api/v1/plans/{}/diff/objects", part(&hash))).await?;
        Ok((found.objects, found.findings))
    }

    async fn lines(&self, name: Option<&str>) -> Result<Vec<PlanLine>, ServiceError> {
        self.all("/api/v1/plans", ("application", name)).await
    }

    /// The whole hash of a plan of the application that is meant.
    async fn whose(&self, name: &str, hash: &str) -> Result<String, ServiceError> {
        let AppKey { namespace, name } = self.key(name).await?;
        let asking = Asking::get(&format!("/api/v1/plans/{}", part(hash)));
        let found = self.0.ask::<PlanLine>(asking.with("application", &format!("{namespace}/{name}"))).await;
        let unknown = |error| match error {
            ServiceError::Refused { message } => ServiceError::BadInput { message },
            error => error,
        };
        found.map(|line| line.hash).map_err(unknown)
    }

    async fn act(
        &self,
        name: &str,
        hash: &str,
        (what, body): (&str, Value),
    ) -> Result<Vec<PlanLine>, ServiceError> {
        let hash = self.whose(name, hash).await?;
        let line = self.0.ask(Asking::post(&format!("/api/v1/plans/{hash}/{what}"), body)).await?;
        Ok(vec![line])
    }
}
