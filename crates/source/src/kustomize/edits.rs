//! Kustomizations as they are written for Kustomize: with what a source says of them, and with folders and files beside them
//! where they name something on a server.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tidegate_model::Digest;

use crate::checkout::Written;
use crate::tree::{full, parts};

/// The folder of the workshop in which other repositories are, each under its number.
pub(super) const FETCHED: &str = "fetched";
/// Digits of the name of a file that was fetched.
const DIGITS: usize = 16;

/// A kustomization that is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    value: Value,
    /// What stands for entries of its lists.
    entries: BTreeMap<(&'static str, usize), Fetched>,
}

/// What stands for something on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fetched {
    /// A folder of another repository, which has this number.
    Folder { tree: usize, path: String },
    /// A file. It is written beside the kustomization: of others Kustomize reads none.
    File { url: String, content: Arc<Vec<u8>> },
}

impl Edit {
    /// A kustomization that says this.
    pub fn of(value: Value) -> Self {
        Self { value, entries: BTreeMap::new() }
    }

    /// Something was fetched for an entry.
    pub fn put(&mut self, entry: (&'static str, usize), fetched: Fetched) {
        self.entries.insert(entry, fetched);
    }

    /// What is written for it at a path below a folder of the workshop.
    pub fn written(&self, root: &str, path: &str) -> Vec<Written> {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let up = "../".repeat(parts(root).chain(parts(folder)).count());
        let (mut value, mut written) = (self.value.clone(), Vec::new());
        for ((field, index), fetched) in &self.entries {
            let name = match fetched {
                Fetched::Folder { tree, path } => full(&format!("{up}{FETCHED}/{tree}"), path),
                Fetched::File { url, content } => {
                    let name = file_name(url);
                    written.push((full(folder, &name), content.as_ref().clone()));
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

    /// Writes all of it into a digest.
    pub fn digest(&self, hasher: &mut Sha256) {
        hasher.update(self.value.to_string().as_bytes());
        for ((field, index), fetched) in &self.entries {
            hasher.update(format!("\0{field}\0{index}\0"));
            match fetched {
                Fetched::Folder { tree, path } => hasher.update(format!("{tree}\0{path}")),
                Fetched::File { url, content } => {
                    hasher.update(url.as_bytes());
                    hasher.update(Sha256::digest(content.as_slice()));
                }
            }
        }
        hasher.update([0]);
    }
}

/// The name of a file that was fetched, which no file of a repository has.
fn file_name(url: &str) -> String {
    let mut digits = Digest(Sha256::digest(url.as_bytes()).into()).to_string();
    digits = digits.trim_start_matches("sha256:").to_owned();
    digits.truncate(DIGITS);
    format!(".tidegate-fetched-{digits}.yaml")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn entries_lead_to_what_was_fetched() {
        let mut edit = Edit::of(json!({"resources": ["a.yaml", "https://x/a/b", "https://x/c.yaml"]}));
        edit.put(("resources", 1), Fetched::Folder { tree: 3, path: "base".into() });
        edit.put(
            ("resources", 2),
            Fetched::File { url: "https://x/c.yaml".into(), content: Arc::new(b"c".to_vec()) },
        );
        for (root, path, up) in [
            ("source", "kustomization.yaml", "../"),
            ("source", "a/b/kustomization.yaml", "../../../"),
            ("fetched/0", "a/kustomization.yaml", "../../../"),
        ] {
            let written = edit.written(root, path);
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
