//! Tests for nested generators.

use super::*;

fn list(elements: Value) -> Value {
    json!({"list": {"elements": elements}})
}

fn matrix(first: Value, second: Value) -> Value {
    json!({"matrix": {"generators": [first, second]}})
}

fn merge(keys: &[&str], generators: Value) -> Value {
    json!({"merge": {"mergeKeys": keys, "generators": generators}})
}

/// A matrix combines each parameter set of the first generator with each set of the second.
#[test]
fn a_matrix_combines_all_sets() {
    let mut world = FixedInputs::default();
    let first = || list(json!([{"a": "1"}, {"a": "2"}]));
    let second = || list(json!([{"b": "x"}, {"b": "y"}]));
    let expected =
        json!([{"a": "1", "b": "x"}, {"a": "1", "b": "y"}, {"a": "2", "b": "x"}, {"a": "2", "b": "y"}]);
    for mode in [NO_OPTIONS, DEFAULT_OPTIONS] {
        assert_eq!(json!(parameters_of(&mut world, mode, matrix(first(), second()))), expected);
    }
    let origins = output_of(&mut world, DEFAULT_OPTIONS, &matrix(first(), second())).unwrap().origins;
    assert_eq!(origins[1], "element 1, element 2");
}

#[test]
fn the_second_generator_is_rendered_with_the_first() {
    let url = "https://git.example.com/shop.git";
    let files = BTreeMap::from([("eu/web/a.yaml", ""), ("us/db/a.yaml", "")]);
    let mut world = FixedInputs { files: BTreeMap::from([((url, "v1"), files)]), ..FixedInputs::default() };
    let clusters = || list(json!([{"region": "eu", "tag": "v1"}, {"region": "us", "tag": "v1"}]));
    let git = |open: &str, path: &str| {
        json!({"git": {
            "repoURL": url, "revision": format!("{{{{{open}tag}}}}"),
            "directories": [{"path": format!("{{{{{open}region}}}}/*")}],
            "values": {"both": format!("{{{{{open}region}}}} {{{{{path}}}}}")},
        }})
    };
    let found = parameters_of(&mut world, NO_OPTIONS, matrix(clusters(), git("", "path.basename")));
    assert_eq!(found.iter().map(|set| &set["values.both"]).collect::<Vec<_>>(), ["eu web", "us db"]);
    for mode in [DEFAULT_OPTIONS, STRICT_OPTIONS] {
        let found = parameters_of(&mut world, mode, matrix(clusters(), git(".", ".path.basename")));
        assert_eq!(found.iter().map(|set| &set["values"]["both"]).collect::<Vec<_>>(), ["eu web", "us db"]);
    }
    let nowhere =
        json!({"git": {"repoURL": url, "revision": "{{ .nothing }}", "directories": [{"path": "*"}]}});
    let error = error_of(&mut world, STRICT_OPTIONS, matrix(clusters(), nowhere));
    assert!(
        error.starts_with(
            "generators[0].matrix.generators[1].git, revision: failed to execute go template {{ .nothing }}"
        ),
        "{error}"
    );
}

/// Values from external data are inserted without being rendered as templates.
#[test]
fn parameters_are_no_templates() {
    let mut world = FixedInputs::default();
    let first = list(json!([{"a": "{{ .secret }}", "secret": "x"}]));
    let second = json!({"clusters": {"values": {"v": "{{ .a }}", "w": "{{ .name }}"}}});
    let set = &parameters_of(&mut world, STRICT_OPTIONS, matrix(first, second))[0];
    assert_eq!(set["values"], json!({"v": "{{ .secret }}", "w": "in-cluster"}));
}

#[test]
fn lists_of_the_first_become_elements_of_the_second() {
    let mut world = FixedInputs::default();
    let first = list(json!([{"team": "a", "apps": [{"app": "web"}, {"app": "db"}]}]));
    let second = json!({"list": {"elements": [], "elementsYaml": "{{ .apps | toJson }}"}});
    assert_eq!(values(&mut world, DEFAULT_OPTIONS, matrix(first, second), "app"), ["web", "db"]);
}

#[test]
fn contradicting_sets_of_a_matrix() {
    let mut world = FixedInputs::default();
    let first = || list(json!([{"a": "1", "deep": {"x": 1, "y": 1}}]));
    let second = || list(json!([{"a": "2", "deep": {"x": 2, "z": 2}}]));
    let expected = json!({"a": "1", "deep": {"x": 1, "y": 1, "z": 2}});
    assert_eq!(
        parameters_of(&mut world, DEFAULT_OPTIONS, matrix(first(), second())),
        [expected],
        "the first value wins"
    );
    let error =
        error_of(&mut world, NO_OPTIONS, matrix(list(json!([{"a": "1"}])), list(json!([{"a": "2"}]))));
    let place = "generators[0].matrix, element 1, element 1";
    assert_eq!(error, format!("{place}: found duplicate key a with different value, a: 1 ,a: 2"));
    let same = matrix(list(json!([{"a": "1"}])), list(json!([{"a": "1", "b": "2"}])));
    assert_eq!(parameters_of(&mut world, NO_OPTIONS, same), [json!({"a": "1", "b": "2"})]);
}

