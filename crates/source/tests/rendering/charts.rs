//! Tests for charts that the real Helm renders. The expected result is the output of `helm template` with the
//! same options.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use tidegate_source::ReferencedSource;

use crate::fixture::{RenderFixture, chart};

const MAP: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}
data:
  value: {{ .Values.value | quote }}
  deep: {{ .Values.a.b | quote }}
  kind: {{ kindOf .Values.number }}
  list: {{ join "+" .Values.list | quote }}
  file: {{ .Values.file | quote }}
  kube: {{ .Capabilities.KubeVersion.Version }}
  has: {{ .Capabilities.APIVersions.Has "example.com/v1" | quote }}
"#;

/// Creates a repository with a chart that prints its inputs in its manifests.
fn bench() -> Option<RenderFixture> {
    let bench = RenderFixture::with_helm()?;
    for (file, content) in [
        ("Chart.yaml", "{apiVersion: v2, name: web, version: 0.1.0}"),
        ("values.yaml", "{value: chart, number: 0, a: {b: chart}, list: [], file: ''}"),
        ("templates/map.yaml", MAP),
        (
            "templates/tests/test.yaml",
            "{apiVersion: v1, kind: Pod, metadata: {name: test, annotations: {helm.sh/hook: test}}}",
        ),
        (
            "crds/a.yaml",
            "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a.example.com}}",
        ),
        ("envs/a.yaml", "{value: a, a: {b: a}}"),
        ("envs/b.yaml", "{value: b}"),
        ("envs/deep/c.yaml", "{value: c}"),
    ] {
        bench.write(&format!("repo/charts/web/{file}"), content);
    }
    bench.write("repo/shared/values.yaml", "{value: shared}");
    bench.write("repo/team_web/values.yaml", "{value: team}");
    bench.commit("repo");
    Some(bench)
}

fn data(bench: &RenderFixture, helm: Value) -> Value {
    let objects = bench.objects(&chart(helm)).unwrap();
    objects.into_iter().find(|one| one["kind"] == "ConfigMap").unwrap()
}

fn kinds(bench: &RenderFixture, helm: Value) -> Vec<String> {
    let objects = bench.objects(&chart(helm)).unwrap();
    objects.iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_chart_is_rendered_for_its_application() {
    let Some(bench) = bench() else { return };
    let plain = crate::fixture::source(json!({"repoURL": "./repo", "path": "charts/web"}));
    assert_eq!(bench.locate(&plain).unwrap().source_type(), "Helm");
    let map = data(&bench, Value::Null);
    assert_eq!(map["metadata"], json!({"name": "web", "namespace": "shop"}));
    assert_eq!(map["data"]["value"], "chart");
    assert_eq!(kinds(&bench, json!({})), ["CustomResourceDefinition", "ConfigMap", "Pod"]);
    assert_eq!(kinds(&bench, json!({"skipCrds": true, "skipTests": true})), ["ConfigMap"]);
    let map = data(&bench, json!({"releaseName": "other", "namespace": "elsewhere", "version": "v3"}));
    assert_eq!(map["metadata"], json!({"name": "other", "namespace": "elsewhere"}));
    let map = data(&bench, json!({"kubeVersion": "1.27.3", "apiVersions": ["example.com/v1"]}));
    assert_eq!((&map["data"]["kube"], &map["data"]["has"]), (&json!("v1.27.3"), &json!("true")));
    // The path of each manifest is the path of its template.
    let located = bench.locate(&plain).unwrap();
    let files = bench.open("repo").read(&located, &bench.making).unwrap();
    let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["web/crds/a.yaml", "web/templates/map.yaml", "web/templates/tests/test.yaml"]);
}

