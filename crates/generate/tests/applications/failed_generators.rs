//! Tests that a failing generator doesn't affect the ApplicationSet's other generators.

use serde_json::json;

use super::*;

/// Returns an ApplicationSet with three generators. The second generator is `second`.
fn with_second(second: Value) -> Value {
    appset(json!([{"name": "a"}]), |set| {
        let generators = set["spec"]["generators"].as_array_mut().unwrap();
        generators.extend([second, json!({"list": {"elements": [{"name": "z"}]}})]);
    })
}

#[test]
fn a_failed_generator_is_named_and_has_no_output() {
    let elements = |elements: Value| json!({"list": {"elements": elements}});
    for (second, named) in [
        (json!({"clusters": {}}), "generators[1].clusters: "),
        (json!({"clsters": {}}), "generators[1]: this entry does not contain a known generator"),
        // The failure of a nested generator is a failure of the outer generator.
        (
            json!({"matrix": {"generators": [elements(json!([{"x": "1"}])), {"clusters": {}}]}}),
            "generators[1].matrix.generators[1].clusters: ",
        ),
        // Since one element can't be rendered, the output of the whole generator is unknown.
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
        let generated = generate_all(&with_second(second.clone())).unwrap();
        let names: Vec<_> =
            generated.applications.iter().map(|made| &made.application.metadata.name).collect();
        assert_eq!(names, ["a-shop", "z-shop"], "{second}");
        let failed: Vec<_> = generated.errors.iter().map(ToString::to_string).collect();
        assert!(failed.len() == 1 && failed[0].starts_with(named), "{failed:?} where {named} was expected");
        let whole = generated.into_complete().unwrap_err().to_string();
        assert_eq!(whole, failed[0], "a caller that needs the complete result gets the error");
    }
}

#[test]
fn the_run_fails_if_all_generators_fail() {
    let all =
        appset(json!([]), |set| set["spec"]["generators"] = json!([{"clusters": {}}, {"clusters": {}}]));
    let said = generate_all(&all).unwrap_err();
    assert!(
        said.contains("generators[0].clusters: ") && said.contains("; generators[1].clusters: "),
        "{said}"
    );
    // An invalid template affects all generators, so the whole run fails.
    let unclosed =
        appset(json!([{"name": "a"}]), |set| set["spec"]["template"]["metadata"]["name"] = json!("{{ .x"));
    assert!(generate_all(&unclosed).unwrap_err().contains("template.metadata.name"));
}

#[test]
fn an_empty_generator_has_not_failed() {
    let set = appset(json!([]), |set| {
        set["spec"]["generators"].as_array_mut().unwrap().push(json!({"clusters": {}}))
    });
    let generated = generate_all(&set).unwrap();
    assert_eq!((generated.applications.len(), generated.errors.len()), (0, 1));
}

/// With more errors than the limit, the caller can't know all failed generators, so the whole run fails.
#[test]
fn too_many_errors_fail_the_run() {
    let set = appset(json!([{"name": "a"}]), |set| {
        let more = (0..30).map(|_| json!({"clusters": {}}));
        set["spec"]["generators"].as_array_mut().unwrap().extend(more);
    });
    assert!(generate_all(&set).unwrap_err().ends_with("; there may be more errors"));
}
