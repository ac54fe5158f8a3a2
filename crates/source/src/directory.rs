//! Folders of plain manifests: which of their files are read.

use gix::ObjectId;
use tidegate_model::Glob;
use tidegate_model::argo::DirectorySource;

use crate::SourceError;
use crate::overrides;
use crate::repository::File;
use crate::tree::{Reader, full};

/// Which files of a folder are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    recurse: bool,
    include: Option<Glob>,
    exclude: Option<Glob>,
}

impl Wanted {
    pub fn new(directory: &DirectorySource) -> Result<Self, SourceError> {
        let pattern = |text: &str| (!text.is_empty()).then(|| Glob::parse(text)).transpose();
        let include = pattern(&directory.include)?;
        Ok(Self { recurse: directory.recurse, include, exclude: pattern(&directory.exclude)? })
    }

    fn has(&self, path: &str) -> bool {
        !self.exclude.as_ref().is_some_and(|exclude| exclude.matches(path))
            && self.include.as_ref().is_none_or(|include| include.matches(path))
    }
}

/// What a file says that is not to be read.
const SKIPPED: &[u8] = b"+argocd:skip-file-rendering";

/// How the pointers of Git LFS begin.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/";

/// What every manifest has.
const WORDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Whether a file is no manifest: it says so itself, or it is YAML beside manifests, such as the values of a chart, and lacks a
/// word that every manifest has, as Argo CD sees it. One that has two of its three fields is a manifest that is wrong: what is
/// left out may be pruned.
fn is_left_out(content: &[u8], is_json: bool) -> bool {
    let has = |word: &[u8]| memchr::memmem::find(content, word).is_some();
    let is_field = |word: &&&str| {
        let mut lines = content.split(|byte| *byte == b'\n');
        lines.any(|line| line.strip_prefix(word.as_bytes()).is_some_and(|rest| rest.starts_with(b":")))
    };
    let is_manifest =
        WORDS.iter().all(|word| has(word.as_bytes())) || WORDS.iter().filter(is_field).count() > 1;
    // What is no text, and what stands for a file that is elsewhere, may be a manifest: it is refused by name.
    let is_text = std::str::from_utf8(content).is_ok() && !content.contains(&0);
    let is_whole = is_text && !content.starts_with(LFS_POINTER);
    has(SKIPPED) || !is_json && is_whole && !is_manifest
}

/// Reads the files that are wanted.
pub(crate) fn read(
    reader: &Reader<'_>,
    folder: ObjectId,
    path: &str,
    wanted: &Wanted,
) -> Result<Vec<File>, SourceError> {
    let mut files = Vec::new();
    let mut bytes = 0_u64;
    for entry in reader.list(folder, path, wanted.recurse)? {
        let is_jsonnet = entry.path.ends_with(".jsonnet");
        let is_manifest = [".yaml", ".yml", ".json"].iter().any(|ending| entry.path.ends_with(ending));
        if !(is_jsonnet || is_manifest) || overrides::is_one(&entry.path) || !wanted.has(&entry.path) {
            continue;
        }
        let place = full(path, &entry.path);
        if is_jsonnet {
            return Err(SourceError::Unsupported {
                what: "Jsonnet".to_owned(),
                why: format!("; leave {place} out with source.directory.exclude"),
            });
        }
        let Some(content) = reader.content(&place, &entry)? else { continue };
        if is_left_out(&content, entry.path.ends_with(".json")) {
            continue;
        }
        bytes = bytes.saturating_add(u64::try_from(content.len()).unwrap_or(u64::MAX));
        if bytes > reader.limits.bytes {
            let limit = reader.limits.bytes;
            return Err(SourceError::Limit { path: path.to_owned(), limit, what: "bytes of manifests" });
        }
        files.push(File { path: place, content });
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_manifest_is_left_out() {
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        for (content, is_json, is_left) in [
            (map, false, false),
            (r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#, false, false),
            ("foo: bar\n", false, true),
            ("apiVersion: v2\nname: web\nversion: 1.0.0\n", false, true),
            ("image: {kind: a}\napiVersion: b\n", false, true),
            ("apiVersion: v1\nkind: ConfigMap\n", false, false),
            ("apiversion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", false, false),
            ("kind: [\n", false, true),
            ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", false, false),
            ("k\0i\0n\0d\0", false, false),
            ("# +argocd:skip-file-rendering\n{{ no yaml }}\n", false, true),
            (&format!("{map}---\n# +argocd:skip-file-rendering\n"), false, true),
            ("{}", true, false),
            ("{{ .apiVersion }} kind: metadata:", false, false),
        ] {
            assert_eq!(is_left_out(content.as_bytes(), is_json), is_left, "{content}");
        }
    }
}