/// The order of precedence is `parameters > valuesObject > values > valueFiles > values.yaml`.
#[test]
fn precedence_of_values() {
    let Some(bench) = bench() else { return };
    let files = json!(["envs/b.yaml"]);
    let parameters = json!([{"name": "value", "value": "parameter"}, {"name": "number", "value": "7"}]);
    for (helm, expected) in [
        (json!({"valueFiles": files}), "b"),
        (json!({"valueFiles": files, "values": "value: text"}), "text"),
        (
            json!({"valueFiles": files, "values": "value: text", "valuesObject": {"value": "object"}}),
            "object",
        ),
        (json!({"values": "value: text", "valuesObject": {"a": {"b": "object"}}}), "chart"),
        (
            json!({"valueFiles": files, "valuesObject": {"value": "object"}, "parameters": parameters}),
            "parameter",
        ),
        (json!({"parameters": [{"name": "value", "value": "1"}, {"name": "value", "value": "2"}]}), "2"),
        (json!({"parameters": [{"name": "value", "value": "a,b=c"}]}), "a,b=c"),
        (json!({"parameters": [{"name": "value", "value": "$ARGOCD_APP_NAME-$$-$NONE"}]}), "team_web-$-"),
        (json!({"parameters": [{"name": "value", "value": "--post-renderer=x"}]}), "--post-renderer=x"),
    ] {
        assert_eq!(data(&bench, helm.clone())["data"]["value"], expected, "{helm}");
    }
    let told = data(
        &bench,
        json!({"parameters": [{"name": "list", "value": "{x,y}"}, {"name": "number", "value": "7"}]}),
    );
    assert_eq!((&told["data"]["list"], &told["data"]["kind"]), (&json!("x+y"), &json!("int64")));
    let told = data(&bench, json!({"parameters": [{"name": "number", "value": "7", "forceString": true}]}));
    assert_eq!(told["data"]["kind"], "string");
    let told = data(&bench, json!({"fileParameters": [{"name": "file", "path": "envs/b.yaml"}]}));
    assert_eq!(told["data"]["file"], "{value: b}");
}

#[test]
fn selection_of_values_files() {
    let Some(bench) = bench() else { return };
    for (files, expected) in [
        (json!(["envs/a.yaml", "envs/b.yaml"]), "b"),
        (json!(["envs/b.yaml", "envs/a.yaml"]), "a"),
        (json!(["../../shared/values.yaml"]), "shared"),
        (json!(["/shared/values.yaml"]), "shared"),
        (json!(["/$ARGOCD_APP_NAME/values.yaml"]), "team"),
        (json!(["envs/*.yaml"]), "b"),
        (json!(["envs/**/*.yaml"]), "c"),
        // An explicit entry determines the position of a file that also matches a pattern.
        (json!(["envs/*.yaml", "envs/a.yaml"]), "a"),
        (json!(["envs/a.yaml", "envs/*.yaml"]), "b"),
        (json!(["envs/deep/*.yaml", "envs/**/*.yaml"]), "b"),
    ] {
        assert_eq!(data(&bench, json!({"valueFiles": files}))["data"]["value"], expected, "{files}");
    }
    for (files, expected) in [
        (json!(["envs/none.yaml"]), "has no file charts/web/envs/none.yaml"),
        (json!(["none/*.yaml"]), "values file glob \"none/*.yaml\" matched no files"),
        (json!(["../../../../etc/passwd"]), "is outside the repository"),
        (json!(["/../etc/passwd"]), "is outside the repository"),
        (json!(["https://example.com/values.yaml"]), "is remote"),
        (json!(["$values/a.yaml"]), "ref \"values\", but no source has this ref"),
    ] {
        let error = bench.error(&chart(json!({"valueFiles": files})));
        assert!(error.contains(expected), "{files}: {error}");
    }
    let lenient =
        json!({"valueFiles": ["none.yaml", "none/*.yaml", "envs/a.yaml"], "ignoreMissingValueFiles": true});
    assert_eq!(data(&bench, lenient)["data"]["value"], "a");
}

