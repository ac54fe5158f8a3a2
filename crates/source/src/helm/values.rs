//! Selection and order of values files.

use std::collections::BTreeSet;

use tidegate_model::argo::HelmSource;

use crate::SourceError;
use crate::file_access::{FileAccess, is_pattern, matching_files, resolve_path};
use crate::render_inputs::RenderInputs;
use crate::render_target::Variables;

/// A file passed to Helm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValuesFile {
    /// File name, for messages.
    pub name: String,
    pub content: Vec<u8>,
}

/// Sources to search for values files.
pub(crate) struct ValuesFileSearch<'s> {
    /// Folder of the chart.
    pub folder: &'s str,
    /// Files of the chart's source.
    pub source_files: &'s dyn FileAccess,
    pub inputs: &'s RenderInputs,
    pub variables: &'s Variables,
}

/// A parsed entry of `valueFiles`: a path or a pattern, either in the chart's source or in a referenced
/// source.
struct ValuesEntry {
    /// The entry, as written.
    text: String,
    reference: Option<String>,
    path: String,
}

impl ValuesEntry {
    /// Returns a key that identifies a file in the entry's source.
    fn id(&self, path: &str) -> (Option<String>, String) {
        (self.reference.clone(), path.to_owned())
    }

    fn name(&self, path: &str) -> String {
        self.reference.as_ref().map_or_else(|| path.to_owned(), |reference| format!("${reference}/{path}"))
    }
}

impl ValuesFileSearch<'_> {
    /// Returns the values files without duplicates. A file takes the position of the entry that names it
    /// explicitly or, failing that, of the first pattern that matches it.
    pub fn value_files(&self, helm: &HelmSource) -> Result<Vec<ValuesFile>, SourceError> {
        let wanted: Vec<ValuesEntry> =
            helm.value_files.iter().map(|text| self.parse_entry(text)).collect::<Result<_, _>>()?;
        let named = wanted.iter().filter(|one| !is_pattern(&one.path)).map(|one| one.id(&one.path));
        let mut known: BTreeSet<_> = named.collect();
        let mut given = Vec::new();
        for one in &wanted {
            let paths = if is_pattern(&one.path) {
                let found = self.with_files(one, |files| matching_files(files, &one.path))?;
                if found.is_empty() && !helm.ignore_missing_value_files {
                    return Err(SourceError::NoMatch { pattern: one.text.clone() });
                }
                found.into_iter().filter(|path| known.insert(one.id(path))).collect()
            } else {
                vec![one.path.clone()]
            };
            for path in paths {
                match self.with_files(one, |files| files.read_file(&path))? {
                    Some(content) => given.push(ValuesFile { name: one.name(&path), content }),
                    None if helm.ignore_missing_value_files => {}
                    None => return Err(self.file_not_found(one)?),
                }
            }
        }
        Ok(given)
    }

    /// Returns a file, or an error if it doesn't exist.
    pub fn required_file(&self, text: &str) -> Result<ValuesFile, SourceError> {
        let wanted = self.parse_entry(text)?;
        match self.with_files(&wanted, |files| files.read_file(&wanted.path))? {
            Some(content) => Ok(ValuesFile { name: wanted.name(&wanted.path), content }),
            None => Err(self.file_not_found(&wanted)?),
        }
    }

    fn file_not_found(&self, wanted: &ValuesEntry) -> Result<SourceError, SourceError> {
        let place = self.with_files(wanted, |files| Ok(files.location_text()))?;
        let (file, path) = (wanted.text.clone(), wanted.path.clone());
        Ok(SourceError::NoValueFile { file, path, place })
    }

    fn parse_entry(&self, text: &str) -> Result<ValuesEntry, SourceError> {
        if text.contains("://") {
            return Err(SourceError::RemoteFile { file: text.to_owned() });
        }
        let name = text.strip_prefix('$').and_then(|rest| rest.split('/').next());
        if let Some(reference) = name.filter(|name| self.inputs.referenced.contains_key(*name)) {
            let rest = text.get(reference.len().saturating_add(1)..).unwrap_or_default();
            let path = resolve_path("", &self.variables.replace(rest))?;
            return Ok(ValuesEntry { text: text.to_owned(), reference: Some(reference.to_owned()), path });
        }
        // An unknown variable would become an empty string and select a different file.
        if let Some(name) = name.filter(|name| {
            let name = name.trim_matches(['{', '}']);
            name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) && !self.variables.has(name)
        }) {
            let known =
                self.inputs.referenced.keys().map(|name| format!("${name}")).collect::<Vec<_>>().join(", ");
            return Err(SourceError::NoReference { file: text.to_owned(), name: name.to_owned(), known });
        }
        let path = resolve_path(self.folder, &self.variables.replace(text))?;
        Ok(ValuesEntry { text: text.to_owned(), reference: None, path })
    }

    /// Calls a function with the files of the entry's source.
    fn with_files<T>(
        &self,
        wanted: &ValuesEntry,
        using: impl Fn(&dyn FileAccess) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        match wanted.reference.as_ref().and_then(|name| self.inputs.referenced.get(name)) {
            Some(referred) => {
                let limits = &self.inputs.limits;
                referred.repository.with_reader(&referred.commit, limits, |reader| using(reader))
            }
            None => using(self.source_files),
        }
    }
}
