//! Kustomizations: the folders they need, edits from the source, and calls of `kustomize build`.
//!
//! ```text
//! kustomization ─ apply_edits ─▶ KustomizationRequirements ─▶ folders of the commit
//!                                   └─ remote entries ─ fetch ─▶ FetchedTree: folders of other repositories
//! WorkingFolder: source/…, fetched/0/…, fetched/1/… ◀─ copy, with edits that refer to the fetched folders
//! ```

mod fetch_entries;
mod file_fields;
mod remote_entry;
mod requirements;
mod source_edits;
mod written_kustomization;

use std::ffi::OsString;

use gix::ObjectId;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidegate_model::argo::ApplicationSource;

use crate::SourceError;
use crate::checkout::{Budget, CopyTarget};
use crate::mask::MaskValues;
use crate::render_inputs::RenderInputs;
use crate::render_target::Variables;
use crate::repository::File;
use crate::source_type::KUSTOMIZATION_FILES;
use crate::tools::{
    RunError, SOURCE_FOLDER, Tool, ToolCall, WorkingFolder, file_paths, run_tool, visit_files,
};
use crate::tree::{CommitReader, join_paths};
use fetch_entries::FetchedTree;
pub(crate) use remote_entry::without_secrets;
use requirements::KustomizationRequirements;
pub(crate) use requirements::RemoteEntry;
use written_kustomization::{FETCHED_FOLDER, KustomizationEdit};

/// Part of Kustomize's message about an environment file that isn't valid UTF-8. The rest of the message is
/// the file itself.
const NOT_UTF8_MESSAGE: &str = "has invalid utf8 bytes";

/// Inputs of `kustomize build`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KustomizePlan {
    tool: Tool,
    path: String,
    /// Required folders of the commit, none inside another.
    folders: Vec<(String, ObjectId)>,
    /// Requirements and edits of the kustomizations in the commit.
    needs: KustomizationRequirements,
    /// Required parts of other repositories, indexed by repository number.
    trees: Vec<FetchedTree>,
}

/// A kustomization in a commit.
struct Kustomization {
    /// Path in the repository.
    file: String,
    value: Value,
}

fn invalid_kustomization(file: &str, reason: impl Into<String>) -> SourceError {
    SourceError::Kustomization { file: file.to_owned(), reason: reason.into() }
}

/// Returns the kustomization in a folder, if any.
fn find_kustomization(reader: &CommitReader<'_>, folder: &str) -> Result<Option<Kustomization>, SourceError> {
    for name in KUSTOMIZATION_FILES {
        let file = join_paths(folder, name);
        let Some(entry) = reader.lookup(&file)? else { continue };
        let Some(content) = reader.content(&file, &entry)? else { continue };
        let text = String::from_utf8(content).map_err(|_| invalid_kustomization(&file, "not UTF-8 text"))?;
        // Kustomize accepts an empty kustomization.
        let value = if text.trim().is_empty() { Ok(Value::Null) } else { serde_saphyr::from_str(&text) };
        let value =
            value.map_err(|error| invalid_kustomization(&file, crate::error::to_line(&error.to_string())))?;
        return match value {
            Value::Null => Ok(Some(Kustomization { file, value: Value::Object(serde_json::Map::new()) })),
            Value::Object(_) => Ok(Some(Kustomization { file, value })),
            _ => Err(invalid_kustomization(&file, "not a map of fields")),
        };
    }
    Ok(None)
}

impl KustomizePlan {
    /// Creates the plan for rendering a kustomization. Also returns its remote entries, to be passed to
    /// [`Self::fetch`].
    pub fn new(
        source: &ApplicationSource,
        path: &str,
        reader: &CommitReader<'_>,
        making: &RenderInputs,
        variables: &Variables,
    ) -> Result<(Self, Vec<RemoteEntry>), SourceError> {
        let tool = making.tools.kustomize(path)?;
        let Some(mut found) = find_kustomization(reader, path)? else {
            return Err(SourceError::NoKustomization { path: path.to_owned() });
        };
        let said = source.kustomize.clone().unwrap_or_default();
        let before = found.value.clone();
        source_edits::apply_edits(&mut found, &said, path, reader, variables)?;
        let mut needs = KustomizationRequirements::default();
        if found.value != before {
            needs.edits.insert(found.file.clone(), KustomizationEdit::with_value(found.value.clone()));
        }
        let entries = needs.add(reader, path, Some(found))?;
        let folders = needs.folders(reader)?;
        let trees = Vec::new();
        Ok((Self { tool, path: path.to_owned(), folders, needs, trees }, entries))
    }

    /// Fetches remote entries. They may be in the source repository itself, so the caller must not hold it
    /// open for reading.
    pub fn fetch(&mut self, entries: Vec<RemoteEntry>, making: &RenderInputs) -> Result<(), SourceError> {
        if !entries.is_empty() {
            self.trees = fetch_entries::fetch_entries(&mut self.needs, entries, making)?;
        }
        Ok(())
    }

    /// Adds the inputs of Kustomize to a digest.
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