#[test]
fn values_of_another_repository() {
    let Some(mut bench) = bench() else { return };
    bench.write("other/envs/a.yaml", "{value: one}");
    let commit = bench.commit("other");
    bench.write("other/envs/a.yaml", "{value: two}");
    let newer = bench.commit("other");
    let repository = bench.open("other");
    bench
        .making
        .referenced
        .insert("values".into(), ReferencedSource { repository: repository.clone(), commit });
    let named = |file: &str| json!({"valueFiles": [file], "fileParameters": [{"name": "file", "path": "$values/envs/a.yaml"}]});
    let first = bench.locate(&chart(named("$values/envs/a.yaml"))).unwrap();
    for file in ["$values/envs/a.yaml", "$values/envs/*.yaml", "$values/none/../envs/a.yaml"] {
        let told = data(&bench, named(file));
        assert_eq!(
            (&told["data"]["value"], &told["data"]["file"]),
            (&json!("one"), &json!("{value: one}")),
            "{file}"
        );
    }
    // The commit of a referenced source is part of the key.
    bench.making.referenced.insert("values".into(), ReferencedSource { repository, commit: newer });
    assert_ne!(bench.locate(&chart(named("$values/envs/a.yaml"))).unwrap().key, first.key);
    assert_eq!(data(&bench, named("$values/envs/a.yaml"))["data"]["value"], "two");
    for (file, expected) in [
        ("$values/none.yaml", "has no file none.yaml"),
        ("$values/../../etc/passwd", "is outside the repository"),
        ("$other/a.yaml", "refers to ref \"other\", but no source has this ref; known refs: $values"),
    ] {
        let error = bench.error(&chart(json!({"valueFiles": [file]})));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn errors_of_helm_are_quoted() {
    let Some(bench) = bench() else { return };
    bench.write("repo/charts/web/values.schema.json", r#"{"properties": {"value": {"maxLength": 5}}}"#);
    bench.commit("repo");
    let long = json!({"values": "value: longer"});
    let error = bench.error(&chart(long.clone()));
    assert!(
        error.starts_with("helm template failed for charts/web: ") && error.contains("/value"),
        "{error}"
    );
    let mut lenient = long;
    lenient["skipSchemaValidation"] = json!(true);
    assert_eq!(data(&bench, lenient)["data"]["value"], "longer");
    let error = bench.error(&chart(json!({"values": "value: [1"})));
    assert!(error.contains("source.helm.values"), "the error names the field: {error}");
    bench.write("repo/charts/web/envs/b.yaml", "a: [");
    bench.commit("repo");
    let error = bench.error(&chart(json!({"valueFiles": ["envs/b.yaml"]})));
    assert!(error.contains("charts/web/envs/b.yaml"), "{error}");
    for (helm, expected) in [
        (json!({"releaseName": "Web"}), "releaseName"),
        (json!({"releaseName": "-a"}), "releaseName"),
        (json!({"version": "v2"}), "only v3"),
        (json!({"valueFilez": []}), "source.helm.valueFilez is not supported"),
    ] {
        let error = bench.error(&chart(helm));
        assert!(error.contains(expected), "{error}");
    }
    bench.write("repo/charts/web/templates/broken.yaml", "{{ fail \"sorry\" }}");
    bench.commit("repo");
    let error = bench.error(&chart(json!({})));
    assert!(error.contains("web/templates/broken.yaml") && error.contains("sorry"), "{error}");
}

#[test]
fn subcharts_must_exist() {
    let Some(bench) = bench() else { return };
    let needs = "{apiVersion: v2, name: web, version: 0.1.0, dependencies: [{name: other, version: 1.0.0, repository: 'https://example.com'}]}";
    bench.write("repo/charts/web/Chart.yaml", needs);
    bench.commit("repo");
    let error = bench.error(&chart(json!({})));
    assert!(
        error.contains("depends on the charts other") && error.contains("helm dependency update"),
        "{error}"
    );
    bench.write("repo/charts/web/charts/other/Chart.yaml", "{apiVersion: v2, name: other, version: 1.0.0}");
    bench.write(
        "repo/charts/web/charts/other/templates/a.yaml",
        "{apiVersion: v1, kind: Secret, metadata: {name: a}}",
    );
    bench.commit("repo");
    assert_eq!(kinds(&bench, json!({"skipCrds": true, "skipTests": true})), ["Secret", "ConfigMap"]);
}

#[test]
fn links_of_a_chart_stay_in_the_repository() {
    let Some(bench) = bench() else { return };
    let path = bench.path("repo/charts/web");
    symlink("../../../shared/values.yaml", path.join("envs/link.yaml")).unwrap();
    symlink("../../../shared", path.join("envs/folder")).unwrap();
    bench.commit("repo");
    assert_eq!(data(&bench, json!({"valueFiles": ["envs/link.yaml"]}))["data"]["value"], "shared");
    // The target of a link is part of the key.
    let before = bench.locate(&chart(json!({}))).unwrap().key;
    bench.write("repo/shared/values.yaml", "{value: other}");
    bench.commit("repo");
    assert_ne!(bench.locate(&chart(json!({}))).unwrap().key, before);
    symlink("..", path.join("envs/loop")).unwrap();
    bench.commit("repo");
    let error = bench.error(&chart(json!({})));
    assert!(error.contains("nested links to folders"), "{error}");
    std::fs::remove_file(path.join("envs/loop")).unwrap();
    symlink("/etc/passwd", path.join("templates/passwd.yaml")).unwrap();
    bench.commit("repo");
    let error = bench.error(&chart(json!({})));
    assert!(error.contains("templates/passwd.yaml is a link to \"/etc/passwd\""), "{error}");
}

#[test]
fn equal_inputs_are_rendered_once() {
    let Some(bench) = bench() else { return };
    let key = |helm: Value| bench.locate(&chart(helm)).unwrap().key;
    let first = key(json!({}));
    // The commit is different, but the chart is the same, so the key must not change.
    bench.write("repo/elsewhere/a.yaml", "a");
    bench.commit("repo");
    assert_eq!(key(json!({})), first);
    for other in [
        json!({"releaseName": "b"}),
        json!({"namespace": "b"}),
        json!({"values": "a: b"}),
        json!({"valueFiles": ["envs/a.yaml"]}),
        json!({"parameters": [{"name": "a", "value": "b"}]}),
        json!({"fileParameters": [{"name": "a", "path": "envs/a.yaml"}]}),
        json!({"skipCrds": true}),
        json!({"kubeVersion": "1.30.0"}),
    ] {
        assert_ne!(key(other.clone()), first, "{other}");
    }
    bench.write("repo/charts/web/envs/a.yaml", "changed: true");
    bench.commit("repo");
    assert_ne!(key(json!({})), first);
}

/// Helm would follow every reference in a schema.
#[test]
fn schemas_are_read_only_from_the_chart() {
    let Some(bench) = bench() else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = format!("http://{}/schema.json", listener.local_addr().unwrap());
    let file = format!("file://{}", bench.path("host.json").display());
    bench.write("host.json", r#"{"properties": {"value": {"const": "c4n4ry-of-the-host"}}}"#);
    bench.write("repo/charts/web/charts/sub/Chart.yaml", "{apiVersion: v2, name: sub, version: 0.1.0}");
    for folder in ["", "charts/sub/"] {
        for refers_to in [&server, &file, "file:///etc/passwd", "other.json"] {
            let path = format!("repo/charts/web/{folder}values.schema.json");
            bench.write(&path, &json!({"$ref": refers_to}).to_string());
            bench.commit("repo");
            let error = bench.error(&chart(json!({})));
            for part in ["values.schema.json refers to", "skipSchemaValidation"] {
                assert!(error.contains(part), "{folder} {refers_to}: {error}");
            }
            assert!(!error.contains("c4n4ry"), "{error}");
            assert_eq!(data(&bench, json!({"skipSchemaValidation": true}))["kind"], "ConfigMap");
            std::fs::remove_file(bench.path(&path)).unwrap();
        }
    }
    let inside = json!({"$ref": "#/$defs/all", "$defs": {"all": {"required": ["missing"]}}});
    bench.write("repo/charts/web/values.schema.json", &inside.to_string());
    bench.commit("repo");
    assert!(bench.error(&chart(json!({}))).contains("missing"), "the schema is used");
    assert!(listener.accept().is_err(), "no request is sent");
}

#[test]
fn contents_of_files_are_not_shown_when_a_chart_fails() {
    let Some(bench) = bench() else { return };
    let fails = "{{ fail (printf \"%s, %s, %s\" .Values.value .Values.file .Values.db.password) }}";
    bench.write("repo/charts/web/templates/map.yaml", fails);
    bench.write("repo/charts/web/values.yaml", "{value: '', file: '', db: {password: c4n4ry-of-the-chart}}");
    bench.write("repo/charts/web/envs/a.yaml", "{value: c4n4ry-of-a-file}");
    bench.write("repo/charts/web/key", "c4n4ry-of-a-parameter\n");
    bench.commit("repo");
    let error = bench.error(&chart(json!({
        "valueFiles": ["envs/a.yaml"],
        "fileParameters": [{"name": "file", "path": "key"}],
    })));
    assert!(error.contains("++++++++, ++++++++") && !error.contains("c4n4ry"), "{error}");
}

/// Helm would read the file named after the comma.
#[test]
fn a_file_parameter_has_one_name() {
    let Some(bench) = bench() else { return };
    for name in
        ["x=/etc/passwd,file", "x=/usr/lib/os-release,file", "x=http://127.0.0.1:1/a,file", "a,b", "a=b"]
    {
        let error = bench.error(&chart(json!({"fileParameters": [{"name": name, "path": "values.yaml"}]})));
        assert!(error.contains("fileParameters contains a comma or an equals sign"), "{name}: {error}");
    }
}
