//! `tidegate health`, and syncs with health scripts.

use serde_json::json;

use crate::bench::Bench;

const WIDGET: &str = "\
apiVersion: example.org/v1
kind: Widget
metadata: {name: one, namespace: shop}
status: {phase: Ready}
";
const SCRIPT: &str = "\
hs = {}
if obj.status ~= nil and obj.status.phase == 'Ready' then
  hs.status = 'Healthy'
  hs.message = obj.metadata.name .. ' is ready'
else
  hs.status = 'Progressing'
  hs.message = 'Waiting for ' .. obj.metadata.name
end
return hs
";
const TWO_WAVES: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: first}
data: {phase: new}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: second, annotations: {argocd.argoproj.io/sync-wave: '1'}}
";
const WAITING: &str = "return { status = 'Progressing', message = 'waiting for a script' }";

/// Fixtures and templates don't have names, and some don't have metadata.
#[test]
fn objects_without_a_name_are_assessed() {
    let bench = Bench::new();
    let text = "apiVersion: apps/v1\nkind: Deployment\nspec: {paused: true}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {a: b}}\n";
    bench.write("fixture.yaml", text);
    let judged = bench.json(&["health", "-f", "fixture.yaml", "-o", "json"]);
    assert_eq!(
        judged[0],
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "status": "Suspended", "message": "Deployment is paused",
        })
    );
    assert_eq!(judged[1]["status"], json!(null));
    bench.run(&["sync", "fixture.yaml", "--app", "a", "--sim"]).expect_code(2);
}

/// A transient failure counts as progressing for a while (https://github.com/argoproj/argo-cd/issues/28522).
#[test]
fn missing_metrics_of_a_new_autoscaler_are_progressing() {
    let bench = Bench::new();
    let scaled = |name: &str, status: &str, reason: &str| {
        format!(
            "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {{name: {name}, generation: 1}}\n\
             status: {{conditions: [{{type: Ready, status: '{status}', reason: {reason}, message: m}}]}}\n---\n"
        )
    };
    let scaler = |name: &str, metadata: &str, reason: &str| {
        format!(
            "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {{name: {name}{metadata}}}\nstatus:\n  \
             conditions:\n  - {{type: AbleToScale, status: 'True', reason: SucceededGetScale, message: ok}}\n  \
             - {{type: ScalingActive, status: 'False', reason: {reason}, message: m}}\n---\n"
        )
    };
    let old = ", creationTimestamp: '2026-01-01T00:00:00Z'";
    let patient = &format!("{old}, annotations: {{tidegate.dev/health-grace: 1000000h}}");
    let cases = [
        (scaled("transient", "False", "HPAMetricsUnavailable"), "Progressing"),
        (scaled("wrong", "False", "ScaledObjectCheckFailed"), "Degraded"),
        (scaled("good", "True", "ScaledObjectReady"), "Healthy"),
        (scaler("fresh", "", "FailedGetResourceMetric"), "Progressing"),
        (scaler("old", old, "FailedGetResourceMetric"), "Degraded"),
        (scaler("patient", patient, "FailedGetResourceMetric"), "Progressing"),
        (scaler("invalid", "", "InvalidSelector"), "Degraded"),
    ];
    bench.write("so.yaml", cases.iter().map(|(text, _)| text.as_str()).collect::<String>());
    let judged = bench.json(&["health", "-f", "so.yaml", "-o", "json"]);
    for (one, (_, expected)) in judged.as_array().unwrap().iter().zip(&cases) {
        assert_eq!(one["status"], *expected, "{one}");
    }
}

#[test]
fn one_object_gives_one_verdict() {
    let bench = Bench::new();
    bench.write("widget.yaml", WIDGET);
    bench.write("scripts/example.org/Widget/health.lua", SCRIPT);
    bench.write("scripts/example.org/Widget/testdata/broken.yaml", "not: [ours");
    bench.write("scripts/README.md", "not ours");
    let args = ["health", "-f", "widget.yaml", "--customizations", "scripts", "-o", "json"];
    assert_eq!(bench.json(&args), json!({"status": "Healthy", "message": "one is ready"}));
    let without = bench.json(&["health", "-f", "widget.yaml", "-o", "json"]);
    assert_eq!(without, json!({"status": null, "message": ""}));
    let text = bench.run(&args[..5]).expect_code(0).out;
    assert!(
        text.contains("Widget shop/one") && text.contains("Healthy") && text.contains("one is ready"),
        "{text}"
    );
    let from_input =
        bench.run_with_input(&["health", "-f", "-", "--customizations", "scripts", "-o", "yaml"], WIDGET);
    assert_eq!(from_input.expect_code(0).out, "status: Healthy\nmessage: one is ready\n");
    assert!(!bench.state().exists(), "nothing is kept");
}

