//! Missing permissions, as reported by the server: one request reads the rules of a namespace, and anything
//! they don't clearly grant is reviewed individually.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_cluster::{ClusterError, ErrorKind, MissingRight, Right};

use crate::KubeCluster;
use crate::call::{Call, JSON};
use crate::discovery::catalog::Resource;
use crate::response::CallSubject;
use crate::rules::Rule;

const GROUP: &str = "authorization.k8s.io/v1";
/// Maximum number of individually reviewed permissions. Further missing ones are reported only after the
/// reviewed ones have been granted.
const REVIEWS_MAX: usize = 64;
/// Maximum number of concurrent reviews.
const CONCURRENT_REVIEWS_MAX: usize = 8;

/// Response to a review.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Review {
    status: ReviewStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReviewStatus {
    allowed: bool,
    evaluation_error: String,
    resource_rules: Vec<Rule>,
}

/// Permission with its resource name in rules.
struct NamedRight {
    right: Right,
    resource: Arc<Resource>,
}

impl NamedRight {
    /// Returns true if a rule grants the permission. A rule for certain object names is assumed to cover an
    /// object with an unknown name; if that is wrong, the server refuses the call itself.
    fn is_granted_by(&self, rule: &Rule) -> bool {
        let holds = |all: &[String], one: &str| all.iter().any(|given| given == "*" || given == one);
        let (names, name) = (&rule.resource_names, &self.right.name);
        let is_about = names.is_empty() || name.is_empty() || names.contains(name);
        is_about
            && holds(&rule.verbs, self.right.verb)
            && holds(&rule.api_groups, &self.right.gvk.group)
            && holds(&rule.resources, &self.resource.plural)
    }

    fn missing_right(&self) -> MissingRight {
        let (Right { verb, gvk, namespace, .. }, plural) = (&self.right, &self.resource.plural);
        let resource = if gvk.group.is_empty() { plural.clone() } else { format!("{plural}.{}", gvk.group) };
        MissingRight { namespace: namespace.clone(), resource, verb }
    }
}

impl KubeCluster {
    /// Returns the missing permissions of the reading user and of the writing user.
    pub(crate) async fn review_rights(
        &self,
        rights: &BTreeSet<Right>,
    ) -> Result<BTreeSet<MissingRight>, ClusterError> {
        let Some(ourselves) = self.without_impersonation() else {
            return self.missing_rights_of_user(rights).await;
        };
        let (reads, writes): (BTreeSet<Right>, BTreeSet<Right>) =
            rights.iter().cloned().partition(|right| right.is_read());
        let (mut missing, more) = futures_util::future::try_join(
            ourselves.missing_rights_of_user(&reads),
            self.missing_rights_of_user(&writes),
        )
        .await?;
        missing.extend(more);
        Ok(missing)
    }

    async fn missing_rights_of_user(
        &self,
        rights: &BTreeSet<Right>,
    ) -> Result<BTreeSet<MissingRight>, ClusterError> {
        let catalog = self.kinds().catalog(self.api_server()).await?;
        let asked = rights.iter().filter_map(|right| {
            let resource = catalog.get(&right.gvk)?;
            Some(NamedRight { right: right.clone(), resource })
        });
        let mut by_namespace: BTreeMap<String, Vec<NamedRight>> = BTreeMap::new();
        for asked in asked {
            by_namespace.entry(asked.right.namespace.clone()).or_default().push(asked);
        }
        let mut open = Vec::new();
        for (namespace, mut asked) in by_namespace {
            if !namespace.is_empty() {
                let about = (namespace.clone(), self.user());
                let rules = self.reviews().run(about, self.fetch_rules(&namespace)).await?;
                asked.retain(|asked| !rules.iter().any(|rule| asked.is_granted_by(rule)));
            }
            open.extend(asked);
        }
        // Other authorizers may grant a permission without a rule, so only a direct review is conclusive.
        let questions = stream::iter(open.into_iter().take(REVIEWS_MAX))
            .map(|asked| async move { Ok(self.is_denied(&asked).await?.then(|| asked.missing_right())) })
            .buffer_unordered(CONCURRENT_REVIEWS_MAX);
        questions.try_filter_map(|missing| std::future::ready(Ok(missing))).try_collect().await
    }

    /// Returns the rules of a namespace that the server reports.
    async fn fetch_rules(&self, namespace: &str) -> Result<Arc<[Rule]>, ClusterError> {
        let status = self.send_review("SelfSubjectRulesReview", json!({"namespace": namespace})).await?;
        Ok(status.map(|status| status.resource_rules).unwrap_or_default().into())
    }

    async fn is_denied(&self, named: &NamedRight) -> Result<bool, ClusterError> {
        let Right { verb, gvk, namespace, name } = &named.right;
        // In a review, an empty namespace means cluster-scoped objects.
        let attributes = json!({
            "namespace": namespace,
            "verb": verb,
            "group": gvk.group,
            "version": gvk.version,
            "resource": named.resource.plural,
            "name": name,
        });
        let status =
            self.send_review("SelfSubjectAccessReview", json!({"resourceAttributes": attributes})).await?;
        Ok(status.is_some_and(|status| !status.allowed && status.evaluation_error.is_empty()))
    }

    /// Sends one review. Returns `None` if the server doesn't support it.
    async fn send_review(&self, kind: &str, spec: Value) -> Result<Option<ReviewStatus>, ClusterError> {
        let path = format!("/apis/{GROUP}/{}s", kind.to_lowercase());
        let body = json!({"apiVersion": GROUP, "kind": kind, "spec": spec}).to_string().into_bytes();
        let call = self.with_writer(Call::write(Method::POST, path, JSON, body, None));
        match self.api_server().call_with_retry(&call).await?.decode::<Review>(CallSubject::default()) {
            Ok(review) => Ok(Some(review.status)),
            Err(error) if error.kind.is_outage() && error.kind != ErrorKind::Unauthorized => Err(error),
            Err(error) => {
                tracing::debug!(kind, why = %error.kind, "the API server does not report permissions");
                Ok(None)
            }
        }
    }
}
