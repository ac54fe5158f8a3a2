//! Section 3 of the specification.

use serde_json::json;

use super::*;

#[test]
fn each_set_of_parameters_makes_an_application() {
    let found = applications(&set(json!([{"name": "web"}, {"name": "db"}]), |_| {}));
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

/// Keys of maps, entries of lists and values within values are templates; what is put in is not.
#[test]
fn every_text_is_filled() {
    let found = applications(&set(json!([{"name": "web", "raw": "{{ .name }} \"\\"}]), |set| {
        set["spec"]["template"]["metadata"]["labels"] = json!({"app-{{ .name }}": "{{ .raw }}"});
        set["spec"]["template"]["spec"]["source"]["helm"] = json!({
            "valueFiles": ["{{ .name }}.yaml"],
            "valuesObject": {"{{ .name }}": {"list": ["{{ .name }}", 3, true], "none": null}},
        });
        set["spec"]["template"]["spec"]["syncPolicy"] = json!({"automated": {"prune": false}});
    }));
    assert_eq!(found[0]["metadata"]["labels"], json!({"app-web": "{{ .name }} \"\\"}));
    assert_eq!(
        found[0]["spec"]["source"]["helm"],
        json!({"valueFiles": ["web.yaml"], "valuesObject": {"web": {"list": ["web", 3, true]}}})
    );
    assert_eq!(found[0]["spec"]["syncPolicy"], json!({"automated": {"prune": false}}));
    let error = run(&set(json!([{"name": "a"}]), |set| {
        set["spec"]["template"]["metadata"]["labels"] = json!({"{{ .name }}": "1", "a": "2"});
    }));
    let place = "generators[0].list, element 1, template.metadata.labels";
    assert_eq!(error, Err(format!("{place}: two keys of this map become \"a\"; one would be lost")));
}

#[test]
fn tags_of_the_simple_form_are_filled_where_they_are_known() {
    let found = applications(&set(json!([{"name": "web", "values": {"tier": "low"}}]), |set| {
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
    let error = run(&set(json!([{"name": "web"}]), |set| {
        set["spec"]["goTemplate"] = json!(false);
        set["spec"]["template"]["metadata"]["name"] = json!("{{name}}-{{name");
    }));
    let place = "generators[0].list, element 1, template.metadata.name";
    let what = "failed to parse template {{name}}-{{name: a tag that begins with {{ has no end }}";
    assert_eq!(error, Err(format!("{place}: {what}")));
}

/// Argo CD leaves a template alone for a set without parameters; here it is one like any other.
#[test]
fn a_set_without_parameters_is_one_like_any_other() {
    let found = applications(&set(json!([{}]), |set| {
        set["spec"]["template"]["metadata"]["name"] = json!("{{ \"only\" }}");
        set["spec"]["template"]["spec"]["source"]["path"] = json!("p");
    }));
    assert_eq!(found[0]["metadata"]["name"], "only");
    assert_eq!(found[0]["metadata"]["finalizers"], json!(["resources-finalizer.argocd.argoproj.io"]));
}

/// What Argo CD adds to the functions of sprig, and what it takes away.
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
        let found = applications(&set(elements.clone(), |set| {
            set["spec"]["template"]["metadata"]["annotations"] = json!({"a": template});
        }));
        assert_eq!(found[0]["metadata"]["annotations"]["a"], expected, "{template}");
    }
    for (template, words) in [
        ("{{ env \"HOME\" }}", "function \"env\" not defined"),
        ("{{ expandenv \"$HOME\" }}", "function \"expandenv\" not defined"),
        ("{{ getHostByName \"localhost\" }}", "function \"getHostByName\" not defined"),
        ("{{ fromYaml \"[a]\" }}", "it is not a mapping"),
        ("{{ fromYamlArray \"a: b\" }}", "it is not a sequence"),
        ("{{ slugify }}", "slugify takes a string"),
        ("{{ slugify -1 .text }}", "slugify takes a string"),
        ("{{ .name", "failed to parse template {{ .name: template: base:1:"),
        ("{{ .name.first }}", "executing \"base\" at <.name.first>"),
    ] {
        let error = run(&set(elements.clone(), |set| {
            set["spec"]["template"]["metadata"]["annotations"] = json!({"a": template});
        }));
        let place = "generators[0].list, element 1, template.metadata.annotations.a: failed to ";
        let error = error.unwrap_err();
        assert!(error.starts_with(place) && error.contains(words), "{template}: {error}");
    }
}

#[test]
fn options_say_what_a_missing_parameter_is() {
    let with = |options: Value| {
        set(json!([{"name": "web"}]), |set| {
            set["spec"]["goTemplateOptions"] = options;
            set["spec"]["template"]["metadata"]["annotations"] = json!({"a": "{{ .missing }}"});
        })
    };
    assert_eq!(applications(&with(json!([])))[0]["metadata"]["annotations"]["a"], "<no value>");
    let last = with(json!(["missingkey=error", "missingkey=default"]));
    assert_eq!(applications(&last)[0]["metadata"]["annotations"]["a"], "<no value>", "the last one counts");
    let error = run(&with(json!(["missingkey=error"]))).unwrap_err();
    assert!(error.contains("map has no entry for key \"missing\""), "{error}");
    let error = run(&with(json!(["missingkey=maybe"]))).unwrap_err();
    assert!(error.starts_with("goTemplateOptions: \"missingkey=maybe\" is not an option"), "{error}");
}

/// A template of a generator goes before that of the set, field by field.
#[test]
fn a_generator_has_a_say_in_the_template() {
    let found = applications(&set(json!([]), |set| {
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

/// Section 3.3: to preserve the objects of an Application is to give it no finalizer.
#[test]
fn finalizers_are_added_where_there_are_none() {
    for (finalizers, preserve, expected) in [
        (json!([]), false, json!(["resources-finalizer.argocd.argoproj.io"])),
        (json!(["a.io/{{ .name }}"]), false, json!(["a.io/web"])),
        (json!([]), true, json!(null)),
        (json!(["a.io/b"]), true, json!(["a.io/b"])),
    ] {
        let found = applications(&set(json!([{"name": "web"}]), |set| {
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
    let error = run(&set(json!([]), |set| set["spec"]["generators"] = json!([{}, {"terraform": {}}])));
    let none = "there is no generator in it that is known here";
    assert_eq!(error, Err(format!("generators[0]: {none}; generators[1]: {none}, only terraform")));
}

#[test]
fn a_generator_that_nobody_can_ask_is_named() {
    for (generator, place) in [
        (json!({"clusters": {}}), "generators[0].clusters: clusters are not known here"),
        (json!({"scmProvider": {}}), "generators[0].scmProvider: SCM providers cannot be asked here"),
        (json!({"pullRequest": {}}), "generators[0].pullRequest: pull requests cannot be asked for here"),
        (
            json!({"plugin": {"configMapRef": {"name": "p"}}}),
            "generators[0].plugin: the plugin of ConfigMap p cannot be asked here",
        ),
        (
            json!({"clusterDecisionResource": {"configMapRef": "p", "name": "x"}}),
            "generators[0].clusterDecisionResource: resources of clusters cannot be asked here",
        ),
        (
            json!({"git": {"repoURL": "https://u:p@a.example.com/b", "revision": "main", "files": [{"path": "*"}]}}),
            "generators[0].git: the repository https://a.example.com/b at \"main\" is not known here",
        ),
    ] {
        let error = run(&set(json!([]), |set| set["spec"]["generators"] = json!([generator])));
        assert_eq!(error, Err(place.to_owned()));
    }
}

/// All that is wrong is told, and not only the first of it.
#[test]
fn errors_of_all_elements_are_told() {
    let error = run(&set(json!([{"name": "a"}, {}, {"other": "b"}]), |set| {
        set["spec"]["goTemplateOptions"] = json!(["missingkey=error"]);
    }));
    let error = error.unwrap_err();
    assert!(error.contains("element 2") && error.contains("; generators[0].list, element 3"), "{error}");
    let many: Vec<_> = (0..100).map(|_| json!({})).collect();
    let error = run(&set(json!(many), |set| set["spec"]["goTemplateOptions"] = json!(["missingkey=error"])));
    let error = error.unwrap_err();
    assert!(
        error.contains("element 20,")
            && !error.contains("element 21,")
            && error.ends_with("; and maybe more")
    );
}
