//! Parsing of valid files.

use serde_json::{Value, json};
use tidegate_model::Object;
use tidegate_planner::manifests::{parse, parse_without_names};
use tidegate_planner::{Limits, Target, all_images};

fn parsed_objects(file: &str, content: &str) -> Vec<(String, u64, usize)> {
    let targets = parse(file, content.as_bytes(), &Limits::default()).unwrap();
    let line = |target: &Target| (target.object.to_string(), target.origin.line, target.origin.document);
    targets.iter().map(line).collect()
}

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n")
}

#[test]
fn documents_and_lines() {
    let (a, b, c) = (config_map("a"), config_map("b"), config_map("c"));
    let text = format!("# comment\n\n{a}---\n---\n# nothing here\n--- # b\n\n{b}...\n---\nnull\n---\n{c}");
    assert_eq!(
        parsed_objects("f.yaml", &text),
        [
            ("ConfigMap a".to_owned(), 3, 1),
            ("ConfigMap b".to_owned(), 12, 2),
            ("ConfigMap c".to_owned(), 20, 4),
        ]
    );
    assert!(parsed_objects("f.yaml", "").is_empty());
    assert!(parsed_objects("f.yaml", "---\n# only comments\n---\n").is_empty());
    assert_eq!(parsed_objects("f.yaml", &format!("\u{feff}{a}")), [("ConfigMap a".to_owned(), 1, 1)]);
    assert_eq!(parsed_objects("f.yaml", &a.replace('\n', "\r\n")), [("ConfigMap a".to_owned(), 1, 1)]);
    assert_eq!(parsed_objects("f.yaml", &format!("%YAML 1.2\n---\n{a}")), [("ConfigMap a".to_owned(), 3, 1)]);
}

#[test]
fn markers_inside_texts_are_no_documents() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: |\n    ---\n    x\n";
    let targets = parse("f", text.as_bytes(), &Limits::default()).unwrap();
    assert_eq!(targets[0].object.text("/data/k"), "---\nx\n");
}

#[test]
fn lists_are_unrolled() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- apiVersion: v1\n  kind: List\n  items:\n  - apiVersion: v1\n    kind: Secret\n    metadata: {name: b}\n-\n- null\n";
    assert_eq!(parsed_objects("f", text), [("ConfigMap a".to_owned(), 4, 1), ("Secret b".to_owned(), 8, 1)]);
    let typed = "apiVersion: v1\nkind: SecretList\nitems:\n- metadata:\n    name: a\n- metadata: {name: b}\n  kind: Secret\n";
    assert_eq!(parsed_objects("f", typed), [("Secret a".to_owned(), 4, 1), ("Secret b".to_owned(), 6, 1)]);
    assert!(parsed_objects("f", "apiVersion: v1\nkind: List\nitems: []\n").is_empty());
    assert!(parsed_objects("f", "apiVersion: v1\nkind: List\nitems:\n").is_empty());
    assert!(parsed_objects("f", "apiVersion: v1\nkind: List\n").is_empty());
    let custom = "apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: a}\nspec: {}\n";
    assert_eq!(parsed_objects("f", custom), [("AllowList a".to_owned(), 1, 1)]);
}

#[test]
fn json_is_read_with_tabs_escapes_and_several_values() {
    let text = "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"ConfigMap\",\n\t\"metadata\": {\"name\": \"a\"},\n\t\"data\": {\"k\": \"\\ud83d\\ude00\\/\\t\", \"yes\": \"no\"}\n}\n{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {\"name\": \"b\"}}\n";
    assert_eq!(
        parsed_objects("f.json", text),
        [("ConfigMap a".to_owned(), 1, 1), ("Secret b".to_owned(), 7, 1)]
    );
    let targets = parse("f.json", text.as_bytes(), &Limits::default()).unwrap();
    assert_eq!(targets[0].object.pointer("/data"), Some(&json!({"k": "😀/\t", "yes": "no"})));
    let list = "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n\t{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}},\n\t{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\"}}]}";
    assert_eq!(parsed_objects("f.json", list), [("Pod a".to_owned(), 2, 1), ("Pod b".to_owned(), 3, 1)]);
    let long_key = "k".repeat(5000);
    let long = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"a\"}},\"{long_key}\":1}}"
    );
    assert_eq!(parsed_objects("f.json", &long).len(), 1);
}