#[test]
fn several_objects_give_a_list_with_names() {
    let bench = Bench::new();
    bench.write("all.yaml", format!("{WIDGET}---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec: {{paused: true}}\n"));
    bench.write("scripts/_/_/health.lua", "return {}");
    let found = bench.json(&["health", "-f", "all.yaml", "--customizations", "scripts", "-o", "json"]);
    let expected = json!([
        {"apiVersion": "example.org/v1", "kind": "Widget", "namespace": "shop", "name": "one", "status": "", "message": ""},
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "status": "", "message": ""},
    ]);
    assert_eq!(found, expected);
    let found = bench.json(&["health", "-f", "all.yaml", "-o", "json"]);
    assert_eq!(found[1]["message"], "Deployment is paused");
    let together = bench.run(&["health", "-f", "all.yaml"]).expect_code(0).out;
    assert!(together.ends_with("\ntogether  Suspended\n"), "{together}");
}

#[test]
fn a_script_that_fails_ends_a_hook_in_error() {
    let bench = Bench::new();
    bench.write(
        "hook.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {argocd.argoproj.io/hook: PreSync}}\n",
    );
    bench.write("scripts/ConfigMap/health.lua", "return { status = obj.status.phase }");
    let args = ["sync", "hook.yaml", "--app", "a", "--sim", "--customizations", "scripts", "-o", "json"];
    let ran = bench.run(&args).expect_code(1);
    let operation: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let hook = &operation["resources"][0];
    assert_eq!((&hook["status"], &hook["hookPhase"]), (&json!("Synced"), &json!("Error")), "{operation}");
    let message = hook["message"].as_str().unwrap();
    assert!(message.starts_with("failed to get resource health: health script failed:"), "{message}");
}

#[test]
fn a_config_map_provides_scripts_in_both_formats() {
    let bench = Bench::new();
    bench.write("widget.yaml", WIDGET);
    let indented = |spaces: &str| SCRIPT.lines().map(|line| format!("{spaces}{line}\n")).collect::<String>();
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm, namespace: argocd}\ndata:\n";
    let new = format!(
        "{head}  resource.customizations.useOpenLibs.example.org_Widget: 'true'\n  url: https://example.org\n  \
         resource.customizations.health.example.org_Widget: |\n{}",
        indented("    ")
    );
    let old = format!(
        "{head}  resource.customizations: |\n    '*.org/*':\n      health.lua: |\n{}      ignoreDifferences: |\n        jsonPointers: [/a]\n",
        indented("        ")
    );
    for (name, content) in [("new.yaml", new), ("old.yaml", old)] {
        bench.write(name, content);
        let found = bench.json(&["health", "-f", "widget.yaml", "--customizations", name, "-o", "json"]);
        assert_eq!(found, json!({"status": "Healthy", "message": "one is ready"}), "{name}");
    }
}

#[test]
fn script_errors_name_the_file_and_line() {
    let bench = Bench::new();
    bench.write("widget.yaml", WIDGET);
    bench.write("bad/health.lua", "return {}");
    bench.write("empty/README.md", "nothing here");
    bench.write(
        "map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {resource.customizations: '['}\n",
    );
    for (scripts, parts) in [
        ("bad", &["bad/health.lua: the path does not contain a kind"][..]),
        ("empty", &["empty: no health rules"]),
        ("widget.yaml", &["widget.yaml: no health rules"]),
        ("map.yaml", &["map.yaml: m resource.customizations: not a map"]),
        ("missing", &["no such file or folder"]),
    ] {
        let ran = bench.run(&["health", "-f", "widget.yaml", "--customizations", scripts]).expect_code(2);
        for part in parts {
            assert!(ran.err.contains(part), "{scripts}: {}", ran.err);
        }
    }
    bench.run(&["health", "-f", "missing.yaml"]).expect_code(2);
    bench.write("fails/example.org/Widget/health.lua", "return obj.status.a.b");
    let found = bench.json(&["health", "-f", "widget.yaml", "--customizations", "fails", "-o", "json"]);
    assert_eq!(found["status"], "Unknown");
    let message = found["message"].as_str().unwrap();
    assert!(
        message.contains("fails/example.org/Widget/health.lua:1: attempt to index field 'a'"),
        "{message}"
    );
}

