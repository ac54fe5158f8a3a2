//! Tracking methods for an application's objects, and the effects of changing the method.

use serde_json::{Value, json};

use crate::bench::Bench;

const LABEL: &str = "app.kubernetes.io/instance";
const ID: &str = "argocd.argoproj.io/tracking-id";

fn config(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
}

/// Returns the name, the tracking ID and the label of each ConfigMap.
fn marks(bench: &Bench) -> Vec<(String, Value, Value)> {
    let objects = bench.json(&["sim", "objects", "-o", "json"]);
    let configs = objects.as_array().unwrap().iter().filter(|object| object["kind"] == "ConfigMap");
    let marks = configs.map(|object| {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap().to_owned();
        (name, metadata["annotations"][ID].clone(), metadata["labels"][LABEL].clone())
    });
    marks.collect()
}

fn sync(bench: &Bench, files: &str, method: &str, more: &[&str]) -> Value {
    let args = ["sync", files, "--app", "shop", "--sim", "--tracking", method, "-o", "json"];
    bench.json(&[&args, more].concat())
}

#[test]
fn a_changed_method_loses_and_touches_nothing() {
    for (before, after) in
        [("annotation", "label"), ("label", "annotation"), ("annotation", "annotation+label")]
    {
        let bench = Bench::new();
        // Helm sets the same label on its own objects.
        let strange = format!("{}{}", config("chart"), config("other"))
            .replace("{name: chart}", &format!("{{name: chart, labels: {{{LABEL}: shop}}}}"));
        bench.write("strange.yaml", strange);
        bench.run(&["sync", "strange.yaml", "--app", "chart", "--sim"]).expect_code(0);
        bench.write("app.yaml", format!("{}{}", config("keep"), config("drop")));
        sync(&bench, "app.yaml", before, &[]);
        bench.write("app.yaml", config("keep"));
        let skipped = sync(&bench, "app.yaml", after, &[]);
        assert!(skipped.to_string().contains("PruneSkipped"), "{before} to {after}: {skipped}");
        let args =
            ["plan", "app.yaml", "--app", "shop", "--sim", "--tracking", after, "--prune", "-o", "json"];
        let planned = bench.json(&args).to_string();
        assert!(planned.contains(r#""action":"prune""#), "the plan shows it as well: {planned}");
        let pruned = sync(&bench, "app.yaml", after, &["--prune"]);
        let names: Vec<&Value> = pruned["resources"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|resource| resource["status"] == "Pruned")
            .map(|resource| &resource["name"])
            .collect();
        assert_eq!(names, ["drop"], "from {before} to {after}");
        let id = |name: &str, app: &str| json!(format!("{app}:/ConfigMap:default/{name}"));
        let keep = match after {
            "label" => (Value::Null, json!("shop")),
            "annotation" => (id("keep", "shop"), Value::Null),
            _ => (id("keep", "shop"), json!("shop")),
        };
        assert_eq!(
            marks(&bench),
            [
                ("chart".to_owned(), id("chart", "chart"), json!("shop")),
                ("keep".to_owned(), keep.0, keep.1),
                ("other".to_owned(), id("other", "chart"), Value::Null),
            ],
            "from {before} to {after}"
        );
    }
}

#[test]
fn a_resumed_operation_keeps_its_method() {
    let bench = Bench::new();
    let gate = "tidegate.dev/gate: nobody, argocd.argoproj.io/sync-wave: '1'";
    let later =
        config("later").replace("{name: later}", &format!("{{name: later, annotations: {{{gate}}}}}"));
    bench.write("app.yaml", format!("{}{later}", config("first")));
    let args = ["sync", "app.yaml", "--app", "shop", "--sim", "--tracking", "label", "--timeout", "500ms"];
    bench.run(&args).expect_code(3);
    bench.run(&["resume", "shop", "--timeout", "500ms"]).expect_code(3);
    let log = bench.json(&["ops", "log", "shop", "-o", "json"]);
    assert_eq!(log[0]["details"]["tracking"]["method"], "label");
    assert_eq!(marks(&bench), [("first".to_owned(), Value::Null, json!("shop"))]);
}

#[test]
fn invalid_label_names_and_keys_are_refused_before_any_write() {
    let bench = Bench::new();
    bench.write("app.yaml", config("a"));
    for (args, text) in [
        (
            &["--app", "my/shop", "--tracking", "label"][..],
            "\"my/shop\" is not a valid value for label app.kubernetes",
        ),
        (&["--app=---", "--tracking", "annotation+label"], "is not a valid value for label"),
        (&["--app", "shop", "--tracking-label", "a b"], "invalid label key \"a b\""),
        (&["--app", "shop", "--tracking", "name"], "possible values: annotation, annotation+label, label"),
    ] {
        for command in ["sync", "plan", "diff"] {
            let ran = bench.run(&[&[command, "app.yaml", "--sim"], args].concat()).expect_code(2);
            assert!(ran.err.contains(text), "{command}: {}", ran.err);
        }
    }
    assert!(!bench.state().exists());
    let long = "a".repeat(70);
    bench
        .run(&["sync", "app.yaml", "--app", &long, "--sim", "--tracking", "annotation+label"])
        .expect_code(0);
    let id = json!(format!("{long}:/ConfigMap:default/a"));
    assert_eq!(marks(&bench), [("a".to_owned(), id, json!("a".repeat(63)))]);
}

#[test]
fn installations_do_not_prune_each_others_objects() {
    let bench = Bench::new();
    bench.write("one.yaml", config("one"));
    bench.write("two.yaml", config("two"));
    sync(&bench, "one.yaml", "annotation", &["--installation-id", "east"]);
    sync(&bench, "two.yaml", "annotation", &["--installation-id", "west", "--prune"]);
    assert_eq!(marks(&bench).len(), 2);
    let pruned = sync(&bench, "two.yaml", "annotation", &["--installation-id", "east", "--prune"]);
    assert!(pruned.to_string().contains(r#""Pruned""#), "{pruned}");
    assert_eq!(marks(&bench).len(), 1);
}

/// Deletes the state directory except for the simulated cluster, as if another user shared the cluster.
pub fn delete_state(bench: &Bench) {
    for entry in std::fs::read_dir(bench.state()).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            _ if path.ends_with("cluster") => {}
            true => std::fs::remove_dir_all(path).unwrap(),
            false => std::fs::remove_file(path).unwrap(),
        }
    }
}

fn team(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: team-{name}}}\n---\n{}",
        config(&format!("conf-{name}"))
    )
}