#[test]
fn anchors_and_merge_keys_are_expanded() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: &m\n  name: a\n  labels: &l {x: a}\ndata:\n  <<: *l\n  z: w\n";
    let targets = parse("f", text.as_bytes(), &Limits::default()).unwrap();
    assert_eq!(targets[0].object.pointer("/data"), Some(&json!({"x": "a", "z": "w"})));
    let mut many =
        String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nspec:\n  a: &a {x: 1}\n");
    for index in 0..2000 {
        many.push_str(&format!("  k{index}: *a\n"));
    }
    assert_eq!(parsed_objects("f", &many).len(), 1, "repeated use of one anchor is allowed");
}

/// As in libyaml, and therefore in PyYAML and kubectl, continuation lines of a quoted scalar can start at any
/// column.
#[test]
fn quoted_texts_continue_at_any_column() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nstatus:\n  conditions:\n  - message: '0/3 nodes are available: 1 node(s)\n    had a taint,\n\n    2 others.'\n    reason: \"Un\\\n    schedulable\n\n  for\\x20ever\"\n    type: 'it''s\nover'\n";
    let targets = parse("f", text.as_bytes(), &Limits::default()).unwrap();
    let condition = json!({
        "message": "0/3 nodes are available: 1 node(s) had a taint,\n2 others.",
        "reason": "Unschedulable\nfor ever",
        "type": "it's over",
    });
    assert_eq!(targets[0].object.pointer("/status/conditions/0"), Some(&condition));
}

/// As in Go's YAML parser, later keys win, and the first map in a merge list wins.
#[test]
fn merge_keys_and_their_order() {
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nspec:\n  one: &one {a: 1, b: 1}\n  two: &two {b: 2, c: 2}\n";
    for (map, expected) in [
        ("{<<: *one, a: 0}", json!({"a": 0, "b": 1})),
        ("{a: 0, <<: *one}", json!({"a": 1, "b": 1})),
        ("{<<: [*one, *two]}", json!({"a": 1, "b": 1, "c": 2})),
        ("{'<<': x}", json!({"<<": "x"})),
    ] {
        let text = format!("{head}  merged: {map}\n");
        let targets = parse("f", text.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(targets[0].object.pointer("/spec/merged"), Some(&expected), "{map}");
    }
}

/// kubectl terminates the last line of a file before parsing it.
#[test]
fn a_file_may_end_without_a_line_break() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: |\n    text";
    let targets = parse("f", text.as_bytes(), &Limits::default()).unwrap();
    assert_eq!(targets[0].object.text("/data/k"), "text\n");
}

#[test]
fn objects_that_are_not_deployed_need_no_name() {
    let pod = |metadata| format!("apiVersion: v1\nkind: Pod\n{metadata}");
    let text =
        ["", "metadata: {generateName: a-}\n", "metadata: null\n", "metadata:\n"].map(pod).join("---\n");
    let read = parse_without_names("f", text.as_bytes(), &Limits::default()).unwrap();
    assert_eq!(read.len(), 4);
    assert!([0, 2, 3].map(|at: usize| read[at].object == read[0].object).iter().all(|same| *same));
    assert_eq!(parse("f", text.as_bytes(), &Limits::default()).unwrap_err().len(), 4);
    assert!(parse_without_names("f", b"kind: Pod\n", &Limits::default()).is_err());
}

