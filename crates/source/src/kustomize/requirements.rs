//! Folders and remote entries that a commit's kustomizations need.

use std::collections::{BTreeMap, BTreeSet};

use gix::ObjectId;
use gix::objs::tree::EntryKind;
use serde_json::Value;

use super::file_fields::{self, CHART_FIELDS, FILE_OR_FOLDER_FIELDS, PLUGIN_FIELDS};
use super::remote_entry::{self, is_address};
use super::written_kustomization::KustomizationEdit;
use super::{Kustomization, find_kustomization, invalid_kustomization};
use crate::SourceError;
use crate::file_access::resolve_path;
use crate::tree::{self, CommitReader};

/// Maximum number of folders with kustomizations.
const FOLDERS_MAX: usize = 1_000;
/// Fields with remote entries that Tidegate fetches.
pub(super) const FETCHABLE_FIELDS: [&str; 3] = ["resources", "bases", "components"];
/// Reason reported for remote entries in any other field.
const NOT_FETCHED_HERE: &str =
    "remote entries are fetched only in resources, bases and components; copy the file into the repository";

/// Folders that a commit's kustomizations need, and the edits to these kustomizations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KustomizationRequirements {
    visited: BTreeSet<String>,
    /// Edits to kustomizations, by path.
    pub edits: BTreeMap<String, KustomizationEdit>,
}

/// A remote entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteEntry {
    /// Path of the kustomization with the entry.
    pub file: String,
    pub field: &'static str,
    /// Index of the entry in the list.
    pub index: usize,
    pub text: String,
}

impl KustomizationRequirements {
    /// Adds a folder and all folders of the same commit that its kustomization needs. Returns the remote
    /// entries of these kustomizations. `found` is the folder's kustomization; if `None`, it is read from the
    /// commit.
    pub fn add(
        &mut self,
        reader: &CommitReader<'_>,
        path: &str,
        found: Option<Kustomization>,
    ) -> Result<Vec<RemoteEntry>, SourceError> {
        let mut entries = Vec::new();
        if !self.visited.insert(path.to_owned()) {
            return Ok(entries);
        }
        let found = match found {
            Some(found) => Some(found),
            None => find_kustomization(reader, path)?,
        };
        let found = found.ok_or_else(|| SourceError::NoKustomization { path: path.to_owned() })?;
        let mut waiting = vec![(path.to_owned(), found)];
        while let Some((folder, found)) = waiting.pop() {
            let (folders, remote) = required_entries(reader, &folder, &found)?;
            if !remote.is_empty() {
                self.edits
                    .entry(found.file.clone())
                    .or_insert_with(|| KustomizationEdit::with_value(found.value.clone()));
                entries.extend(remote);
            }
            for named in folders {
                if !self.visited.insert(named.clone()) {
                    continue;
                }
                if self.visited.len() > FOLDERS_MAX {
                    let limit = u64::try_from(FOLDERS_MAX).unwrap_or(u64::MAX);
                    return Err(SourceError::Limit {
                        path: path.to_owned(),
                        limit,
                        what: "folders with kustomizations",
                    });
                }
                // Kustomize reports a folder without a kustomization.
                if let Some(found) = find_kustomization(reader, &named)? {
                    waiting.push((named, found));
                }
            }
        }
        Ok(entries)
    }

    /// Returns the needed folders and their trees, omitting folders inside another.
    pub fn folders(&self, reader: &CommitReader<'_>) -> Result<Vec<(String, ObjectId)>, SourceError> {
        let is_inside = |one: &String| {
            let is_above =
                |other: &String| other != one && (other.is_empty() || one.starts_with(&format!("{other}/")));
            self.visited.iter().any(is_above)
        };
        let outer: Vec<&String> = self.visited.iter().filter(|one| !is_inside(one)).collect();
        let mut folders = Vec::new();
        for one in outer {
            if let Some(tree) = reader.find_folder(one)? {
                let has_links = reader.list(tree, one, true)?.iter().any(|entry| entry.is_link());
                // A link's target is part of the content and may be anywhere in the commit.
                folders.push((one.clone(), tree));
                if has_links {
                    folders.push((String::new(), reader.root));
                    break;
                }
            }
        }
        Ok(if folders.iter().any(|(path, _)| path.is_empty()) {
            vec![(String::new(), reader.root)]
        } else {
            folders
        })
    }
}

