//! `tidegate appset plan --compare`, which previews the changes of managed Applications.

use serde_json::{Value, json};

use crate::appsets::appset_of_list;
use crate::bench::Bench;

/// Returns an ApplicationSet that generates these Applications, each with a folder and a revision. `source`
/// is added to each Application's source.
fn appset(members: &[(&str, &str, &str)], source: &str) -> String {
    let element = |(name, path, revision): &(&str, &str, &str)| {
        format!("{{name: {name}, path: {path}, revision: {revision}}}")
    };
    let elements = members.iter().map(element).collect::<Vec<_>>().join(", ");
    let template = format!(
        "  template:
    metadata: {{name: '{{{{ .name }}}}'}}
    spec:
      project: default
      source: {{repoURL: ./repo, targetRevision: '{{{{ .revision }}}}', path: '{{{{ .path }}}}'{source}}}
      destination: {{name: in-cluster, namespace: default}}
      syncPolicy: {{automated: {{}}}}
"
    );
    appset_of_list(&elements, &template)
}

fn commit(bench: &Bench, version: &str) -> String {
    for folder in ["a", "b", "c", "d"] {
        let map = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{folder}}}\ndata: {{version: '{version}'}}\n"
        );
        bench.write(&format!("apps/repo/{folder}/map.yaml"), map);
    }
    bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    bench.write("sets/head.yaml", appset(&[("head", "a", "HEAD")], "").replace("./repo", "../apps/repo"));
    let plan = bench.json(&["appset", "plan", "-f", "sets/head.yaml", "-o", "json"]);
    plan["plans"][0]["applications"][0]["revisions"][0].as_str().unwrap().to_owned()
}

