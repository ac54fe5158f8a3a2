use super::*;

fn list_generator(elements: Value) -> Value {
    json!({"list": {"elements": elements}})
}

/// The elements of a list generator are parameter sets, in their order.
#[test]
fn elements_are_sets_in_their_order() {
    let mut world = FixedInputs::default();
    let elements = json!([
        {"cluster": "qa", "values": {"tier": "low"}},
        {"cluster": "dev"},
    ]);
    let flat = json!([{"cluster": "qa", "values.tier": "low"}, {"cluster": "dev"}]);
    assert_eq!(json!(parameters_of(&mut world, NO_OPTIONS, list_generator(elements.clone()))), flat);
    assert_eq!(json!(parameters_of(&mut world, DEFAULT_OPTIONS, list_generator(elements.clone()))), elements);
    let any = json!([{"replicas": 2, "on": true, "list": [1], "none": null, "values": {"n": 1}}]);
    assert_eq!(
        json!(parameters_of(&mut world, DEFAULT_OPTIONS, list_generator(any.clone()))),
        any,
        "Go templates accept any value"
    );
    let given = output_of(&mut world, NO_OPTIONS, &list_generator(elements)).unwrap();
    assert_eq!(given.origins, ["element 1", "element 2"]);
    assert_eq!(parameters_of(&mut world, NO_OPTIONS, list_generator(json!([]))), Vec::<Value>::new());
    assert_eq!(
        json!(parameters_of(&mut world, NO_OPTIONS, list_generator(json!([{}])))),
        json!([{}]),
        "a set without parameters is one"
    );
}

#[test]
fn non_texts_are_rejected_without_go_templates() {
    let mut world = FixedInputs::default();
    for (element, place, words) in [
        (json!({"a": "b", "n": 3}), "generators[0].list, element 2", "error parsing value as string: n is 3"),
        (json!({"n": true}), "element 2", "n is true"),
        (json!({"n": null}), "element 2", "n is null"),
        (json!({"n": ["a"]}), "element 2", "n is a list"),
        (json!({"n": {"a": "b"}}), "element 2", "n is an object"),
        (json!({"values": {"a": 1}}), "element 2", "values.a is 1"),
        (json!("text"), "element 2", "must be an object"),
    ] {
        let error = error_of(&mut world, NO_OPTIONS, list_generator(json!([{"a": "b"}, element.clone()])));
        assert!(error.contains(place) && error.contains(words), "{element}: {error}");
    }
    let error = error_of(&mut world, DEFAULT_OPTIONS, list_generator(json!([{}, [1]])));
    assert!(error.contains("element 2") && error.contains("a list"), "{error}");
}

#[test]
fn elements_in_yaml_come_after_the_others() {
    let mut world = FixedInputs::default();
    let list = |yaml: &str| json!({"list": {"elements": [{"a": "1"}], "elementsYaml": yaml}});
    let expected = json!([{"a": "1"}, {"a": "2", "deep": {"b": [1]}}, {"a": "3"}]);
    let yaml = "- a: '2'\n  deep: {b: [1]}\n- a: '3'\n";
    assert_eq!(json!(parameters_of(&mut world, DEFAULT_OPTIONS, list(yaml))), expected);
    assert_eq!(json!(parameters_of(&mut world, NO_OPTIONS, list(yaml))), expected, "nothing is flattened");
    let json = r#"[{"a": "2"}]"#;
    assert_eq!(values(&mut world, DEFAULT_OPTIONS, list(json), "a"), ["1", "2"]);
    for yaml in ["", "  \n", "[]", "null"] {
        assert_eq!(values(&mut world, DEFAULT_OPTIONS, list(yaml), "a"), ["1"], "{yaml}");
    }
    for (yaml, words) in [
        ("a: b", "found an object"),
        ("text", "found the string \"text\""),
        ("- a\n", "elementsYaml 1"),
        ("- {", "elementsYaml must be a YAML list of objects"),
    ] {
        let error = error_of(&mut world, DEFAULT_OPTIONS, list(yaml));
        assert!(error.contains("generators[0].list") && error.contains(words), "{yaml}: {error}");
    }
}

/// A selector is matched against flat parameters, but the parameters of the selected sets aren't flattened.
#[test]
fn selectors_choose_among_sets() {
    let mut world = FixedInputs::default();
    let elements = json!([
        {"name": "a", "server": "https://a.example.com", "meta": {"tier": 1, "tags": ["x", "y"]}},
        {"name": "b", "server": "https://b.example.com", "meta": {"tier": 2}},
    ]);
    for (selector, expected) in [
        (json!({"matchLabels": {"server": "https://a.example.com"}}), &["a"][..]),
        (json!({"matchLabels": {"meta.tier": "2"}}), &["b"]),
        (json!({"matchLabels": {"meta.tags.1": "y"}}), &["a"]),
        (json!({"matchExpressions": [{"key": "meta.tags.0", "operator": "DoesNotExist"}]}), &["b"]),
        (json!({"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["a", "b"]}]}), &[]),
        (json!({}), &["a", "b"]),
    ] {
        let entry = json!({"list": {"elements": elements}, "selector": selector});
        assert_eq!(values(&mut world, DEFAULT_OPTIONS, entry, "name"), expected, "{selector}");
    }
    let whole = json!({"list": {"elements": elements}, "selector": {"matchLabels": {"name": "b"}}});
    assert_eq!(parameters_of(&mut world, DEFAULT_OPTIONS, whole), [elements[1].clone()]);
    let wrong = json!({
        "list": {"elements": elements},
        "selector": {"matchExpressions": [{"key": "name", "operator": "Like", "values": ["a"]}]},
    });
    let error = error_of(&mut world, DEFAULT_OPTIONS, wrong);
    assert!(error.starts_with("generators[0].list: invalid selector: unknown operator \"Like\""), "{error}");
}

/// If an entry contains several generators, all of them run.
#[test]
fn an_entry_may_have_several_generators() {
    let mut world = FixedInputs::default();
    let entry = json!({"list": {"elements": [{"name": "a"}]}, "clusters": {}});
    assert_eq!(values(&mut world, NO_OPTIONS, entry, "name"), ["a", "in-cluster"]);
}
