//! Kustomizations: which folders they need, what is changed in them, and what `kustomize build` prints.
//!
//! ```text
//! kustomization ─ edit (what the source says) ─▶ Needs ─▶ folders of the commit
//!                                                  └─ entries on servers ─ gather ─▶ Trees: folders of other repositories
//! workshop: source/…, fetched/0/…, fetched/1/… ◀─ copy, with edits that lead from the one to the other
//! ```

mod edit;
mod edits;
mod gather;
mod named;
mod needs;
mod remote;

use std::ffi::OsString;

use gix::ObjectId;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidegate_model::argo::ApplicationSource;

use crate::SourceError;
use crate::checkout::{Copying, Left};
use crate::kind::KUSTOMIZATIONS;
use crate::making::Making;
use crate::mask::Values;
use crate::purpose::Variables;
use crate::repository::File;
use crate::tools::{Call, SOURCE, Tool, Workshop, each_file, file_paths, run};
use crate::tree::{Reader, full};
use edits::{Edit, FETCHED};
use gather::Tree;
pub(crate) use needs::Entry;
use needs::Needs;
pub(crate) use remote::shown;

/// What Kustomize says of a file of variables that is no text, beside what is in it.
const NO_TEXT: &str = "has invalid utf8 bytes";

/// All that Kustomize is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    tool: Tool,
    path: String,
    /// The folders that are needed, none inside another.
    folders: Vec<(String, ObjectId)>,
    /// Which kustomizations are changed, and how.
    needs: Needs,
    /// What is needed of other repositories, by its number.
    trees: Vec<Tree>,
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
    /// What a source says of a kustomization, and what that names on servers, which is to be given to [`Self::fetch`].
    pub fn new(
        source: &ApplicationSource,
        path: &str,
        reader: &Reader<'_>,
        (making, variables): (&Making, &Variables),
    ) -> Result<(Self, Vec<Entry>), SourceError> {
        let tool = making.tools.kustomize(path)?;
        let Some(mut found) = find(reader, path)? else {
            return Err(SourceError::NoKustomization { path: path.to_owned() });
        };
        let said = source.kustomize.clone().unwrap_or_default();
        let before = found.value.clone();
        edit::apply(&mut found, &said, (path, reader), variables)?;
        let mut needs = Needs::default();
        if found.value != before {
            needs.edits.insert(found.file.clone(), Edit::of(found.value.clone()));
        }
        let entries = needs.add(reader, path, Some(found))?;
        let folders = needs.folders(reader)?;
        let trees = Vec::new();
        Ok((Self { tool, path: path.to_owned(), folders, needs, trees }, entries))
    }

    /// Fetches what these entries name. Nobody may be reading the source meanwhile: it may be fetched into as well.
    pub fn fetch(&mut self, entries: Vec<Entry>, making: &Making) -> Result<(), SourceError> {
        if !entries.is_empty() {
            self.trees = gather::gather(&mut self.needs, entries, making)?;
        }
        Ok(())
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
        for (file, edit) in &self.needs.edits {
            hasher.update(format!("{file}\0"));
            edit.digest(hasher);
        }
        self.trees.iter().for_each(|tree| tree.digest(hasher));
    }

    /// Copies the folders of the source that it needs.
    pub fn copy(&self, reader: &Reader<'_>, workshop: &Workshop) -> Result<(), SourceError> {
        let changed = |file: &str, to: &str| self.needs.edits.get(file).map(|edit| edit.written(SOURCE, to));
        let copying = Copying { workshop, root: SOURCE, changed: &changed };
        self.folders.iter().try_for_each(|(path, tree)| {
            reader.copy_to(*tree, (path, path), &copying, &mut Left::of(reader.limits))
        })
    }

    /// Copies what it needs of other repositories, beside the source.
    fn copy_fetched(&self, workshop: &Workshop, making: &Making) -> Result<(), SourceError> {
        for (number, tree) in self.trees.iter().enumerate() {
            let root = format!("{FETCHED}/{number}");
            let changed = |file: &str, to: &str| tree.changed(&root, file, to);
            let copying = Copying { workshop, root: &root, changed: &changed };
            tree.reading(making, |reader| {
                let mut left = Left::of(&making.limits);
                tree.folders
                    .iter()
                    .try_for_each(|(path, id)| reader.copy_to(*id, (path, path), &copying, &mut left))
            })?;
        }
        Ok(())
    }

    /// Runs Kustomize in a workshop that has the folders of the source, and takes what it prints.
    pub fn make(&self, workshop: &Workshop, making: &Making) -> Result<Vec<File>, SourceError> {
        self.copy_fetched(workshop, making)?;
        let name = self.tool.program.file_name().unwrap_or_default().to_string_lossy();
        let (call, verb) = match name.starts_with("kubectl") {
            true => ("kubectl kustomize", "kustomize"),
            false => ("kustomize build", "build"),
        };
        let folder = workshop.source().join(&self.path);
        let arguments = vec![OsString::from(verb), folder.into()];
        let made = run(
            &making.tools,
            Call { tool: &self.tool, arguments, workshop, whose: &making.purpose.instance },
        );
        match made {
            Ok(content) => Ok(vec![File { path: self.path.clone(), content }]),
            Err(error) => {
                let words = self.told(&error.to_string());
                let lines = words.lines().map(|line| {
                    unmarked(line.trim()).trim_start_matches("Error: ").trim_start_matches("error: ")
                });
                let lines: Vec<_> = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
                // It tells them byte by byte.
                if words.contains(NO_TEXT) {
                    let reason =
                        "a file that a generator takes variables from has bytes that are no UTF-8".to_owned();
                    return Err(SourceError::Tool { call, path: self.path.clone(), reason });
                }
                let reason = crate::error::plain_ends(&secrets(workshop).masked(&lines.join("; ")));
                Err(SourceError::Tool { call, path: self.path.clone(), reason })
            }
        }
    }

    /// What Kustomize says, with the names of repositories in the place of their folders.
    fn told(&self, words: &str) -> String {
        let numbered = self.trees.iter().enumerate().rev();
        numbered.fold(words.to_owned(), |words, (number, tree)| {
            words.replace(&format!("{FETCHED}/{number}"), &tree.repository.0.address().to_string())
        })
    }
}

