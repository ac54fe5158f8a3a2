use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{UnknownFields, is_false, is_zero};
use crate::{Backoff, RetryPolicy, parse_duration};

/// Settings for automated syncs, and options for every sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncPolicy {
    /// Settings for automated syncs. If not set, syncs run only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automated: Option<Automated>,
    /// Options for every sync, such as `CreateNamespace=true`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sync_options: Vec<String>,
    /// Retry policy for failed attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Labels and annotations of the namespace that a sync creates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_namespace_metadata: Option<ManagedNamespaceMetadata>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Settings for automated syncs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Automated {
    /// True if the Application is synced automatically (default: true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// True if objects that are no longer in the manifests are deleted (default: false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prune: Option<bool>,
    /// True if changes made directly to the cluster are reverted (default: false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_heal: Option<bool>,
    /// True if an automated sync may prune all objects of the Application (default: false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_empty: Option<bool>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Retry policy for failed attempts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Maximum number of retries. A negative value means no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limit: i64,
    /// Delays between attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<RetryBackoff>,
    /// True if a retry uses the newest revision.
    #[serde(default, skip_serializing_if = "is_false")]
    pub refresh: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Error returned when a retry policy is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRetry {
    /// The backoff factor is zero, negative or too large.
    #[error("invalid retry.backoff.factor {0}: use a whole number of at least 1")]
    Factor(i64),
    /// A backoff duration is invalid.
    #[error("invalid retry.backoff.{field} {text:?}: use a number and a unit, such as 5s")]
    Duration {
        /// Name of the invalid field.
        field: &'static str,
        /// Value of the invalid field.
        text: String,
    },
}

impl InvalidRetry {
    /// Returns the name of the invalid field within `retry.backoff`.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Factor(_) => "factor",
            Self::Duration { field, .. } => field,
        }
    }
}

impl Retry {
    /// Converts the settings to an operation's retry policy.
    ///
    /// # Errors
    ///
    /// Returns an error if a duration or the factor is invalid.
    pub fn to_policy(&self) -> Result<RetryPolicy, InvalidRetry> {
        let by_default = Backoff::default();
        let read = |field, text: &str, otherwise| {
            let wrong = || InvalidRetry::Duration { field, text: text.to_owned() };
            match text {
                "" => Ok(otherwise),
                seconds if seconds.chars().all(|c| c.is_ascii_digit()) => {
                    seconds.parse().map(Duration::from_secs).map_err(|_| wrong())
                }
                text => parse_duration(text).map_err(|_| wrong()),
            }
        };
        let factor = |factor: i64| match u32::try_from(factor) {
            Err(_) | Ok(0) => Err(InvalidRetry::Factor(factor)),
            Ok(factor) => Ok(factor),
        };
        let given = self.backoff.clone().unwrap_or_default();
        let backoff = Backoff {
            duration: read("duration", &given.duration, by_default.duration)?,
            factor: given.factor.map_or(Ok(by_default.factor), factor)?,
            max: read("maxDuration", &given.max_duration, by_default.max)?,
        };
        Ok(RetryPolicy { limit: self.limit, backoff, restart: false })
    }
}

/// Exponential backoff between attempts. Each duration is a string such as `5s` or `3m`, or a number of
/// seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryBackoff {
    /// Delay before the first retry (default: 5s).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub duration: String,
    /// Factor by which the delay grows after each retry (default: 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<i64>,
    /// Maximum delay (default: 3m).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub max_duration: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Labels and annotations of the namespace that a sync creates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManagedNamespaceMetadata {
    /// Labels of the namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}
