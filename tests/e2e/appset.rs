//! `tidegate appset generate` and `plan`: the Applications of ApplicationSets in files, and their order.

use serde_json::{Value, json};

use crate::bench::Bench;

const APPSET: &str = "\
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
    bench.write("sets/fleet.yaml", APPSET);
    bench
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect()
}

#[test]
fn applications_are_listed_without_changes() {
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
    let from_input = APPSET.replace("./repo", "./sets/repo");
    let ran = bench.run_with_input(&piped, &from_input).expect_code(0);
    assert_eq!(names(&serde_json::from_str(&ran.out).unwrap()).len(), 4);
    assert!(!bench.state().exists(), "nothing is stored");
}

/// Argo CD keeps tags without a parameter, so they aren't errors.
#[test]
fn a_misspelled_parameter_is_reported_with_its_field() {
    let bench = bench();
    let set = APPSET
        .replace("  goTemplate: true\n  goTemplateOptions: [missingkey=error]\n", "")
        .replace("{{ .", "{{ ")
        .replace("path: '{{ path.path }}'", "path: '{{ path }}', targetRevision: 'v-{{ evn }}'");
    bench.write("sets/fleet.yaml", &set);
    let warning = "ApplicationSet fleet: Application dev-db and 3 others: spec.source.targetRevision contains {{evn}}, but there is no such parameter: did you mean env?";
    for command in ["generate", "plan"] {
        let ran = bench.run(&["appset", command, "-f", "sets/fleet.yaml", "-o", "json"]).expect_code(0);
        assert_eq!(ran.err.matches(warning).count(), 1, "{ran:?}");
        assert!(ran.out.contains("v-{{ evn }}"), "{ran:?}");
    }
    bench.write("sets/fleet.yaml", set.replace("evn", "env"));
    let ran = bench.run(&["appset", "generate", "-f", "sets/fleet.yaml"]).expect_code(0);
    assert_eq!(ran.err, "");
    // The namespace must be valid, so a misspelling there is an error.
    bench.write(
        "sets/fleet.yaml",
        set.replace("evn", "env").replace("namespace: '{{ env }}'", "namespace: '{{ evn }}'"),
    );
    let ran = bench.run(&["appset", "generate", "-f", "sets/fleet.yaml"]).expect_code(2);
    let refused = "spec.destination.namespace \"{{ evn }}\" is not a valid namespace name; use at most 63 lower-case letters";
    assert!(
        ran.err.contains(refused) && ran.err.contains("{{evn}}, but there is no such parameter"),
        "{ran:?}"
    );
}

#[test]
fn clusters_come_from_files() {
    let bench = bench();
    let set =
        APPSET.replace("list: {elements: [{env: dev}, {env: prod}]}", "clusters: {values: {region: eu}}");
    bench.write("sets/fleet.yaml", set.replace(".env", ".name"));
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a, labels: {argocd.argoproj.io/secret-type: cluster}}\nstringData: {name: east, server: 'https://east.example.com', config: '{\"bearerToken\": \"hunter2\"}'}\n";
    bench.write("secrets/a.yaml", secret);
    let args = ["appset", "generate", "-f", "sets/fleet.yaml", "-o", "json", "--clusters", "secrets"];
    let ran = bench.run(&args).expect_code(0);
    let list = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(names(&list), ["east-db", "east-web", "in-cluster-db", "in-cluster-web"]);
    assert!(!ran.out.contains("hunter2"));
    let ran = bench.run(&args[..6]).expect_code(1);
    let place = "ApplicationSet fleet: generators[0].matrix.generators[0].clusters: no clusters are declared";
    assert!(ran.err.contains(place) && ran.err.contains("--clusters PATH"), "{ran:?}");
}

