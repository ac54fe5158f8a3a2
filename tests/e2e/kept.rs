//! What plans of ApplicationSets warn of: what a deletion leaves behind, and gates that would never open.

use serde_json::{Value, json};

use crate::appset::{FLEET, PLAN, bench, members, planned, three_steps};
use crate::bench::Bench;

const DELETION: [&str; 7] = ["appset", "delete", "--plan", "-f", "sets/fleet.yaml", "-o", "json"];

/// Changes the set that is in the file.
fn edit(bench: &Bench, change: impl FnOnce(&mut Value)) -> Value {
    let path = bench.path().join("sets/fleet.yaml");
    let mut set: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    change(&mut set);
    bench.write("sets/fleet.yaml", set.to_string());
    set
}

#[test]
fn what_outlives_a_set_is_named_with_the_reason() {
    let bench = bench();
    let all = json!(["a", "b", "c", "d", "db-dev", "lost", "web-dev", "web-prod"]);
    let kept = |what: &str, why: &str| json!([{"what": what, "why": why, "applications": all}]);
    for (field, value, expected) in [
        (
            "/spec/syncPolicy/applicationsSync",
            json!("create-only"),
            kept("Application", "spec.syncPolicy.applicationsSync is create-only"),
        ),
        (
            "/spec/syncPolicy/applicationsSync",
            json!("create-update"),
            kept("Application", "spec.syncPolicy.applicationsSync is create-update"),
        ),
        ("/spec/syncPolicy/applicationsSync", json!("create-delete"), json!(null)),
        ("/spec/syncPolicy/applicationsSync", json!("sync"), json!(null)),
        (
            "/spec/syncPolicy/preserveResourcesOnDeletion",
            json!(true),
            kept("Objects", "spec.syncPolicy.preserveResourcesOnDeletion keeps its objects"),
        ),
        ("/spec/syncPolicy/preserveResourcesOnDeletion", json!(false), json!(null)),
        ("/metadata/finalizers", json!(["orphan"]), kept("Application", "the set has the finalizer orphan")),
        (
            "/spec/templatePatch",
            json!("metadata: {finalizers: null}"),
            kept("Objects", "no finalizer resources-finalizer.argocd.argoproj.io"),
        ),
    ] {
        planned(&bench, &FLEET, &three_steps());
        edit(&bench, |set| {
            set["spec"]["syncPolicy"] = json!({});
            let (parent, name) = field.rsplit_once('/').unwrap();
            set.pointer_mut(parent).unwrap()[name] = value.clone();
        });
        let deletion = bench.json(&DELETION)["plans"][0]["deletion"].clone();
        assert_eq!(deletion["kept"], expected, "{field} {value}");
        let go = members(&deletion["steps"]).concat().len();
        let outlive = expected[0]["what"] == "Application";
        assert_eq!(go, if outlive { 0 } else { 8 }, "{field} {value}: {deletion}");
        assert_eq!(bench.json(&PLAN)["plans"][0]["deletion"], deletion, "the same in the plan of the set");
        let text = bench.run(&DELETION[..5]).expect_code(0).out;
        let words = match expected[0]["what"].as_str() {
            Some("Application") => "not deleted  8 Applications: ",
            Some(_) => "their objects stay  8 Applications: ",
            None => "web-prod",
        };
        assert!(text.contains(words), "{text}");
        assert_eq!(text.contains("its objects stay"), expected[0]["what"] == "Objects", "{text}");
    }
}

#[test]
fn several_deletions_are_one_document() {
    let bench = bench();
    planned(&bench, &FLEET, &three_steps());
    let set = edit(&bench, |_| {});
    let other = set.to_string().replace("\"fleet\"", "\"other\"").replace("{{ .name }}", "other-{{ .name }}");
    bench.write("sets/fleet.yaml", format!("{set}\n---\n{other}"));
    let plans = bench.json(&DELETION)["plans"].clone();
    let names: Vec<&Value> = plans.as_array().unwrap().iter().map(|one| &one["applicationSet"]).collect();
    assert_eq!(names, [&json!("fleet"), &json!("other")]);
    let yaml = bench.run(&[&DELETION[..6], &["yaml"]].concat()).expect_code(0).out;
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap()["plans"], plans);
    let ran = bench.run(&[&DELETION[..6], &["mermaid"]].concat()).expect_code(2);
    assert!(ran.err.contains("there are several ApplicationSets"), "{ran:?}");
}

#[test]
fn a_gate_that_nobody_has_defined_is_a_mistake_where_it_is_known_which_are() {
    let bench = bench();
    bench.write(
        "gates.yaml",
        "windows:\n  night: [{schedule: '0 22 * * *', duration: 8h, kind: allow}]\nconcurrency:\n  db: {limit: 1}\n",
    );
    let with_gates = [&PLAN[..], &["--gates", "gates.yaml"]].concat();
    for (gate, with, without) in [
        ("approval", None, None),
        ("soak:10m", None, None),
        ("window:night", None, None),
        (
            "window:nigth",
            Some(
                "step 2 waits for ever for gate window:nigth, which nobody has defined; the file of --gates defines window:night",
            ),
            None,
        ),
        ("freeze", Some("gate freeze, which nobody has defined"), None),
        (
            "concurrency:db",
            Some("gate concurrency:db, which gives places to operations, and none to steps"),
            Some("gate concurrency:db, which gives places to operations, and none to steps"),
        ),
    ] {
        planned(&bench, &FLEET, &three_steps());
        edit(&bench, |set| {
            let text = format!("steps: [{{step: 2, gates: ['{gate}']}}]");
            set["metadata"]["annotations"] = json!({"tidegate.dev/rollout": text});
        });
        for (args, expected) in [(&with_gates[..], with), (&PLAN[..], without)] {
            let ran = bench.run(args).expect_code(if expected.is_some() { 2 } else { 0 });
            assert!(expected.is_none_or(|words| ran.err.contains(words)), "{gate}: {ran:?}");
            let plan: Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!(plan["plans"][0]["rollout"]["steps"][1]["gates"], json!([gate]), "it is shown");
        }
        let text = bench.run(&[&PLAN[..4], &["-o", "text"]].concat());
        let is_known = ["approval", "soak:10m"].contains(&gate);
        let words = if is_known { format!("behind {gate}") } else { format!("needs gate {gate}") };
        assert!(text.out.contains(&words), "{text:?}");
    }
    let ran = bench.run(&[&PLAN[..], &["--gates", "nowhere.yaml"]].concat()).expect_code(2);
    assert!(ran.err.contains("nowhere.yaml"), "{ran:?}");
}
