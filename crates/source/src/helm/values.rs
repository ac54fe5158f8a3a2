//! Files of values: which ones are meant, and in which order.

use std::collections::BTreeSet;

use tidegate_model::argo::HelmSource;

use crate::SourceError;
use crate::files::{Files, is_pattern, matching, meant};
use crate::making::Making;
use crate::purpose::Variables;

/// A file for Helm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// How people know it.
    pub name: String,
    pub content: Vec<u8>,
}

/// Where files are looked for.
pub(crate) struct Search<'s> {
    /// Where the chart is.
    pub folder: &'s str,
    /// The files beside it.
    pub own: &'s dyn Files,
    pub making: &'s Making,
    pub variables: &'s Variables,
}

/// A file that may be there, or a pattern of files, in the source that is referred to or in that of the chart.
struct Wanted {
    /// As it was written.
    text: String,
    reference: Option<String>,
    path: String,
}

impl Wanted {
    /// The same file has the same one.
    fn id(&self, path: &str) -> (Option<String>, String) {
        (self.reference.clone(), path.to_owned())
    }

    fn name(&self, path: &str) -> String {
        self.reference.as_ref().map_or_else(|| path.to_owned(), |reference| format!("${reference}/{path}"))
    }
}

impl Search<'_> {
    /// The files of values, each once: where it is named by itself, or else where a pattern first means it.
    pub fn value_files(&self, helm: &HelmSource) -> Result<Vec<Given>, SourceError> {
        let wanted: Vec<Wanted> =
            helm.value_files.iter().map(|text| self.wanted(text)).collect::<Result<_, _>>()?;
        let named = wanted.iter().filter(|one| !is_pattern(&one.path)).map(|one| one.id(&one.path));
        let mut known: BTreeSet<_> = named.collect();
        let mut given = Vec::new();
        for one in &wanted {
            let paths = if is_pattern(&one.path) {
                let found = self.with(one, |files| matching(files, &one.path))?;
                if found.is_empty() && !helm.ignore_missing_value_files {
                    return Err(SourceError::NoMatch { pattern: one.text.clone() });
                }
                found.into_iter().filter(|path| known.insert(one.id(path))).collect()
            } else {
                vec![one.path.clone()]
            };
            for path in paths {
                match self.with(one, |files| files.file(&path))? {
                    Some(content) => given.push(Given { name: one.name(&path), content }),
                    None if helm.ignore_missing_value_files => {}
                    None => return Err(self.missing(one)?),
                }
            }
        }
        Ok(given)
    }

    /// A file that has to be there.
    pub fn file(&self, text: &str) -> Result<Given, SourceError> {
        let wanted = self.wanted(text)?;
        match self.with(&wanted, |files| files.file(&wanted.path))? {
            Some(content) => Ok(Given { name: wanted.name(&wanted.path), content }),
            None => Err(self.missing(&wanted)?),
        }
    }

    fn missing(&self, wanted: &Wanted) -> Result<SourceError, SourceError> {
        let place = self.with(wanted, |files| Ok(files.place()))?;
        let (file, path) = (wanted.text.clone(), wanted.path.clone());
        Ok(SourceError::NoValueFile { file, path, place })
    }

    fn wanted(&self, text: &str) -> Result<Wanted, SourceError> {
        if text.contains("://") {
            return Err(SourceError::RemoteFile { file: text.to_owned() });
        }
        let name = text.strip_prefix('$').and_then(|rest| rest.split('/').next());
        if let Some(reference) = name.filter(|name| self.making.referred.contains_key(*name)) {
            let rest = text.get(reference.len().saturating_add(1)..).unwrap_or_default();
            let path = meant("", &self.variables.replace(rest))?;
            return Ok(Wanted { text: text.to_owned(), reference: Some(reference.to_owned()), path });
        }
        // What stands for nothing would mean another file.
        if let Some(name) = name.filter(|name| {
            let name = name.trim_matches(['{', '}']);
            name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) && !self.variables.has(name)
        }) {
            let known =
                self.making.referred.keys().map(|name| format!("${name}")).collect::<Vec<_>>().join(", ");
            return Err(SourceError::NoReference { file: text.to_owned(), name: name.to_owned(), known });
        }
        let path = meant(self.folder, &self.variables.replace(text))?;
        Ok(Wanted { text: text.to_owned(), reference: None, path })
    }

    /// Does something with the files among which one is wanted.
    fn with<T>(
        &self,
        wanted: &Wanted,
        using: impl Fn(&dyn Files) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        match wanted.reference.as_ref().and_then(|name| self.making.referred.get(name)) {
            Some(referred) => {
                let limits = &self.making.limits;
                referred.repository.in_commit(&referred.commit, limits, |reader| using(reader))
            }
            None => using(self.own),
        }
    }
}
