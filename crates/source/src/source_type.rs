//! Types of sources: directory, Helm or Kustomize. The source specifies its type, or it is detected from the
//! files in its folder.

use serde_json::Value;
use tidegate_model::argo::{ApplicationSource, DirectorySource};

use crate::SourceError;

/// Type of a source, which decides how to obtain its manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceType {
    /// Plain manifests.
    Directory,
    /// A Helm chart, rendered with `helm template`.
    Helm,
    /// A kustomization, built with `kustomize build`.
    Kustomize,
}

impl SourceType {
    /// Returns the name of the type, as shown in an Application's status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory => "Directory",
            Self::Helm => "Helm",
            Self::Kustomize => "Kustomize",
        }
    }
}

/// File names of kustomizations, in Kustomize's search order.
pub(crate) const KUSTOMIZATION_FILES: [&str; 3] =
    ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// File that describes a chart.
pub(crate) const CHART_FILE: &str = "Chart.yaml";

fn unsupported_source(what: impl Into<String>) -> SourceError {
    SourceError::Unsupported { what: what.into(), why: String::new() }
}

/// Returns true if a section is set and not empty. Some programs write empty sections.
fn is_set<T: Default + PartialEq>(part: Option<&T>) -> bool {
    part.is_some_and(|part| *part != T::default())
}

/// Returns true if an untyped section contains values.
fn is_not_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().any(is_not_empty),
        Value::Array(all) => !all.is_empty(),
        Value::String(text) => !text.is_empty(),
        value => !value.is_null(),
    }
}

/// Returns the type that a source specifies, if any. Fails if the source uses unsupported features.
pub(crate) fn explicit_type(source: &ApplicationSource) -> Result<Option<SourceType>, SourceError> {
    let asked = [
        (source.plugin.as_ref().is_some_and(is_not_empty), "a config management plugin (source.plugin)"),
        (!source.tag_prefix.is_empty(), "a tag prefix (source.tagPrefix)"),
        (
            source.directory.as_ref().is_some_and(|one| one.jsonnet.as_ref().is_some_and(is_not_empty)),
            "Jsonnet (source.directory.jsonnet)",
        ),
    ];
    if let Some((_, what)) = asked.into_iter().find(|(is_asked, _)| *is_asked) {
        return Err(unsupported_source(what));
    }
    let parts = [
        ("", Some(&source.rest)),
        ("directory.", source.directory.as_ref().map(|part| &part.rest)),
        ("helm.", source.helm.as_ref().map(|part| &part.rest)),
        ("kustomize.", source.kustomize.as_ref().map(|part| &part.rest)),
    ];
    let unknown =
        parts.iter().find_map(|(part, rest)| Some(format!("source.{part}{}", rest.as_ref()?.keys().next()?)));
    if let Some(name) = unknown {
        return Err(unsupported_source(name));
    }
    let directory =
        source.directory.as_ref().map(|one| DirectorySource { jsonnet: None, ..one.as_ref().clone() });
    let said = [
        (is_set(directory.as_ref()), SourceType::Directory),
        (is_set(source.helm.as_deref()), SourceType::Helm),
        (is_set(source.kustomize.as_deref()), SourceType::Kustomize),
    ];
    let mut said = said.into_iter().filter(|(is_said, _)| *is_said).map(|(_, kind)| kind);
    match (said.next(), said.next()) {
        (Some(one), Some(other)) => Err(SourceError::SeveralKinds { one: one.name(), other: other.name() }),
        (said, _) => Ok(said),
    }
}

/// Returns the type that a source specifies, or else the type detected from the file names in its folder.
pub(crate) fn detect_type(source: &ApplicationSource, names: &[String]) -> Result<SourceType, SourceError> {
    let said = explicit_type(source)?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    Ok(said.unwrap_or_else(|| match () {
        () if KUSTOMIZATION_FILES.iter().any(|name| has(name)) => SourceType::Kustomize,
        () if has(CHART_FILE) => SourceType::Helm,
        () => SourceType::Directory,
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_model::argo::all_crds;
    use tidegate_model::argo::support::{Support, support_of};

    use super::*;

    /// Returns a nonempty value that is valid for a schema.
    fn sample(schema: &Value) -> Value {
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => json!("1"),
            Some("integer") => json!(1),
            Some("boolean") => json!(true),
            Some("array") => json!([sample(&schema["items"])]),
            Some("object") => {
                let properties = schema.get("properties").and_then(Value::as_object);
                properties
                    .into_iter()
                    .flatten()
                    .map(|(name, schema)| (name.clone(), sample(schema)))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            }
            _ => json!({"a": "b"}),
        }
    }

    /// The fields that cause a rejection must be exactly the rejected fields in the model's table.
    #[test]
    fn refused_fields_are_those_of_the_table() {
        let application = all_crds().remove(0);
        let source = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/source";
        let mut refused = 0;
        for section in ["", "directory", "helm", "kustomize"] {
            let pointer = match section {
                "" => source.to_owned(),
                section => format!("{source}/properties/{section}"),
            };
            let schema = application.pointer(&pointer).unwrap();
            for (name, schema) in schema["properties"].as_object().unwrap() {
                if ["directory", "helm", "kustomize"].contains(&name.as_str()) {
                    continue;
                }
                let mut value = json!({"repoURL": "https://example.com/a.git"});
                let path = match section {
                    "" => {
                        value[name] = sample(schema);
                        format!("spec.source.{name}")
                    }
                    section => {
                        value[section] = json!({name: sample(schema)});
                        if name == "replicas" {
                            value[section] = json!({name: [{"name": "a", "count": 1}]});
                        }
                        format!("spec.source.{section}.{name}")
                    }
                };
                let read: ApplicationSource = serde_json::from_value(value).unwrap();
                let is_refused = matches!(explicit_type(&read), Err(SourceError::Unsupported { .. }));
                assert_eq!(is_refused, support_of("Application", &path) == Support::Refused, "{path}");
                refused += usize::from(is_refused);
            }
        }
        assert_eq!(refused, 3);
    }
}