/// Scalars are parsed as in kubectl.
#[test]
fn scalar_table() {
    let table: Vec<(&str, Value)> = vec![
        ("yes", json!(true)),
        ("Yes", json!(true)),
        ("on", json!(true)),
        ("y", json!(true)),
        ("true", json!(true)),
        ("TRUE", json!(true)),
        ("no", json!(false)),
        ("off", json!(false)),
        ("n", json!(false)),
        ("N", json!(false)),
        ("False", json!(false)),
        ("t", json!("t")),
        ("f", json!("f")),
        ("'yes'", json!("yes")),
        ("\"1\"", json!("1")),
        ("~", json!(null)),
        ("null", json!(null)),
        ("", json!(null)),
        ("0", json!(0)),
        ("0777", json!(511)),
        ("-012", json!(-10)),
        ("0o17", json!(15)),
        ("0x1F", json!(31)),
        ("0b11", json!(3)),
        ("1_000", json!(1000)),
        ("+1", json!(1)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("18446744073709551615", json!(u64::MAX)),
        ("123456789012345678901234", json!(1.234_567_890_123_456_8e23)),
        ("1.50", json!(1.5)),
        ("1.0", json!(1)),
        ("1e3", json!(1000)),
        ("1e-7", json!(1e-7)),
        ("97e83412", json!("97e83412")),
        ("-1e999", json!("-1e999")),
        ("[1e999, {\"é\": 2e999}, 1]", json!(["1e999", {"é": "2e999"}, 1])),
        ("1.2.3", json!("1.2.3")),
        ("1:30", json!("1:30")),
        ("2001-01-01", json!("2001-01-01")),
        ("!foo 2", json!("2")),
        ("! 2", json!("2")),
        ("!!float 2", json!(2)),
        ("!!timestamp 2001-01-01", json!("2001-01-01")),
        ("1e17", json!(100_000_000_000_000_000_i64)),
        ("08", json!(8)),
        ("0o8", json!("0o8")),
        ("{yes: 1, 0x10: 2, 1.50: 3, null x: 4}", json!({"true": 1, "16": 2, "1.5": 3, "null x": 4})),
        ("&x a", json!("a")),
        ("!!str 123", json!("123")),
        ("!!int '3'", json!(3)),
        ("=", json!("=")),
        ("|\n    a\n    b", json!("a\nb\n")),
        (">-\n    a\n    b", json!("a b")),
    ];
    for (scalar, expected) in table {
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\nspec:\n  v: {scalar}\n");
        let targets = parse("f", text.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(targets[0].object.pointer("/spec/v"), Some(&expected), "{scalar}");
    }
}

/// Targets are stored with their operation.
#[test]
fn targets_survive_being_stored() {
    let targets = parse("f", config_map("a").as_bytes(), &Limits::default()).unwrap();
    let stored = serde_json::to_string(&targets).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Target>>(&stored).unwrap(), targets);
}

/// As in Argo CD, the images of a workload include those of init containers.
#[test]
fn images_of_workloads() {
    let containers = json!([{"name": "b", "image": "b:2"}, {"name": "a", "image": "a:1"}, {"name": "none"}]);
    let pod = json!({"initContainers": [{"name": "i", "image": "i:3"}], "containers": containers});
    for (kind, spec, expected) in [
        ("Pod", pod.clone(), vec!["i:3", "b:2", "a:1"]),
        ("Deployment", json!({"template": {"spec": pod}}), vec!["i:3", "b:2", "a:1"]),
        ("CronJob", json!({"jobTemplate": {"spec": {"template": {"spec": pod}}}}), vec!["i:3", "b:2", "a:1"]),
        ("Pod", json!({"containers": containers}), vec!["b:2", "a:1"]),
        // These objects only look like pod templates.
        ("Widget", json!({"containers": 3, "template": {"spec": {"containers": [{"image": 7}]}}}), vec![]),
        ("ConfigMap", json!(null), vec![]),
    ] {
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        let object = Object::try_from(object).unwrap();
        assert_eq!(all_images(&object), expected, "{kind}");
    }
}