#[test]
fn a_script_that_does_not_load_affects_only_its_kind() {
    let bench = Bench::new();
    let gadget = WIDGET.replace("Widget", "Gadget").replace("one", "two");
    bench.write("all.yaml", format!("{WIDGET}---\n{gadget}"));
    bench.write("scripts/example.org/Widget/health.lua", "local x = 1\nif x then\n");
    bench.write("scripts/example.org/Gadget/health.lua", SCRIPT);
    let args = ["health", "-f", "all.yaml", "--customizations", "scripts", "-o", "json"];
    let ran = bench.run(&args).expect_code(0);
    let fault =
        "scripts/example.org/Widget/health.lua:3: 'end' expected (to close 'if' at line 2) near <eof>";
    assert!(ran.err.contains("warning") && ran.err.contains(fault), "{}", ran.err);
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&found[0]["status"], &found[1]["status"]), (&json!("Unknown"), &json!("Healthy")));
    let message = found[0]["message"].as_str().unwrap();
    assert!(message.starts_with("failed to load the health script for this kind: "), "{message}");
}

/// An unusable file must affect only its own kind, and every such file must be reported.
#[test]
fn an_unusable_file_affects_only_its_kind() {
    let bench = Bench::new();
    let kinds = ["Gadget", "Gizmo", "Widget", "Pipe"];
    bench.write("all.yaml", kinds.map(|kind| WIDGET.replace("Widget", kind)).join("---\n"));
    bench.write("scripts/health.lua", SCRIPT);
    bench.write("scripts/example.org/Gadget/health.lua", SCRIPT);
    bench.write("scripts/example.org/Gizmo/health.lua", [&b"-- \xff\n"[..], SCRIPT.as_bytes()].concat());
    bench.write("scripts/example.org/Widget/health.lua", SCRIPT);
    bench.write("scripts/example.org/Widget/health.yaml", "current: status.phase == 'Ready'\n");
    let pipe = bench.write("scripts/example.org/Pipe/health.lua", "");
    std::fs::remove_file(&pipe).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let ran =
        bench.run(&["health", "-f", "all.yaml", "--customizations", "scripts", "-o", "json"]).expect_code(0);
    for part in [
        "scripts/health.lua: the path does not contain a kind",
        "Gizmo/health.lua: the file is not valid UTF-8; invalid bytes are read as U+FFFD",
        "Widget/health.yaml: duplicate health rule for example.org/Widget, already defined in scripts/example.org/Widget/health.lua",
        "Pipe/health.lua: cannot read the file: it is not a regular file",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let statuses: Vec<_> =
        found.as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["Healthy", "Healthy", "Unknown", "Unknown"]);
    // Unknown health stays unknown when the operation continues.
    bench.write("app.yaml", TWO_WAVES);
    let pipe = bench.path().join("rules/ConfigMap/health.lua");
    std::fs::create_dir_all(pipe.parent().unwrap()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let begin = ["sync", "app.yaml", "--app", "a", "--sim", "--customizations", "rules", "--timeout", "1s"];
    bench.run(&begin).expect_code(3);
    bench.run(&["resume", "a", "--sim", "--timeout", "1s"]).expect_code(3);
    assert!(bench.run(&["explain", "a"]).expect_code(0).out.contains("it is not a regular file"));
}

#[test]
fn an_unreadable_key_of_a_config_map_affects_only_its_kinds() {
    let bench = Bench::new();
    bench.write("widget.yaml", format!("{WIDGET}---\n{}", WIDGET.replace("Widget", "Gadget")));
    let script: String = SCRIPT.lines().map(|line| format!("    {line}\n")).collect();
    bench.write(
        "map.yaml",
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata:\n  resource.customizations: '['\n  \
             resource.customizations.health.example.org_Widget: |\n{script}"
        ),
    );
    bench.write(
        "old.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  resource.customizations: |\n    example.org/Gadget: \
         {health.lua: [1]}\n    example.org/Widget: {health.lua: \"return {status = 'Healthy'}\"}\n",
    );
    for (map, said, gadget) in [
        ("map.yaml", "map.yaml: m resource.customizations: not a map", json!(null)),
        (
            "old.yaml",
            "resource.customizations example.org/Gadget: health.lua is not a string",
            json!("Unknown"),
        ),
    ] {
        let ran =
            bench.run(&["health", "-f", "widget.yaml", "--customizations", map, "-o", "json"]).expect_code(0);
        assert!(ran.err.contains(said), "{}", ran.err);
        let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&found[0]["status"], &found[1]["status"]), (&json!("Healthy"), &gadget), "{map}");
    }
}

