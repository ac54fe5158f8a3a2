//! Effects and output of `sync`.

use serde_json::{Value, json};

use crate::bench::{Bench, Running, example, redact, sorted};
use crate::manifests::{CONFIG, FAST, FAST_HOOKS};

#[test]
fn the_shop_is_deployed_wave_by_wave() {
    let bench = Bench::new();
    let ran = bench.run(&["sync", &example("shop"), "--app", "shop", "--sim"]).expect_code(0);
    insta::assert_snapshot!("shop_result", sorted(&redact(&ran.out, &bench)));
    let id = bench.newest();
    let operation = bench.json(&["ops", "show", "shop", "-o", "json"]);
    assert_eq!(operation["phase"], "Succeeded");
    let waves = operation["waves"].as_array().unwrap();
    assert!(waves.iter().filter(|wave| wave["state"] == "Passed").count() >= 4, "{waves:?}");
    let phases: Vec<&Value> = waves.iter().map(|wave| &wave["phase"]).collect();
    assert!(phases.contains(&&Value::from("PreSync")) && phases.contains(&&Value::from("PostSync")));
    for hook in ["backup", "migrate", "smoke-test"] {
        assert_eq!(bench.creations("Job", hook), 1, "{hook}");
    }
    assert_eq!(bench.creations("Job", "notify-failure"), 0);
    for part in ["accepted", "wave 1 of 7", "Job shop/backup Succeeded", "Succeeded: successfully synced"] {
        assert!(ran.err.contains(part), "no {part:?} in {}", ran.err);
    }
    assert!(!ran.err.contains('\u{1b}') && !ran.err.contains('\r'), "no color and no spinner: {}", ran.err);
    // Prints all views of a finished operation.
    let shown = bench.run(&["ops", "show", &id[..13]]).expect_code(0);
    insta::assert_snapshot!("shop_show", sorted(&redact(&shown.out, &bench)));
    let explained = bench.run(&["explain", "shop"]).expect_code(0);
    insta::assert_snapshot!("shop_explain", redact(&explained.out, &bench));
    let log = bench.run(&["ops", "log", "shop"]).expect_code(0);
    assert!(log.out.contains("Wave 1 Applying") && log.out.contains("hook Job shop/backup"), "{}", log.out);
    let events = bench.json(&["ops", "log", "shop", "-o", "json"]);
    let numbers: Vec<u64> =
        events.as_array().unwrap().iter().filter_map(|event| event["sequence"].as_u64()).collect();
    assert_eq!(numbers, (1..=u64::try_from(numbers.len()).unwrap()).collect::<Vec<u64>>());
}

/// Without `--prune`, objects that are no longer in the input stay, so there is no prune to report.
#[test]
fn a_wave_that_only_skips_prunes_reports_none() {
    let bench = Bench::new();
    let config = |name: &str| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    bench.write("two.yaml", config("one") + &config("two"));
    bench.write("one.yaml", config("one"));
    bench.run(&["sync", "two.yaml", "--app", "a", "--sim"]).expect_code(0);
    let left = bench.run(&["sync", "one.yaml", "--app", "a", "--sim"]).expect_code(0);
    assert!(left.out.contains("PruneSkipped") && !left.err.contains("pruning"), "{}{}", left.out, left.err);
    let pruned = bench.run(&["sync", "one.yaml", "--app", "a", "--sim", "--prune"]).expect_code(0);
    assert!(pruned.err.contains("pruning 1 object"), "{}", pruned.err);
}

/// The first message about a wait must contain the known state, not say that nothing was observed.
#[test]
fn a_wait_is_reported_with_its_reason() {
    let bench = Bench::new();
    bench.write("server.yaml", SERVER);
    let mut sync = bench.start(&["sync", "server.yaml", "--app", "a", "--sim"]);
    let line = sync.wait_for_line("waiting for Deployment default/server");
    assert!(line.contains("wave 1 of 2") && line.contains("Waiting for rollout: "), "{line}");
    sync.signal("TERM");
    let ran = sync.finish().expect_code(3);
    assert!(!ran.err.contains("not observed yet"), "{}", ran.err);
}