#[test]
fn errors_are_named_and_the_exit_code_shows_their_origin() {
    let bench = bench();
    let args = ["appset", "generate", "-f", "sets/fleet.yaml", "-o", "json"];
    let plugin = "    - plugin: {configMapRef: {name: mine}}\n  template:\n";
    for (set, code, text) in [
        (
            APPSET.replace("{{ .env }}-", "{{ .cluster }}-"),
            2,
            "generators[0].matrix, element 1, folder db, template.metadata.name: failed to execute go template",
        ),
        (
            APPSET.replace("./repo, revision", "./none, revision"),
            1,
            "generators[0].matrix.generators[1].git: repoURL \"./none\"",
        ),
        (
            APPSET.replace("  template:\n", plugin),
            1,
            "generators[1].plugin: ConfigMap argocd/mine not found; pass a file that contains it \
             with --secrets PATH",
        ),
        (
            APPSET.replace("goTemplate: true", "goTemplate: 'yes'"),
            2,
            "ApplicationSet fleet: spec.goTemplate: invalid type",
        ),
        // A misspelling must not delete all generated Applications.
        (
            APPSET.replace("list: {elements:", "list: {element:"),
            2,
            "neither elements nor elementsYaml is set, but there are unknown fields: element; for an empty list, use elements: []",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n".to_owned(),
            2,
            "the files contain no ApplicationSet",
        ),
    ] {
        bench.write("sets/fleet.yaml", set);
        let ran = bench.run(&args).expect_code(code);
        assert!(ran.err.contains(text), "{text}: {ran:?}");
        assert_eq!(ran.out, "");
    }
    bench.write(
        "sets/fleet.yaml",
        APPSET
            .replace("{{ .env }}-", "")
            .replace("generators:\n    - m", "unheard: 1\n  generators:\n    - m"),
    );
    let ran = bench.run(&args).expect_code(2);
    assert_eq!(names(&serde_json::from_str(&ran.out).unwrap()), Vec::<&str>::new());
    let twice = "contains applications with duplicate name: db: one from generators[0].matrix, element 1, folder db, and one from generators[0].matrix, element 2, folder db";
    assert!(ran.err.contains(twice), "{ran:?}");
    assert!(ran.err.contains("these fields have no effect: spec.unheard"), "{ran:?}");
    // Each ApplicationSet is valid on its own, but the two conflict.
    bench.write("sets/fleet.yaml", format!("{APPSET}---\n{}", APPSET.replace("name: fleet", "name: other")));
    let ran = bench.run(&args).expect_code(2);
    assert!(ran.err.contains("several ApplicationSets generate an Application named dev-db"), "{ran:?}");
}

/// Writes an ApplicationSet with this strategy that generates these Applications (`NAME ENV` each).
pub fn write_appset(bench: &Bench, members: &[&str], strategy: &Value) {
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

/// Returns a strategy that syncs dev, then two qa Applications at once, then the prod Applications one by
/// one. The deletion order is reversed.
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
const GENERATE: [&str; 6] = ["appset", "generate", "-f", "sets/fleet.yaml", "-o", "json"];
pub const PLAN: [&str; 6] = ["appset", "plan", "-f", "sets/fleet.yaml", "-o", "json"];

/// Returns the Applications of each step.
pub fn members(steps: &Value) -> Vec<Vec<&str>> {
    let steps = steps.as_array().unwrap().iter();
    steps
        .map(|step| {
            step["applications"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
        })
        .collect()
}

#[test]
fn a_plan_shows_when_members_are_synced_and_deleted() {
    let bench = bench();
    write_appset(&bench, &FLEET, &three_steps());
    let plan = bench.json(&PLAN)["plans"][0].clone();
    let (rollout, deletion) = (&plan["rollout"], &plan["deletion"]);
    assert_eq!(
        members(&rollout["steps"]),
        [vec!["db-dev", "web-dev"], vec!["a", "b", "c", "d"], vec!["web-prod"]]
    );
    assert_eq!(rollout["unselected"], json!(["lost"]));
    let at_once: Vec<&Value> =
        rollout["steps"].as_array().unwrap().iter().map(|step| &step["maxUpdate"]).collect();
    assert_eq!(at_once, [&json!(null), &json!(2), &json!(1)]);
    // Applications outside of all steps are deleted last, one by one.
    assert_eq!(deletion["order"], "Reverse");
    assert_eq!(
        members(&deletion["steps"]),
        [vec!["web-prod"], vec!["a", "b", "c", "d"], vec!["db-dev", "web-dev"], vec!["lost"]]
    );
    assert!(deletion["steps"].as_array().unwrap().iter().all(|step| step["maxUpdate"] == 1));
    let numbers: Vec<&Value> =
        deletion["steps"].as_array().unwrap().iter().map(|step| &step["step"]).collect();
    assert_eq!(numbers, [&json!(3), &json!(2), &json!(1), &json!(null)], "as counted by the strategy");
    // Branches are resolved to commits.
    let revision = plan["applications"][0]["revisions"][0].as_str().unwrap();
    assert!(revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit()), "{plan}");
    assert_eq!(plan["applications"][0]["targetRevisions"], json!(["HEAD"]));
    let yaml = bench.run(&["appset", "plan", "-f", "sets/fleet.yaml", "-o", "yaml"]).expect_code(0).out;
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap()["plans"][0], plan);
    assert!(!bench.state().exists(), "nothing is stored");
}