/// The plan must validate the health annotations of an object. Otherwise its wave would wait forever.
#[test]
fn health_annotations_are_validated_in_the_plan() {
    let bench = Bench::new();
    for (annotation, value, code) in [
        ("health-current", "status.ready ==", "invalid-health-expression"),
        ("health-failed", "status.bad", "invalid-health-expression"),
        ("health-current", "foo(status.ready)", "doubtful-health-expression"),
        ("health-convention", "false", "invalid-health-convention"),
        ("health-convention", "Off", "invalid-health-convention"),
        ("health-grace", "soon", "invalid-health-grace"),
    ] {
        let annotations = format!("{{tidegate.dev/{annotation}: '{value}'}}");
        bench.write(
            "app.yaml",
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, annotations: {annotations}}}\n"),
        );
        for offline in [&["--offline"][..], &["--sim"]] {
            let plan = bench.json(&[&["plan", "app.yaml", "--app", "a", "-o", "json"], offline].concat());
            assert_eq!(plan["warnings"][0]["code"], code, "{annotation}: {plan}");
            assert_eq!(plan["warnings"].as_array().unwrap().len(), 1, "{plan}");
        }
        let strict = bench.run(&["sync", "app.yaml", "--app", "a", "--sim", "--strict"]).expect_code(2);
        assert!(
            strict.err.contains(annotation) || strict.err.contains("health expression"),
            "{}",
            strict.err
        );
        if annotation == "health-convention" {
            bench.run(&["sync", "app.yaml", "--app", "a", "--sim"]).expect_code(0);
            let shown = bench.json(&["ops", "show", "a", "-o", "json"]);
            assert!(shown["warnings"].to_string().contains(code), "{shown}");
        }
    }
}

#[test]
fn an_operation_keeps_its_original_scripts() {
    let bench = Bench::new();
    bench.write("app.yaml", TWO_WAVES);
    bench.write("scripts/ConfigMap/health.lua", WAITING);
    let begin = ["sync", "app.yaml", "--app", "a", "--sim", "--customizations", "scripts", "--timeout", "2s"];
    bench.run(&begin).expect_code(3);
    assert_eq!(bench.creations("ConfigMap", "second"), 0);
    let reason = bench.run(&["explain", "a"]).expect_code(0).out;
    assert!(reason.contains("waiting for a script"), "{reason}");
    // Without the option, the original rules stay in use, so forgetting the option doesn't open a gate.
    bench.run(&["resume", "a", "--sim", "--timeout", "2s"]).expect_code(3);
    assert_eq!(bench.creations("ConfigMap", "second"), 0);
    // A rejected sync doesn't change the rules.
    bench.run(&["sync", "app.yaml", "--app", "a", "--sim"]).expect_code(4);
    bench.run(&["resume", "a", "--sim", "--timeout", "2s"]).expect_code(3);
    // With the option, the new rules apply.
    bench.write("scripts/ConfigMap/health.lua", "return { status = 'Healthy' }");
    bench.run(&["resume", "a", "--sim", "--customizations", "scripts"]).expect_code(0);
    assert_eq!(bench.creations("ConfigMap", "second"), 1);
    // The next operation starts without the scripts.
    bench.run(&["sync", "app.yaml", "--app", "a", "--sim"]).expect_code(0);
}