/// A server that becomes ready after a while, and a wave that waits for the server.
const SERVER: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, annotations: {sim.tidegate.dev/ready-after: 60s}}
spec:
  replicas: 2
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec: {containers: [{name: main, image: nginx}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config, annotations: {argocd.argoproj.io/sync-wave: \"1\"}}
";

#[test]
fn the_log_is_a_document_with_stable_names() {
    let bench = Bench::new();
    bench.write("config.yaml", crate::manifests::CONFIG);
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    let log = bench.run(&["ops", "log", "a", "-o", "json"]).expect_code(0);
    insta::assert_snapshot!("log_json", redact(&log.out, &bench));
}

#[test]
fn a_failing_hook_stops_the_rest_and_runs_the_failure_hook() {
    let bench = Bench::new();
    let ran = bench.run(&["sync", &example("failing"), "--app", "failing", "--sim"]).expect_code(1);
    insta::assert_snapshot!("failing_result", without_pod(&sorted(&redact(&ran.out, &bench)), "migrate-"));
    assert_eq!(bench.creations("Job", "notify-failure"), 1);
    assert_eq!(bench.creations("Deployment", "backend"), 0);
    let explained = bench.run(&["explain", "failing"]).expect_code(0);
    insta::assert_snapshot!("failing_explain", without_pod(&redact(&explained.out, &bench), "migrate-"));
    let shown = bench.run(&["ops", "show", "failing"]).expect_code(0).out;
    assert!(shown.contains("log of hook Job shop-failing/migrate, pod migrate-"), "{shown}");
    assert!(shown.contains("  ERROR: syntax error at or near TABEL"), "{shown}");
}

/// Removes the names of pods, because they are random.
fn without_pod(text: &str, prefix: &str) -> String {
    let mut parts = text.split(prefix);
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| format!("{text}{prefix}POD{}", part.get(5..).unwrap()))
}

#[test]
fn json_is_the_final_operation() {
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    let operation = bench.json(&["sync", "fast.yaml", "--app", "a", "--sim", "-o", "json"]);
    let keys: Vec<&str> = operation.as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "id",
        "app",
        "phase",
        "message",
        "startedAt",
        "finishedAt",
        "retryCount",
        "waves",
        "resources",
        "warnings",
    ] {
        assert!(keys.contains(&key), "no {key} in {keys:?}");
    }
    let resource = operation["resources"][0].as_object().unwrap();
    for key in [
        "group",
        "version",
        "kind",
        "namespace",
        "name",
        "syncPhase",
        "wave",
        "hookType",
        "status",
        "hookPhase",
        "message",
        "order",
    ] {
        assert!(resource.contains_key(key), "no {key} in {resource:?}");
    }
    let yaml = bench.run(&["ops", "show", "a", "-o", "yaml"]).expect_code(0).out;
    let read: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(read, operation);
}

#[test]
fn a_dry_run_writes_nothing() {
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    bench.run(&["sync", "fast.yaml", "--app", "a", "--sim", "--dry-run"]).expect_code(0);
    assert_eq!(bench.writes(), Vec::<Value>::new());
    let audit = bench.json(&["sim", "audit", "-o", "json"]);
    assert!(!audit.as_array().unwrap().is_empty(), "all calls were tested");
}

/// The dry run succeeds like any sync, but later views must not present it as an executed sync.
#[test]
fn a_dry_run_is_distinguished_from_a_sync() {
    let words = "Succeeded (dry run: nothing was written)";
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    for dry_run in [true, false] {
        let flags: &[&str] = if dry_run { &["--dry-run"] } else { &[] };
        let sync = [&["sync", "fast.yaml", "--app", "a", "--sim"][..], flags].concat();
        let output = bench.run(&sync).expect_code(0);
        let shown = bench.run(&["ops", "show", "a"]).expect_code(0).out;
        let explained = bench.run(&["explain", "a"]).expect_code(0).out;
        let file = format!("{dry_run}.html");
        bench.run(&["ops", "export", "a", "-o", &file]).expect_code(0);
        let page = std::fs::read_to_string(bench.path().join(file)).unwrap();
        for text in [&output.out, &shown, &explained, &page] {
            assert!(text.contains("Succeeded"), "{text}");
            assert_eq!(text.contains(words), dry_run, "{text}");
        }
        let field = if dry_run { json!(true) } else { Value::Null };
        for command in [&["ops", "show", "a"][..], &["explain", "a"]] {
            assert_eq!(bench.json(&[command, &["-o", "json"]].concat())["dryRun"], field, "{command:?}");
        }
        assert_eq!(bench.json(&["ops", "export", "a"])["operation"]["dryRun"], field);
        let listed = bench.run(&["ops", "list"]).expect_code(0).out.lines().last().unwrap().to_owned();
        assert_eq!(listed.contains("Succeeded, dry run"), dry_run, "{listed}");
        let lines = bench.json(&["ops", "list", "-o", "json"]);
        assert_eq!(lines.as_array().unwrap().last().unwrap()["dryRun"], dry_run, "{lines}");
    }
}

#[test]
fn removed_objects_are_pruned_if_requested() {
    let bench = Bench::new();
    bench.write("app.yaml", format!("{CONFIG}---\n{}", CONFIG.replace("name: config", "name: second")));
    bench.run(&["sync", "app.yaml", "--app", "a", "--sim"]).expect_code(0);
    bench.write("app.yaml", CONFIG);
    let kept = bench.json(&["sync", "app.yaml", "--app", "a", "--sim", "-o", "json"]);
    assert!(kept.to_string().contains("PruneSkipped"), "{kept}");
    let pruned = bench.json(&["sync", "app.yaml", "--app", "a", "--sim", "--prune", "-o", "json"]);
    assert!(pruned.to_string().contains(r#""Pruned""#), "{pruned}");
    assert_eq!(bench.writes().iter().filter(|entry| entry["verb"] == "delete").count(), 1);
}

/// An empty folder is usually a mistake.
#[test]
fn empty_input_removes_everything_only_if_permitted() {
    let bench = Bench::new();
    bench.write("app/a.yaml", format!("{CONFIG}---\n{}", CONFIG.replace("name: config", "name: second")));
    bench.run(&["sync", "app", "--app", "a", "--sim"]).expect_code(0);
    bench.write("app/a.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
    let deleted = || bench.writes().iter().filter(|entry| entry["verb"] == "delete").count();
    let refused = bench.run(&["sync", "app", "--app", "a", "--sim", "--prune"]).expect_code(2);
    assert!(refused.err.contains("--allow-empty"), "{}", refused.err);
    for hook in ["PreDelete", "Skip"] {
        let annotated = format!("name: config, annotations: {{argocd.argoproj.io/hook: {hook}}}");
        bench.write("app/a.yaml", CONFIG.replacen("name: config", &annotated, 1));
        let refused = bench.run(&["sync", "app", "--app", "a", "--sim", "--prune"]).expect_code(2);
        assert!(refused.err.contains("--allow-empty"), "{hook}: {}", refused.err);
    }
    std::fs::remove_file(bench.path().join("app/a.yaml")).unwrap();
    for command in ["sync", "plan", "diff"] {
        let refused = bench.run(&[command, "app", "--app", "a", "--sim"]).expect_code(2);
        assert!(refused.err.contains("--allow-empty"), "{command}: {}", refused.err);
    }
    bench.run(&["diff", "app", "--app", "a", "--sim", "--allow-empty"]).expect_code(1);
    bench.run(&["sync", "app", "--app", "a", "--sim", "--allow-empty"]).expect_code(0);
    assert_eq!(deleted(), 0, "nothing is pruned without --prune");
    let all = bench.run(&["sync", "app", "--app", "a", "--sim", "--allow-empty", "--prune"]).expect_code(0);
    let named = [
        "2 objects will be pruned",
        "to prune: ConfigMap default/config",
        "to prune: ConfigMap default/second",
    ];
    for text in named {
        assert!(all.err.contains(text), "{text}: {}", all.err);
    }
    assert_eq!(deleted(), 2);
}

/// Argo CD's operation options are specified like all other options.
#[test]
fn operation_options_are_given_as_sync_options() {
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    let sync = ["sync", "fast.yaml", "--app", "a", "--sim"];
    bench.run(&[&sync[..], &["--sync-option", "SkipHooks=true", "--strict"]].concat()).expect_code(0);
    assert_eq!(bench.creations("ConfigMap", "config"), 1);
    for hook in FAST_HOOKS {
        assert_eq!(bench.creations("Job", hook), 0);
    }
    bench
        .run(&[&sync[..], &["--sync-option", "Force=true", "--sync-option", "Replace=true"]].concat())
        .expect_code(0);
    let log = bench.json(&["ops", "log", "a", "-o", "json"]).to_string();
    assert!(log.contains(r#""force":true"#), "{log}");
    let client = ["--sync-option", "ServerSideApply=false", "--strict"];
    bench.run(&[&sync[..], &client].concat()).expect_code(0);
}

#[test]
fn a_hook_that_fails_once_is_retried() {
    let bench = Bench::new();
    let text = FAST.replacen("sim.tidegate.dev/ready-after: 60ms", "sim.tidegate.dev/fail-times: \"1\"", 1);
    bench.write("fast.yaml", text);
    let args =
        ["sync", "fast.yaml", "--app", "a", "--sim", "--retry", "2", "--retry-backoff", "50ms", "-o", "json"];
    let operation = bench.json(&args);
    assert_eq!(operation["retryCount"], 1, "{operation}");
    assert_eq!(bench.creations("Job", "before"), 2);
    assert_eq!(bench.creations("Job", "middle"), 1);
}

#[test]
fn only_the_selected_object_is_synced() {
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    let args =
        ["sync", "fast.yaml", "--app", "a", "--sim", "--resource", ":ConfigMap:default/config", "-o", "json"];
    let operation = bench.json(&args);
    assert_eq!(operation["resources"].as_array().unwrap().len(), 1, "{operation}");
    for hook in FAST_HOOKS {
        assert_eq!(bench.creations("Job", hook), 0);
    }
}

#[test]
fn argo_cds_wave_delay_is_honored_and_invalid_values_are_ignored() {
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    let with_delay = |value: &str| {
        let mut command = bench.command(&["sync", "fast.yaml", "--app", "a", "--sim"]);
        command.env("ARGOCD_SYNC_WAVE_DELAY", value);
        Running::start(command).finish().expect_code(0).err
    };
    let seconds = |err: &str| {
        let line = err.lines().rev().find(|line| line.contains("Succeeded:")).unwrap();
        let number: String = line.chars().filter(|c| c.is_ascii_digit() || *c == '.').take(3).collect();
        number.parse::<f64>().unwrap()
    };
    let slow = with_delay("1");
    assert!(seconds(&slow) >= 4.0, "four waits of one second: {slow}");
    assert!(!with_delay("0").contains("warning"));
    let odd = with_delay("a while");
    assert!(
        odd.contains("warning: ignoring invalid ARGOCD_SYNC_WAVE_DELAY \"a while\": use a whole number"),
        "{odd}"
    );
}

#[test]
fn verbose_and_the_environment_filter_trace_to_standard_error() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let quiet = bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    assert!(!quiet.err.contains("INFO"), "{}", quiet.err);
    let verbose = bench.run(&["-v", "sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    assert!(verbose.err.contains("INFO"), "{}", verbose.err);
    let mut command = bench.command(&["sync", "config.yaml", "--app", "a", "--sim"]);
    command.env("TIDEGATE_LOG", "tidegate_executor=info");
    assert!(Running::start(command).finish().expect_code(0).err.contains("INFO"));
}

#[test]
fn same_manifests_give_generated_hooks_the_same_revision() {
    let bench = Bench::new();
    let text = FAST.replacen("name: before", "generateName: before-", 1);
    bench.write("fast.yaml", &text);
    let name = |bench: &Bench| {
        let operation = bench.json(&["sync", "fast.yaml", "--app", "a", "--sim", "-o", "json"]);
        let resources = operation["resources"].as_array().unwrap().clone();
        let mut names = resources.iter().filter_map(|resource| resource["name"].as_str());
        let name = names.rfind(|name| name.starts_with("before-")).unwrap().to_owned();
        name.split('-').take(2).collect::<Vec<_>>().join("-")
    };
    let first = name(&bench);
    assert_eq!(first.len(), "before-".len() + 7, "{first}");
    assert_eq!(name(&bench), first);
}

/// If the trace output is lost, the sync must neither fail nor hang.
#[test]
fn a_traced_sync_ends_even_if_standard_error_is_not_read() {
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    let mut command = bench.command(&["-vv", "sync", "fast.yaml", "--app", "a", "--sim", "-o", "json"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stderr(writer);
    let ran = Running::start_without_stderr(command).finish().expect_code(0);
    assert!(ran.out.contains("\"Succeeded\""), "{}", ran.out);
}

#[test]
fn a_namespace_is_not_pruned_before_its_contents() {
    let bench = Bench::new();
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: team}\n";
    bench.write(
        "app.yaml",
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: team}}\n---\n{config}"),
    );
    let args = ["app.yaml", "--app", "web", "-n", "team", "--sim", "--prune"];
    bench.run(&[&["sync"][..], &args].concat()).expect_code(0);
    bench.write("app.yaml", config);
    // The plan shows a warning, and only `--strict` rejects it. The operation fails before any write.
    let plan = bench.run(&[&["plan"][..], &args].concat()).expect_code(0);
    assert!(plan.out.contains("namespace-pruned"), "{plan:?}");
    let before = bench.writes().len();
    let ran = bench.run(&[&["sync"][..], &args].concat()).expect_code(1);
    assert!(format!("{}{}", ran.out, ran.err).contains("ConfigMap team/a"), "{ran:?}");
    assert_eq!(bench.writes().len(), before, "nothing was written");
}