#[test]
fn a_step_limits_its_concurrent_members() {
    let bench = bench();
    let five = ["a dev", "b dev", "c dev", "d dev", "e dev"];
    for (max_update, expected) in [
        (json!(null), json!(null)),
        (json!(3), json!(3)),
        (json!(0), json!(0)),
        (json!(-2), json!(0)),
        (json!("50%"), json!(2)),
        (json!("100%"), json!(5)),
        // Percentages are rounded down, but never to zero unless they are 0 %.
        (json!("1%"), json!(1)),
        (json!("0%"), json!(0)),
        (json!("00%"), json!(0)),
        (json!("4"), json!(4)),
    ] {
        let mut step = json!({"matchExpressions": select("In", &["dev"])});
        if !max_update.is_null() {
            step["maxUpdate"] = max_update.clone();
        }
        write_appset(&bench, &five, &json!({"type": "RollingSync", "rollingSync": {"steps": [step]}}));
        let plan = bench.json(&PLAN);
        assert_eq!(plan["plans"][0]["rollout"]["steps"][0]["maxUpdate"], expected, "{max_update}");
    }
}

#[test]
fn an_application_belongs_to_the_first_step_that_selects_it() {
    let bench = bench();
    let strategy = json!({"type": "RollingSync", "rollingSync": {"steps": [
        {"matchExpressions": select("In", &["dev", "qa"])},
        {"matchExpressions": select("NotIn", &["dev"])},
        {},
    ]}});
    write_appset(&bench, &FLEET[1..4], &strategy);
    let plan = bench.json(&PLAN)["plans"][0].clone();
    assert_eq!(members(&plan["rollout"]["steps"]), [vec!["a", "b", "db-dev"], vec![], vec![]]);
    let also: Vec<&Value> =
        plan["applications"].as_array().unwrap().iter().map(|one| &one["otherSteps"]).collect();
    assert_eq!(also, [&json!([2, 3]), &json!([2, 3]), &json!([3])]);
    let text = bench.run(&PLAN[..4]).expect_code(0).out;
    assert!(
        text.contains("also selected by steps 2 and 3") && text.contains("also selected by step 3"),
        "{text}"
    );
}

#[test]
fn the_order_of_a_deletion_is_shown_separately() {
    let bench = bench();
    let custom = json!({
        "deletionOrder": "Custom",
        "deletionSync": {"steps": [
            {"matchExpressions": select("In", &["qa"]), "maxUpdate": "50%"},
            {"matchExpressions": select("In", &["dev"])},
        ]},
    });
    write_appset(&bench, &FLEET, &custom);
    let args = ["appset", "delete", "--plan", "-f", "sets/fleet.yaml", "-o", "json"];
    let deletion = bench.json(&args)["plans"][0]["deletion"].clone();
    assert_eq!(
        members(&deletion["steps"]),
        [vec!["a", "b", "c", "d"], vec!["db-dev", "web-dev"], vec!["lost", "web-prod"]]
    );
    let at_once: Vec<&Value> =
        deletion["steps"].as_array().unwrap().iter().map(|step| &step["maxUpdate"]).collect();
    assert_eq!(at_once, [&json!(2), &json!(null), &json!(null)]);
    write_appset(&bench, &FLEET[..2], &json!({}));
    let deletion = bench.json(&args)["plans"][0]["deletion"].clone();
    assert_eq!(
        (&deletion["order"], members(&deletion["steps"])),
        (&json!("AllAtOnce"), vec![vec!["db-dev", "web-dev"]])
    );
    // The command never changes files.
    let ran = bench.run(&["appset", "delete", "-f", "sets/fleet.yaml", "--yes"]).expect_code(2);
    assert!(ran.err.contains("--plan"), "{ran:?}");
}