    /// Copies the required folders of the commit to the working folder.
    pub fn copy(&self, reader: &CommitReader<'_>, workshop: &WorkingFolder) -> Result<(), SourceError> {
        let changed = |file: &str, to: &str| {
            self.needs.edits.get(file).map(|edit| edit.files_to_write(SOURCE_FOLDER, to))
        };
        let copying = CopyTarget { workshop, root: SOURCE_FOLDER, replacements: &changed };
        self.folders.iter().try_for_each(|(path, tree)| {
            reader.copy_to(*tree, path, path, &copying, &mut Budget::from_limits(reader.limits))
        })
    }

    /// Copies the required parts of other repositories next to the source's folder.
    fn copy_fetched(&self, workshop: &WorkingFolder, making: &RenderInputs) -> Result<(), SourceError> {
        for (number, tree) in self.trees.iter().enumerate() {
            let root = format!("{FETCHED_FOLDER}/{number}");
            let changed = |file: &str, to: &str| tree.replacement_files(&root, file, to);
            let copying = CopyTarget { workshop, root: &root, replacements: &changed };
            tree.with_reader(making, |reader| {
                let mut left = Budget::from_limits(&making.limits);
                tree.folders
                    .iter()
                    .try_for_each(|(path, id)| reader.copy_to(*id, path, path, &copying, &mut left))
            })?;
        }
        Ok(())
    }

    /// Runs Kustomize and returns its output. The working folder must already contain the source's folders.
    pub fn build(&self, workshop: &WorkingFolder, making: &RenderInputs) -> Result<Vec<File>, SourceError> {
        self.copy_fetched(workshop, making)?;
        let name = self.tool.program.file_name().unwrap_or_default().to_string_lossy();
        let (call, verb) = match name.starts_with("kubectl") {
            true => ("kubectl kustomize", "kustomize"),
            false => ("kustomize build", "build"),
        };
        let folder = workshop.source().join(&self.path);
        let arguments = vec![OsString::from(verb), folder.into()];
        let made = run_tool(
            &making.tools,
            ToolCall { tool: &self.tool, arguments, workshop, application: &making.purpose.instance },
        );
        match made {
            Ok(content) => Ok(vec![File { path: self.path.clone(), content }]),
            Err(error) => {
                let is_refusal = matches!(error, RunError::Failed(_));
                let words = self.replace_folder_names(&error.to_string());
                let lines = words.lines().map(|line| {
                    strip_log_prefix(line.trim()).trim_start_matches("Error: ").trim_start_matches("error: ")
                });
                let lines: Vec<_> = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
                // The message includes the whole file. Replace it.
                if words.contains(NOT_UTF8_MESSAGE) {
                    let reason = "an env file of a generator is not UTF-8 text".to_owned();
                    return Err(SourceError::Tool { call, path: self.path.clone(), reason, is_refusal });
                }
                let reason =
                    crate::error::to_line_keeping_ends(&secret_values(workshop).mask(&lines.join("; ")));
                Err(SourceError::Tool { call, path: self.path.clone(), reason, is_refusal })
            }
        }
    }

    /// Replaces paths of fetched repositories in a message with their URLs.
    fn replace_folder_names(&self, text: &str) -> String {
        let numbered = self.trees.iter().enumerate().rev();
        numbered.fold(text.to_owned(), |text, (number, tree)| {
            text.replace(&format!("{FETCHED_FOLDER}/{number}"), &tree.repository.0.address().to_string())
        })
    }
}

/// Returns the secret values in a working folder. They must be masked, because Kustomize quotes files that it
/// can't parse, even whole patches.
fn secret_values(workshop: &WorkingFolder) -> MaskValues {
    let mut secrets = MaskValues::default();
    let is_manifest = |name: &str| {
        [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end))
            || KUSTOMIZATION_FILES.contains(&name)
    };
    visit_files(workshop.path(), is_manifest, |_, content| {
        secrets.add_secrets(&String::from_utf8_lossy(content));
    });
    let named = secrets.clone();
    visit_files(
        workshop.path(),
        |name| named.has_file(name),
        |_, content| secrets.add_secret_file(&String::from_utf8_lossy(content)),
    );
    file_paths(workshop.path()).iter().for_each(|path| secrets.exclude_path(path));
    secrets
}

/// Strips the prefix of a `kubectl` error: severity, time, process ID and source line. It varies between
/// calls and would make a repeated error look new.
fn strip_log_prefix(line: &str) -> &str {
    let mut text = line.split_ascii_whitespace();
    let is_day = |day: &str| {
        day.strip_prefix(['I', 'W', 'E', 'F'])
            .is_some_and(|day| day.len() == 4 && day.bytes().all(|c| c.is_ascii_digit()))
    };
    let is_marked = text.next().is_some_and(is_day)
        && text.next().is_some_and(|time| time.contains(':'))
        && text.next().is_some_and(|process| process.bytes().all(|c| c.is_ascii_digit()));
    match line.split_once("] ") {
        Some((_, said)) if is_marked => said.strip_prefix("\"command failed\" err=").unwrap_or(said),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varying_parts_of_messages_are_removed() {
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
            assert_eq!(strip_log_prefix(line), expected);
        }
    }
}
