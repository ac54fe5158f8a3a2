//! Warnings about `{{name}}` tags left in generated Applications because no such parameter exists. They
//! aren't errors, because Argo CD keeps these tags, too.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::parameters::flatten;
use crate::{name_rules, simple_templates, validation};

/// Maximum number of warnings per ApplicationSet. Further tags rarely have another cause.
pub(crate) const WARNINGS_MAX: usize = 20;

/// Maximum length of a tag in a warning, in characters.
const TAG_MAX: usize = 100;

/// Fields that may legitimately contain tags of other template languages, such as Helm values, inline
/// patches, and annotations for other controllers.
const FREE_TEXT: [&str; 5] = ["annotations", "commonAnnotations", "patches", "values", "valuesObject"];

/// A tag left in a field of generated Applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTag {
    /// Name of the first Application with this tag.
    pub application: String,
    /// Number of further Applications with this tag in this field.
    pub more: usize,
    /// The field, such as `spec.source.targetRevision`.
    pub field: String,
    /// Parameter name in the tag, as written.
    pub tag: String,
    /// Reason the tag is still there, and how to fix it.
    pub hint: String,
}

impl fmt::Display for UnknownTag {
    /// Formats the warning as one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { application, more, field, tag, hint } = self;
        write!(f, "Application {application}")?;
        match more {
            0 => {}
            1 => f.write_str(" and 1 other")?,
            more => write!(f, " and {more} others")?,
        }
        write!(f, ": {field} contains {{{{{tag}}}}}, {hint}")
    }
}

/// Returns the tags left in an Application rendered with `parameters`. Skips its name, because a tag there
/// causes a rejection.
pub(crate) fn find_unknown_tags(application: &Value, parameters: &Value) -> Vec<UnknownTag> {
    let mut found = Vec::new();
    for section in ["metadata", "spec"] {
        if let Some(value) = application.get(section) {
            add_tags(value, &mut section.to_owned(), &mut found);
        }
    }
    if found.is_empty() {
        return Vec::new();
    }
    let name = application.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let to_warning = |(field, tag): (String, String)| {
        let hint = describe_cause(&tag, parameters)?;
        Some(UnknownTag { application: name.to_owned(), more: 0, field, tag, hint })
    };
    found.into_iter().filter_map(to_warning).take(WARNINGS_MAX).collect()
}

/// Combines warnings about the same tag in the same field of different Applications.
pub(crate) fn combine(all: impl IntoIterator<Item = UnknownTag>) -> Vec<UnknownTag> {
    let mut combined: Vec<UnknownTag> = Vec::new();
    let mut places: BTreeMap<(String, String), usize> = BTreeMap::new();
    for one in all {
        let key = (one.field.clone(), one.tag.clone());
        if let Some(first) = places.get(&key).and_then(|&place| combined.get_mut(place)) {
            first.more = first.more.saturating_add(1);
        } else if combined.len() < WARNINGS_MAX {
            places.insert(key, combined.len());
            combined.push(one);
        }
    }
    combined
}

/// Adds each tag in a value, along with the path of its field. `path` grows and shrinks during the search.
fn add_tags(value: &Value, path: &mut String, found: &mut Vec<(String, String)>) {
    if found.len() >= WARNINGS_MAX {
        return;
    }
    let before = path.len();
    match value {
        Value::String(text) => {
            let tags: Vec<&str> = simple_templates::tag_names(text).collect();
            // Tags such as {{ if .x }} give away a template in another language.
            if tags.iter().all(|tag| is_parameter_name(tag)) {
                for tag in tags {
                    let tag = (path.clone(), name_rules::truncate(tag, TAG_MAX).to_owned());
                    if !found.contains(&tag) {
                        found.push(tag);
                    }
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                add_tags(item, path, found);
                path.truncate(before);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                let is_application_name = path == "metadata" && key == "name";
                if is_application_name || FREE_TEXT.contains(&key.as_str()) {
                    continue;
                }
                path.push('.');
                path.push_str(key);
                add_tags(value, path, found);
                path.truncate(before);
            }
        }
        _ => {}
    }
}

/// Returns true if a tag looks like the name of a parameter, such as `path.basename` or `path[0]`.
fn is_parameter_name(tag: &str) -> bool {
    let can_be = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '[' | ']');
    tag.chars().any(char::is_alphanumeric) && tag.chars().all(can_be)
}

