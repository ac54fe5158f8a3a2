//! Tests that an ApplicationSet can neither make a run endless nor exhaust the memory.

use proptest::prelude::*;
use serde_json::json;
use tidegate_generate::APPLICATIONS_MAX;

use super::*;

fn elements(count: usize) -> Vec<Value> {
    (0..count).map(|at| json!({ "name": format!("n{at}") })).collect()
}

#[test]
fn a_matrix_that_explodes_is_an_error() {
    let list = |key: &str| {
        let elements: Vec<_> = (0..200).map(|at| json!({ key: at.to_string() })).collect();
        json!({"list": {"elements": elements}})
    };
    let set = appset(json!([]), |set| {
        set["spec"]["generators"] = json!([{"matrix": {"generators": [list("a"), list("b")]}}]);
    });
    let error = generate_all(&set).unwrap_err();
    assert!(error.starts_with("generators[0].matrix: exceeds the limit of 20000 parameter sets"), "{error}");
}

#[test]
fn there_is_a_largest_number_of_applications() {
    let set = appset(json!(elements(APPLICATIONS_MAX)), |set| {
        set["spec"]["goTemplate"] = json!(false);
        set["spec"]["template"]["metadata"]["name"] = json!("{{name}}");
        let more = json!({"list": {"elements": elements(1)}});
        set["spec"]["generators"].as_array_mut().unwrap().push(more);
    });
    let error = generate_all(&set).unwrap_err();
    assert!(error.starts_with("generators[1].list, element 1: exceeds the limit of 20000"), "{error}");
}

#[test]
fn templates_that_never_end_are_errors() {
    for (template, text) in [
        ("{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}", "steps"),
        ("{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}", "maximum template depth"),
        ("{{ repeat 1000000000 \"laugh\" }}", "bytes"),
        ("{{ $t := \"ha\" }}{{ range until 64 }}{{ $t = cat $t $t }}{{ end }}{{ $t }}", "more than"),
        (
            "{{ $d := dict }}{{ range until 60 }}{{ $d = dict \"a\" $d \"b\" $d }}{{ end }}{{ toYaml $d }}",
            "steps",
        ),
        (
            "{{ $d := dict }}{{ range 9999 }}{{ $d = dict \"a\" $d }}{{ end }}{{ toYaml $d }}",
            "nested too deep",
        ),
        ("{{ range until 100000 }}{{ $t := repeat 1000000 \"a\" }}{{ end }}", "steps"),
    ] {
        let error = generate_all(&appset(json!([{"name": "a"}]), |set| {
            set["spec"]["template"]["metadata"]["annotations"] = json!({ "a": template });
        }));
        let error = error.unwrap_err();
        assert!(
            error.contains("template.metadata.annotations.a") && error.contains(text),
            "{template}: {error}"
        );
    }
}

/// Applications are checked as soon as they are generated. The check compiles the jq expressions, which takes
/// as long as many template steps.
#[test]
fn jq_expressions_count_as_steps() {
    let with = |count: usize| {
        appset(json!([{"name": "a"}, {"name": "b"}]), |set| {
            let expressions = vec![".spec.replicas"; count];
            set["spec"]["template"]["spec"]["ignoreDifferences"] =
                json!([{"kind": "Deployment", "jqPathExpressions": expressions}]);
        })
    };
    assert_eq!(applications(&with(2)).len(), 2);
    let error = generate_all(&with(50_001)).unwrap_err();
    assert!(error.contains("jq expressions exceed the limit of 50000000 steps"), "{error}");
}

/// Each string is within its own limit, but together they exceed the limit for a run.
#[test]
fn all_templates_together_have_a_limit() {
    let large = "{{ repeat 1000000 \"a\" }}";
    let error = generate_all(&appset(json!(elements(400)), |set| {
        set["spec"]["template"]["metadata"]["annotations"] = json!({ "a": large });
    }));
    assert!(error.unwrap_err().contains("exceed the limit of 256 MiB for one ApplicationSet"));
    let long = "{{ range until 45 }}{{ $t := repeat 1000000 \"a\" }}{{ end }}";
    let error = generate_all(&appset(json!(elements(400)), |set| {
        set["spec"]["template"]["metadata"]["annotations"] = json!({ "a": long });
    }));
    assert!(error.unwrap_err().contains("exceed the limit of 50000000 steps for one ApplicationSet"));
}

/// Generates strings, many of which are valid templates, selectors, patterns or names.
fn text() -> impl Strategy<Value = Value> {
    let pieces = prop::sample::select(vec![
        "{{",
        "}}",
        "{{ .a }}",
        "{{a}}",
        "{{ .b.c }}",
        "{{ range .l }}",
        "{{ end }}",
        "{{ toYaml . }}",
        "{{ set . \"a\" . }}",
        "{{ set . \"a\" . | toJson }}",
        "{{ index .l 9 }}",
        "{{ fromYaml .a }}",
        "a",
        "-",
        "[",
        "a: b",
        "- {a: b}",
        "\n",
        "{",
        "é",
        "In",
        "Exists",
        "*",
        "/",
        "..",
        "&x [*x]",
        "name",
    ]);
    prop::collection::vec(pieces, 0..5).prop_map(|pieces| Value::String(pieces.concat()))
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => text(),
        1 => any::<i32>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abl]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn generator() -> impl Strategy<Value = Value> {
    let list = (prop::collection::vec(any_value(), 0..4), text())
        .prop_map(|(elements, yaml)| json!({"list": {"elements": elements, "elementsYaml": yaml}}));
    let expression = (text(), text(), text())
        .prop_map(|(key, operator, value)| json!([{"key": key, "operator": operator, "values": [value]}]));
    let leaf = (list, prop::option::weighted(0.2, expression)).prop_map(|(mut list, expression)| {
        if let Some(expression) = expression {
            list["selector"] = json!({"matchExpressions": expression});
        }
        list
    });
    leaf.prop_recursive(3, 8, 3, |inner| {
        let several = prop::collection::vec(inner, 0..4);
        prop_oneof![
            several.clone().prop_map(|generators| json!({"matrix": {"generators": generators}})),
            several.prop_map(|generators| json!({"merge": {"generators": generators, "mergeKeys": ["a"]}})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A run doesn't panic, ends, is deterministic, and generates Applications with unique names.
    #[test]
    fn any_set_has_an_end(
        generators in prop::collection::vec(generator(), 0..3),
        (name, label, patch) in (text(), text(), text()),
        go in any::<bool>(),
    ) {
        let set = appset(json!([]), |set| {
            set["spec"]["generators"] = json!(generators);
            set["spec"]["goTemplate"] = json!(go);
            set["spec"]["templatePatch"] = patch;
            set["spec"]["template"]["metadata"] = json!({"name": name, "labels": {"l": label}});
        });
        let found = generate_all(&set);
        prop_assert_eq!(&found, &generate_all(&set));
        if let Ok(generated) = found {
            let mut names: Vec<_> =
                generated.applications.iter().map(|made| made.application.metadata.name.clone()).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len(), count);
        }
    }
}
