//! Tests for the rendering of templates.

use serde_json::json;

use super::*;

#[test]
fn each_set_of_parameters_makes_an_application() {
    let found = applications(&appset(json!([{"name": "web"}, {"name": "db"}]), |_| {}));
    let wanted = |name: &str| {
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {
                "name": format!("{name}-shop"), "namespace": "argocd",
                "finalizers": ["resources-finalizer.argocd.argoproj.io"],
            },
            "spec": {
                "project": "default",
                "source": {"repoURL": "https://git.example.com/shop.git", "path": format!("apps/{name}")},
                "destination": {"name": "in-cluster", "namespace": "shop"},
            },
        })
    };
    assert_eq!(found, [wanted("web"), wanted("db")]);
}

/// Map keys, list entries and nested values are rendered. Inserted values aren't rendered.
#[test]
fn every_text_is_rendered() {
    let found = applications(&appset(json!([{"name": "web", "raw": "{{ .name }} \"\\"}]), |set| {
        set["spec"]["template"]["metadata"]["annotations"] = json!({"app-{{ .name }}": "{{ .raw }}"});
        set["spec"]["template"]["spec"]["source"]["helm"] = json!({
            "valueFiles": ["{{ .name }}.yaml"],
            "valuesObject": {"{{ .name }}": {"list": ["{{ .name }}", 3, true], "none": null}},
        });
        set["spec"]["template"]["spec"]["syncPolicy"] = json!({"automated": {"prune": false}});
    }));
    assert_eq!(found[0]["metadata"]["annotations"], json!({"app-web": "{{ .name }} \"\\"}));
    assert_eq!(
        found[0]["spec"]["source"]["helm"],
        json!({"valueFiles": ["web.yaml"], "valuesObject": {"web": {"list": ["web", 3, true]}}})
    );
    assert_eq!(found[0]["spec"]["syncPolicy"], json!({"automated": {"prune": false}}));
    let error = generate_all(&appset(json!([{"name": "a"}]), |set| {
        set["spec"]["template"]["metadata"]["labels"] = json!({"{{ .name }}": "1", "a": "2"});
    }));
    let place = "generators[0].list, element 1, template.metadata.labels";
    assert_eq!(error, Err(format!("{place}: two keys in this map render to \"a\"; use different keys")));
}

#[test]
fn simple_tags_with_known_names_are_replaced() {
    let found = applications(&appset(json!([{"name": "web", "values": {"tier": "low"}}]), |set| {
        set["spec"]["goTemplate"] = json!(false);
        set["spec"]["template"]["metadata"] = json!({
            "name": "{{name}}-{{ values.tier }}",
            "annotations": {"a": "{{ missing }} {{ .name }}", "{{name}}": "{{name"},
        });
    }));
    assert_eq!(found[0]["metadata"]["name"], "web-low");
    assert_eq!(
        found[0]["metadata"]["annotations"],
        json!({"a": "{{ missing }} {{ .name }}", "web": "{{name"})
    );
    let error = generate_all(&appset(json!([{"name": "web"}]), |set| {
        set["spec"]["goTemplate"] = json!(false);
        set["spec"]["template"]["metadata"]["name"] = json!("{{name}}-{{name");
    }));
    let place = "generators[0].list, element 1, template.metadata.name";
    let what = "failed to parse template {{name}}-{{name: a tag begins with {{ but has no }}";
    assert_eq!(error, Err(format!("{place}: {what}")));
}