#[test]
fn errors_in_steps_and_orders_say_what_to_do() {
    let bench = bench();
    for (field, value, text) in [
        (
            "/rollingSync/steps/0/matchExpressions/0/operator",
            json!("Exists"),
            "spec.strategy.rollingSync, step 1: invalid operator \"Exists\" in a step's matchExpressions: use In or NotIn",
        ),
        (
            "/rollingSync/steps/1/maxUpdate",
            json!("half"),
            "spec.strategy.rollingSync, step 2: invalid maxUpdate \"half\": use a whole number, or a percentage such as 10%",
        ),
        (
            "/rollingSync/steps/1/maxUpdate",
            json!("-10%"),
            "spec.strategy.rollingSync, step 2: invalid maxUpdate \"-10%\": use a whole number, or a percentage such as 10%",
        ),
        (
            "/deletionOrder",
            json!("Sideways"),
            "spec.strategy.deletionOrder \"Sideways\" is unknown; use AllAtOnce, Reverse or Custom",
        ),
        (
            "/deletionOrder",
            json!("Custom"),
            "deletionOrder Custom needs steps; set them in spec.strategy.deletionSync",
        ),
        (
            "/type",
            json!("AllAtOnce"),
            "the ApplicationSet has no such steps; set spec.strategy.type to RollingSync",
        ),
    ] {
        let mut strategy = three_steps();
        *strategy.pointer_mut(field).unwrap() = value;
        write_appset(&bench, &FLEET, &strategy);
        let planned = bench.run(&PLAN).expect_code(2);
        let err = &planned.err;
        assert!(err.contains("ApplicationSet fleet: ") && err.contains(text), "{text}: {planned:?}");
        assert_eq!(planned.out, "");
        // The Applications don't depend on the strategy, so they are shown.
        let generated = bench.run(&GENERATE).expect_code(2);
        assert_eq!(&generated.err, err, "{text}");
        assert_eq!(names(&serde_json::from_str(&generated.out).unwrap()).len(), FLEET.len());
    }
    // Settings that would prevent later deletions are rejected too.
    write_appset(&bench, &FLEET, &three_steps());
    let written = std::fs::read_to_string(bench.path().join("sets/fleet.yaml")).unwrap();
    let annotated = |annotation: &str| {
        let metadata = format!("\"metadata\":{{\"annotations\":{{{annotation}}},\"name\":\"fleet\"}}");
        bench.write("sets/fleet.yaml", written.replace("\"metadata\":{\"name\":\"fleet\"}", &metadata));
    };
    annotated("\"tidegate.dev/max-deletions\":\"abc\"");
    let ran = bench.run(&PLAN).expect_code(2);
    assert!(
        ran.err.contains("tidegate.dev/max-deletions annotation: invalid number of Applications \"abc\""),
        "{ran:?}"
    );
    // Settings that would prevent updates of Applications are also reported.
    let ignoring = "\"spec\":{\"ignoreApplicationDifferences\":[{\"jqPathExpressions\":[\".spec[\"]}],";
    bench.write("sets/fleet.yaml", written.replacen("\"spec\":{", ignoring, 1));
    let ran = bench.run(&PLAN).expect_code(2);
    assert!(ran.err.contains("spec.ignoreApplicationDifferences: ") && ran.err.contains(".spec["), "{ran:?}");
    // Settings without an effect are reported, but aren't errors.
    annotated("\"tidegate.dev/deletion-sync\":\"steps: []\"");
    let ran = bench.run(&PLAN).expect_code(0);
    assert!(ran.err.contains("tidegate.dev/deletion-sync annotation has no effect without"), "{ran:?}");
    // A revision that can't be resolved is shown as written.
    write_appset(&bench, &FLEET[..1], &json!({}));
    let written = std::fs::read_to_string(bench.path().join("sets/fleet.yaml")).unwrap();
    bench.write("sets/fleet.yaml", written.replace("./repo", "./none"));
    let ran = bench.run(&PLAN).expect_code(0);
    let plan: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(plan["plans"][0]["applications"][0]["revisions"], json!(["HEAD"]));
    assert!(
        ran.err.contains("revision HEAD cannot be resolved and is shown as written: ")
            && ran.err.contains("./none"),
        "{ran:?}"
    );
}

#[test]
fn a_plan_is_printed_as_text_diagram_and_picture() {
    let bench = bench();
    write_appset(&bench, &FLEET, &three_steps());
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
    // A diagram can show only one ApplicationSet.
    bench.write(
        "sets/fleet.yaml",
        format!("{set}\n---\n{}", set.to_string().replace("\"fleet\"", "\"other\"")),
    );
    let ran = bench.run(&["appset", "plan", "-f", "sets/fleet.yaml", "-o", "svg"]).expect_code(2);
    assert!(ran.err.contains("this format can show only one ApplicationSet"), "{ran:?}");
}
