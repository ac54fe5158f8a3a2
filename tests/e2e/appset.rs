//! `tidegate appset generate`: the Applications of ApplicationSets in files.

use serde_json::{Value, json};

use crate::bench::Bench;

const SET: &str = "\
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: fleet}
spec:
  goTemplate: true
  goTemplateOptions: [missingkey=error]
  generators:
    - matrix:
        generators:
          - list: {elements: [{env: dev}, {env: prod}]}
          - git: {repoURL: ./repo, revision: HEAD, directories: [{path: '*'}]}
  template:
    metadata: {name: '{{ .env }}-{{ .path.basename }}'}
    spec:
      project: default
      source: {repoURL: ./repo, path: '{{ .path.path }}'}
      destination: {name: in-cluster, namespace: '{{ .env }}'}
";

fn bench() -> Bench {
    let bench = Bench::new();
    for app in ["db", "web"] {
        bench.write(
            &format!("sets/repo/{app}/map.yaml"),
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        );
    }
    bench.run(&["example", "commit", "sets/repo"]).expect_code(0);
    bench.write("sets/fleet.yaml", SET);
    bench
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect()
}

#[test]
fn applications_are_printed_as_a_list_and_nothing_is_touched() {
    let bench = bench();
    let args = ["appset", "generate", "-f", "sets/fleet.yaml", "-o", "json"];
    let list = bench.json(&args);
    assert_eq!(list["kind"], "List");
    assert_eq!(names(&list), ["dev-db", "dev-web", "prod-db", "prod-web"]);
    assert_eq!(
        list["items"][3],
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "prod-web", "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
            "spec": {
                "project": "default", "source": {"repoURL": "./repo", "path": "web"},
                "destination": {"name": "in-cluster", "namespace": "prod"},
            },
        })
    );
    let yaml = bench.run(&args[..4]).expect_code(0).out;
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), list);
    let mut piped = args;
    piped[3] = "-";
    let from_input = SET.replace("./repo", "./sets/repo");
    let ran = bench.run_with_input(&piped, &from_input).expect_code(0);
    assert_eq!(names(&serde_json::from_str(&ran.out).unwrap()).len(), 4);
    assert!(!bench.state().exists(), "nothing is kept");
}

#[test]
fn clusters_come_from_files() {
    let bench = bench();
    let set = SET.replace("list: {elements: [{env: dev}, {env: prod}]}", "clusters: {values: {region: eu}}");
    bench.write("sets/fleet.yaml", set.replace(".env", ".name"));
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a, labels: {argocd.argoproj.io/secret-type: cluster}}\nstringData: {name: east, server: 'https://east.example.com', config: '{\"bearerToken\": \"hunter2\"}'}\n";
    bench.write("secrets/a.yaml", secret);
    let args = ["appset", "generate", "-f", "sets/fleet.yaml", "-o", "json", "--clusters", "secrets"];
    let ran = bench.run(&args).expect_code(0);
    let list = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(names(&list), ["east-db", "east-web", "in-cluster-db", "in-cluster-web"]);
    assert!(!ran.out.contains("hunter2"));
    let ran = bench.run(&args[..6]).expect_code(1);
    let place =
        "ApplicationSet fleet: generators[0].matrix.generators[0].clusters: clusters are not known here";
    assert!(ran.err.contains(place) && ran.err.contains("--clusters PATH"), "{ran:?}");
}

#[test]
fn what_is_wrong_is_named_and_the_exit_code_says_whose_it_is() {
    let bench = bench();
    let args = ["appset", "generate", "-f", "sets/fleet.yaml", "-o", "json"];
    let plugin = "    - plugin: {configMapRef: {name: mine}}\n  template:\n";
    for (set, code, words) in [
        (
            SET.replace("{{ .env }}-", "{{ .cluster }}-"),
            2,
            "generators[0].matrix, element 1, folder db, template.metadata.name: failed to execute go template",
        ),
        (
            SET.replace("./repo, revision", "./none, revision"),
            1,
            "generators[0].matrix.generators[1].git: repoURL \"./none\"",
        ),
        (
            SET.replace("  template:\n", plugin),
            1,
            "generators[1].plugin: the plugin of ConfigMap mine cannot be asked here",
        ),
        (SET.replace("goTemplate: true", "goTemplate: 'yes'"), 2, "ApplicationSet fleet: invalid type"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n".to_owned(),
            2,
            "there is no ApplicationSet",
        ),
    ] {
        bench.write("sets/fleet.yaml", set);
        let ran = bench.run(&args).expect_code(code);
        assert!(ran.err.contains(words), "{words}: {ran:?}");
        assert_eq!(ran.out, "");
    }
    bench.write(
        "sets/fleet.yaml",
        SET.replace("{{ .env }}-", "").replace("generators:\n    - m", "unheard: 1\n  generators:\n    - m"),
    );
    let ran = bench.run(&args).expect_code(2);
    assert_eq!(names(&serde_json::from_str(&ran.out).unwrap()), Vec::<&str>::new());
    let twice = "contains applications with duplicate name: db: one of generators[0].matrix, element 1, folder db, and one of generators[0].matrix, element 2, folder db";
    assert!(ran.err.contains(twice), "{ran:?}");
    assert!(ran.err.contains("these fields have no effect: spec.unheard"), "{ran:?}");
    // Each set alone is well; together they are not.
    bench.write("sets/fleet.yaml", format!("{SET}---\n{}", SET.replace("name: fleet", "name: other")));
    let ran = bench.run(&args).expect_code(2);
    assert!(ran.err.contains("several ApplicationSets make an Application dev-db"), "{ran:?}");
}
