//! Selection and reading of files in a folder of plain manifests.

use gix::ObjectId;
use tidegate_model::Glob;
use tidegate_model::argo::DirectorySource;

use crate::SourceError;
use crate::repository::File;
use crate::source_overrides;
use crate::tree::{CommitReader, join_paths};

/// Selection of the files to read in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileSelection {
    recurse: bool,
    include: Option<Glob>,
    exclude: Option<Glob>,
}

impl FileSelection {
    pub fn new(directory: &DirectorySource) -> Result<Self, SourceError> {
        let pattern = |text: &str| (!text.is_empty()).then(|| Glob::parse(text)).transpose();
        let include = pattern(&directory.include)?;
        Ok(Self { recurse: directory.recurse, include, exclude: pattern(&directory.exclude)? })
    }

    fn matches(&self, path: &str) -> bool {
        !self.exclude.as_ref().is_some_and(|exclude| exclude.matches(path))
            && self.include.as_ref().is_none_or(|include| include.matches(path))
    }
}

/// Reads the selected files of a folder.
pub(crate) fn read_selected(
    reader: &CommitReader<'_>,
    folder: ObjectId,
    path: &str,
    wanted: &FileSelection,
) -> Result<Vec<File>, SourceError> {
    let mut files = Vec::new();
    let mut bytes = 0_u64;
    for entry in reader.list(folder, path, wanted.recurse)? {
        let is_jsonnet = entry.path.ends_with(".jsonnet");
        let is_manifest = [".yaml", ".yml", ".json"].iter().any(|ending| entry.path.ends_with(ending));
        if !(is_jsonnet || is_manifest)
            || source_overrides::is_overrides_file(&entry.path)
            || !wanted.matches(&entry.path)
        {
            continue;
        }
        let place = join_paths(path, &entry.path);
        if is_jsonnet {
            return Err(SourceError::Unsupported {
                what: "Jsonnet".to_owned(),
                why: format!("; exclude {place} with source.directory.exclude"),
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