#[test]
fn operations_with_different_scripts_are_resumed_in_turn() {
    let bench = Bench::new();
    for app in ["a", "b"] {
        let text = TWO_WAVES.replace("first", app).replace("second", &format!("second-{app}"));
        bench.write("app.yaml", text);
        bench.write("scripts/ConfigMap/health.lua", format!("{WAITING} -- {app}"));
        let begin =
            ["sync", "app.yaml", "--app", app, "--sim", "--customizations", "scripts", "--timeout", "1s"];
        bench.run(&begin).expect_code(3);
    }
    let ran = bench.run(&["resume", "--all", "--sim", "--timeout", "1s"]).expect_code(3);
    assert!(ran.err.contains("run one after the other: a, then b"), "{}", ran.err);
    assert_eq!(ran.err.matches("is unfinished").count(), 2, "{}", ran.err);
    // The same is true for `resume --all`.
    bench.write("scripts/ConfigMap/health.lua", "return { status = 'Healthy' }");
    let ran = bench.run(&["resume", "--all", "--sim", "--customizations", "scripts"]).expect_code(0);
    assert!(!ran.err.contains("one after the other"), "{}", ran.err);
    assert_eq!(["second-a", "second-b"].map(|name| bench.creations("ConfigMap", name)), [1, 1]);
}

/// One operation started without the convention, and the other with it. There are no scripts.
#[test]
fn operations_with_and_without_the_convention_are_resumed_together() {
    let bench = Bench::new();
    for (app, options) in [("a", &["--health-convention=off"][..]), ("b", &[])] {
        let gated = TWO_WAVES.replace("first", app).replace("second", &format!("second-{app}"));
        bench.write("app.yaml", gated.replace("'1'", "'1', tidegate.dev/gate: approval"));
        let begin = ["sync", "app.yaml", "--app", app, "--sim", "--timeout", "1s"];
        bench.run(&[&begin[..], options].concat()).expect_code(3);
    }
    let all = ["resume", "--all", "--sim", "--timeout", "1s"];
    let ran = bench.run(&all).expect_code(3);
    assert!(
        !ran.err.contains("scripts") && ran.err.contains("one after the other: a, then b"),
        "{}",
        ran.err
    );
    let ran = bench.run(&[&all[..], &["--health-convention=off"]].concat()).expect_code(3);
    assert!(!ran.err.contains("one after the other"), "{}", ran.err);
    for app in ["a", "b"] {
        bench.run(&["ops", "approve", app, "--wave", "2"]).expect_code(0);
    }
    bench.run(&all[..3]).expect_code(0);
    assert_eq!(["second-a", "second-b"].map(|name| bench.creations("ConfigMap", name)), [1, 1]);
}

#[test]
fn expressions_assess_like_scripts() {
    let bench = Bench::new();
    bench.write("widget.yaml", WIDGET);
    bench.write(
        "rules/example.org/Widget/health.yaml",
        "current: status.phase == 'Ready'\nfailed: status.phase == 'Failed'\n",
    );
    bench.write(
        "map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  tidegate.health.example.org_Widget: |\n    current: status.phase == 'Ready'\n",
    );
    bench.write(
        "flux.yaml",
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: k}\nspec:\n  healthCheckExprs:\n  \
         - {apiVersion: example.org/v1, kind: Widget, current: \"status.phase == 'Ready'\"}\n",
    );
    for rules in ["rules", "map.yaml", "flux.yaml"] {
        let found = bench.json(&["health", "-f", "widget.yaml", "--customizations", rules, "-o", "json"]);
        assert_eq!(
            found,
            json!({"status": "Healthy", "message": "The `current` expression is true"}),
            "{rules}"
        );
    }
    bench.write("rules/example.org/Gadget/health.yaml", "current: status.phase ==");
    let ran = bench.run(&["health", "-f", "widget.yaml", "--customizations", "rules"]).expect_code(0);
    assert!(
        ran.err.contains("rules/example.org/Gadget/health.yaml: current: expected a value at the end"),
        "{}",
        ran.err
    );
}

