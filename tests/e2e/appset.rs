//! `tidegate appset generate` and `plan`: the Applications of ApplicationSets in files, and their order.

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

pub fn bench() -> Bench {
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
            "generators[1].plugin: ConfigMap argocd/mine is not known here; name a file that holds it with --secrets PATH",
        ),
        (
            SET.replace("goTemplate: true", "goTemplate: 'yes'"),
            2,
            "ApplicationSet fleet: spec.goTemplate: invalid type",
        ),
        // Whoever misspells it must not lose all that it has made.
        (
            SET.replace("list: {elements:", "list: {element:"),
            2,
            "it has neither elements nor elementsYaml, and element is not known; for no elements, write elements: []",
        ),
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

/// A set of these Applications, `NAME ENV` each, with this strategy.
pub fn planned(bench: &Bench, members: &[&str], strategy: &Value) {
    let elements: Vec<Value> = members
        .iter()
        .map(|member| {
            let (name, env) = member.split_once(' ').unwrap();
            json!({"name": name, "env": env})
        })
        .collect();
    let set = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "fleet"},
        "spec": {
            "goTemplate": true, "goTemplateOptions": ["missingkey=error"],
            "generators": [{"list": {"elements": elements}}],
            "strategy": strategy,
            "template": {
                "metadata": {"name": "{{ .name }}", "labels": {"env": "{{ .env }}"}},
                "spec": {
                    "project": "default", "destination": {"name": "in-cluster", "namespace": "{{ .env }}"},
                    "source": {"repoURL": "./repo", "path": "web"},
                },
            },
        },
    });
    bench.write("sets/fleet.yaml", set.to_string());
}

fn select(operator: &str, env: &[&str]) -> Value {
    json!([{"key": "env", "operator": operator, "values": env}])
}

/// dev, then qa two at once, then prod one by one; deleted the other way round.
pub fn three_steps() -> Value {
    json!({
        "type": "RollingSync", "deletionOrder": "Reverse",
        "rollingSync": {"steps": [
            {"matchExpressions": select("In", &["dev"])},
            {"matchExpressions": select("In", &["qa"]), "maxUpdate": "50%"},
            {"matchExpressions": select("In", &["prod"]), "maxUpdate": 1},
        ]},
    })
}

pub const FLEET: [&str; 8] =
    ["web-dev dev", "db-dev dev", "a qa", "b qa", "c qa", "d qa", "web-prod prod", "lost elsewhere"];
pub const PLAN: [&str; 6] = ["appset", "plan", "-f", "sets/fleet.yaml", "-o", "json"];

/// The Applications of each step.
pub fn members(steps: &Value) -> Vec<Vec<&str>> {
    let steps = steps.as_array().unwrap().iter();
    steps
        .map(|step| {
            step["applications"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
        })
        .collect()
}

#[test]
fn a_plan_says_who_is_synced_and_deleted_when() {
    let bench = bench();
    planned(&bench, &FLEET, &three_steps());
    let plan = bench.json(&PLAN)["plans"][0].clone();
    let (rollout, deletion) = (&plan["rollout"], &plan["deletion"]);
    assert_eq!(
        members(&rollout["steps"]),
        [vec!["db-dev", "web-dev"], vec!["a", "b", "c", "d"], vec!["web-prod"]]
    );
    assert_eq!(rollout["outside"], json!(["lost"]));
    let at_once: Vec<&Value> =
        rollout["steps"].as_array().unwrap().iter().map(|step| &step["maxUpdate"]).collect();
    assert_eq!(at_once, [&json!(null), &json!(2), &json!(1)]);
    // What no step selects goes last, and all go one by one.
    assert_eq!(deletion["order"], "Reverse");
    assert_eq!(
        members(&deletion["steps"]),
        [vec!["web-prod"], vec!["a", "b", "c", "d"], vec!["db-dev", "web-dev"], vec!["lost"]]
    );
    assert!(deletion["steps"].as_array().unwrap().iter().all(|step| step["maxUpdate"] == 1));
    let numbers: Vec<&Value> =
        deletion["steps"].as_array().unwrap().iter().map(|step| &step["step"]).collect();
    assert_eq!(numbers, [&json!(3), &json!(2), &json!(1), &json!(null)], "as the strategy counts them");
    // Branches are looked up.
    let revision = plan["applications"][0]["revisions"][0].as_str().unwrap();
    assert!(revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit()), "{plan}");
    assert_eq!(plan["applications"][0]["targetRevisions"], json!(["HEAD"]));
    let yaml = bench.run(&["appset", "plan", "-f", "sets/fleet.yaml", "-o", "yaml"]).expect_code(0).out;
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap()["plans"][0], plan);
    assert!(!bench.state().exists(), "nothing is kept");
}

