//! Warnings in plans of ApplicationSets about objects that a deletion leaves behind, and about gates that
//! would never open.

use serde_json::{Value, json};

use crate::appset::{FLEET, PLAN, bench, members, three_steps, write_appset};
use crate::bench::Bench;

const DELETION: [&str; 7] = ["appset", "delete", "--plan", "-f", "sets/fleet.yaml", "-o", "json"];

/// Changes the ApplicationSet in the file, and returns it.
fn edit(bench: &Bench, change: impl FnOnce(&mut Value)) -> Value {
    let path = bench.path().join("sets/fleet.yaml");
    let mut set: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    change(&mut set);
    bench.write("sets/fleet.yaml", set.to_string());
    set
}

#[test]
fn objects_that_outlive_an_appset_are_named_with_the_reason() {
    let bench = bench();
    let all = json!(["a", "b", "c", "d", "db-dev", "lost", "web-dev", "web-prod"]);
    let kept = |what: &str, why: &str| json!([{"kind": what, "reason": why, "applications": all}]);
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
        (
            "/metadata/finalizers",
            json!(["orphan"]),
            kept("Application", "the ApplicationSet has the finalizer orphan"),
        ),
        (
            "/spec/templatePatch",
            json!("metadata: {finalizers: null}"),
            kept("Objects", "no finalizer resources-finalizer.argocd.argoproj.io"),
        ),
    ] {
        write_appset(&bench, &FLEET, &three_steps());
        edit(&bench, |set| {
            set["spec"]["syncPolicy"] = json!({});
            let (parent, name) = field.rsplit_once('/').unwrap();
            set.pointer_mut(parent).unwrap()[name] = value.clone();
        });
        let deletion = bench.json(&DELETION)["plans"][0]["deletion"].clone();
        assert_eq!(deletion["remaining"], expected, "{field} {value}");
        let go = members(&deletion["steps"]).concat().len();
        let outlive = expected[0]["kind"] == "Application";
        assert_eq!(go, if outlive { 0 } else { 8 }, "{field} {value}: {deletion}");
        assert_eq!(
            bench.json(&PLAN)["plans"][0]["deletion"],
            deletion,
            "the same in the plan of the ApplicationSet"
        );
        let text = bench.run(&DELETION[..5]).expect_code(0).out;
        let words = match expected[0]["kind"].as_str() {
            Some("Application") => "not deleted  8 Applications: ",
            Some(_) => "their objects are kept  8 Applications: ",
            None => "web-prod",
        };
        assert!(text.contains(words), "{text}");
        assert_eq!(text.contains("its objects are kept"), expected[0]["kind"] == "Objects", "{text}");
    }
}

#[test]
fn several_deletions_are_printed_as_one_document() {
    let bench = bench();
    write_appset(&bench, &FLEET, &three_steps());
    let set = edit(&bench, |_| {});
    let other = set.to_string().replace("\"fleet\"", "\"other\"").replace("{{ .name }}", "other-{{ .name }}");
    bench.write("sets/fleet.yaml", format!("{set}\n---\n{other}"));
    let plans = bench.json(&DELETION)["plans"].clone();
    let names: Vec<&Value> = plans.as_array().unwrap().iter().map(|one| &one["applicationSet"]).collect();
    assert_eq!(names, [&json!("fleet"), &json!("other")]);
    let yaml = bench.run(&[&DELETION[..6], &["yaml"]].concat()).expect_code(0).out;
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap()["plans"], plans);
    let ran = bench.run(&[&DELETION[..6], &["mermaid"]].concat()).expect_code(2);
    assert!(ran.err.contains("this format can show only one ApplicationSet"), "{ran:?}");
}

#[test]
fn an_undefined_gate_is_an_error_where_definitions_are_known() {
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
                "step 2 would wait forever for gate window:nigth, which is not defined; the --gates file \
                 defines window:night",
            ),
            None,
        ),
        ("freeze", Some("gate freeze, which is not defined"), None),
        (
            "concurrency:db",
            Some("gate concurrency:db: concurrency gates limit operations and cannot be used for steps"),
            Some("gate concurrency:db: concurrency gates limit operations and cannot be used for steps"),
        ),
    ] {
        write_appset(&bench, &FLEET, &three_steps());
        edit(&bench, |set| {
            let text = format!("steps: [{{step: 2, gates: ['{gate}']}}]");
            set["metadata"]["annotations"] = json!({"tidegate.dev/rollout": text});
        });
        for (args, expected) in [(&with_gates[..], with), (&PLAN[..], without)] {
            let ran = bench.run(args).expect_code(if expected.is_some() { 2 } else { 0 });
            assert!(expected.is_none_or(|words| ran.err.contains(words)), "{gate}: {ran:?}");
            let plan: Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!(
                plan["plans"][0]["rollout"]["steps"][1]["gates"],
                json!([gate]),
                "it is in the output"
            );
        }
        let text = bench.run(&[&PLAN[..4], &["-o", "text"]].concat());
        let is_known = ["approval", "soak:10m"].contains(&gate);
        let words = if is_known { format!("gated by {gate}") } else { format!("needs gate {gate}") };
        assert!(text.out.contains(&words), "{text:?}");
    }
    let ran = bench.run(&[&PLAN[..], &["--gates", "nowhere.yaml"]].concat()).expect_code(2);
    assert!(ran.err.contains("nowhere.yaml"), "{ran:?}");
}
