//! Kustomizations as written to the working folder, with the source's edits applied and remote entries
//! replaced by the fetched folders and files.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tidegate_model::Digest;

use crate::checkout::OutputFile;
use crate::tree::{join_paths, path_segments};

/// Folder for other repositories in the working folder, with a numbered subfolder each.
pub(super) const FETCHED_FOLDER: &str = "fetched";
/// Number of digest digits in a fetched file's name.
const DIGITS: usize = 16;

/// An edited kustomization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KustomizationEdit {
    value: Value,
    /// Replacements for entries, by field and index.
    entries: BTreeMap<(&'static str, usize), Replacement>,
}

/// Replacement for a remote entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Replacement {
    /// A folder in the repository with the given number.
    Folder { tree: usize, path: String },
    /// A file to write next to the kustomization, because Kustomize doesn't read files outside its folder.
    File { url: String, content: Arc<Vec<u8>> },
}

impl KustomizationEdit {
    /// Creates an edit with the new content.
    pub fn with_value(value: Value) -> Self {
        Self { value, entries: BTreeMap::new() }
    }

    /// Sets the replacement for an entry, identified by field and index.
    pub fn set_replacement(&mut self, field: &'static str, index: usize, fetched: Replacement) {
        self.entries.insert((field, index), fetched);
    }

    /// Returns the files to write for the kustomization at `path`, relative to `root`, a folder in the
    /// working folder.
    pub fn files_to_write(&self, root: &str, path: &str) -> Vec<OutputFile> {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let up = "../".repeat(path_segments(root).chain(path_segments(folder)).count());
        let (mut value, mut written) = (self.value.clone(), Vec::new());
        for ((field, index), fetched) in &self.entries {
            let name = match fetched {
                Replacement::Folder { tree, path } => {
                    join_paths(&format!("{up}{FETCHED_FOLDER}/{tree}"), path)
                }
                Replacement::File { url, content } => {
                    let name = fetched_file_name(url);
                    written.push((join_paths(folder, &name), content.as_ref().clone()));
                    name
                }
            };
            if let Some(entry) = value.get_mut(*field).and_then(|list| list.get_mut(*index)) {
                *entry = json!(name);
            }
        }
        written.push((path.to_owned(), value.to_string().into_bytes()));
        written
    }

    /// Adds the edited kustomization to a digest.
    pub fn digest(&self, hasher: &mut Sha256) {
        hasher.update(self.value.to_string().as_bytes());
        for ((field, index), fetched) in &self.entries {
            hasher.update(format!("\0{field}\0{index}\0"));
            match fetched {
                Replacement::Folder { tree, path } => hasher.update(format!("{tree}\0{path}")),
                Replacement::File { url, content } => {
                    hasher.update(url.as_bytes());
                    hasher.update(Sha256::digest(content.as_slice()));
                }
            }
        }
        hasher.update([0]);
    }
}

/// Returns a file name that can't clash with repository files.
fn fetched_file_name(url: &str) -> String {
    let mut digits = Digest(Sha256::digest(url.as_bytes()).into()).to_string();
    digits = digits.trim_start_matches("sha256:").to_owned();
    digits.truncate(DIGITS);
    format!(".tidegate-fetched-{digits}.yaml")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn entries_refer_to_fetched_content() {
        let mut edit = KustomizationEdit::with_value(
            json!({"resources": ["a.yaml", "https://x/a/b", "https://x/c.yaml"]}),
        );
        edit.set_replacement("resources", 1, Replacement::Folder { tree: 3, path: "base".into() });
        edit.set_replacement(
            "resources",
            2,
            Replacement::File { url: "https://x/c.yaml".into(), content: Arc::new(b"c".to_vec()) },
        );
        for (root, path, up) in [
            ("source", "kustomization.yaml", "../"),
            ("source", "a/b/kustomization.yaml", "../../../"),
            ("fetched/0", "a/kustomization.yaml", "../../../"),
        ] {
            let written = edit.files_to_write(root, path);
            let [(file, content), (kustomization, value)] = written.as_slice() else {
                unreachable!("{written:?}");
            };
            let value: Value = serde_json::from_slice(value).unwrap();
            let name = file.rsplit('/').next().unwrap();
            assert_eq!(value, json!({"resources": ["a.yaml", format!("{up}fetched/3/base"), name]}));
            assert_eq!((kustomization.as_str(), content.as_slice()), (path, b"c".as_slice()));
            assert_eq!(
                file.rsplit_once('/').map(|(folder, _)| folder),
                path.rsplit_once('/').map(|(folder, _)| folder)
            );
        }
    }
}
