//! One of several generators has failed: the others give what they give.

use serde_json::json;

use super::*;

/// Three generators, of which the second one is this.
fn with_second(second: Value) -> Value {
    set(json!([{"name": "a"}]), |set| {
        let generators = set["spec"]["generators"].as_array_mut().unwrap();
        generators.extend([second, json!({"list": {"elements": [{"name": "z"}]}})]);
    })
}

#[test]
fn a_generator_that_fails_is_named_and_gives_nothing() {
    let elements = |elements: Value| json!({"list": {"elements": elements}});
    for (second, named) in [
        (json!({"clusters": {}}), "generators[1].clusters: "),
        (json!({"clsters": {}}), "generators[1]: there is no generator in it that is known here"),
        // Within others, what is wrong with one of them is wrong with the whole.
        (
            json!({"matrix": {"generators": [elements(json!([{"x": "1"}])), {"clusters": {}}]}}),
            "generators[1].matrix.generators[1].clusters: ",
        ),
        // One of its elements cannot be filled in: the others of the generator are not known either.
        (
            json!({"list": {"elements": [{"name": "b"}, {"name": "c"}], "template": {
                "metadata": {"name": "{{ .name }}"},
                "spec": {"project": "{{ if eq .name \"c\" }}{{ fail \"no\" }}{{ end }}", "destination": {}},
            }}}),
            "generators[1].list, element 2, template.spec.project: ",
        ),
        (
            json!({"list": {"elements": [{"name": "b"}]}, "selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
            "generators[1].list: ",
        ),
    ] {
        let generated = run(&with_second(second.clone())).unwrap();
        let names: Vec<_> =
            generated.applications.iter().map(|made| &made.application.metadata.name).collect();
        assert_eq!(names, ["a-shop", "z-shop"], "{second}");
        let failed: Vec<_> = generated.failed.iter().map(ToString::to_string).collect();
        assert!(failed.len() == 1 && failed[0].starts_with(named), "{failed:?} where {named} was expected");
        let whole = generated.whole().unwrap_err().to_string();
        assert_eq!(whole, failed[0], "whoever wants all of it gets the error");
    }
}

#[test]
fn nothing_is_known_where_all_generators_fail() {
    let all = set(json!([]), |set| set["spec"]["generators"] = json!([{"clusters": {}}, {"clusters": {}}]));
    let said = run(&all).unwrap_err();
    assert!(
        said.contains("generators[0].clusters: ") && said.contains("; generators[1].clusters: "),
        "{said}"
    );
    // What is wrong with a template is wrong with all.
    let unclosed =
        set(json!([{"name": "a"}]), |set| set["spec"]["template"]["metadata"]["name"] = json!("{{ .x"));
    assert!(run(&unclosed).unwrap_err().contains("template.metadata.name"));
}

#[test]
fn an_empty_generator_is_one_that_has_not_failed() {
    let set =
        set(json!([]), |set| set["spec"]["generators"].as_array_mut().unwrap().push(json!({"clusters": {}})));
    let generated = run(&set).unwrap();
    assert_eq!((generated.applications.len(), generated.failed.len()), (0, 1));
}

/// More is wrong than is told at once, so it is not known what else is.
#[test]
fn very_much_that_is_wrong_is_an_error_of_the_whole() {
    let set = set(json!([{"name": "a"}]), |set| {
        let more = (0..30).map(|_| json!({"clusters": {}}));
        set["spec"]["generators"].as_array_mut().unwrap().extend(more);
    });
    assert!(run(&set).unwrap_err().ends_with("; and maybe more"));
}