fn names(bench: &Bench, is_met: impl Fn(&Value) -> bool) -> Vec<String> {
    let all = bench.json(&["app", "list", "-o", "json"]);
    let all = all["items"].as_array().unwrap().iter().filter(|one| is_met(one));
    all.map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn wait_until(bench: &Bench, expected: &[&str], is_met: impl Fn(&Value) -> bool) {
    let found = std::iter::repeat_with(|| names(bench, &is_met)).take(3000).any(|names| names == expected);
    assert!(found, "{:?}", names(bench, &is_met));
}

#[test]
fn changes_are_previewed_before_they_are_made() {
    let bench = Bench::new();
    let first = commit(&bench, "1");
    bench.write("apps/fleet.yaml", appset(&[("a", "a", &first), ("b", "b", &first), ("c", "c", &first)], ""));
    let mut service = bench.start(&["serve", "--sim", "--apps", "apps"]);
    service.wait_for_line("managing");
    let is_synced = |one: &Value| {
        one["status"]["sync"]["status"] == "Synced" && one["status"]["history"].as_array().is_some()
    };
    wait_until(&bench, &["a", "b", "c"], is_synced);
    let second = commit(&bench, "2");
    let next = appset(&[("a", "a", &first), ("b", "d", &second), ("d", "d", &second)], "");
    // This file is next to the managed one, but the service doesn't read it.
    bench.write("apps/next.txt", &next);
    let args = ["appset", "plan", "-f", "apps/next.txt", "--compare", "-o", "json"];
    let plan = bench.json(&args)["plans"][0].clone();
    let of = |name: &str| {
        let all = plan["applications"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name}: {plan:#}"))["change"]
            .clone()
    };
    assert_eq!((&of("a")["kind"], &of("a")["fields"]), (&json!("unchanged"), &json!([])));
    let now = json!({
        "deployedRevisions": [first], "sync": "Synced", "health": "Healthy", "isForTarget": true, "outOfSync": 0, "resources": 1,
    });
    assert_eq!(of("a")["current"], now);
    assert_eq!(of("b")["kind"], "changed");
    assert_eq!(
        of("b")["fields"],
        json!([
            {"field": "spec.source.path", "before": "b", "after": "d"},
            {"field": "spec.source.targetRevision", "before": first, "after": second},
        ])
    );
    assert_eq!(
        (&of("b")["current"]["deployedRevisions"], &of("b")["current"]["isForTarget"]),
        (&json!([first]), &json!(false))
    );
    assert_eq!((&of("d")["kind"], &of("d")["current"]), (&json!("created"), &json!(null)));
    assert_eq!(plan["removal"]["deletion"]["steps"][0]["applications"], json!(["c"]));
    let text = bench.run(&args[..5]).expect_code(0).out;
    for words in [
        "3 Applications: 1 created, 1 changed, 1 unchanged, 1 deleted",
        &format!("revision: {} → {}", &first[..7], &second[..7]),
        "spec.source.path: b → d",
        "Removal",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for format in ["mermaid", "svg"] {
        let drawn = bench.run(&[&args[..5], &["-o", format]].concat()).expect_code(0).out;
        let drawn = drawn.replace("&#8594;", "→");
        for words in ["unchanged", "created", "changed", "spec.source.path: b → d", "Removal"] {
            assert!(drawn.contains(words), "{format}, {words}: {drawn}");
        }
    }
    // The preview didn't change anything, and matches the later result.
    assert_eq!(names(&bench, |_| true), ["a", "b", "c"]);
    bench.write("apps/fleet.yaml", &next);
    wait_until(&bench, &["a", "b", "d"], |_| true);
    wait_until(&bench, &["b", "d"], |one| {
        one["status"]["history"]
            .as_array()
            .is_some_and(|all| all.last().is_some_and(|last| last["revision"] == second.as_str()))
    });
    crate::fleet::Fleet::stop(service);
    // Without a service, the command fails.
    let ran = bench.run(&args).expect_code(4);
    assert!(ran.err.contains("no `tidegate serve` is running"), "{ran:?}");
}

#[test]
fn options_of_the_service_affect_the_preview() {
    let bench = Bench::new();
    let first = commit(&bench, "1");
    bench.write("apps/fleet.yaml", appset(&[("a", "a", &first), ("b", "b", &first)], ""));
    let decided =
        ["serve", "--sim", "--apps", "apps", "--policy", "create-only", "--enable-progressive-syncs=false"];
    let mut service = bench.start(&decided);
    service.wait_for_line("managing");
    wait_until(&bench, &["a", "b"], |_| true);
    let steps = "spec:\n  strategy: {type: RollingSync, rollingSync: {steps: [{}]}}\n";
    bench.write("apps/next.txt", appset(&[("a", "c", &first)], "").replacen("spec:\n", steps, 1));
    let args = ["appset", "plan", "-f", "apps/next.txt", "--compare", "-o", "json"];
    let ran = bench.run(&args).expect_code(0);
    assert!(ran.err.contains("progressive syncs are disabled in this service"), "{ran:?}");
    let plan = serde_json::from_str::<Value>(&ran.out).unwrap()["plans"][0].clone();
    let change = &plan["applications"][0]["change"];
    assert_eq!(change["kind"], "withheld", "{plan:#}");
    assert!(change["reason"].as_str().unwrap().contains("policy does not allow"), "{plan:#}");
    assert_eq!(plan["removal"]["deletion"]["steps"], json!([]), "{plan:#}");
    assert!(
        plan["removal"]["remaining"]["b"].as_str().unwrap().contains("policy does not allow"),
        "{plan:#}"
    );
    assert_eq!(plan["rollout"], Value::Null);
    // The preview reports Applications that differ from the generated ones because the policy excludes them.
    bench.write("apps/fleet.yaml", appset(&[("a", "c", &first)], ""));
    let explained = || bench.run(&["appset", "explain", "fleet"]).expect_code(0).out;
    let left = "2 of 2 Applications are left unchanged: a: the Application differs from the generated one, and the policy does not allow updates; b: the Application is no longer generated";
    assert!(std::iter::repeat_with(explained).take(3000).any(|told| told.contains(left)), "{}", explained());
    // The status reports them too.
    bench.write("apps/fleet.yaml", appset(&[("a", "a", &first)], "").replacen("spec:\n", steps, 1));
    let found = std::iter::repeat_with(explained)
        .take(3000)
        .any(|told| told.contains("are disabled in this service"));
    assert!(found, "{}", explained());
    crate::fleet::Fleet::stop(service);
}

#[test]
fn secrets_are_masked_in_the_preview() {
    let bench = Bench::new();
    let first = commit(&bench, "1");
    let helm = |secret: &str, tag: &str| {
        format!(
            ", helm: {{parameters: [{{name: db.password, value: {secret}}}, {{name: image.tag, value: '{tag}'}}]}}"
        )
    };
    bench.write("apps/fleet.yaml", appset(&[("a", "a", &first)], &helm("hunter2", "1.0")));
    let mut service = bench.start(&["serve", "--sim", "--apps", "apps"]);
    service.wait_for_line("managing");
    wait_until(&bench, &["a"], |_| true);
    bench.write("apps/next.txt", appset(&[("a", "a", &first)], &helm("hunter3", "1.1")));
    for format in ["tree", "json", "yaml", "mermaid", "svg"] {
        let args = ["appset", "plan", "-f", "apps/next.txt", "--compare", "-o", format];
        let out = bench.run(&args).expect_code(0).out;
        assert!(out.contains("spec.source.helm.parameters[db.password].value"), "{out}");
        assert!(out.contains("1.0") && out.contains("1.1") && !out.contains("hunter"), "{out}");
    }
    crate::fleet::Fleet::stop(service);
}
