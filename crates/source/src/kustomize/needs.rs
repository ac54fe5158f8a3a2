//! Which folders of a commit kustomizations need, and what they name on servers.

use std::collections::{BTreeMap, BTreeSet};

use gix::ObjectId;
use gix::objs::tree::EntryKind;
use serde_json::Value;

use super::edits::Edit;
use super::named::{self, CHARTS, NAMED, PLUGINS};
use super::{Found, find, remote, wrong};
use crate::SourceError;
use crate::files::meant;
use crate::tree::{self, Reader};

/// More folders than kustomizations have.
const FOLDERS_MAX: usize = 1_000;
/// Fields that name files or folders, which may be on a server.
pub(super) const FETCHED: [&str; 3] = ["resources", "bases", "components"];
/// Why an entry of another field is not fetched.
const ELSEWHERE: &str =
    "only entries of resources, bases and components are fetched; copy it into the repository";

/// What kustomizations of one commit need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    known: BTreeSet<String>,
    /// Kustomizations that are changed, by their paths.
    pub edits: BTreeMap<String, Edit>,
}

/// An entry that names something on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The path of the kustomization.
    pub file: String,
    pub field: &'static str,
    /// Where it is in that field.
    pub index: usize,
    pub text: String,
}

impl Needs {
    /// Adds a folder, with all that its kustomization needs of the same commit; what that names on servers. The kustomization is
    /// `found`, or that of the commit.
    pub fn add(
        &mut self,
        reader: &Reader<'_>,
        path: &str,
        found: Option<Found>,
    ) -> Result<Vec<Entry>, SourceError> {
        let mut entries = Vec::new();
        if !self.known.insert(path.to_owned()) {
            return Ok(entries);
        }
        let found = match found {
            Some(found) => Some(found),
            None => find(reader, path)?,
        };
        let found = found.ok_or_else(|| SourceError::NoKustomization { path: path.to_owned() })?;
        let mut waiting = vec![(path.to_owned(), found)];
        while let Some((folder, found)) = waiting.pop() {
            let (folders, remote) = needed(reader, &folder, &found)?;
            if !remote.is_empty() {
                self.edits.entry(found.file.clone()).or_insert_with(|| Edit::of(found.value.clone()));
                entries.extend(remote);
            }
            for named in folders {
                if !self.known.insert(named.clone()) {
                    continue;
                }
                if self.known.len() > FOLDERS_MAX {
                    let limit = u64::try_from(FOLDERS_MAX).unwrap_or(u64::MAX);
                    return Err(SourceError::Limit {
                        path: path.to_owned(),
                        limit,
                        what: "folders of kustomizations",
                    });
                }
                // One without a kustomization is told by Kustomize.
                if let Some(found) = find(reader, &named)? {
                    waiting.push((named, found));
                }
            }
        }
        Ok(entries)
    }

    /// The folders, none inside another, with their trees.
    pub fn folders(&self, reader: &Reader<'_>) -> Result<Vec<(String, ObjectId)>, SourceError> {
        let is_inside = |one: &String| {
            let is_above =
                |other: &String| other != one && (other.is_empty() || one.starts_with(&format!("{other}/")));
            self.known.iter().any(is_above)
        };
        let outer: Vec<&String> = self.known.iter().filter(|one| !is_inside(one)).collect();
        let mut folders = Vec::new();
        for one in outer {
            if let Some(tree) = reader.find_folder(one)? {
                let has_links = reader.list(tree, one, true)?.iter().any(|entry| entry.is_link());
                // Where a link leads to is as much a part of it, and may be anywhere.
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

/// The folders that one kustomization names, and the entries that are on servers.
fn needed(
    reader: &Reader<'_>,
    folder: &str,
    found: &Found,
) -> Result<(Vec<String>, Vec<Entry>), SourceError> {
    let Found { file, value } = found;
    if let Some((written, known)) = named::otherwise_spelt(value) {
        return Err(wrong(
            file,
            format!("it has {written}, which Kustomize takes for {known}; write {known}"),
        ));
    }
    if let Some(field) = CHARTS.iter().find(|field| value.get(**field).is_some()) {
        return Err(wrong(
            file,
            format!(
                "it has {field}, and charts in a kustomization are not made (as without --enable-helm); make the chart a source of its own"
            ),
        ));
    }
    let (mut needed, mut remote, mut in_plugins) = (Vec::new(), Vec::new(), Vec::new());
    for field in NAMED {
        let configures = PLUGINS.contains(&field);
        let list = value.get(field).and_then(Value::as_array).into_iter().flatten();
        for (index, text) in list.enumerate().filter_map(|(index, entry)| Some((index, entry.as_str()?))) {
            // It may be written out on the spot.
            if text.contains('\n') {
                in_plugins.extend(configures.then(|| named::by_plugin(text)).into_iter().flatten());
                continue;
            }
            match local(reader, (folder, file), text)? {
                Local::Folder(at) => needed.push(at),
                Local::File(at, entry) if configures => {
                    let content = reader.content(&at, &entry)?.unwrap_or_default();
                    in_plugins.extend(named::by_plugin(&String::from_utf8_lossy(&content)));
                }
                Local::File(..) => {}
                Local::Nothing if FETCHED.contains(&field) => {
                    let (file, text) = (file.clone(), text.to_owned());
                    remote.push(Entry { file, field, index, text });
                }
                Local::Nothing => return Err(refused(file, text, ELSEWHERE)),
            }
        }
    }
    for text in named::files(value).into_iter().chain(in_plugins) {
        if named::is_served(&text) {
            return Err(refused(file, &text, ELSEWHERE));
        }
        // Kustomize says of a file outside whether it is there.
        let path = named::file_of(&text);
        not_absolute(file, path)?;
        meant(folder, path)?;
    }
    Ok((needed, remote))
}

/// What an entry is in the commit.
enum Local {
    Folder(String),
    File(String, tree::Entry),
    /// It is on a server.
    Nothing,
}

fn local(reader: &Reader<'_>, (folder, file): (&str, &str), text: &str) -> Result<Local, SourceError> {
    if is_address(text) {
        return Ok(Local::Nothing);
    }
    not_absolute(file, text)?;
    let path = meant(folder, text)?;
    match reader.lookup(&path)?.map(|entry| reader.follow(&path, &entry)).transpose()? {
        Some((at, entry)) if entry.kind == EntryKind::Tree => Ok(Local::Folder(at)),
        Some((at, entry)) => Ok(Local::File(at, entry)),
        None if looks_remote(text) => Ok(Local::Nothing),
        None => Err(wrong(file, format!("it names {text}, and there is no {path} in the commit"))),
    }
}

fn not_absolute(file: &str, text: &str) -> Result<(), SourceError> {
    match text.starts_with('/') {
        true => Err(wrong(
            file,
            format!("it names {text}, and absolute paths are not followed; write it relative to the folder"),
        )),
        false => Ok(()),
    }
}

/// An entry is not fetched.
pub(super) fn refused(file: &str, text: &str, why: &'static str) -> SourceError {
    SourceError::RemoteBase { file: file.to_owned(), base: remote::shown(text), why }
}

/// Whether an entry cannot be a path.
pub(super) fn is_address(text: &str) -> bool {
    text.contains("://") || text.starts_with("git::")
}

/// Whether what is not there looks as if it were on a server.
fn looks_remote(text: &str) -> bool {
    let host = text.split('/').next().unwrap_or_default();
    ["git@", "git::", "?ref=", ".git", "//"].iter().any(|part| text.contains(part))
        || (host.contains('.') && !host.starts_with('.') && text.contains('/'))
}