#[test]
fn so_many_at_once_as_the_step_says() {
    let bench = bench();
    let five = ["a dev", "b dev", "c dev", "d dev", "e dev"];
    for (max_update, expected) in [
        (json!(null), json!(null)),
        (json!(3), json!(3)),
        (json!(0), json!(0)),
        (json!(-2), json!(0)),
        (json!("50%"), json!(2)),
        (json!("100%"), json!(5)),
        // Rounded down, but never to nothing that was not asked for.
        (json!("1%"), json!(1)),
        (json!("0%"), json!(0)),
        (json!("00%"), json!(0)),
        (json!("4"), json!(4)),
    ] {
        let mut step = json!({"matchExpressions": select("In", &["dev"])});
        if !max_update.is_null() {
            step["maxUpdate"] = max_update.clone();
        }
        planned(&bench, &five, &json!({"type": "RollingSync", "rollingSync": {"steps": [step]}}));
        let plan = bench.json(&PLAN);
        assert_eq!(plan["plans"][0]["rollout"]["steps"][0]["maxUpdate"], expected, "{max_update}");
    }
}

#[test]
fn the_first_step_that_selects_an_application_has_it() {
    let bench = bench();
    let strategy = json!({"type": "RollingSync", "rollingSync": {"steps": [
        {"matchExpressions": select("In", &["dev", "qa"])},
        {"matchExpressions": select("NotIn", &["dev"])},
        {},
    ]}});
    planned(&bench, &FLEET[1..4], &strategy);
    let plan = bench.json(&PLAN)["plans"][0].clone();
    assert_eq!(members(&plan["rollout"]["steps"]), [vec!["a", "b", "db-dev"], vec![], vec![]]);
    let also: Vec<&Value> = plan["applications"].as_array().unwrap().iter().map(|one| &one["also"]).collect();
    assert_eq!(also, [&json!([2, 3]), &json!([2, 3]), &json!([3])]);
    let text = bench.run(&PLAN[..4]).expect_code(0).out;
    assert!(text.contains("steps 2 and 3 select it too") && text.contains("step 3 selects it too"), "{text}");
}

#[test]
fn the_order_of_a_deletion_is_shown_alone() {
    let bench = bench();
    let custom = json!({
        "deletionOrder": "Custom",
        "deletionSync": {"steps": [
            {"matchExpressions": select("In", &["qa"]), "maxUpdate": "50%"},
            {"matchExpressions": select("In", &["dev"])},
        ]},
    });
    planned(&bench, &FLEET, &custom);
    let args = ["appset", "delete", "--plan", "-f", "sets/fleet.yaml", "-o", "json"];
    let deletion = bench.json(&args)["plans"][0]["deletion"].clone();
    assert_eq!(
        members(&deletion["steps"]),
        [vec!["a", "b", "c", "d"], vec!["db-dev", "web-dev"], vec!["lost", "web-prod"]]
    );
    let at_once: Vec<&Value> =
        deletion["steps"].as_array().unwrap().iter().map(|step| &step["maxUpdate"]).collect();
    assert_eq!(at_once, [&json!(2), &json!(null), &json!(null)]);
    planned(&bench, &FLEET[..2], &json!({}));
    let deletion = bench.json(&args)["plans"][0]["deletion"].clone();
    assert_eq!(
        (&deletion["order"], members(&deletion["steps"])),
        (&json!("AllAtOnce"), vec![vec!["db-dev", "web-dev"]])
    );
    // A file is for a look only.
    let ran = bench.run(&["appset", "delete", "-f", "sets/fleet.yaml", "--yes"]).expect_code(2);
    assert!(ran.err.contains("--plan"), "{ran:?}");
}