/// Returns the reason a tag is left, or `None` if it is part of another template language.
fn describe_cause(tag: &str, parameters: &Value) -> Option<String> {
    let known = flatten(parameters.as_object()?);
    if known.contains_key(tag) {
        return Some(
            "which is kept because it comes from a parameter value (parameter values are not rendered)"
                .to_owned(),
        );
    }
    if let Some(name) = tag.strip_prefix('.') {
        let first = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        return known.keys().any(|one| first(one) == first(name)).then(|| {
            format!(
                "which is a Go template: set spec.goTemplate to true, or write {{{{{name}}}}} if this is a parameter"
            )
        });
    }
    Some(format!("but there is no such parameter: {}", validation::nearest_parameters(tag, &known)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn warnings(spec: &Value) -> Vec<String> {
        let application = json!({
            "metadata": {"name": "{{nam}}", "annotations": {"a": "{{pth}}"}, "labels": {"tier": "{{teir}}"}},
            "spec": spec,
        });
        let parameters = json!({"revision": "v1", "path": "apps", "path.basename": "web", "tier": "x"});
        let found = find_unknown_tags(&application, &parameters);
        found.iter().filter(|one| one.field != "metadata.labels.tier").map(ToString::to_string).collect()
    }

    #[test]
    fn remaining_tags_are_reported_with_field_and_parameter() {
        let source = |field: &str, value: Value| json!({"source": {field: value}});
        for (spec, expected) in [
            (
                source("targetRevision", json!("{{rev}}")),
                "Application {{nam}}: spec.source.targetRevision contains {{rev}}, but there is no such \
                 parameter: available parameters: path, path.basename, revision, tier",
            ),
            (
                source("path", json!("apps/{{ pth }}/x")),
                "spec.source.path contains {{pth}}, but there is no such parameter: did you mean path?",
            ),
            (
                json!({"sources": [{}, {"helm": {"parameters": [{"name": "a", "value": "{{teir}}"}]}}]}),
                "spec.sources[1].helm.parameters[0].value contains {{teir}}, but there is no such parameter: \
                 did you mean tier?",
            ),
            (
                source("path", json!("{{.path.path}}")),
                "spec.source.path contains {{.path.path}}, which is a Go template: set spec.goTemplate to true",
            ),
            (
                source("path", json!("{{path}}")),
                "spec.source.path contains {{path}}, which is kept because it comes from a parameter value",
            ),
        ] {
            let said = warnings(&spec);
            assert_eq!(said.len(), 1, "{spec}: {said:?}");
            assert!(said[0].contains(expected), "{}", said[0]);
        }
    }

    /// Helm values and annotations may be templates for other programs.
    #[test]
    fn tags_of_other_template_languages_are_not_reported() {
        for spec in [
            json!({"source": {"helm": {"values": "a: '{{pth}}'", "valuesObject": {"a": "{{pth}}"}}}}),
            json!({"source": {"kustomize": {"patches": [{"patch": "a: {{pth}}"}]}}}),
            json!({"source": {"kustomize": {"commonAnnotations": {"a": "{{pth}}"}}}}),
            json!({"syncPolicy": {"managedNamespaceMetadata": {"annotations": {"a": "{{pth}}"}}}}),
            json!({"source": {"helm": {"parameters": [
                {"name": "a", "value": "{{ .Release.Name }}"}, {"name": "b", "value": "{{ if .x }}a{{ else }}b{{ end }}"},
                {"name": "c", "value": "{{- pth }}"}, {"name": "d", "value": "}} {{"},
            ]}}}),
        ] {
            assert_eq!(warnings(&spec), [""; 0], "{spec}");
        }
    }

    #[test]
    fn equal_warnings_are_combined() {
        let warning = |application: &str, tag: &str| UnknownTag {
            application: application.to_owned(),
            more: 0,
            field: "spec.source.path".to_owned(),
            tag: tag.to_owned(),
            hint: "but".to_owned(),
        };
        let all = combine([warning("a", "x"), warning("b", "x"), warning("b", "y"), warning("c", "x")]);
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(
            all,
            [
                "Application a and 2 others: spec.source.path contains {{x}}, but",
                "Application b: spec.source.path contains {{y}}, but",
            ]
        );
        let many = combine((0..100).map(|number| warning("a", &number.to_string())));
        assert_eq!(many.len(), WARNINGS_MAX);
    }
}
