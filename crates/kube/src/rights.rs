//! Which rights somebody lacks, as the server itself says: by the rules that hold in a namespace, all in one request, and
//! where these do not settle it by a question for each right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_cluster::{ClusterError, ErrorKind, MissingRight, Right};

use crate::KubeCluster;
use crate::answer::About;
use crate::discovery::catalog::Resource;
use crate::rounds::Rounds;
use crate::server::{Call, JSON};

const GROUP: &str = "authorization.k8s.io/v1";
/// Rights that are asked for one by one. Who lacks more learns of the rest when these are mended.
const QUESTIONS_MAX: usize = 64;
/// Questions under way at once.
const AT_ONCE: usize = 8;

/// The rules that are asked for, by namespace and user.
pub(crate) type Reviews = Rounds<(String, Option<Arc<str>>), Arc<[Rule]>>;

/// What a review answers.
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

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Rule {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

/// A right, and how its kind is called in rules.
struct Asked {
    right: Right,
    resource: Arc<Resource>,
}

impl Asked {
    /// Whether a rule gives the right. One for objects of certain names may be about ours, where these are not known; a
    /// refusal will tell.
    fn is_in(&self, rule: &Rule) -> bool {
        let holds = |all: &[String], one: &str| all.iter().any(|given| given == "*" || given == one);
        let (names, name) = (&rule.resource_names, &self.right.name);
        let is_about = names.is_empty() || name.is_empty() || names.contains(name);
        is_about
            && holds(&rule.verbs, self.right.verb)
            && holds(&rule.api_groups, &self.right.gvk.group)
            && holds(&rule.resources, &self.resource.plural)
    }

    fn missing(&self) -> MissingRight {
        let (Right { verb, gvk, namespace, .. }, plural) = (&self.right, &self.resource.plural);
        let resource = if gvk.group.is_empty() { plural.clone() } else { format!("{plural}.{}", gvk.group) };
        MissingRight { namespace: namespace.clone(), resource, verb }
    }
}

impl KubeCluster {
    /// Of whoever reads and writes here.
    pub(crate) async fn review_rights(
        &self,
        rights: &BTreeSet<Right>,
    ) -> Result<BTreeSet<MissingRight>, ClusterError> {
        let Some(ourselves) = self.as_ourselves() else { return self.review_all(rights).await };
        let (reads, writes): (BTreeSet<Right>, BTreeSet<Right>) =
            rights.iter().cloned().partition(|right| right.is_read());
        let (mut missing, more) =
            futures_util::future::try_join(ourselves.review_all(&reads), self.review_all(&writes)).await?;
        missing.extend(more);
        Ok(missing)
    }

    async fn review_all(&self, rights: &BTreeSet<Right>) -> Result<BTreeSet<MissingRight>, ClusterError> {
        let catalog = self.kinds().known(self.http()).await?;
        let asked = rights.iter().filter_map(|right| {
            let resource = catalog.get(&right.gvk)?;
            Some(Asked { right: right.clone(), resource })
        });
        let mut by_namespace: BTreeMap<String, Vec<Asked>> = BTreeMap::new();
        for asked in asked {
            by_namespace.entry(asked.right.namespace.clone()).or_default().push(asked);
        }
        let mut open = Vec::new();
        for (namespace, mut asked) in by_namespace {
            if !namespace.is_empty() {
                let about = (namespace.clone(), self.user());
                let rules = self.reviews().ask(about, self.rules(&namespace)).await?;
                asked.retain(|asked| !rules.iter().any(|rule| asked.is_in(rule)));
            }
            open.extend(asked);
        }
        // What no rule gives may come from somebody else than rules: only a direct question is a proof.
        let questions = stream::iter(open.into_iter().take(QUESTIONS_MAX))
            .map(|asked| async move { Ok(self.is_refused(&asked).await?.then(|| asked.missing())) })
            .buffer_unordered(AT_ONCE);
        questions.try_filter_map(|missing| std::future::ready(Ok(missing))).try_collect().await
    }

    /// The rules that hold in a namespace, as far as the server tells.
    async fn rules(&self, namespace: &str) -> Result<Arc<[Rule]>, ClusterError> {
        let status = self.review("SelfSubjectRulesReview", json!({"namespace": namespace})).await?;
        Ok(status.map(|status| status.resource_rules).unwrap_or_default().into())
    }

    async fn is_refused(&self, asked: &Asked) -> Result<bool, ClusterError> {
        let Right { verb, gvk, namespace, name } = &asked.right;
        // No namespace means the objects of the cluster scope.
        let attributes = json!({
            "namespace": namespace,
            "verb": verb,
            "group": gvk.group,
            "version": gvk.version,
            "resource": asked.resource.plural,
            "name": name,
        });
        let status =
            self.review("SelfSubjectAccessReview", json!({"resourceAttributes": attributes})).await?;
        Ok(status.is_some_and(|status| !status.allowed && status.evaluation_error.is_empty()))
    }

    /// One question; `None` where the server does not take it.
    async fn review(&self, kind: &str, spec: Value) -> Result<Option<ReviewStatus>, ClusterError> {
        let path = format!("/apis/{GROUP}/{}s", kind.to_lowercase());
        let body = json!({"apiVersion": GROUP, "kind": kind, "spec": spec}).to_string().into_bytes();
        let call = self.as_writer(Call::write(Method::POST, path, JSON, body, None));
        match self.http().call_patiently(&call).await?.decode::<Review>(About::default()) {
            Ok(review) => Ok(Some(review.status)),
            Err(error) if error.kind.is_outage() && error.kind != ErrorKind::Unauthorized => Err(error),
            Err(error) => {
                tracing::debug!(kind, why = %error.kind, "the server does not say which rights there are");
                Ok(None)
            }
        }
    }
}
