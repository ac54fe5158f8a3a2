//! Errors in invalid files contain the file, line, object, cause and remedy.

use tidegate_planner::{Limits, ManifestError, manifests::parse};

fn errors(file: &str, content: impl AsRef<[u8]>) -> Vec<String> {
    let errors = parse(file, content.as_ref(), &Limits::default()).expect_err("the file is invalid");
    errors.iter().map(ManifestError::to_string).collect()
}

const CONFIG_MAP_HEADER: &str = "apiVersion: v1\nkind: ConfigMap\n";

const MISPLACED_KEY: &str = "f.yaml:2: not valid YAML: a `key: value` is not allowed here; check the indentation, or put quotes around a string that contains `: `";

#[test]
fn table_of_invalid_files() {
    let object = |rest: &str| format!("{CONFIG_MAP_HEADER}{rest}");
    let table: Vec<(String, &str)> = vec![
        ("a: [1\nb: 2\n".into(), "f.yaml:2: not valid YAML: expected `,` or `]`, found `:`"),
        ("a: 1\n  b: 2\n".into(), MISPLACED_KEY),
        ("a:\n\tb: 1\n".into(), "f.yaml:2: not valid YAML: a tab is not allowed as indentation or at the start of a value; use spaces"),
        ("a: *x\n".into(), "f.yaml:1: not valid YAML: undefined alias *x; put quotes around a string that begins with `*`"),
        ("a: .inf\n".into(), "f.yaml:1: not valid YAML: a number must be finite; put quotes around it if it is a string"),
        ("a: \"\u{1}\"\n".into(), "f.yaml:1: not valid YAML: control character '\\u{1}' is not allowed; write it as an escape in double quotes"),
        ("a: -.INF\n".into(), "f.yaml:1: not valid YAML: a number must be finite; put quotes around it if it is a string"),
        ("a: b\n# \0\n".into(), "f.yaml:2: not valid YAML: control character '\\0' is not allowed; write it as an escape in double quotes"),
        ("a: &x [*x]\n".into(), "f.yaml:1: not valid YAML: undefined alias *x; put quotes around a string that begins with `*`"),
        ("a: !!int x\n".into(), "f.yaml:1: not valid YAML: the value does not match its tag !!int; remove the tag"),
        ("a: 'x\nb: y\n".into(), "f.yaml:1: not valid YAML: unterminated quoted string"),
        ("a: @x\n".into(), "f.yaml:1: not valid YAML: a value cannot start with '@'; put quotes around the string"),
        ("a: b\nc\nd: e\n".into(), "f.yaml:2: not valid YAML: a key has no `:`; use `key: value`, or indent the continuation of a string"),
        ("null: b\n".into(), "f.yaml:1: not valid YAML: a key must be a string; put quotes around it"),
        ("<<: [1]\n".into(), "f.yaml:1: not valid YAML: the value of `<<` must be a map or a list of maps"),
        ("- a\n- b\n".into(), "f.yaml:1: a Kubernetes object must be a map of fields, found a list"),
        ("hello\n".into(), "f.yaml:1: a Kubernetes object must be a map of fields, found a string"),
        (object("metadata:\n  name: a\ndata:\n  k: 1\n  k: 2\n"), "f.yaml:7: ConfigMap a: duplicate key \"k\" in the same map, on lines 6 and 7; remove one of them"),
        (
            "\"a\\e[31m\": 1\n\"a\\e[31m\": 2\n".into(),
            "f.yaml:2: duplicate key \"a\\u{1b}[31m\" in the same map, on lines 1 and 2; remove one of them",
        ),
        ("kind: Pod\nmetadata: {name: a}\n".into(), "f.yaml:1: Pod a: field apiVersion is missing or empty"),
        ("\n\napiVersion: v1\nmetadata: {name: a}\n".into(), "f.yaml:3: field kind is missing or empty"),
        ("apiVersion: v1\nkind: ''\nmetadata: {name: a}\n".into(), "f.yaml:2: field kind is missing or empty"),
        ("apiVersion: 1\nkind: Pod\nmetadata: {name: a}\n".into(), "f.yaml:1: Pod a: field apiVersion must be a string, found a number"),
        (
            "apiVersion: a/b/c\nkind: Pod\nmetadata: {name: a}\n".into(),
            "f.yaml:1: Pod a: invalid apiVersion \"a/b/c\": use VERSION or GROUP/VERSION, such as v1 or apps/v1",
        ),
        (
            "apiVersion: v1\nkind: \"P\\eod\"\nmetadata: {name: a}\n".into(),
            "f.yaml:2: P\\u{1b}od a: invalid kind \"P\\u{1b}od\": use at most 63 letters, digits and '-', starting with a letter",
        ),
        (
            object("metadata:\n"),
            "f.yaml:3: ConfigMap: metadata.name is missing; set it (hooks may have metadata.generateName instead)",
        ),
        (object("metadata: x\n"), "f.yaml:3: ConfigMap: field metadata must be a map, found a string"),
        (
            object("data: {}\n"),
            "f.yaml:1: ConfigMap: metadata.name is missing; set it (hooks may have metadata.generateName instead)",
        ),
        (
            object("metadata:\n  namespace: shop\n  name: ''\n"),
            "f.yaml:5: ConfigMap: metadata.name is missing; set it (hooks may have metadata.generateName instead)",
        ),
        (
            object("metadata:\n  namespace: shop\n  name: 123\n"),
            "f.yaml:5: ConfigMap: field metadata.name must be a string (put quotes around it), found a number",
        ),
        (
            object("metadata:\n  name: a\n  annotations:\n    x: a\n    argocd.argoproj.io/sync-wave: 1\n"),
            "f.yaml:7: ConfigMap a: field metadata.annotations.argocd.argoproj.io/sync-wave must be a string (put quotes around it), found a number",
        ),
        (
            object("metadata:\n  name: a\n  labels: [a]\n"),
            "f.yaml:5: ConfigMap a: field metadata.labels must be a map of strings, found a list",
        ),
        (
            object("metadata:\n  name: a\n  annotations:\n    argocd.argoproj.io/sync-wave: \"9223372036854775808\"\n"),
            "f.yaml:6: ConfigMap a: wave \"9223372036854775808\" in the argocd.argoproj.io/sync-wave \
             annotation does not fit into 64 bits; use a number between -9223372036854775808 and \
             9223372036854775807",
        ),
        (
            object("metadata:\n  name: a\n  annotations: {helm.sh/hook-weight: '-99999999999999999999'}\n"),
            "f.yaml:5: ConfigMap a: wave \"-99999999999999999999\" in the helm.sh/hook-weight annotation \
             does not fit into 64 bits; use a number between -9223372036854775808 and 9223372036854775807",
        ),
        (
            object("metadata:\n  name: My_App\n  namespace: shop\n"),
            "f.yaml:4: ConfigMap shop/My_App: invalid metadata.name \"My_App\": use at most 253 lower-case letters, digits, '-' and '.', starting and ending with a letter or digit",
        ),
        (
            object("metadata:\n  name: shop/api\n"),
            "f.yaml:4: ConfigMap \"shop/api\": invalid metadata.name \"shop/api\": use at most 253 lower-case letters, digits, '-' and '.', starting and ending with a letter or digit",
        ),
        (
            object("metadata:\n  name: \"a\\e]0;owned\\a\"\n"),
            "f.yaml:4: ConfigMap a\\u{1b}]0;owned\\u{7}: invalid metadata.name \"a\\u{1b}]0;owned\\u{7}\": use at most 253 lower-case letters, digits, '-' and '.', starting and ending with a letter or digit",
        ),
        (
            object("metadata:\n  name: a\n  namespace: a.b\n"),
            "f.yaml:5: ConfigMap a.b/a: invalid metadata.namespace \"a.b\": use at most 63 lower-case letters, digits and '-', starting and ending with a letter or digit",
        ),
        (
            object("metadata:\n  annotations: {argocd.argoproj.io/hook: Sync}\n  generateName: A-\n"),
            "f.yaml:5: ConfigMap A-*: invalid metadata.generateName \"A-\": use at most 253 lower-case letters, digits, '-' and '.', starting with a letter or digit",
        ),
        (
            object("metadata:\n  generateName: a-\n"),
            "f.yaml:4: ConfigMap a-*: metadata.name is missing; set it (only hooks may have metadata.generateName instead)",
        ),
        (
            object("metadata: {name: a}\ndata:\n  good: text\n  m: 5\n"),
            "f.yaml:6: ConfigMap a: field data.m must be a string (put quotes around it), found a number",
        ),
        (object("metadata: {name: a}\ndata: [1, 2]\n"), "f.yaml:4: ConfigMap a: field data must be a map of strings, found a list"),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  replicas: three\n".into(),
            "f.yaml:5: Deployment a: field spec.replicas must be a whole number, without quotes, found a string",
        ),
        (
            "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata:\n  p: c4n4ry!\n".into(),
            "f.yaml:5: Secret a: field data.p must be base64 (use stringData for plain text), found a string that is not base64",
        ),
        (
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- kind: Pod\n  apiVersion: v1\n  metadata:\n    name: b\n    name: c\n".into(),
            "f.yaml:9: Pod b: duplicate key \"name\" in the same map, on lines 8 and 9; remove one of them",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: x\n".into(),
            "f.yaml:3: field `items` of a List must be a list, found a string",
        ),
        (
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- kind: Pod\n  apiVersion: v1\n".into(),
            "f.yaml:5: Pod: metadata.name is missing; set it (hooks may have metadata.generateName instead)",
        ),
    ];
    for (content, expected) in table {
        assert_eq!(errors("f.yaml", &content), [expected], "{content}");
    }
}

