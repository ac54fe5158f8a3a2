//! Applications that are not to be, and the others, which are.

use serde_json::json;

use super::*;

fn names(generated: &Generated) -> Vec<&str> {
    generated.applications.iter().map(|made| made.application.metadata.name.as_str()).collect()
}

#[test]
fn a_name_that_is_there_twice_is_refused_with_both_sources() {
    let set = set(json!([{"name": "a"}, {"name": "b"}, {"name": "a"}]), |set| {
        let more = json!({"list": {"elements": [{"name": "c"}, {"name": "a"}]}});
        set["spec"]["generators"].as_array_mut().unwrap().push(more);
    });
    let generated = run(&set).unwrap();
    assert_eq!(names(&generated), ["b-shop", "c-shop"], "the others are unharmed");
    let refused: Vec<_> = generated.refused.iter().map(ToString::to_string).collect();
    let twice =
        "contains applications with duplicate name: a-shop: one of generators[0].list, element 1, and one of";
    assert_eq!(
        refused,
        [format!("{twice} generators[0].list, element 3"), format!("{twice} generators[1].list, element 2")]
    );
    assert!(generated.refused.iter().all(|refusal| refusal.name() == "a-shop"));
}

#[test]
fn names_that_kubernetes_does_not_take_are_refused() {
    let generated = run(&set(json!([{"name": "a"}, {"name": "B_c"}, {}]), |_| {})).unwrap();
    assert_eq!(names(&generated), ["a-shop"]);
    let refused: Vec<_> = generated.refused.iter().map(ToString::to_string).collect();
    assert_eq!(refused.len(), 2);
    assert!(
        refused[0].starts_with("\"<no value>-shop\" is no name of an Application: it may have lower case")
    );
    assert!(
        refused[1].starts_with("\"B_c-shop\" is no name")
            && refused[1].ends_with("(from generators[0].list, element 2)")
    );
}
