//! What tells targets apart.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tidegate_lifecycle::rollout::Target;
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_model::{Digest, Object};
use tidegate_planner::{Comparer, IgnoreError};

use crate::desired::{comparer, normal};

/// Tells specifications apart, by the rules of a set.
pub struct Targets {
    /// Fields that others may change, and that are no part of a target; `None` where there are none.
    ignored: Option<Comparer>,
}

impl Targets {
    /// Those of a set.
    ///
    /// # Errors
    /// Rules of `ignoreApplicationDifferences` that cannot be used.
    pub fn of(set: &ApplicationSet) -> Result<Self, Vec<IgnoreError>> {
        Ok(Self { ignored: comparer(set)? })
    }

    /// What tells the specification of an Application from others, be it generated or the one that is there: without the
    /// fields that others may change, and without whether it is synced by itself.
    pub fn spec(&self, application: &Application) -> Digest {
        let mut spec = normal(&application.spec);
        let automated = spec.sync_policy.as_mut().and_then(|policy| policy.automated.as_mut());
        if let Some(automated) = automated {
            automated.enabled = None;
        }
        let plain = Application { spec, ..Application::default() };
        digest(&self.without_ignored(&plain, &application.metadata.name))
    }

    fn without_ignored(&self, plain: &Application, name: &str) -> Value {
        let whole = |spec: &Value| {
            Object::try_from(json!({
                "apiVersion": plain.api_version, "kind": plain.kind, "metadata": {"name": name}, "spec": spec,
            }))
        };
        let mut value = json!(plain.spec);
        if let (Some(ignored), Ok(mut wanted), Ok(empty)) = (&self.ignored, whole(&value), whole(&json!({})))
        {
            // What is kept of an Application that has nothing is left out.
            ignored.respect(&mut wanted, &empty);
            value = wanted.as_value().get("spec").cloned().unwrap_or_default();
        }
        value
    }
}

/// What tells a set of targets from every other.
pub(super) fn identity<'a>(targets: impl Iterator<Item = (&'a str, &'a Target)>) -> Digest {
    let mut targets: Vec<Value> =
        targets.map(|(name, target)| json!([name, target.revisions, target.spec.to_string()])).collect();
    targets.sort_by_key(Value::to_string);
    digest(&Value::Array(targets))
}

fn digest(value: &Value) -> Digest {
    Digest(Sha256::digest(value.to_string()).into())
}