#[test]
fn all_errors_of_a_file_are_reported_in_order() {
    let text = "a: 1\n b: 2\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: A, labels: {x: 1, y: 2}}\n---\n# fine\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\nc: ]\n";
    assert_eq!(
        errors("f.yaml", text),
        [
            MISPLACED_KEY,
            "f.yaml:6: Pod A: field metadata.labels.x must be a string (put quotes around it), found a number",
            "f.yaml:6: Pod A: field metadata.labels.true must be a string (put quotes around it), found a number",
            "f.yaml:13: not valid YAML: expected a value, found `]`",
        ]
    );
}

/// Every duplicate key is reported as a separate error with both lines.
#[test]
fn all_repeated_keys_are_named_with_both_lines() {
    let text = format!(
        "# first\n---\n{CONFIG_MAP_HEADER}metadata: {{name: a}}\ndata:\n  k: 1\n  'k': 2\n  yes: a\n  k: 3\n  true: b\n"
    );
    let repeated = |line, key, first| {
        format!(
            "f:{line}: ConfigMap a: duplicate key \"{key}\" in the same map, on lines {first} and {line}; \
             remove one of them"
        )
    };
    assert_eq!(errors("f", text), [repeated(8, "k", 7), repeated(10, "k", 7), repeated(11, "true", 9)]);
}

