//! Stored plans, which are executed exactly or not at all.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::manifests::FAST;

const SECRET: &str = "the-canary-of-this-test";

fn config(data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: config}}\ndata: {data}\n")
}

/// Creates the plan of `in.yaml` in the file `one.plan`. Returns the plan's hash.
fn bench_with_plan(bench: &Bench, manifests: &str) -> String {
    bench.write("in.yaml", manifests);
    let ran = bench.run(&["plan", "in.yaml", "--app", "one", "--sim", "--save", "one.plan"]).expect_code(0);
    let plan: Value = serde_json::from_slice(&fs::read(bench.path().join("one.plan")).unwrap()).unwrap();
    let hash = plan["hash"].as_str().unwrap().to_owned();
    assert!(ran.err.contains(&format!("plan {hash} (")), "{}", ran.err);
    // The suggested command contains the right cluster.
    assert!(ran.err.contains("`tidegate sync --plan one.plan --sim"), "{}", ran.err);
    hash
}

/// Returns the files below a folder that contain this text.
fn files_containing(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_containing(&path, text));
        } else if fs::read(&path).unwrap().windows(text.len()).any(|part| part == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_stored_plan_is_executed_exactly_despite_changed_manifests() {
    let bench = Bench::new();
    let hash = bench_with_plan(&bench, FAST);
    assert!(bench.writes().is_empty(), "a plan writes nothing to the cluster");
    bench.write("in.yaml", config("{mode: other}"));
    bench.run(&["sync", "--plan", "one.plan", "--sim"]).expect_code(0);
    let objects = bench.json(&["sim", "objects", "-o", "json"]).to_string();
    assert!(objects.contains("\"fast\"") && !objects.contains("\"other\""), "{objects}");
    let created: Vec<String> = bench
        .writes()
        .iter()
        .filter(|entry| entry["code"] == 201)
        .map(|entry| format!("{} {}", entry["kind"].as_str().unwrap(), entry["name"].as_str().unwrap()))
        .collect();
    let order = ["Job before", "ConfigMap config", "Deployment server", "Job middle", "Job after"];
    assert_eq!(created, order, "the order of the waves, each once");
    let explanation = bench.json(&["explain", "one", "-o", "json"]);
    assert_eq!(explanation["plan"], format!("plan {}", &hash[..12]));
    let events = bench.json(&["ops", "log", "one", "-o", "json"]);
    let taken = events.as_array().unwrap().iter().find(|event| event["kind"] == "stored-plan-used").unwrap();
    assert_eq!((&taken["details"]["hash"], &taken["details"]["approvals"]), (&json!(hash), &json!([])));
    // The objects now exist, so the same plan no longer matches.
    let writes = bench.writes().len();
    let again = bench.run(&["sync", "--plan", "one.plan", "--sim"]).expect_code(4);
    assert!(
        again.err.contains("is no longer valid: ") && again.err.contains("nothing was written"),
        "{}",
        again.err
    );
    assert_eq!(
        (bench.writes().len(), bench.json(&["ops", "list", "-o", "json"]).as_array().unwrap().len()),
        (writes, 1)
    );
    // A deletion is a different operation, for which this plan doesn't exist.
    bench.run(&["delete", "--app", "one", "--sim", "--yes"]).expect_code(0);
    let left = bench.json(&["sim", "objects", "-o", "json"]).to_string();
    assert!(!left.contains("\"server\"") && !left.contains("\"config\""), "{left}");
}

#[test]
fn a_plan_is_found_by_its_hash_and_sealed_in_the_state_directory() {
    let bench = Bench::new();
    let secret = format!(
        "{}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: door}}\nstringData: {{key: {SECRET}}}\n",
        config("{a: b}")
    );
    let hash = bench_with_plan(&bench, &secret);
    let file = bench.path().join("one.plan");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!files_containing(&bench.path().join("state/plans"), &hash[..12]).is_empty());
    assert_eq!(files_containing(&bench.state(), SECRET), Vec::<String>::new(), "sealed");
    for (wrong, text) in [
        ("0123456789", "cannot find plan 0123456789: no plan in "),
        (&hash[..5], "at least the first 6 digits of"),
        ("nothing.plan", "file nothing.plan not found; "),
    ] {
        let ran = bench.run(&["sync", "--plan", wrong, "--sim"]).expect_code(2);
        assert!(ran.err.contains(text), "{wrong}: {}", ran.err);
    }
    // An existing file takes precedence, regardless of its name.
    fs::copy(&file, bench.path().join(&hash[..5])).unwrap();
    bench.run(&["sync", "--plan", &hash[..5], "--sim", "--dry-run"]).expect_code(0);
    fs::remove_file(file).unwrap();
    bench.run(&["sync", "--plan", &hash[..8], "--sim"]).expect_code(0);
    assert_eq!(bench.writes().iter().filter(|entry| entry["code"] == 201).count(), 2);
}