#[test]
fn what_is_wrong_with_steps_and_orders_says_what_to_do() {
    let bench = bench();
    for (field, value, words) in [
        (
            "/rollingSync/steps/0/matchExpressions/0/operator",
            json!("Exists"),
            "spec.strategy.rollingSync, step 1: operator \"Exists\" of a step's matchExpressions is not known; write In or NotIn",
        ),
        (
            "/rollingSync/steps/1/maxUpdate",
            json!("half"),
            "spec.strategy.rollingSync, step 2: maxUpdate \"half\" is no number of Applications; write a whole number, or a percentage such as 10%",
        ),
        (
            "/deletionOrder",
            json!("Sideways"),
            "spec.strategy.deletionOrder \"Sideways\" is not known; write AllAtOnce, Reverse or Custom",
        ),
        (
            "/deletionOrder",
            json!("Custom"),
            "deletionOrder Custom needs steps; give them in spec.strategy.deletionSync",
        ),
        ("/type", json!("AllAtOnce"), "there are none; set spec.strategy.type to RollingSync"),
    ] {
        let mut strategy = three_steps();
        *strategy.pointer_mut(field).unwrap() = value;
        planned(&bench, &FLEET, &strategy);
        let ran = bench.run(&PLAN).expect_code(2);
        assert!(ran.err.contains("ApplicationSet fleet: ") && ran.err.contains(words), "{words}: {ran:?}");
        assert_eq!(ran.out, "");
    }
    // So is what keeps deletions from being done later.
    planned(&bench, &FLEET, &three_steps());
    let written = std::fs::read_to_string(bench.path().join("sets/fleet.yaml")).unwrap();
    let annotated = |annotation: &str| {
        let metadata = format!("\"metadata\":{{\"annotations\":{{{annotation}}},\"name\":\"fleet\"}}");
        bench.write("sets/fleet.yaml", written.replace("\"metadata\":{\"name\":\"fleet\"}", &metadata));
    };
    annotated("\"tidegate.dev/max-deletions\":\"abc\"");
    let ran = bench.run(&PLAN).expect_code(2);
    assert!(ran.err.contains("annotation tidegate.dev/max-deletions: \"abc\" is no number"), "{ran:?}");
    // And what would keep Applications from being updated.
    let ignoring = "\"spec\":{\"ignoreApplicationDifferences\":[{\"jqPathExpressions\":[\".spec[\"]}],";
    bench.write("sets/fleet.yaml", written.replacen("\"spec\":{", ignoring, 1));
    let ran = bench.run(&PLAN).expect_code(2);
    assert!(ran.err.contains("spec.ignoreApplicationDifferences: ") && ran.err.contains(".spec["), "{ran:?}");
    // What has no effect is said, and no error.
    annotated("\"tidegate.dev/deletion-sync\":\"steps: []\"");
    let ran = bench.run(&PLAN).expect_code(0);
    assert!(ran.err.contains("tidegate.dev/deletion-sync has no effect without"), "{ran:?}");
    // A revision that cannot be looked up is shown as it is written.
    planned(&bench, &FLEET[..1], &json!({}));
    let written = std::fs::read_to_string(bench.path().join("sets/fleet.yaml")).unwrap();
    bench.write("sets/fleet.yaml", written.replace("./repo", "./none"));
    let ran = bench.run(&PLAN).expect_code(0);
    let plan: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(plan["plans"][0]["applications"][0]["revisions"], json!(["HEAD"]));
    assert!(
        ran.err.contains("revision HEAD is shown as it is written: ") && ran.err.contains("./none"),
        "{ran:?}"
    );
}

#[test]
fn a_plan_as_text_diagram_and_picture() {
    let bench = bench();
    planned(&bench, &FLEET, &three_steps());
    let mut set: Value =
        serde_json::from_str(&std::fs::read_to_string(bench.path().join("sets/fleet.yaml")).unwrap())
            .unwrap();
    set["metadata"]["annotations"] = json!({"tidegate.dev/rollout": "\
steps:
  - {step: 2, gates: [soak:10m], deadline: 1h}
  - {step: 3, gates: [approval], maxFailures: 1, onFailure: rollback}
onNewTargets: finish
pendingTimeout: 5m
onPending: fail
"});
    bench.write("sets/fleet.yaml", set.to_string());
    let commit =
        bench.json(&PLAN)["plans"][0]["applications"][0]["revisions"][0].as_str().unwrap()[..7].to_owned();
    let redacted = |format: &str| {
        let args = ["appset", "plan", "-f", "sets/fleet.yaml", "-o", format];
        bench.run(&args).expect_code(0).out.replace(&commit, "1a2b3c4")
    };
    insta::assert_snapshot!("appset_plan_text", redacted("text"));
    insta::assert_snapshot!("appset_plan_mermaid", redacted("mermaid"));
    insta::assert_snapshot!("appset_plan_svg", redacted("svg"));
    // A drawing shows one set.
    bench.write(
        "sets/fleet.yaml",
        format!("{set}\n---\n{}", set.to_string().replace("\"fleet\"", "\"other\"")),
    );
    let ran = bench.run(&["appset", "plan", "-f", "sets/fleet.yaml", "-o", "svg"]).expect_code(2);
    assert!(ran.err.contains("there are several ApplicationSets"), "{ran:?}");
}