#[test]
fn json_errors_use_json_terms() {
    assert_eq!(
        errors("f.json", "{\n \"a\": 1,\n \"b\": x y: \n}"),
        ["f.json:3: not valid JSON: expected value"]
    );
    assert_eq!(
        errors("f.json", "{\n \"a\": 1,\n\t\"a\": 2\n}"),
        ["f.json:3: duplicate key \"a\" in the same map, on lines 2 and 3; remove one of them"]
    );
}

#[test]
fn file_names_are_escaped() {
    assert_eq!(
        errors("a\u{1b}[31m\n.yaml", "[]"),
        ["a\\u{1b}[31m\\n.yaml:1: a Kubernetes object must be a map of fields, found a list"]
    );
}

#[test]
fn encodings() {
    let utf16: Vec<u8> =
        [0xff, 0xfe].into_iter().chain("a: 1".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    assert_eq!(errors("f", utf16), ["f:1: the file is UTF-16; save it as UTF-8"]);
    assert_eq!(
        errors("f", b"a: 1\nb: \xff\n"),
        ["f:2: the file is not UTF-8 text (first invalid byte at offset 8); save it as UTF-8, or exclude it"]
    );
}

#[test]
fn deep_nesting_is_refused_without_overflowing_the_stack() {
    let deep = 10_000;
    let block: String = (0..deep).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let cases = [
        (format!("a: {}{}", "[".repeat(deep), "]".repeat(deep)), 1),
        (format!("{}1{}", "{\"a\":".repeat(deep), "}".repeat(deep)), 1),
        (format!("{}1{}", "{a: ".repeat(deep), "}".repeat(deep)), 1),
        (format!("{}x", "- ".repeat(deep)), 1),
        ("[".repeat(deep), 1),
        (block, 129),
    ];
    // Worker threads have a small stack.
    let run = move || {
        for (text, line) in cases {
            let expected = format!("f:{line}: nested deeper than 128 levels; flatten the manifest");
            assert_eq!(errors("f", &text), [expected]);
        }
        let text = format!(
            "{CONFIG_MAP_HEADER}metadata: {{name: a}}\nspec: {}{}\n",
            "[".repeat(126),
            "]".repeat(126)
        );
        assert_eq!(parse("f", text.as_bytes(), &Limits::default()).unwrap().len(), 1);
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn alias_bombs_are_refused() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let errors = errors("f", &bomb);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("f:5: the aliases (`*name`) expand to "), "{errors:?}");
    assert!(errors[0].ends_with("; replace the aliases with their values"), "{errors:?}");
}

#[test]
fn limits_of_size() {
    let content =
        format!("{CONFIG_MAP_HEADER}metadata: {{name: a}}\n---\n{CONFIG_MAP_HEADER}metadata: {{name: b}}\n");
    let refused = |limits: Limits| parse("f", content.as_bytes(), &limits).unwrap_err()[0].to_string();
    assert_eq!(
        refused(Limits { bytes: 10, ..Limits::default() }),
        "f:1: the file is too large: 106 bytes (maximum: 10); split it, or remove content that is not a \
         manifest"
    );
    assert_eq!(
        refused(Limits { documents: 1, ..Limits::default() }),
        "f:4: too large: more than 1 documents; split the file"
    );
    assert_eq!(
        refused(Limits { nodes: 12, ..Limits::default() }),
        "f:4: too large: more than 12 values; split the file"
    );
    assert_eq!(
        refused(Limits { nodes: 3, ..Limits::default() }),
        "f:2: too large: more than 3 values; split the file"
    );
}
