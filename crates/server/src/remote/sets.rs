//! ApplicationSets of a `tidegate serve` elsewhere.

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_application::CONTROL_NAMESPACE;
use tidegate_model::argo::ApplicationSet;
use tidegate_service::applications::store::AppKey;
use tidegate_service::control::protocol::Request;
use tidegate_service::error::ServiceError;
use tidegate_service::reach::ReachedSets;
use tidegate_service::sets::{PolicyOptions, SetDeletion, SetExplanation, SetWish};

use super::ask::{Asking, part};
use super::{PAGE, PAGES_MAX, Remote};

#[derive(Deserialize)]
struct Page {
    items: Vec<ApplicationSet>,
    next: Option<String>,
    #[serde(default)]
    problems: Vec<String>,
    #[serde(default)]
    options: PolicyOptions,
}

impl Remote {
    /// The ApplicationSets, or those that are meant.
    pub async fn sets(&self, name: Option<&str>) -> Result<ReachedSets, ServiceError> {
        let mut reached = ReachedSets::default();
        let mut after = None;
        for _ in 0..PAGES_MAX {
            let asking = Asking::get("/api/v1/argoproj.io/applicationsets").with("limit", PAGE);
            let asking = after.iter().fold(asking, |asking, page: &String| asking.with("page", page));
            let page: Page = self.0.ask(asking).await?;
            let is_meant = |one: &ApplicationSet| name.is_none_or(|name| key(one).is_meant(name));
            reached.sets.extend(page.items.into_iter().filter(is_meant));
            (reached.problems, reached.options) = (page.problems, page.options);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(reached)
    }

    /// The path of the only ApplicationSet that is meant, or of something of it.
    async fn path(&self, name: &str, what: &str) -> Result<String, ServiceError> {
        let key = match name.split_once('/') {
            Some((namespace, name)) => AppKey { namespace: namespace.to_owned(), name: name.to_owned() },
            None => {
                let mut found = self.sets(Some(name)).await?.sets.into_iter();
                match (found.next(), found.next()) {
                    (Some(only), None) => key(&only),
                    (None, _) => {
                        return Err(ServiceError::refused(format!(
                            "there is no ApplicationSet {name}; `tidegate appset list` shows those there are"
                        )));
                    }
                    _ => {
                        return Err(ServiceError::refused(format!(
                            "there are several ApplicationSets {name}; write NAMESPACE/NAME"
                        )));
                    }
                }
            }
        };
        let namespace = if key.namespace.is_empty() { CONTROL_NAMESPACE } else { &key.namespace };
        Ok(format!("/api/v1/applicationsets/{}/{}{what}", part(namespace), part(&key.name)))
    }

    /// Where an ApplicationSet stands, and why.
    pub async fn explain_set(&self, name: &str) -> Result<SetExplanation, ServiceError> {
        self.read(&self.path(name, "/explain").await?).await
    }

    /// In which order the Applications of an ApplicationSet would be deleted with it.
    pub async fn plan_deletion(&self, name: &str) -> Result<SetDeletion, ServiceError> {
        self.read(&self.path(name, "/deletion").await?).await
    }

    /// Tells what to do with an ApplicationSet. Returns when that is durable.
    ///
    /// # Errors
    ///
    /// It is refused, or cannot be done; also a request that is not about an ApplicationSet.
    pub async fn tell_set(&self, request: &Request) -> Result<(), ServiceError> {
        let asking = match request {
            Request::WishApplicationSet { name, wish, reason, .. } => {
                let (what, body) = asked(wish, reason);
                Asking::post(&self.path(name, what).await?, body)
            }
            Request::RefreshApplicationSet { name } => {
                Asking::post(&self.path(name, "/refresh").await?, json!({}))
            }
            Request::DeleteApplicationSet { name, orphan, reason, .. } => {
                let orphan = if *orphan { "true" } else { "false" };
                Asking::delete(&self.path(name, "").await?).with("orphan", orphan).because(reason)
            }
            _ => return Err(ServiceError::refused("this is asked of a process on this machine only")),
        };
        self.0.ask::<Value>(asking).await.map(drop)
    }
}

fn key(set: &ApplicationSet) -> AppKey {
    AppKey { namespace: set.metadata.home().to_owned(), name: set.metadata.name.clone() }
}

/// A wish as the end of a path, and a body.
fn asked(wish: &SetWish, reason: &str) -> (&'static str, Value) {
    match wish {
        SetWish::Approve { step } => ("/approve", json!({"step": step, "reason": reason})),
        SetWish::ApproveDeletions { token } => ("/approve", json!({"deletions": token, "reason": reason})),
        SetWish::Skip { step, member } => {
            ("/skip", json!({"step": step, "application": member, "reason": reason}))
        }
        SetWish::Retry { step, member } => {
            ("/retry", json!({"step": step, "application": member, "reason": reason}))
        }
        SetWish::Pause => ("/pause", json!({"reason": reason})),
        SetWish::Resume => ("/resume", json!({"reason": reason})),
        SetWish::Terminate => ("/terminate", json!({"reason": reason})),
    }
}
