//! Client-side apply: the difference is calculated here, from what was applied last.

use http::Method;
use serde_json::Value;
use tidegate_cluster::{Applied, ClusterError, ErrorKind};
use tidegate_model::Object;
use tidegate_model::annotations::FIELD_MANAGER;

use super::manner::{Manner, check_version, said};
use crate::KubeCluster;
use crate::patch::{LAST_APPLIED, PatchError, last_applied, take_over, three_way};
use crate::paths::Target;
use crate::server::{Call, JSON_PATCH};

/// How often fields are tried to be taken over while others write to the object.
const ROUNDS: usize = 5;

impl KubeCluster {
    pub(super) async fn client_side(
        &self,
        target: &Target<'_>,
        mut object: Object,
        only: &str,
        manner: Manner,
    ) -> Result<Applied, ClusterError> {
        let live = if target.name.is_empty() { None } else { self.read(target).await? };
        note(target, &mut object)?;
        let Some(live) = live else { return self.create(target, &object, manner).await };
        check_version(target, &live, only)?;
        let original: Option<Value> =
            live.annotation(LAST_APPLIED).and_then(|text| serde_json::from_str(text).ok());
        let patch = three_way(target.gvk, original.as_ref(), object.as_value(), live.as_value());
        let Some(mut patch) = patch.map_err(|error| refused(target, &error))? else {
            let message = said(&target.key(), "unchanged", manner);
            return Ok(Applied { object: live, created: false, message, warnings: Vec::new() });
        };
        if !only.is_empty() {
            patch.only_version(only);
        }
        let mut path = target.path();
        manner.query(&mut path);
        let body = patch.body.to_string().into_bytes();
        let call = Call::write(Method::PATCH, path, patch.content_type, body, manner.operation);
        let (answer, object) = self.object_call(target, &call).await?;
        let message = said(&target.key(), "configured", manner);
        Ok(Applied { object, created: false, message, warnings: answer.warnings })
    }

    /// Makes the fields that another manager wrote by client-side apply ours. Given the version that is meant, it answers
    /// with the one that comes of it.
    pub(super) async fn take_over(
        &self,
        target: &Target<'_>,
        from_manager: &str,
        only: String,
        manner: Manner,
    ) -> Result<String, ClusterError> {
        let mut refused = None;
        for _ in 0..ROUNDS {
            let Some(live) = self.read(target).await? else { return Ok(only) };
            check_version(target, &live, &only)?;
            let Some(patch) = take_over(&live, from_manager, FIELD_MANAGER) else { return Ok(only) };
            let path = format!("{}?fieldManager={FIELD_MANAGER}", target.path());
            let body = patch.to_string().into_bytes();
            let call = Call::write(Method::PATCH, path, JSON_PATCH, body, manner.operation);
            match self.object_call(target, &call).await {
                Ok(_) if only.is_empty() => return Ok(only),
                Ok((_, object)) => return Ok(object.resource_version().to_owned()),
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(only),
                Err(error) if error.kind == ErrorKind::Conflict => refused = Some(error),
                Err(error) => return Err(not_taken_over(target, error)),
            }
        }
        match refused {
            Some(error) => Err(not_taken_over(target, error)),
            None => Ok(only),
        }
    }
}

/// Keeps a manifest in itself, for the next client-side apply.
pub(super) fn note(target: &Target<'_>, object: &mut Object) -> Result<(), ClusterError> {
    let note = last_applied(object).map_err(|error| refused(target, &error))?;
    object.set_annotation(LAST_APPLIED, note);
    Ok(())
}

fn refused(target: &Target<'_>, error: &PatchError) -> ClusterError {
    ClusterError::new(ErrorKind::Invalid, format!("{}: {error}", target.key()))
}

fn not_taken_over(target: &Target<'_>, error: ClusterError) -> ClusterError {
    let words = format!(
        "Failed to perform client-side apply migration for {}: {}",
        target.key().in_messages(),
        error.message
    );
    ClusterError::new(error.kind, words)
}
