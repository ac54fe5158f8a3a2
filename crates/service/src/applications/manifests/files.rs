//! What a file beside manifests is.

/// How files begin whose content Git LFS keeps elsewhere.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/";
/// What a file says that is not to be read.
const SKIPPED: &[u8] = b"+argocd:skip-file-rendering";
/// What every manifest has.
const WORDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What a file is, as far as that is seen before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// It is read, and may be wrong.
    Manifest,
    /// It stands for a file that is elsewhere.
    Pointer,
    /// It says that it is not to be read, or is YAML beside manifests, such as the values of a chart, and lacks a word that every
    /// manifest has, as Argo CD sees it. One that has two of its three fields is a manifest that is wrong, and so is what is no
    /// text: what is left out may be pruned.
    LeftOut,
}

pub(super) fn what(path: &str, content: &[u8]) -> What {
    if content.starts_with(LFS_POINTER) {
        return What::Pointer;
    }
    if content.windows(SKIPPED.len()).any(|part| part == SKIPPED) {
        return What::LeftOut;
    }
    let Some(text) = std::str::from_utf8(content).ok().filter(|text| !text.contains('\0')) else {
        return What::Manifest;
    };
    let is_field = |word: &&&str| {
        text.split('\n').any(|line| line.strip_prefix(**word).is_some_and(|rest| rest.starts_with(':')))
    };
    let is_manifest = path.ends_with(".json")
        || WORDS.iter().all(|word| text.contains(word))
        || WORDS.iter().filter(is_field).count() > 1;
    if is_manifest { What::Manifest } else { What::LeftOut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_manifest_is_left_out() {
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        for (content, path, expected) in [
            (map, "a.yaml", What::Manifest),
            (r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#, "a.yaml", What::Manifest),
            ("foo: bar\n", "a.yaml", What::LeftOut),
            ("apiVersion: v2\nname: web\nversion: 1.0.0\n", "a.yaml", What::LeftOut),
            ("image: {kind: a}\napiVersion: b\n", "a.yml", What::LeftOut),
            ("apiVersion: v1\nkind: ConfigMap\n", "a.yaml", What::Manifest),
            ("apiversion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "a.yaml", What::Manifest),
            ("kind: [\n", "a.yaml", What::LeftOut),
            ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "a.yaml", What::Pointer),
            ("k\0i\0n\0d\0", "a.yaml", What::Manifest),
            ("# +argocd:skip-file-rendering\n{{ no yaml }}\n", "a.yaml", What::LeftOut),
            (&format!("{map}---\n# +argocd:skip-file-rendering\n"), "a.yaml", What::LeftOut),
            ("{}", "a.json", What::Manifest),
            ("{{ .apiVersion }} kind: metadata:", "a.yaml", What::Manifest),
        ] {
            assert_eq!(what(path, content.as_bytes()), expected, "{content}");
        }
        assert_eq!(what("a.yaml", b"\xff\xfe"), What::Manifest);
    }
}