/// An object that isn't ready. Waves wait for it only because of the convention.
#[test]
fn an_operation_that_started_without_the_convention_stays_without_it() {
    let hook = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: slow\n  annotations: {argocd.argoproj.io/hook: PreSync, \
                sim.tidegate.dev/ready-after: 4s}\nspec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, \
                containers: [{name: main, image: busybox}]}}}\n";
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: \
                      gadgets.example.com}\nspec: {group: example.com, scope: Namespaced, names: {kind: Gadget, plural: \
                      gadgets}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, \
                      x-kubernetes-preserve-unknown-fields: true}}}]}\n";
    let gadget = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\nstatus: {conditions: [{type: Ready, \
                  status: 'False'}]}\n";
    let after = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: after, annotations: {argocd.argoproj.io/sync-wave: \
                 '1'}}\n";
    for off in [true, false] {
        let bench = Bench::new();
        bench.write("app.yaml", [hook, definition, gadget, after].join("---\n"));
        let mut begin = vec!["sync", "app.yaml", "--app", "a", "--sim", "--timeout", "1s"];
        begin.extend(off.then_some("--health-convention=off"));
        bench.run(&begin).expect_code(3);
        assert_eq!(bench.creations("Gadget", "g"), 0);
        // The next process doesn't have the option.
        let (code, created) = if off { (0, 1) } else { (3, 0) };
        bench.run(&["resume", "a", "--sim", "--timeout", if off { "10m" } else { "15s" }]).expect_code(code);
        assert_eq!(bench.creations("ConfigMap", "after"), created, "off: {off}");
    }
}

#[test]
fn the_plan_names_the_assessing_rule_and_the_convention_is_optional() {
    let bench = Bench::new();
    let certificate = "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: c}\n";
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n";
    let gadget = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\n";
    bench.write("app.yaml", [certificate, config, gadget, WIDGET].join("---\n"));
    bench.write("rules/example.org/Widget/health.yaml", "current: 'true'\n");
    let plan = ["plan", "app.yaml", "--app", "a", "--offline", "--customizations", "rules", "-o", "json"];
    let judges = |args: &[&str]| {
        let found = bench.json(args);
        let tasks =
            found["waves"].as_array().unwrap().iter().flat_map(|wave| wave["tasks"].as_array().unwrap());
        let mut named: Vec<_> = tasks.map(|task| format!("{} {}", task["kind"], task["health"])).collect();
        named.sort_unstable();
        named.join("; ").replace('"', "")
    };
    assert_eq!(judges(&plan), "Certificate built-in; ConfigMap null; Gadget convention; Widget user");
    let off: Vec<_> = plan.into_iter().chain(["--health-convention=off"]).collect();
    assert_eq!(judges(&off), "Certificate built-in; ConfigMap null; Gadget null; Widget user");
    let tree = bench.run(&plan[..7]).expect_code(0).out;
    assert!(tree.contains("health rule: convention") && tree.contains("health rule: user"), "{tree}");
    bench
        .write("ready.yaml", format!("{gadget}status: {{conditions: [{{type: Ready, status: 'False'}}]}}\n"));
    let health = ["health", "-f", "ready.yaml", "-o", "json", "--health-convention", "off"];
    assert_eq!(bench.json(&health[..5])["status"], "Progressing");
    assert_eq!(bench.json(&health)["status"], json!(null));
}

/// The command has no `--allow-empty`, so the error must not suggest it.
#[test]
fn the_error_for_empty_input_suggests_no_unavailable_flag() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path().join("folder")).unwrap();
    for (input, text) in [("-", "the input contains no objects"), ("folder", "no manifests in this folder")] {
        let ran = bench.run_with_input(&["health", "-f", input], "").expect_code(2);
        assert!(ran.err.contains(text) && !ran.err.contains("allow-empty"), "{}", ran.err);
    }
}

/// With the documented script, the waves of an app of apps wait. Without it, an Application has no health status.
#[test]
fn an_application_is_assessed_by_the_documented_script() {
    let bench = Bench::new();
    let text = include_str!("../../docs/guides/app-of-apps.md");
    let (_, section) = text.split_once("## An app of apps").unwrap();
    let script = section.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0;
    bench.write("health.yaml", script);
    let application = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: child}\n";
    for (status, expected) in [
        ("", "Progressing"),
        ("status: {health: {status: Degraded, message: no}}\n", "Degraded"),
        ("status: {health: {status: Healthy}}\n", "Healthy"),
    ] {
        bench.write("child.yaml", format!("{application}{status}"));
        let judged = |more: &[&str]| {
            bench.json(&[&["health", "-f", "child.yaml", "-o", "json"], more].concat())["status"].clone()
        };
        assert_eq!(judged(&["--customizations", "health.yaml"]), expected, "{status}");
        assert_eq!(judged(&[]), json!(null), "{status}");
    }
}
