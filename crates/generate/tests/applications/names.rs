//! Tests that Applications with invalid or duplicate names are rejected, and that all others are generated.

use serde_json::json;

use super::*;

fn names(generated: &GenerateOutput) -> Vec<&str> {
    generated.applications.iter().map(|made| made.application.metadata.name.as_str()).collect()
}

#[test]
fn a_duplicate_name_is_rejected_with_both_sources() {
    let set = appset(json!([{"name": "a"}, {"name": "b"}, {"name": "a"}]), |set| {
        let more = json!({"list": {"elements": [{"name": "c"}, {"name": "a"}]}});
        set["spec"]["generators"].as_array_mut().unwrap().push(more);
    });
    let generated = generate_all(&set).unwrap();
    assert_eq!(names(&generated), ["b-shop", "c-shop"], "other Applications are generated");
    let refused: Vec<_> = generated.rejected.iter().map(ToString::to_string).collect();
    let twice = "contains applications with duplicate name: a-shop: one from generators[0].list, element 1, and one from";
    assert_eq!(
        refused,
        [format!("{twice} generators[0].list, element 3"), format!("{twice} generators[1].list, element 2")]
    );
    assert!(generated.rejected.iter().all(|refusal| refusal.name() == "a-shop"));
}

#[test]
fn a_misspelled_parameter_of_a_name_is_named() {
    for (go, template, said) in [
        (true, "{{ .nmae }}-shop", "uses unknown parameter .nmae: did you mean name?"),
        (false, "{{nmae}}-shop", "uses unknown parameter {{nmae}}: did you mean name?"),
        (false, "{{cluster}}-shop", "uses unknown parameter {{cluster}}: available parameters: name"),
    ] {
        let generated = generate_all(&appset(json!([{"name": "web"}]), |set| {
            set["spec"]["goTemplate"] = json!(go);
            set["spec"]["template"]["metadata"]["name"] = json!(template);
            set["spec"]["template"]["spec"]["source"]["path"] = json!("apps");
        }))
        .unwrap();
        assert_eq!(names(&generated), [""; 0]);
        let refused = generated.rejected[0].to_string();
        assert!(refused.contains("invalid Application name") && refused.contains(said), "{refused}");
        assert!(refused.ends_with("(from generators[0].list, element 1)"), "{refused}");
    }
}

#[test]
fn names_that_kubernetes_rejects_are_rejected() {
    let generated = generate_all(&appset(json!([{"name": "a"}, {"name": "B_c"}, {}]), |_| {})).unwrap();
    assert_eq!(names(&generated), ["a-shop"]);
    let refused: Vec<_> = generated.rejected.iter().map(ToString::to_string).collect();
    assert_eq!(refused.len(), 2);
    assert!(
        refused[0]
            .starts_with("generates an invalid Application name \"<no value>-shop\": use only lower-case")
    );
    assert!(
        refused[1].starts_with("generates an invalid Application name \"B_c-shop\"")
            && refused[1].ends_with("(from generators[0].list, element 2)")
    );
}
