//! Annotation for the last manifest of client-side apply. Its value is byte for byte the same as kubectl's,
//! so the two tools can be used interchangeably.

use serde_json::{Value, json};
use tidegate_model::Object;

use super::PatchError;

/// Name of the annotation.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Maximum total size of an object's annotations (names and values) on the server, in bytes.
pub(super) const TOTAL_BYTES_MAX: usize = 256 * 1024;

/// Returns the content of the annotation: the manifest without the annotation itself.
pub(crate) fn last_applied(modified: &Object) -> Result<String, PatchError> {
    let mut manifest = modified.clone();
    let annotations = manifest.metadata_mut().entry("annotations").or_insert_with(|| json!({}));
    let mut bytes = LAST_APPLIED.len();
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.remove(LAST_APPLIED);
        bytes += annotations
            .iter()
            .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
            .sum::<usize>();
    }
    let text = escape_html(&Value::from(manifest).to_string());
    bytes += text.len();
    if bytes > TOTAL_BYTES_MAX {
        return Err(PatchError::TooLarge { object: modified.to_string(), bytes });
    }
    Ok(text)
}

/// Escapes characters like kubectl, which writes HTML-safe JSON. These characters occur only inside JSON
/// strings.
fn escape_html(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + 1);
    for character in json.chars() {
        match character {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            other => text.push(other),
        }
    }
    text.push('\n');
    text
}
