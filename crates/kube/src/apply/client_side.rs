//! Client-side apply. Tidegate computes the patch from the last applied manifest.

use http::Method;
use serde_json::Value;
use tidegate_cluster::{ApplyResult, ClusterError, ErrorKind};
use tidegate_model::Object;
use tidegate_model::annotations::FIELD_MANAGER;

use super::write_options::{WriteOptions, check_version, format_result};
use crate::KubeCluster;
use crate::call::{Call, JSON_PATCH};
use crate::patch::{LAST_APPLIED, PatchError, last_applied, take_over_patch, three_way_patch};
use crate::paths::Target;

/// Maximum number of attempts to take over fields while other clients write to the object.
const ATTEMPTS_MAX: usize = 5;

impl KubeCluster {
    pub(super) async fn apply_client_side(
        &self,
        target: &Target<'_>,
        mut object: Object,
        only: &str,
        manner: WriteOptions,
    ) -> Result<ApplyResult, ClusterError> {
        let live = if target.name.is_empty() { None } else { self.read_object(target).await? };
        store_last_applied(target, &mut object)?;
        let Some(live) = live else { return self.create_object(target, &object, manner).await };
        check_version(target, &live, only)?;
        let original: Option<Value> =
            live.annotation(LAST_APPLIED).and_then(|text| serde_json::from_str(text).ok());
        let patch = three_way_patch(target.gvk, original.as_ref(), object.as_value(), live.as_value());
        let Some(mut patch) = patch.map_err(|error| patch_error(target, &error))? else {
            let message = format_result(&target.key(), "unchanged", manner);
            return Ok(ApplyResult { object: live, is_created: false, message, warnings: Vec::new() });
        };
        if !only.is_empty() {
            patch.only_version(only);
        }
        let mut path = target.path();
        manner.push_query(&mut path);
        let body = patch.body.to_string().into_bytes();
        let call = Call::write(Method::PATCH, path, patch.content_type, body, manner.operation);
        let (answer, object) = self.send_write(target, &call).await?;
        let message = format_result(&target.key(), "configured", manner);
        Ok(ApplyResult { object, is_created: false, message, warnings: answer.warnings })
    }

    /// Transfers the fields of these managers to Tidegate's field manager. `only` is the expected version of
    /// the object. Returns the resulting version.
    pub(super) async fn take_over_fields(
        &self,
        target: &Target<'_>,
        from: &[String],
        only: String,
        manner: WriteOptions,
    ) -> Result<String, ClusterError> {
        let mut refused = None;
        for _ in 0..ATTEMPTS_MAX {
            let Some(live) = self.read_object(target).await? else { return Ok(only) };
            check_version(target, &live, &only)?;
            let Some(patch) = take_over_patch(&live, from, FIELD_MANAGER) else { return Ok(only) };
            let path = format!("{}?fieldManager={FIELD_MANAGER}", target.path());
            let body = patch.to_string().into_bytes();
            let call = Call::write(Method::PATCH, path, JSON_PATCH, body, manner.operation);
            match self.send_write(target, &call).await {
                Ok(_) if only.is_empty() => return Ok(only),
                Ok((_, object)) => return Ok(object.resource_version().to_owned()),
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(only),
                Err(error) if error.kind == ErrorKind::Conflict => refused = Some(error),
                Err(error) => return Err(take_over_error(target, error)),
            }
        }
        match refused {
            Some(error) => Err(take_over_error(target, error)),
            None => Ok(only),
        }
    }
}

/// Stores a manifest in its own last-applied annotation, for the next client-side apply.
pub(super) fn store_last_applied(target: &Target<'_>, object: &mut Object) -> Result<(), ClusterError> {
    let note = last_applied(object).map_err(|error| patch_error(target, &error))?;
    object.set_annotation(LAST_APPLIED, note);
    Ok(())
}

fn patch_error(target: &Target<'_>, error: &PatchError) -> ClusterError {
    ClusterError::new(ErrorKind::Invalid, format!("{}: {error}", target.key()))
}

fn take_over_error(target: &Target<'_>, error: ClusterError) -> ClusterError {
    let text = format!(
        "Failed to perform client-side apply migration for {}: {}",
        target.key().in_messages(),
        error.message
    );
    ClusterError::new(error.kind, text)
}
