//! Folders of plain manifests: which of their files are read, and what says that a folder is no such folder.

use gix::ObjectId;
use tidegate_model::argo::{ApplicationSource, DirectorySource};

use crate::repository::File;
use crate::tree::{Reader, full};
use crate::{Glob, SourceError};

/// Which files of a folder are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    recurse: bool,
    include: Option<Glob>,
    exclude: Option<Glob>,
}

impl Wanted {
    pub fn new(directory: &DirectorySource) -> Result<Self, SourceError> {
        let pattern = |text: &str| (!text.is_empty()).then(|| Glob::parse(text)).transpose();
        let include = pattern(&directory.include)?;
        Ok(Self { recurse: directory.recurse, include, exclude: pattern(&directory.exclude)? })
    }

    fn has(&self, path: &str) -> bool {
        !self.exclude.as_ref().is_some_and(|exclude| exclude.matches(path))
            && self.include.as_ref().is_none_or(|include| include.matches(path))
    }
}

fn unsupported(what: impl Into<String>) -> SourceError {
    SourceError::Unsupported { what: what.into(), why: String::new() }
}

/// Refuses what a source asks for and nobody does yet.
pub(crate) fn check(source: &ApplicationSource) -> Result<(), SourceError> {
    let asked = [
        (!source.chart.is_empty(), "a chart of a Helm repository (source.chart)"),
        (source.helm.is_some(), "Helm (source.helm)"),
        (source.kustomize.is_some(), "Kustomize (source.kustomize)"),
        (source.plugin.is_some(), "a config management plugin (source.plugin)"),
        (!source.tag_prefix.is_empty(), "a prefix of tags (source.tagPrefix)"),
        (
            source.directory.as_ref().is_some_and(|one| one.jsonnet.is_some()),
            "Jsonnet (source.directory.jsonnet)",
        ),
    ];
    if let Some((_, what)) = asked.into_iter().find(|(is_asked, _)| *is_asked) {
        return Err(unsupported(what));
    }
    let folder = source.directory.as_ref().map(|directory| &directory.rest);
    let unknown = source.rest.keys().next().map(|name| format!("source.{name}"));
    let unknown = unknown.or_else(|| Some(format!("source.directory.{}", folder?.keys().next()?)));
    unknown.map_or(Ok(()), |name| Err(unsupported(name)))
}

/// Refuses a folder that something else than its manifests is made from, as its files tell.
pub(crate) fn detect(reader: &Reader<'_>, folder: ObjectId) -> Result<(), SourceError> {
    for name in reader.names(folder)? {
        let what = match name.as_str() {
            "Chart.yaml" => "Helm",
            "kustomization.yaml" | "kustomization.yml" | "Kustomization" => "Kustomize",
            name if name.starts_with(".argocd-source") && name.ends_with(".yaml") => {
                "a file of parameters (.argocd-source*.yaml)"
            }
            _ => continue,
        };
        return Err(SourceError::Unsupported {
            what: what.to_owned(),
            why: format!("; the folder has {name}"),
        });
    }
    Ok(())
}

/// Reads the files that are wanted.
pub(crate) fn read(
    reader: &Reader<'_>,
    folder: ObjectId,
    path: &str,
    wanted: &Wanted,
) -> Result<Vec<File>, SourceError> {
    let mut files = Vec::new();
    let mut bytes = 0_u64;
    for entry in reader.list(folder, path, wanted.recurse)? {
        let is_jsonnet = entry.path.ends_with(".jsonnet");
        let is_manifest = [".yaml", ".yml", ".json"].iter().any(|ending| entry.path.ends_with(ending));
        if !(is_jsonnet || is_manifest) || !wanted.has(&entry.path) {
            continue;
        }
        let place = full(path, &entry.path);
        if is_jsonnet {
            return Err(SourceError::Unsupported {
                what: "Jsonnet".to_owned(),
                why: format!("; leave {place} out with source.directory.exclude"),
            });
        }
        let Some(content) = reader.content(&place, &entry)? else { continue };
        bytes = bytes.saturating_add(u64::try_from(content.len()).unwrap_or(u64::MAX));
        if bytes > reader.limits.bytes {
            let limit = reader.limits.bytes;
            return Err(SourceError::Limit { path: path.to_owned(), limit, what: "bytes of manifests" });
        }
        files.push(File { path: place, content });
    }
    Ok(files)
}
