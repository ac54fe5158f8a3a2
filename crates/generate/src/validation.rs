//! Checks that catch errors in generated Applications before the service or the API server reports them.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_model::argo::{Application, SpecProblem};

use crate::error::PatchLine;
use crate::parameters::{Parameters, flatten};
use crate::{name_rules, simple_templates};

/// Maximum total size of an object's annotations in Kubernetes, in bytes.
const ANNOTATIONS_MAX: usize = 256 << 10;

/// Maximum number of parameters that a message lists.
const LISTED_MAX: usize = 10;

/// Maximum edit distance between a misspelled parameter and a suggestion.
const EDITS_MAX: usize = 2;

/// A reason for the service or the API server to reject a generated Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The name is invalid.
    Name {
        /// Rule that the name violates.
        reason: String,
    },
    /// A field is missing or invalid.
    Field {
        /// The field, its problem, and how to fix it.
        reason: String,
        /// Line of the patch that sets the field.
        line: Option<PatchLine>,
    },
}

/// Returns the first defect of an Application. `spec_problems` lists the problems with its spec. `line`
/// returns the line of the patch that sets a field.
pub(crate) fn find_defect(
    application: &Application,
    spec_problems: Vec<SpecProblem>,
    line: impl Fn(&[&str]) -> Option<PatchLine>,
) -> Option<Defect> {
    if let Some(reason) = name_rules::invalid_name_reason(&application.metadata.name) {
        return Some(Defect::Name { reason: reason.to_owned() });
    }
    if let Some((path, reason)) = metadata_problem(application) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        return Some(Defect::Field { line: line(&path), reason });
    }
    let SpecProblem { field, message } = spec_problems.into_iter().next()?;
    let path: Vec<&str> = field.split('.').collect();
    Some(Defect::Field { line: line(&path), reason: message })
}

type FoundProblem = (Vec<String>, String);

fn to_path(path: &[&str]) -> Vec<String> {
    path.iter().map(|&part| part.to_owned()).collect()
}

fn metadata_problem(application: &Application) -> Option<FoundProblem> {
    let metadata = &application.metadata;
    for (key, value) in &metadata.labels {
        let key_reason =
            name_rules::invalid_key_reason(key).map(|reason| format!("label key {key:?}: {reason}"));
        let reason = key_reason.or_else(|| {
            name_rules::invalid_label_value_reason(value)
                .map(|reason| format!("label {key} = {value:?}: {reason}"))
        });
        if let Some(reason) = reason {
            return Some((to_path(&["metadata", "labels", key]), reason));
        }
    }
    for key in metadata.annotations.keys() {
        // Unlike label keys, annotation keys may have upper-case letters in their prefix.
        if let Some(reason) = name_rules::invalid_key_reason(&key.to_ascii_lowercase()) {
            return Some((
                to_path(&["metadata", "annotations", key]),
                format!("annotation key {key:?}: {reason}"),
            ));
        }
    }
    let size = annotations_size(&metadata.annotations);
    if size > ANNOTATIONS_MAX {
        let reason = format!("the annotations have {size} bytes in total; the maximum is {ANNOTATIONS_MAX}");
        return Some((to_path(&["metadata", "annotations"]), reason));
    }
    metadata.finalizers.iter().find_map(|finalizer| {
        let reason = name_rules::invalid_key_reason(finalizer)?;
        Some((to_path(&["metadata", "finalizers"]), format!("finalizer {finalizer:?}: {reason}")))
    })
}

fn annotations_size(annotations: &BTreeMap<String, String>) -> usize {
    annotations
        .iter()
        .map(|(key, value)| key.len().saturating_add(value.len()))
        .fold(0, usize::saturating_add)
}

/// Returns a hint about the first missing parameter in a name template, or an empty string.
pub(crate) fn missing_parameter_hint(template: &str, parameters: &Value, of_go: bool) -> String {
    let Some(known) = parameters.as_object() else { return String::new() };
    let missing = match of_go {
        true => template_fields(template)
            .find(|field| !has_parameter(parameters, field))
            .map(|field| (format!(".{field}"), field)),
        false => simple_templates::tag_names(template)
            .find(|tag| !known.get(*tag).is_some_and(Value::is_string))
            .map(|tag| (format!("{{{{{tag}}}}}"), tag)),
    };
    let Some((shown, name)) = missing else { return String::new() };
    let hint = nearest_parameters(name, &flatten(known));
    format!("; the name template uses unknown parameter {shown}: {hint}")
}

/// Suggests a parameter with a similar name or, failing that, lists the known parameters.
pub(crate) fn nearest_parameters(name: &str, known: &Parameters) -> String {
    let mut near: Vec<(usize, &String)> =
        known.keys().map(|one| (strsim::damerau_levenshtein(one, name), one)).collect();
    near.sort_unstable();
    match near.first() {
        Some((edits, one)) if *edits <= EDITS_MAX => format!("did you mean {one}?"),
        Some(_) => {
            let more = if near.len() > LISTED_MAX { ", …" } else { "" };
            let mut listed: Vec<&str> = near.iter().take(LISTED_MAX).map(|(_, one)| one.as_str()).collect();
            listed.sort_unstable();
            format!("available parameters: {}{more}", listed.join(", "))
        }
        None => "there are no parameters".to_owned(),
    }
}

/// Returns the parameters that a Go template uses, such as `path.basename` for `{{ .path.basename }}`.
fn template_fields(template: &str) -> impl Iterator<Item = &str> {
    let is_between = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '"' | '`'));
    simple_templates::tag_names(template).flat_map(move |action| {
        let text = action.split(is_between);
        text.filter_map(|word| word.strip_prefix('.')).filter(|field| !field.is_empty())
    })
}

fn has_parameter(parameters: &Value, field: &str) -> bool {
    field.split('.').try_fold(parameters, |value, name| value.get(name)).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_misspelled_parameter_of_a_name_is_named() {
        let flat = json!({"name": "a", "path.basename": "b"});
        let nested = json!({"name": "a", "path": {"basename": "b"}});
        for (template, of_go, said) in [
            ("{{nam}}-x", false, "unknown parameter {{nam}}: did you mean name?"),
            ("{{ path.basname }}", false, "{{path.basname}}: did you mean path.basename?"),
            ("{{ cluster }}", false, "available parameters: name, path.basename"),
            ("{{ .path.basname }}", true, ".path.basname: did you mean path.basename?"),
            ("{{ .nmae | lower }}", true, ".nmae: did you mean name?"),
            ("{{ printf \"%s.x\" (.cluster) }}", true, ".cluster: available parameters:"),
        ] {
            let parameters = if of_go { &nested } else { &flat };
            let found = missing_parameter_hint(template, parameters, of_go);
            assert!(found.contains(said), "{template}: {found}");
        }
        for (template, of_go) in
            [("{{name}}_x", false), ("{{ .name }}_{{ .path.basename }}", true), ("A", true)]
        {
            let parameters = if of_go { &nested } else { &flat };
            assert_eq!(missing_parameter_hint(template, parameters, of_go), "", "{template}");
        }
    }
}