/// Returns the folders and remote entries that a kustomization refers to.
fn required_entries(
    reader: &CommitReader<'_>,
    folder: &str,
    found: &Kustomization,
) -> Result<(Vec<String>, Vec<RemoteEntry>), SourceError> {
    let Kustomization { file, value } = found;
    if let Some((written, known)) = file_fields::find_misspelled_field(value) {
        return Err(invalid_kustomization(
            file,
            format!("Kustomize reads the field {written} as {known}; rename the field to {known}"),
        ));
    }
    if let Some(field) = CHART_FIELDS.iter().find(|field| value.get(**field).is_some()) {
        return Err(invalid_kustomization(
            file,
            format!(
                "{field} is not supported: charts in a kustomization are not rendered, as if --enable-helm were not set; make the chart a separate source"
            ),
        ));
    }
    let (mut needed, mut remote, mut in_plugins) = (Vec::new(), Vec::new(), Vec::new());
    for field in FILE_OR_FOLDER_FIELDS {
        let configures = PLUGIN_FIELDS.contains(&field);
        let list = value.get(field).and_then(Value::as_array).into_iter().flatten();
        for (index, text) in list.enumerate().filter_map(|(index, entry)| Some((index, entry.as_str()?))) {
            // An inline patch or configuration, not a path.
            if text.contains('\n') {
                in_plugins.extend(configures.then(|| file_fields::plugin_files(text)).into_iter().flatten());
                continue;
            }
            match find_local(reader, folder, file, text)? {
                LocalEntry::Folder(at) => needed.push(at),
                LocalEntry::File(at, entry) if configures => {
                    let content = reader.content(&at, &entry)?.unwrap_or_default();
                    in_plugins.extend(file_fields::plugin_files(&String::from_utf8_lossy(&content)));
                }
                LocalEntry::File(..) => {}
                LocalEntry::NotFound if FETCHABLE_FIELDS.contains(&field) => {
                    let (file, text) = (file.clone(), text.to_owned());
                    remote.push(RemoteEntry { file, field, index, text });
                }
                LocalEntry::NotFound => return Err(remote_entry_error(file, text, NOT_FETCHED_HERE)),
            }
        }
    }
    for text in file_fields::named_files(value).into_iter().chain(in_plugins) {
        if file_fields::is_remote_file(&text) {
            return Err(remote_entry_error(file, &text, NOT_FETCHED_HERE));
        }
        // Kustomize itself reports files outside the repository.
        let path = file_fields::file_of(&text);
        reject_absolute(file, path)?;
        resolve_path(folder, path)?;
    }
    Ok((needed, remote))
}

/// Result of searching the commit for an entry.
enum LocalEntry {
    Folder(String),
    File(String, tree::TreeEntry),
    /// The entry isn't in the commit and must be remote.
    NotFound,
}

fn find_local(
    reader: &CommitReader<'_>,
    folder: &str,
    file: &str,
    text: &str,
) -> Result<LocalEntry, SourceError> {
    if is_address(text) {
        return Ok(LocalEntry::NotFound);
    }
    reject_absolute(file, text)?;
    let path = resolve_path(folder, text)?;
    match reader.lookup(&path)?.map(|entry| reader.resolve_links(&path, &entry)).transpose()? {
        Some((at, entry)) if entry.kind == EntryKind::Tree => Ok(LocalEntry::Folder(at)),
        Some((at, entry)) => Ok(LocalEntry::File(at, entry)),
        None if looks_remote(text) => Ok(LocalEntry::NotFound),
        None => {
            let reason = format!("{text} is missing: {path} does not exist in the commit");
            Err(invalid_kustomization(file, reason))
        }
    }
}

fn reject_absolute(file: &str, text: &str) -> Result<(), SourceError> {
    match text.starts_with('/') {
        true => Err(invalid_kustomization(
            file,
            format!("{text} is an absolute path, which is not allowed; use a path relative to the folder"),
        )),
        false => Ok(()),
    }
}

/// Returns the error for a remote entry not fetched because of `why`.
pub(super) fn remote_entry_error(file: &str, text: &str, why: &'static str) -> SourceError {
    SourceError::RemoteBase { file: file.to_owned(), base: remote_entry::without_secrets(text), why }
}

/// Returns true if an entry that isn't in the commit looks like a URL.
fn looks_remote(text: &str) -> bool {
    let host = text.split('/').next().unwrap_or_default();
    ["git@", "git::", "?ref=", ".git", "//"].iter().any(|part| text.contains(part))
        || (host.contains('.') && !host.starts_with('.') && text.contains('/'))
}
