//! Plans that are kept: carried out exactly, or not at all.

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

/// A bench with this plan of `in.yaml` in `one.plan`; and its hash.
fn kept(bench: &Bench, manifests: &str) -> String {
    bench.write("in.yaml", manifests);
    let ran = bench.run(&["plan", "in.yaml", "--app", "one", "--sim", "--save", "one.plan"]).expect_code(0);
    let plan: Value = serde_json::from_slice(&fs::read(bench.path().join("one.plan")).unwrap()).unwrap();
    let hash = plan["hash"].as_str().unwrap().to_owned();
    assert!(ran.err.contains(&format!("plan {hash} (")), "{}", ran.err);
    // What is suggested reaches the cluster that it was made for.
    assert!(ran.err.contains("`tidegate sync --plan one.plan --sim"), "{}", ran.err);
    hash
}

/// The files below a folder that hold this text.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if fs::read(&path).unwrap().windows(text.len()).any(|part| part == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_kept_plan_is_carried_out_exactly_whatever_the_manifests_say_by_then() {
    let bench = Bench::new();
    let hash = kept(&bench, FAST);
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
    let told = bench.json(&["explain", "one", "-o", "json"]);
    assert_eq!(told["plan"], format!("plan {}", &hash[..12]));
    let facts = bench.json(&["ops", "log", "one", "-o", "json"]);
    let taken = facts.as_array().unwrap().iter().find(|fact| fact["kind"] == "plan-taken").unwrap();
    assert_eq!((&taken["details"]["hash"], &taken["details"]["approvals"]), (&json!(hash), &json!([])));
    // What was to be created is there: the same plan does not fit any more.
    let writes = bench.writes().len();
    let again = bench.run(&["sync", "--plan", "one.plan", "--sim"]).expect_code(4);
    assert!(
        again.err.contains("does not fit any more: ") && again.err.contains("nothing was written"),
        "{}",
        again.err
    );
    assert_eq!(
        (bench.writes().len(), bench.json(&["ops", "list", "-o", "json"]).as_array().unwrap().len()),
        (writes, 1)
    );
    // A deletion is an operation of its own, which has no such plan.
    bench.run(&["delete", "--app", "one", "--sim", "--yes"]).expect_code(0);
    let left = bench.json(&["sim", "objects", "-o", "json"]).to_string();
    assert!(!left.contains("\"server\"") && !left.contains("\"config\""), "{left}");
}

#[test]
fn a_plan_is_found_by_its_hash_in_the_state_directory_and_sealed_there() {
    let bench = Bench::new();
    let secret = format!(
        "{}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: door}}\nstringData: {{key: {SECRET}}}\n",
        config("{a: b}")
    );
    let hash = kept(&bench, &secret);
    let file = bench.path().join("one.plan");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!holding(&bench.path().join("state/plans"), &hash[..12]).is_empty());
    assert_eq!(holding(&bench.state(), SECRET), Vec::<String>::new(), "sealed");
    for (wrong, words) in [
        ("0123456789", "there is no plan 0123456789: none like that is kept in "),
        (&hash[..5], "at least the first 6 digits of its hash"),
        ("nothing.plan", "there is no file nothing.plan; "),
    ] {
        let ran = bench.run(&["sync", "--plan", wrong, "--sim"]).expect_code(2);
        assert!(ran.err.contains(words), "{wrong}: {}", ran.err);
    }
    // The file that is there is the one that is meant, whatever its name.
    fs::copy(&file, bench.path().join(&hash[..5])).unwrap();
    bench.run(&["sync", "--plan", &hash[..5], "--sim", "--dry-run"]).expect_code(0);
    fs::remove_file(file).unwrap();
    bench.run(&["sync", "--plan", &hash[..8], "--sim"]).expect_code(0);
    assert_eq!(bench.writes().iter().filter(|entry| entry["code"] == 201).count(), 2);
}

#[test]
fn a_file_that_was_changed_is_refused_and_so_is_one_of_another_format() {
    let bench = Bench::new();
    kept(&bench, &config("{mode: fast}"));
    let text = fs::read_to_string(bench.path().join("one.plan")).unwrap();
    for (changed, words) in [
        (text.replace("\"fast\"", "\"slow\""), "it was changed after it was made"),
        (text.replace("\"format\": 1", "\"format\": 7"), "it has format 7"),
        (text[..text.len() / 2].to_owned(), "it is not a plan that was kept"),
        (config("{}"), "it is not a plan that was kept"),
        (text.replace("\"madeAt\"", "\"extra\": 1, \"madeAt\""), "unknown field"),
    ] {
        bench.write("changed.plan", changed);
        let ran = bench.run(&["sync", "--plan", "changed.plan", "--sim"]).expect_code(2);
        assert!(ran.err.contains(words) && ran.err.contains("changed.plan"), "{words}: {}", ran.err);
    }
    assert!(bench.writes().is_empty());
}

#[test]
fn drift_is_told_and_only_what_the_plan_says_nothing_about_can_be_allowed() {
    let bench = Bench::new();
    bench.write("in.yaml", config("{mode: slow}"));
    bench.run(&["sync", "in.yaml", "--app", "one", "--sim"]).expect_code(0);
    kept(&bench, &config("{mode: fast}"));
    // In a field besides.
    bench.write("more.yaml", config("{mode: slow, more: x}"));
    bench.run(&["sync", "more.yaml", "--app", "one", "--sim"]).expect_code(0);
    let ran = bench.run(&["sync", "--plan", "one.plan", "--sim"]).expect_code(4);
    let words = "ConfigMap default/config: /data/more was not there and is \"x\"; allow that (--allow-drift)";
    assert!(ran.err.contains(words), "{}", ran.err);
    bench.run(&["sync", "--plan", "one.plan", "--sim", "--allow-drift"]).expect_code(0);
    let ran = bench.run(&["sync", "in.yaml", "--app", "one", "--sim", "--allow-drift"]).expect_code(2);
    assert!(ran.err.contains("--allow-drift is about a kept plan"), "{}", ran.err);
    // In a field that it writes.
    kept(&bench, &config("{mode: slow}"));
    bench.write("other.yaml", config("{mode: idle}"));
    bench.run(&["sync", "other.yaml", "--app", "one", "--sim"]).expect_code(0);
    let ran = bench.run(&["sync", "--plan", "one.plan", "--sim", "--allow-drift"]).expect_code(4);
    assert!(ran.err.contains("/data/mode was \"fast\" and is \"idle\"; make a new plan"), "{}", ran.err);
}

#[test]
fn what_the_plan_says_cannot_be_said_again_and_what_cannot_run_is_not_kept() {
    let bench = Bench::new();
    kept(&bench, &config("{mode: fast}"));
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
    assert!(ran.err.contains("so it is not kept") && !bench.path().join("two.plan").exists(), "{}", ran.err);
}