/// As in Argo CD, a tag without a parameter remains unchanged, so it causes a warning but no error.
#[test]
fn a_tag_without_a_parameter_is_reported() {
    let warnings = |change: fn(&mut Value)| {
        let elements = json!([{"name": "web", "rev": "v1"}, {"name": "db", "rev": "{{name}}"}]);
        let set = appset(elements, |set| {
            set["spec"]["goTemplate"] = json!(false);
            set["spec"]["template"]["metadata"]["name"] = json!("{{name}}");
            set["spec"]["template"]["spec"]["source"]["path"] = json!("apps/{{name}}");
            change(set);
        });
        let found = generate_all(&set).unwrap().unknown_tags;
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(warnings(|_| {}), [""; 0]);
    let path = |set: &mut Value| set["spec"]["template"]["spec"]["source"]["path"] = json!("apps/{{ nam }}");
    let hint = "but there is no such parameter: did you mean name?";
    assert_eq!(
        warnings(path),
        [format!("Application web and 1 other: spec.source.path contains {{{{nam}}}}, {hint}")]
    );
    let patch = |set: &mut Value| {
        set["spec"]["templatePatch"] = json!("spec:\n  source:\n    targetRevision: '{{ revv }}'\n");
    };
    let hint = "but there is no such parameter: did you mean rev?";
    assert_eq!(
        warnings(patch),
        [format!("Application web and 1 other: spec.source.targetRevision contains {{{{revv}}}}, {hint}")]
    );
    let value = |set: &mut Value| {
        set["spec"]["template"]["spec"]["source"]["targetRevision"] = json!("{{rev}}");
    };
    let found = warnings(value);
    assert!(
        found[0].starts_with("Application db: spec.source.targetRevision contains {{name}}, "),
        "{found:?}"
    );
    assert_eq!(found.len(), 1);
    // A Go template may insert a `{{x}}` tag intentionally, so there is no warning.
    let of_go = |set: &mut Value| {
        set["spec"]["goTemplate"] = json!(true);
        set["spec"]["template"]["metadata"]["name"] = json!("{{ .name }}");
        set["spec"]["template"]["spec"]["source"]["path"] = json!("{{ .name }}/{{ `{{x}}` }}");
    };
    assert_eq!(warnings(of_go), [""; 0]);
}

/// Tidegate renders the template for an empty parameter set, whereas Argo CD doesn't.
#[test]
fn a_set_without_parameters_is_one_like_any_other() {
    let found = applications(&appset(json!([{}]), |set| {
        set["spec"]["template"]["metadata"]["name"] = json!("{{ \"only\" }}");
        set["spec"]["template"]["spec"]["source"]["path"] = json!("p");
    }));
    assert_eq!(found[0]["metadata"]["name"], "only");
    assert_eq!(found[0]["metadata"]["finalizers"], json!(["resources-finalizer.argocd.argoproj.io"]));
}

/// Tests the functions that Argo CD adds to sprig, and those that it removes.
#[test]
fn functions_are_those_of_argo_cd() {
    let elements = json!([{"name": "web", "text": "Feat/A_b.c", "deep": {"a": [1, "x"], "b": true}, "yaml": "a: [1, b]"}]);
    for (template, expected) in [
        ("{{ normalize .text }}", "feat-a-b.c"),
        ("{{ .text | slugify }}", "feat-a-b-c"),
        ("{{ slugify 6 .text }}", "feat-a"),
        ("{{ slugify 5 .text }}", "feat"),
        ("{{ slugify 5 false .text }}", "feat"),
        ("{{ slugify 6 false \"abcdefgh\" }}", "abcdef"),
        ("{{ toYaml .deep }}", "a:\n- 1\n- x\nb: true"),
        ("{{ (fromYaml .yaml).a | toJson }}", "[1,\"b\"]"),
        ("{{ index (fromYamlArray \"[a, b]\") 1 }}", "b"),
        ("{{ .missing }}", "<no value>"),
        ("{{ if eq .name \"web\" }}{{ .name | upper | quote }}{{ end }}", "\"WEB\""),
        ("{{ range $i, $e := .deep.a }}{{ $i }}={{ $e }},{{ end }}", "0=1,1=x,"),
    ] {
        let found = applications(&appset(elements.clone(), |set| {
            set["spec"]["template"]["metadata"]["annotations"] = json!({"a": template});
        }));
        assert_eq!(found[0]["metadata"]["annotations"]["a"], expected, "{template}");
    }
    for (template, words) in [
        ("{{ env \"HOME\" }}", "function \"env\" not defined"),
        ("{{ expandenv \"$HOME\" }}", "function \"expandenv\" not defined"),
        ("{{ getHostByName \"localhost\" }}", "function \"getHostByName\" not defined"),
        ("{{ fromYaml \"[a]\" }}", "the YAML is not a mapping"),
        ("{{ fromYamlArray \"a: b\" }}", "the YAML is not a sequence"),
        ("{{ slugify }}", "slugify takes an optional"),
        ("{{ slugify -1 .text }}", "slugify takes an optional"),
        ("{{ .name", "failed to parse template {{ .name: template: base:1:"),
        ("{{ .name.first }}", "executing \"base\" at <.name.first>"),
    ] {
        let error = generate_all(&appset(elements.clone(), |set| {
            set["spec"]["template"]["metadata"]["annotations"] = json!({"a": template});
        }));
        let place = "generators[0].list, element 1, template.metadata.annotations.a: failed to ";
        let error = error.unwrap_err();
        assert!(error.starts_with(place) && error.contains(words), "{template}: {error}");
    }
}

#[test]
fn options_define_missing_parameters() {
    let with = |options: Value| {
        appset(json!([{"name": "web"}]), |set| {
            set["spec"]["goTemplateOptions"] = options;
            set["spec"]["template"]["metadata"]["annotations"] = json!({"a": "{{ .missing }}"});
        })
    };
    assert_eq!(applications(&with(json!([])))[0]["metadata"]["annotations"]["a"], "<no value>");
    let last = with(json!(["missingkey=error", "missingkey=default"]));
    assert_eq!(applications(&last)[0]["metadata"]["annotations"]["a"], "<no value>", "the last one counts");
    let error = generate_all(&with(json!(["missingkey=error"]))).unwrap_err();
    assert!(error.contains("map has no entry for key \"missing\""), "{error}");
    let error = generate_all(&with(json!(["missingkey=maybe"]))).unwrap_err();
    assert!(error.starts_with("goTemplateOptions: unknown template option \"missingkey=maybe\""), "{error}");
}

/// A generator's template takes precedence over the ApplicationSet's template, separately for each field.
#[test]
fn a_generator_can_override_the_template() {
    let found = applications(&appset(json!([]), |set| {
        set["spec"]["template"]["metadata"]["labels"] = json!({"a": "1", "b": "1"});
        let own = json!({
            "metadata": {"name": "own-{{ .name }}", "labels": {"b": "2", "c": "2"}},
            "spec": {
                "project": "", "destination": {"namespace": "other"},
                "source": {"repoURL": "", "path": "other/{{ .name }}", "targetRevision": "v2"},
            },
        });
        set["spec"]["generators"] = json!([
            {"list": {"elements": [{"name": "web"}], "template": own}}, {"list": {"elements": [{"name": "db"}]}},
        ]);
    }));
    assert_eq!(found[0]["metadata"]["name"], "own-web");
    assert_eq!(found[0]["metadata"]["labels"], json!({"a": "1", "b": "2", "c": "2"}));
    assert_eq!(
        found[0]["spec"],
        json!({
            "project": "default", "destination": {"name": "in-cluster", "namespace": "other"},
            "source": {"repoURL": "https://git.example.com/shop.git", "path": "other/web", "targetRevision": "v2"},
        })
    );
    assert_eq!(found[1]["metadata"]["name"], "db-shop");
    assert_eq!(found[1]["spec"]["source"]["path"], "apps/db");
}

/// Without the finalizer, an Application's objects remain when the Application is deleted.
#[test]
fn finalizers_are_added_where_there_are_none() {
    for (finalizers, preserve, expected) in [
        (json!([]), false, json!(["resources-finalizer.argocd.argoproj.io"])),
        (json!(["a.io/{{ .name }}"]), false, json!(["a.io/web"])),
        (json!([]), true, json!(null)),
        (json!(["a.io/b"]), true, json!(["a.io/b"])),
    ] {
        let found = applications(&appset(json!([{"name": "web"}]), |set| {
            set["spec"]["template"]["metadata"]["finalizers"] = finalizers.clone();
            set["spec"]["syncPolicy"] = json!({"preserveResourcesOnDeletion": preserve});
        }));
        assert_eq!(
            found[0]["metadata"].get("finalizers").unwrap_or(&Value::Null),
            &expected,
            "{finalizers} {preserve}"
        );
    }
}

#[test]
fn an_entry_without_a_generator_is_an_error_and_deletes_nothing() {
    let error =
        generate_all(&appset(json!([]), |set| set["spec"]["generators"] = json!([{}, {"terraform": {}}])));
    let none = "this entry does not contain a known generator";
    assert_eq!(
        error,
        Err(format!("generators[0]: {none}; generators[1]: {none} (unknown fields: terraform)"))
    );
}

#[test]
fn an_unsupported_generator_is_named() {
    for (generator, place) in [
        (
            json!({"clusters": {}}),
            "generators[0].clusters: the clusters generator must read the Secrets that declare \
             clusters, which this command cannot do; use `tidegate serve`",
        ),
        (
            json!({"scmProvider": {}}),
            "generators[0].scmProvider: the scmProvider generator must call an SCM provider, which this \
             command cannot do; use `tidegate serve`",
        ),
        (
            json!({"pullRequest": {}}),
            "generators[0].pullRequest: the pullRequest generator must list pull requests, which this \
             command cannot do; use `tidegate serve`",
        ),
        (
            json!({"plugin": {"configMapRef": {"name": "p"}}}),
            "generators[0].plugin: the plugin generator must call the plugin in ConfigMap p, which this \
             command cannot do; use `tidegate serve`",
        ),
        (
            json!({"clusterDecisionResource": {"configMapRef": "p", "name": "x"}}),
            "generators[0].clusterDecisionResource: the clusterDecisionResource generator must read \
             resources from a cluster, which this command cannot do; use `tidegate serve`",
        ),
        (
            json!({"git": {"repoURL": "https://u:p@a.example.com/b", "revision": "main", "files": [{"path": "*"}]}}),
            "generators[0].git: the git generator must read repository https://a.example.com/b at \"main\", which \
             this command cannot do; use `tidegate serve`",
        ),
    ] {
        let error = generate_all(&appset(json!([]), |set| set["spec"]["generators"] = json!([generator])));
        assert_eq!(error, Err(place.to_owned()));
    }
}

/// The error contains the problems of all elements, not only the first one.
#[test]
fn errors_of_all_elements_are_reported() {
    let error = generate_all(&appset(json!([{"name": "a"}, {}, {"other": "b"}]), |set| {
        set["spec"]["goTemplateOptions"] = json!(["missingkey=error"]);
    }));
    let error = error.unwrap_err();
    assert!(error.contains("element 2") && error.contains("; generators[0].list, element 3"), "{error}");
    let many: Vec<_> = (0..100).map(|_| json!({})).collect();
    let error = generate_all(&appset(json!(many), |set| {
        set["spec"]["goTemplateOptions"] = json!(["missingkey=error"])
    }));
    let error = error.unwrap_err();
    assert!(
        error.contains("element 20,")
            && !error.contains("element 21,")
            && error.ends_with("; there may be more errors")
    );
}
