//! Classification of the files in a manifest folder.

/// First bytes of a Git LFS pointer.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/";
/// Marker in files that must be skipped.
const SKIP_MARKER: &[u8] = b"+argocd:skip-file-rendering";
/// Words that occur in every manifest.
const MANIFEST_WORDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Kind of a file, as far as it can be recognized without parsing the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A manifest, which may be invalid.
    Manifest,
    /// A Git LFS pointer. The actual content is stored elsewhere.
    LfsPointer,
    /// A file with the skip marker, or, as in Argo CD, a YAML file that isn't a manifest, such as a chart's
    /// values. Such a YAML file lacks at least one of the words that occur in every manifest.
    ///
    /// A file that has two of these words as top-level fields is treated as an invalid manifest, and so is a
    /// binary file. If such a file were skipped, its objects could be pruned.
    Skipped,
}

pub(super) fn classify(path: &str, content: &[u8]) -> FileKind {
    if content.starts_with(LFS_POINTER) {
        return FileKind::LfsPointer;
    }
    if content.windows(SKIP_MARKER.len()).any(|part| part == SKIP_MARKER) {
        return FileKind::Skipped;
    }
    let Some(text) = std::str::from_utf8(content).ok().filter(|text| !text.contains('\0')) else {
        return FileKind::Manifest;
    };
    let is_field = |word: &&&str| {
        text.split('\n').any(|line| line.strip_prefix(**word).is_some_and(|rest| rest.starts_with(':')))
    };
    let is_manifest = path.ends_with(".json")
        || MANIFEST_WORDS.iter().all(|word| text.contains(word))
        || MANIFEST_WORDS.iter().filter(is_field).count() > 1;
    if is_manifest { FileKind::Manifest } else { FileKind::Skipped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_manifests_are_skipped() {
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        for (content, path, expected) in [
            (map, "a.yaml", FileKind::Manifest),
            (
                r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#,
                "a.yaml",
                FileKind::Manifest,
            ),
            ("foo: bar\n", "a.yaml", FileKind::Skipped),
            ("apiVersion: v2\nname: web\nversion: 1.0.0\n", "a.yaml", FileKind::Skipped),
            ("image: {kind: a}\napiVersion: b\n", "a.yml", FileKind::Skipped),
            ("apiVersion: v1\nkind: ConfigMap\n", "a.yaml", FileKind::Manifest),
            ("apiversion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "a.yaml", FileKind::Manifest),
            ("kind: [\n", "a.yaml", FileKind::Skipped),
            (
                "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
                "a.yaml",
                FileKind::LfsPointer,
            ),
            ("k\0i\0n\0d\0", "a.yaml", FileKind::Manifest),
            ("# +argocd:skip-file-rendering\n{{ no yaml }}\n", "a.yaml", FileKind::Skipped),
            (&format!("{map}---\n# +argocd:skip-file-rendering\n"), "a.yaml", FileKind::Skipped),
            ("{}", "a.json", FileKind::Manifest),
            ("{{ .apiVersion }} kind: metadata:", "a.yaml", FileKind::Manifest),
        ] {
            assert_eq!(classify(path, content.as_bytes()), expected, "{content}");
        }
        assert_eq!(classify("a.yaml", b"\xff\xfe"), FileKind::Manifest);
    }
}