#[test]
fn changed_files_and_other_formats_are_refused() {
    let bench = Bench::new();
    bench_with_plan(&bench, &config("{mode: fast}"));
    let text = fs::read_to_string(bench.path().join("one.plan")).unwrap();
    for (changed, words) in [
        (text.replace("\"fast\"", "\"slow\""), "the plan was modified after it was created"),
        (text.replace("\"format\": 1", "\"format\": 7"), "the plan has format 7"),
        (text[..text.len() / 2].to_owned(), "the file is not a stored plan"),
        (config("{}"), "the file is not a stored plan"),
        (text.replace("\"madeAt\"", "\"extra\": 1, \"madeAt\""), "unknown field"),
    ] {
        bench.write("changed.plan", changed);
        let ran = bench.run(&["sync", "--plan", "changed.plan", "--sim"]).expect_code(2);
        assert!(ran.err.contains(words) && ran.err.contains("changed.plan"), "{words}: {}", ran.err);
    }
    assert!(bench.writes().is_empty());
}

#[test]
fn drift_is_reported_and_only_unplanned_changes_can_be_allowed() {
    let bench = Bench::new();
    bench.write("in.yaml", config("{mode: slow}"));
    bench.run(&["sync", "in.yaml", "--app", "one", "--sim"]).expect_code(0);
    bench_with_plan(&bench, &config("{mode: fast}"));
    // The object differs in an additional field.
    bench.write("more.yaml", config("{mode: slow, more: x}"));
    bench.run(&["sync", "more.yaml", "--app", "one", "--sim"]).expect_code(0);
    let ran = bench.run(&["sync", "--plan", "one.plan", "--sim"]).expect_code(4);
    let text = "ConfigMap default/config: /data/more was absent and is now \"x\"; allow these changes with `tidegate sync --allow-drift`";
    assert!(ran.err.contains(text), "{}", ran.err);
    bench.run(&["sync", "--plan", "one.plan", "--sim", "--allow-drift"]).expect_code(0);
    let ran = bench.run(&["sync", "in.yaml", "--app", "one", "--sim", "--allow-drift"]).expect_code(2);
    assert!(ran.err.contains("--allow-drift requires a stored plan"), "{}", ran.err);
    // The object differs in a field that the plan writes.
    bench_with_plan(&bench, &config("{mode: slow}"));
    bench.write("other.yaml", config("{mode: idle}"));
    bench.run(&["sync", "other.yaml", "--app", "one", "--sim"]).expect_code(0);
    let ran = bench.run(&["sync", "--plan", "one.plan", "--sim", "--allow-drift"]).expect_code(4);
    assert!(
        ran.err.contains("/data/mode was \"fast\" and is now \"idle\"; create a new plan"),
        "{}",
        ran.err
    );
}

#[test]
fn planned_options_cannot_be_repeated_and_broken_plans_are_not_stored() {
    let bench = Bench::new();
    bench_with_plan(&bench, &config("{mode: fast}"));
    for more in [&["in.yaml"][..], &["--app", "one"], &["--prune"], &["-n", "other"], &["--gate", "approval"]]
    {
        let args: Vec<&str> = ["sync", "--plan", "one.plan", "--sim"].iter().chain(more).copied().collect();
        assert!(bench.run(&args).expect_code(2).err.contains("--plan"), "{more:?}");
    }
    assert!(bench.run(&["sync", "--sim", "--app", "one"]).expect_code(2).err.contains("PATH"));
    let args = ["plan", "in.yaml", "--app", "one", "--offline", "--save", "two.plan"];
    bench.run(&args).expect_code(2);
    bench.write("wrong.yaml", "apiVersion: example.org/v1\nkind: Unknown\nmetadata: {name: one}\n");
    let ran =
        bench.run(&["plan", "wrong.yaml", "--app", "one", "--sim", "--save", "two.plan"]).expect_code(1);
    assert!(
        ran.err.contains("the plan was not stored") && !bench.path().join("two.plan").exists(),
        "{}",
        ran.err
    );
}
