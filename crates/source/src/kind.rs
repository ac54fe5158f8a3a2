//! What makes the manifests of a source: what it says, or what its folder shows.

use serde_json::Value;
use tidegate_model::argo::{ApplicationSource, DirectorySource};

use crate::SourceError;

/// What makes the manifests of a folder or chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing: they are there.
    Directory,
    /// `helm template`.
    Helm,
    /// `kustomize build`.
    Kustomize,
}

impl Kind {
    /// The word for it in a status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory => "Directory",
            Self::Helm => "Helm",
            Self::Kustomize => "Kustomize",
        }
    }
}

/// Names of the file that tells Kustomize what to do, in the order in which it looks for them.
pub(crate) const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// The file that describes a chart.
pub(crate) const CHART: &str = "Chart.yaml";

fn unsupported(what: impl Into<String>) -> SourceError {
    SourceError::Unsupported { what: what.into(), why: String::new() }
}

/// Whether something says anything: what is there and empty, as other programs write it, does not.
fn is_said<T: Default + PartialEq>(part: Option<&T>) -> bool {
    part.is_some_and(|part| *part != T::default())
}

/// The same, of what has no form here.
fn says(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().any(says),
        Value::Array(all) => !all.is_empty(),
        Value::String(text) => !text.is_empty(),
        value => !value.is_null(),
    }
}

/// What a source says of itself. Refuses what it asks for and nobody does yet.
pub(crate) fn said(source: &ApplicationSource) -> Result<Option<Kind>, SourceError> {
    let asked = [
        (source.plugin.as_ref().is_some_and(says), "a config management plugin (source.plugin)"),
        (!source.tag_prefix.is_empty(), "a prefix of tags (source.tagPrefix)"),
        (
            source.directory.as_ref().is_some_and(|one| one.jsonnet.as_ref().is_some_and(says)),
            "Jsonnet (source.directory.jsonnet)",
        ),
    ];
    if let Some((_, what)) = asked.into_iter().find(|(is_asked, _)| *is_asked) {
        return Err(unsupported(what));
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
        return Err(unsupported(name));
    }
    let directory =
        source.directory.as_ref().map(|one| DirectorySource { jsonnet: None, ..one.as_ref().clone() });
    let said = [
        (is_said(directory.as_ref()), Kind::Directory),
        (is_said(source.helm.as_deref()), Kind::Helm),
        (is_said(source.kustomize.as_deref()), Kind::Kustomize),
    ];
    let mut said = said.into_iter().filter(|(is_said, _)| *is_said).map(|(_, kind)| kind);
    match (said.next(), said.next()) {
        (Some(one), Some(other)) => Err(SourceError::SeveralKinds { one: one.name(), other: other.name() }),
        (said, _) => Ok(said),
    }
}

/// What makes the manifests of a folder in which there are these names.
pub(crate) fn of(source: &ApplicationSource, names: &[String]) -> Result<Kind, SourceError> {
    let said = said(source)?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    Ok(said.unwrap_or_else(|| match () {
        () if KUSTOMIZATIONS.iter().any(|name| has(name)) => Kind::Kustomize,
        () if has(CHART) => Kind::Helm,
        () => Kind::Directory,
    }))
}
