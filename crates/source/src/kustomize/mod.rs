//! Kustomizations: which folders they need, what is changed in them, and what `kustomize build` prints.

mod edit;
mod needs;

use std::ffi::OsString;

use gix::ObjectId;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidegate_model::argo::ApplicationSource;

use crate::SourceError;
use crate::kind::KUSTOMIZATIONS;
use crate::making::Making;
use crate::purpose::Variables;
use crate::repository::File;
use crate::tools::{Call, Tool, Workshop, run};
use crate::tree::{Reader, full};

/// All that Kustomize is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    tool: Tool,
    path: String,
    /// The folders that are needed, none inside another.
    folders: Vec<(String, ObjectId)>,
    /// What the kustomization is replaced with: its path, and its content.
    changed: Option<(String, String)>,
}

/// A kustomization as it is in a commit.
struct Found {
    /// Its path in the repository.
    file: String,
    value: Value,
}

fn wrong(file: &str, reason: impl Into<String>) -> SourceError {
    SourceError::Kustomization { file: file.to_owned(), reason: reason.into() }
}

/// The kustomization of a folder; nothing where there is none.
fn find(reader: &Reader<'_>, folder: &str) -> Result<Option<Found>, SourceError> {
    for name in KUSTOMIZATIONS {
        let file = full(folder, name);
        let Some(entry) = reader.lookup(&file)? else { continue };
        let Some(content) = reader.content(&file, &entry)? else { continue };
        let text = String::from_utf8(content).map_err(|_| wrong(&file, "it is not UTF-8 text"))?;
        // An empty one says nothing.
        let value = if text.trim().is_empty() { Ok(Value::Null) } else { serde_saphyr::from_str(&text) };
        let value = value.map_err(|error| wrong(&file, crate::error::plain(&error.to_string())))?;
        return match value {
            Value::Null => Ok(Some(Found { file, value: Value::Object(serde_json::Map::new()) })),
            Value::Object(_) => Ok(Some(Found { file, value })),
            _ => Err(wrong(&file, "it is no map of fields")),
        };
    }
    Ok(None)
}

impl Plan {
    /// What a source says of a kustomization.
    pub fn new(
        source: &ApplicationSource,
        path: &str,
        reader: &Reader<'_>,
        (making, variables): (&Making, &Variables),
    ) -> Result<Self, SourceError> {
        let tool = making.tools.kustomize(path)?;
        let Some(mut found) = find(reader, path)? else {
            return Err(SourceError::NoKustomization { path: path.to_owned() });
        };
        let said = source.kustomize.clone().unwrap_or_default();
        let before = found.value.clone();
        edit::apply(&mut found, &said, (path, reader), variables)?;
        let changed = (found.value != before).then(|| (found.file.clone(), found.value.to_string()));
        let folders = needs::folders(reader, path, found)?;
        Ok(Self { tool, path: path.to_owned(), folders, changed })
    }

    /// Writes all of it into a digest.
    pub fn digest(&self, hasher: &mut Sha256) {
        let mut add = |text: &str| {
            hasher.update(text.as_bytes());
            hasher.update([0]);
        };
        add(&self.tool.identity);
        for (path, tree) in &self.folders {
            add(path);
            add(&tree.to_string());
        }
        if let Some((file, content)) = &self.changed {
            add(file);
            add(content);
        }
    }

    /// Runs Kustomize on copies of all folders that it needs, and takes what it prints.
    pub fn make(&self, reader: &Reader<'_>, making: &Making) -> Result<Vec<File>, SourceError> {
        let workshop = Workshop::open(&making.tools)?;
        for (path, tree) in &self.folders {
            reader.copy(*tree, path, &workshop)?;
        }
        if let Some((file, content)) = &self.changed {
            workshop.put(file, content.as_bytes())?;
        }
        let name = self.tool.program.file_name().unwrap_or_default().to_string_lossy();
        let (call, verb) = match name.starts_with("kubectl") {
            true => ("kubectl kustomize", "kustomize"),
            false => ("kustomize build", "build"),
        };
        let folder = workshop.source().join(&self.path);
        let arguments = vec![OsString::from(verb), folder.into()];
        let made = run(&making.tools, Call { tool: &self.tool, arguments, workshop: &workshop });
        match made {
            Ok(content) => Ok(vec![File { path: self.path.clone(), content }]),
            Err(error) => {
                let words = error.to_string();
                let lines = words
                    .lines()
                    .map(|line| line.trim().trim_start_matches("Error: ").trim_start_matches("error: "));
                let lines: Vec<_> = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
                let reason = crate::error::plain_ends(&lines.join("; "));
                Err(SourceError::Tool { call, path: self.path.clone(), reason })
            }
        }
    }
}
