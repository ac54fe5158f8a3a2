//! Identities of rollout targets. Equal targets have equal digests.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tidegate_application::supersede::ManifestComparison;
use tidegate_lifecycle::fleet::join_names;
use tidegate_lifecycle::rollout::Target;
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_model::{Digest, Object};
use tidegate_planner::{Comparer, IgnoreError};

use crate::desired::{ignore_comparer, normalize_spec};

/// Computes the identities of specs by an ApplicationSet's rules.
pub struct TargetIdentities {
    /// Comparer for ignored fields, which aren't part of a target. `None` if no fields are ignored.
    ignored: Option<Comparer>,
}

impl TargetIdentities {
    /// Reads the rules of an ApplicationSet.
    ///
    /// # Errors
    ///
    /// Fails if any rule in `ignoreApplicationDifferences` is invalid.
    pub fn from_appset(set: &ApplicationSet) -> Result<Self, Vec<IgnoreError>> {
        Ok(Self { ignored: ignore_comparer(set)? })
    }

    /// Returns the identity of the spec of a generated or live Application, leaving out ignored fields and
    /// automated sync settings.
    pub fn spec_identity(&self, application: &Application) -> Digest {
        let mut spec = normalize_spec(&application.spec);
        let automated = spec.sync_policy.as_mut().and_then(|policy| policy.automated.as_mut());
        if let Some(automated) = automated {
            automated.enabled = None;
        }
        let plain = Application { spec, ..Application::default() };
        digest(&self.remove_ignored(&plain, &application.metadata.name))
    }

    fn remove_ignored(&self, plain: &Application, name: &str) -> Value {
        let whole = |spec: &Value| {
            Object::try_from(json!({
                "apiVersion": plain.api_version, "kind": plain.kind, "metadata": {"name": name}, "spec": spec,
            }))
        };
        let mut value = json!(plain.spec);
        if let (Some(ignored), Ok(mut wanted), Ok(empty)) = (&self.ignored, whole(&value), whole(&json!({})))
        {
            // `empty` has none of the ignored fields, so this removes them from `wanted`.
            ignored.preserve_ignored(&mut wanted, &empty);
            value = wanted.as_value().get("spec").cloned().unwrap_or_default();
        }
        value
    }
}

/// Returns an Application's target revisions: the newest ones if their manifests differ from those of
/// `target` (the revisions in the newest rollout), otherwise `target`.
pub fn target_revisions(newest: Vec<String>, target: &[String], compared: ManifestComparison) -> Vec<String> {
    match compared {
        ManifestComparison::Different => newest,
        ManifestComparison::Same | ManifestComparison::Unknown => target.to_vec(),
    }
}

/// Returns a message about Applications with pending manifest comparisons. `awaited` has the reasons.
pub fn awaited_comparison_message(awaited: &BTreeMap<String, String>) -> Option<String> {
    let (_, reason) = awaited.first_key_value()?;
    let names: Vec<&str> = awaited.keys().map(String::as_str).collect();
    Some(format!(
        "newer revisions of {} will not become targets until their manifests have been compared with the \
         current ones; the comparison is retried automatically: {reason}",
        join_names(&names)
    ))
}

/// Returns the identity of a set of targets.
pub(super) fn targets_identity<'a>(targets: impl Iterator<Item = (&'a str, &'a Target)>) -> Digest {
    let mut targets: Vec<Value> =
        targets.map(|(name, target)| json!([name, target.revisions, target.spec.to_string()])).collect();
    targets.sort_by_key(Value::to_string);
    digest(&Value::Array(targets))
}

fn digest(value: &Value) -> Digest {
    Digest(Sha256::digest(value.to_string()).into())
}
