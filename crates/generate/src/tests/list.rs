use super::*;

fn of(elements: Value) -> Value {
    json!({"list": {"elements": elements}})
}

/// Section 4.2 of the specification.
#[test]
fn elements_are_sets_in_their_order() {
    let mut world = Written::default();
    let elements = json!([
        {"cluster": "qa", "values": {"tier": "low"}},
        {"cluster": "dev"},
    ]);
    let flat = json!([{"cluster": "qa", "values.tier": "low"}, {"cluster": "dev"}]);
    assert_eq!(json!(sets(&mut world, FLAT, of(elements.clone()))), flat);
    assert_eq!(json!(sets(&mut world, GO, of(elements.clone()))), elements);
    let any = json!([{"replicas": 2, "on": true, "list": [1], "none": null, "values": {"n": 1}}]);
    assert_eq!(json!(sets(&mut world, GO, of(any.clone()))), any, "templates of Go take any value");
    let given = given(&mut world, FLAT, &of(elements)).unwrap();
    assert_eq!(given.origins, ["element 1", "element 2"]);
    assert_eq!(sets(&mut world, FLAT, of(json!([]))), Vec::<Value>::new());
    assert_eq!(
        json!(sets(&mut world, FLAT, of(json!([{}])))),
        json!([{}]),
        "a set without parameters is one"
    );
}

#[test]
fn what_is_no_text_is_refused_where_only_texts_can_be() {
    let mut world = Written::default();
    for (element, place, words) in [
        (json!({"a": "b", "n": 3}), "generators[0].list, element 2", "error parsing value as string: n is 3"),
        (json!({"n": true}), "element 2", "n is true"),
        (json!({"n": null}), "element 2", "n is null"),
        (json!({"n": ["a"]}), "element 2", "n is a list"),
        (json!({"n": {"a": "b"}}), "element 2", "n is an object"),
        (json!({"values": {"a": 1}}), "element 2", "values.a is 1"),
        (json!("text"), "element 2", "no object"),
    ] {
        let error = refused(&mut world, FLAT, of(json!([{"a": "b"}, element.clone()])));
        assert!(error.contains(place) && error.contains(words), "{element}: {error}");
    }
    let error = refused(&mut world, GO, of(json!([{}, [1]])));
    assert!(error.contains("element 2") && error.contains("a list"), "{error}");
}

#[test]
fn elements_in_yaml_come_after_the_others() {
    let mut world = Written::default();
    let list = |yaml: &str| json!({"list": {"elements": [{"a": "1"}], "elementsYaml": yaml}});
    let expected = json!([{"a": "1"}, {"a": "2", "deep": {"b": [1]}}, {"a": "3"}]);
    let yaml = "- a: '2'\n  deep: {b: [1]}\n- a: '3'\n";
    assert_eq!(json!(sets(&mut world, GO, list(yaml))), expected);
    assert_eq!(json!(sets(&mut world, FLAT, list(yaml))), expected, "nothing of it is made flat");
    let json = r#"[{"a": "2"}]"#;
    assert_eq!(values(&mut world, GO, list(json), "a"), ["1", "2"]);
    for yaml in ["", "  \n", "[]", "null"] {
        assert_eq!(values(&mut world, GO, list(yaml), "a"), ["1"], "{yaml}");
    }
    for (yaml, words) in [
        ("a: b", "it is an object"),
        ("text", "it is the text \"text\""),
        ("- a\n", "elementsYaml 1"),
        ("- {", "elementsYaml is no YAML list of objects"),
    ] {
        let error = refused(&mut world, GO, list(yaml));
        assert!(error.contains("generators[0].list") && error.contains(words), "{yaml}: {error}");
    }
}

/// Section 4.1: what a selector sees is flat, and what it lets pass is not.
#[test]
fn selectors_choose_among_sets() {
    let mut world = Written::default();
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
        assert_eq!(values(&mut world, GO, entry, "name"), expected, "{selector}");
    }
    let whole = json!({"list": {"elements": elements}, "selector": {"matchLabels": {"name": "b"}}});
    assert_eq!(sets(&mut world, GO, whole), [elements[1].clone()]);
    let wrong = json!({
        "list": {"elements": elements},
        "selector": {"matchExpressions": [{"key": "name", "operator": "Like", "values": ["a"]}]},
    });
    let error = refused(&mut world, GO, wrong);
    assert!(error.starts_with("generators[0].list: the selector makes no sense: \"Like\""), "{error}");
}

/// Section 4.1: all generators of one entry run.
#[test]
fn an_entry_may_have_several_generators() {
    let mut world = Written::default();
    let entry = json!({"list": {"elements": [{"name": "a"}]}, "clusters": {}});
    assert_eq!(values(&mut world, FLAT, entry, "name"), ["a", "in-cluster"]);
}