/// What Secrets hold that are in a workshop: Kustomize quotes what it cannot read, whole patches as well.
fn secrets(workshop: &Workshop) -> Values {
    let mut secrets = Values::default();
    let is_manifest = |name: &str| {
        [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end)) || KUSTOMIZATIONS.contains(&name)
    };
    each_file(workshop.path(), is_manifest, |_, content| {
        secrets.add_secrets(&String::from_utf8_lossy(content));
    });
    let named = secrets.clone();
    each_file(
        workshop.path(),
        |name| named.has_file(name),
        |_, content| secrets.add_held(&String::from_utf8_lossy(content)),
    );
    file_paths(workshop.path()).iter().for_each(|path| secrets.spare_path(path));
    secrets
}

/// A line without what `kubectl` writes before an error: its letter, the time, its process and where in its code that was. Those
/// are others each time, and nothing has changed.
fn unmarked(line: &str) -> &str {
    let mut words = line.split_ascii_whitespace();
    let is_day = |day: &str| {
        day.strip_prefix(['I', 'W', 'E', 'F'])
            .is_some_and(|day| day.len() == 4 && day.bytes().all(|c| c.is_ascii_digit()))
    };
    let is_marked = words.next().is_some_and(is_day)
        && words.next().is_some_and(|time| time.contains(':'))
        && words.next().is_some_and(|process| process.bytes().all(|c| c.is_ascii_digit()));
    match line.split_once("] ") {
        Some((_, said)) if is_marked => said.strip_prefix("\"command failed\" err=").unwrap_or(said),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_another_each_time_is_not_told() {
        for (line, expected) in [
            (
                "E1127 09:50:14.537532   18187 run.go:72] \"command failed\" err=\"no such file: /a\"",
                "\"no such file: /a\"",
            ),
            ("W1127 09:50:14.537532 18187 warn.go:1] a field is deprecated", "a field is deprecated"),
            ("error: no such file [a] b", "error: no such file [a] b"),
            ("E1127 is no day] b", "E1127 is no day] b"),
            ("", ""),
        ] {
            assert_eq!(unmarked(line), expected);
        }
    }
}
