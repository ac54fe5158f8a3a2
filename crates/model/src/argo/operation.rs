use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApplicationSource, Rest, Retry, is_false, is_zero};

/// An operation that is asked for: `operation` of an application, and a copy of it in its status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationRequest {
    /// A sync; there is nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<SyncOperation>,
    /// Who asked for it: a person, or the policy of the application.
    #[serde(default, skip_serializing_if = "OperationInitiator::is_nobody")]
    pub initiated_by: OperationInitiator,
    /// Remarks for people, and what programs note about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub info: Vec<Info>,
    /// What happens after a failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

impl OperationRequest {
    /// Whether it only tries what it would do, and writes nothing to the cluster.
    pub fn is_dry_run(&self) -> bool {
        self.sync.as_ref().is_some_and(|sync| sync.dry_run)
    }

    /// What the remark of this name says; `None` where there is none.
    pub fn remark(&self, name: &str) -> Option<&str> {
        self.info.iter().find(|info| info.name == name).map(|info| info.value.as_str())
    }

    /// Makes this the one remark of its name.
    pub fn set_remark(&mut self, name: &str, value: impl Into<String>) {
        self.info.retain(|info| info.name != name);
        self.info.push(Info { name: name.to_owned(), value: value.into() });
    }
}

/// A remark: a name, and what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Info {
    /// What it is about.
    pub name: String,
    /// What is said about that.
    pub value: String,
}

/// Who asked for an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationInitiator {
    /// Name of the person who asked; empty where nobody did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// Nobody: the policy of the application.
    #[serde(default, skip_serializing_if = "is_false")]
    pub automated: bool,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

impl OperationInitiator {
    /// What is said of an operation that nobody asked for: the policy of the application did.
    pub const AUTOMATED: &str = "automated";

    /// Who asked: their name, also where they have something done by the policy; `automated` where nobody did; empty where the
    /// operation does not say.
    pub fn name(&self) -> &str {
        match self.username.as_str() {
            "" if self.automated => Self::AUTOMATED,
            name => name,
        }
    }

    /// Whether nothing is said.
    pub fn is_nobody(&self) -> bool {
        *self == Self::default()
    }
}

/// The sync that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncOperation {
    /// To which revision; that of the source where it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// To which revisions, of several sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<String>,
    /// Objects that are no longer in the manifests are deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub prune: bool,
    /// Everything is tried on the server and nothing is written.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
    /// Only these resources; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<OperationResource>,
    /// Instead of the source of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// Instead of the sources of the application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ApplicationSource>,
    /// Manifests of whoever asks, instead of any source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
    /// Options, such as `CreateNamespace=true`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sync_options: Vec<String>,
    /// How objects are written, and whether hooks run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_strategy: Option<SyncStrategy>,
    /// How many times in a row the cluster was put right without a change of the manifests.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub auto_heal_attempts_count: i64,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// One resource of a selective sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationResource {
    /// API group, empty for the core API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// `kind` of the resource.
    pub kind: String,
    /// `metadata.name` of the resource.
    pub name: String,
    /// Namespace; empty for any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How objects are written: with `apply` no hooks run, with `hook`, or if neither is said, they do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyncStrategy {
    /// Manifests are applied, and hooks do not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<Strategy>,
    /// Manifests are applied and hooks run, which is so too if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<Strategy>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What holds for either way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Strategy {
    /// Delete and create again where an update is impossible.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}