#[test]
fn a_namesake_application_of_another_team_loses_nothing() {
    let bench = Bench::new();
    bench.write("ta.yaml", team("a"));
    bench.write("tb.yaml", team("b"));
    bench.run(&["sync", "ta.yaml", "--app", "web", "-n", "team-a", "--sim"]).expect_code(0);
    delete_state(&bench);
    let of_b = ["tb.yaml", "--app", "web", "-n", "team-b", "--sim"];
    let names = |bench: &Bench| marks(bench).into_iter().map(|(name, ..)| name).collect::<Vec<_>>();
    // The plan, the comparison and the sync agree.
    let planned = bench.json(&[&["plan", "--prune", "-o", "json"][..], &of_b].concat());
    let tasks: Vec<&Value> = planned["waves"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|wave| wave["tasks"].as_array().unwrap())
        .collect();
    let elsewhere: Vec<&Value> =
        tasks.into_iter().filter(|task| task["isOwnershipUncertain"] == true).collect();
    assert_eq!(elsewhere.len(), 2, "{planned}");
    assert!(elsewhere.iter().all(|task| task["action"] == "prune-skipped"), "{planned}");
    assert_eq!(planned["warnings"][0]["code"], "found-elsewhere");
    let compared = bench.run(&[&["diff", "-o", "json"][..], &of_b].concat()).expect_code(1);
    let compared: Value = serde_json::from_str(&compared.out).unwrap();
    assert_eq!(compared["warnings"][0]["code"], "found-elsewhere");
    let extra = compared["objects"].as_array().unwrap().iter().filter(|object| object["status"] == "extra");
    assert!(
        extra.clone().count() == 2 && extra.clone().all(|object| object["ignored"] == true),
        "{compared}"
    );
    let ran = bench.run(&[&["sync", "--prune"][..], &of_b].concat()).expect_code(0);
    assert!(ran.out.contains("ConfigMap team-a/conf-a") && ran.out.contains("--adopt"), "{ran:?}");
    assert_eq!(names(&bench), ["conf-a", "conf-b"]);
    bench.run(&[&["diff"][..], &of_b].concat()).expect_code(0);
    let deletions = bench.writes().into_iter().filter(|write| write["verb"] == "delete").count();
    assert_eq!(deletions, 0);
    // The object is adopted explicitly.
    bench.run(&[&["sync", "--prune", "--adopt"][..], &of_b].concat()).expect_code(0);
    assert_eq!(names(&bench), ["conf-b"]);
    bench.run(&[&["plan", "--prune", "--strict"][..], &of_b].concat()).expect_code(0);
}

#[test]
fn an_installation_id_takes_over_objects_found_elsewhere() {
    let bench = Bench::new();
    bench.write("ta.yaml", team("a"));
    bench.write("tb.yaml", team("b"));
    for (file, namespace, id) in [("ta.yaml", "team-a", "blue"), ("tb.yaml", "team-b", "green")] {
        let place = ["--app", "web", "-n", namespace, "--sim", "--installation-id", id];
        if bench.state().exists() {
            delete_state(&bench);
        }
        bench.run(&[&["sync", file, "--prune", "--strict"][..], &place].concat()).expect_code(0);
    }
    assert_eq!(marks(&bench).len(), 2);
    delete_state(&bench);
    bench.write("tc.yaml", team("c"));
    let place = ["--app", "web", "-n", "team-c", "--sim", "--installation-id", "blue"];
    bench.run(&[&["sync", "tc.yaml", "--prune", "--strict"][..], &place].concat()).expect_code(0);
    let names: Vec<String> = marks(&bench).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["conf-b", "conf-c"]);
}

#[test]
fn adoption_is_recorded_with_the_operation() {
    let bench = Bench::new();
    bench.write("ta.yaml", team("a"));
    bench.run(&["sync", "ta.yaml", "--app", "web", "-n", "team-a", "--sim"]).expect_code(0);
    delete_state(&bench);
    bench.write("tb.yaml", team("b"));
    let args = ["sync", "tb.yaml", "--app", "web", "-n", "team-b", "--sim", "--adopt"];
    bench.run(&args).expect_code(0);
    let log = bench.json(&["ops", "log", &bench.newest(), "-o", "json"]);
    let accepted = log.as_array().unwrap().iter().find(|event| event["kind"] == "accepted").unwrap();
    assert_eq!(accepted["details"]["adopt"], true, "{accepted}");
    // An adopted object belongs to the application.
    bench.run(&["sync", "tb.yaml", "--app", "web", "-n", "team-b", "--sim", "--prune"]).expect_code(0);
    assert_eq!(marks(&bench).len(), 1);
}