#[test]
fn a_matrix_has_two_generators_and_each_is_one() {
    let mut world = FixedInputs::default();
    let one = || list(json!([{"a": "1"}]));
    for count in [0, 1, 3] {
        let generators: Vec<_> = (0..count).map(|_| one()).collect();
        let error = error_of(&mut world, DEFAULT_OPTIONS, json!({"matrix": {"generators": generators}}));
        assert_eq!(
            error,
            format!(
                "generators[0].matrix: a matrix needs exactly two generators, found {count}; nest another matrix for more"
            )
        );
    }
    let error = error_of(&mut world, DEFAULT_OPTIONS, matrix(json!({"list": {}, "clusters": {}}), one()));
    assert!(error.starts_with(
        "generators[0].matrix.generators[0]: this entry contains more than one generator: list, clusters"
    ));
    let error = error_of(&mut world, DEFAULT_OPTIONS, matrix(one(), json!({"lists": {}})));
    assert_eq!(
        error,
        "generators[0].matrix.generators[1]: this entry does not contain a known generator (unknown fields: lists)"
    );
}

#[test]
fn generators_are_nested_and_their_selectors_count() {
    let mut world = FixedInputs::default();
    let mut inner = matrix(list(json!([{"b": "1"}, {"b": "2"}])), list(json!([{"c": "{{ .a }}{{ .b }}"}])));
    let nested = matrix(list(json!([{"a": "x"}, {"a": "y"}])), inner.clone());
    assert_eq!(
        values(&mut world, STRICT_OPTIONS, nested, "c"),
        ["x1", "x2", "y1", "y2"],
        "each generator can use the parameters of the outer generators"
    );
    inner["selector"] = json!({"matchLabels": {"b": "2"}});
    let nested = matrix(list(json!([{"a": "x"}, {"a": "y"}])), inner);
    assert_eq!(values(&mut world, STRICT_OPTIONS, nested, "c"), ["x2", "y2"]);
    let filled = json!({
        "list": {"elements": [{"b": "x"}, {"b": "y"}]},
        "selector": {"matchLabels": {"b": "{{ .a }}"}},
    });
    let nested = matrix(list(json!([{"a": "y"}])), filled);
    assert_eq!(values(&mut world, STRICT_OPTIONS, nested, "b"), ["y"], "selectors are rendered, too");
    let deep = |depth: usize| {
        (1..depth).fold(list(json!([{"a": "1"}])), |inner, _| matrix(inner, list(json!([{}]))))
    };
    assert_eq!(parameters_of(&mut world, DEFAULT_OPTIONS, deep(crate::NESTING_MAX)).len(), 1);
    let error = error_of(&mut world, DEFAULT_OPTIONS, deep(crate::NESTING_MAX + 1));
    assert!(error.contains("generators are nested deeper than 4 levels"), "{error}");
}

/// A merge overrides parameters of the first generator with those of the other generators.
#[test]
fn a_merge_changes_the_sets_of_the_first() {
    let mut world = FixedInputs::default();
    let generators = json!([
        list(json!([{"id": "b", "x": "1", "y": "1"}, {"id": "a", "x": "1"}, {"id": "c", "x": "1"}])),
        list(json!([{"id": "a", "x": "2"}, {"id": "nobody", "x": "2"}])),
        list(json!([{"id": "a", "z": "3"}, {"id": "b", "x": "3"}])),
    ]);
    let expected = json!([
        {"id": "b", "x": "3", "y": "1"}, {"id": "a", "x": "2", "z": "3"}, {"id": "c", "x": "1"},
    ]);
    for mode in [NO_OPTIONS, DEFAULT_OPTIONS] {
        assert_eq!(
            json!(parameters_of(&mut world, mode, merge(&["id", "id"], generators.clone()))),
            expected
        );
    }
}

#[test]
fn a_merge_is_recursive_with_go_templates() {
    let mut world = FixedInputs::default();
    let generators = json!([
        list(json!([{"id": "a", "values": {"x": "1", "y": "1"}}])),
        list(json!([{"id": "a", "values": {"x": "2"}}])),
    ]);
    let go = json!({"id": "a", "values": {"x": "2", "y": "1"}});
    assert_eq!(parameters_of(&mut world, DEFAULT_OPTIONS, merge(&["id"], generators.clone())), [go]);
    let flat = json!({"id": "a", "values.x": "2", "values.y": "1"});
    assert_eq!(parameters_of(&mut world, NO_OPTIONS, merge(&["id"], generators)), [flat]);
}

#[test]
fn sets_of_a_merge_must_be_distinct() {
    let mut world = FixedInputs::default();
    let two = |elements: Value| json!([list(elements), list(json!([]))]);
    for (keys, generators, text) in [
        (
            &["id", "env"][..],
            two(json!([{"id": "a"}, {"id": "b"}, {"id": "a", "x": "1"}])),
            "generators[0].merge.generators[0], element 3: the parameters from a generator were not unique by the given mergeKeys, Duplicate key was {\"env\":null,\"id\":\"a\"}",
        ),
        (&[], two(json!([])), "generators[0].merge: mergeKeys is empty"),
        (
            &["id"],
            json!([list(json!([]))]),
            "generators[0].merge: a merge needs at least two generators, found 1",
        ),
        (
            &["id"],
            json!([list(json!([])), {}]),
            "generators[0].merge.generators[1]: this entry does not contain a known generator",
        ),
    ] {
        let error = error_of(&mut world, DEFAULT_OPTIONS, merge(keys, generators));
        assert!(error.starts_with(text), "{error}");
    }
    // A missing merge key counts as null, which is the same value in all parameter sets.
    let generators = json!([list(json!([{"x": "1"}])), list(json!([{"y": "2"}]))]);
    assert_eq!(
        parameters_of(&mut world, NO_OPTIONS, merge(&["id"], generators)),
        [json!({"x": "1", "y": "2"})]
    );
}
