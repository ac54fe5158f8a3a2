//! What people are told of ApplicationSets whose rollouts and deletions do not go straight: who has left, who has
//! approved, what is tried again, what was ended, and what can be done then.

use std::fs;

use serde_json::{Value, json};

use crate::bench::Ran;
use crate::sets::{FIVE, STEPS, Served, WEB, are_healthy};

impl Served {
    fn appset(&self, args: &[&str]) -> Ran {
        self.bench.run(&[&["appset"], args].concat())
    }

    fn status(&self) -> Value {
        self.bench.json(&["appset", "status", "fleet", "-o", "json"])
    }

    #[track_caller]
    fn until_status(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        let found = std::iter::repeat_with(|| self.status()).take(3000).find(is_met);
        found.unwrap_or_else(|| panic!("{:#}", self.status()))
    }

    /// Asks until a list has all these words: it shows how a set stood up to a fifth of a second ago.
    #[track_caller]
    fn until_listed(&self, words: &[&str]) {
        let list = || self.appset(&["list"]).expect_code(0).out;
        let has_all = |text: &String| words.iter().all(|word| text.contains(word));
        let found = std::iter::repeat_with(list).take(3000).find(has_all);
        assert!(found.is_some(), "{words:?}: {}", list());
    }

    fn annotate(&self, annotations: &str) {
        let annotated = format!("metadata: {{name: fleet, annotations: {{{annotations}}}}}");
        self.edit("metadata: {name: fleet}", &annotated);
    }

    fn runs(&self) -> Vec<Value> {
        self.bench.json(&["appset", "runs", "fleet", "-o", "json"]).as_array().unwrap().clone()
    }

    fn shown(&self, id: &str) -> Value {
        self.bench.json(&["appset", "show-run", id, "-o", "json"])
    }
}

/// The id of an operation, a rollout or a deletion.
fn id(line: &Value) -> String {
    line["id"].as_str().unwrap().to_owned()
}

#[test]
fn who_has_left_the_set_while_it_was_rolled_out_stays_in_the_record_of_the_rollout() {
    let served = Served::new(STEPS, FIVE);
    served.annotate("tidegate.dev/rollout: 'steps: [{step: 3, gates: [approval]}]'");
    let serving = served.serve();
    served.until_status(|status| status["rollout"]["steps"][2]["status"] == "Held");
    let operation = id(&served.operations("dev-a")[0]);
    // One that is at its target, and one whose turn has not come, are generated no more.
    served.edit("{name: dev-a, env: dev, path: web}, ", "");
    served.edit(", {name: prod-b, env: prod, path: web}", "");
    let left = |run: &Value| run["left"].as_array().map_or(0, Vec::len);
    let status = served.until_status(|status| left(&status["rollout"]) == 2);
    assert_eq!(status["rollout"]["members"].as_array().unwrap().len(), 3, "the set has them no more");
    served.appset(&["approve", "fleet"]).expect_code(0);
    served.until_status(|status| status["rollout"]["end"] == "Completed");
    serving.signal("TERM");
    serving.finish().expect_code(0);
    // Also when nobody is at work any more.
    let runs = served.runs();
    let rollout = runs.iter().find(|run| run["kind"] == "rollout").unwrap();
    assert!(
        rollout["message"].as_str().unwrap().contains("left the ApplicationSet: dev-a, prod-b"),
        "{rollout:#}"
    );
    let run = served.shown(&id(rollout));
    let told: Vec<(&Value, &Value, &Value, &Value)> = run["rollout"]["left"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["application"], &one["step"], &one["status"], &one["operation"]))
        .collect();
    let expected = [
        (&json!("dev-a"), &json!("1"), &json!("Healthy"), &json!(operation)),
        (&json!("prod-b"), &json!("3"), &json!("Waiting"), &Value::Null),
    ];
    assert_eq!(told, expected);
    let text = served.appset(&["show-run", &id(rollout)]).expect_code(0).out;
    let row = |name: &str| text.lines().find(|row| row.starts_with(name)).unwrap();
    assert!(row("dev-a").contains("Left"), "{text}");
    assert!(row("dev-a").contains("left the ApplicationSet after it had reached its target"), "{text}");
    assert!(row("prod-b").contains("left the ApplicationSet before its turn came"), "{text}");
    assert!(row("1 ").contains("1/1, 1 left"), "{text}");
    served.appset(&["export-run", &id(rollout), "-o", "rollout.html"]).expect_code(0);
    let page = fs::read_to_string(served.bench.path().join("rollout.html")).unwrap();
    assert!(
        page.contains("dev-a") && page.contains("left the ApplicationSet after it had reached"),
        "{page}"
    );
}

#[test]
fn who_has_approved_deletions_that_were_held_is_in_the_record_of_the_deletion() {
    let served = Served::new(STEPS, FIVE);
    served.annotate("tidegate.dev/max-deletions: '1'");
    let serving = served.serve();
    served.until(|set| are_healthy(set, 5));
    served.edit("{name: dev-a, env: dev, path: web}, ", "");
    served.edit(", {name: prod-b, env: prod, path: web}", "");
    let held = served.until_status(|status| status["held"]["token"].is_string());
    let token = held["held"]["token"].as_str().unwrap().to_owned();
    let approve = ["approve", "fleet", "--deletions", &token, "--reason", "CHG-9"];
    served.appset(&approve).expect_code(0);
    served.until_status(|status| status["teardown"]["end"] == "Completed");
    let runs = served.runs();
    let deletions: Vec<&Value> = runs.iter().filter(|run| run["kind"] == "deletion").collect();
    let [deletion] = deletions[..] else { panic!("{runs:#?}") };
    let run = served.shown(&id(deletion));
    let [decision] = &run["decisions"].as_array().unwrap()[..] else { panic!("{run:#}") };
    let said = (&decision["kind"], &decision["by"], &decision["reason"], &decision["details"]["deletions"]);
    assert_eq!(said, (&json!("approved"), &json!("tester"), &json!("CHG-9"), &json!(token)));
    let approval = &run["deletion"]["approvals"][0];
    assert_eq!((&approval["by"], &approval["reason"]), (&json!("tester"), &json!("CHG-9")));
    assert_eq!(approval["at"], decision["at"]);
    let at = approval["at"].as_str().unwrap();
    assert!(at <= run["startedAt"].as_str().unwrap(), "it was approved, and then it began: {run:#}");
    let words = format!("held because they were too many, and approved by tester (CHG-9) at {at}");
    for args in [&["show-run", &id(deletion)][..], &["status", "fleet"]] {
        let text = served.appset(args).expect_code(0).out;
        assert!(text.contains(&words), "{args:?}: {text}");
    }
    served.appset(&["export-run", &id(deletion), "-o", "deletion.html"]).expect_code(0);
    let page = fs::read_to_string(served.bench.path().join("deletion.html")).unwrap();
    assert!(page.contains("approved by tester (CHG-9)"), "{page}");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn a_step_that_waits_for_an_operation_which_has_failed_and_is_tried_again_says_so() {
    let served = Served::new(STEPS, FIVE);
    served.qa_deploys("broken", &WEB.replace("kind: ConfigMap", "kind: Unknown"));
    served.edit("limit: 1, backoff: {duration: 100ms}", "limit: 3, backoff: {duration: 1h, maxDuration: 1h}");
    let serving = served.serve();
    let told = served.until_explained("attempt 1 of 4 failed: ");
    let operation = id(&served.operations("qa-a")[0]);
    assert!(
        told.contains(&format!("Application qa-a (operation {operation} is at work: attempt 1 of 4")),
        "{told}"
    );
    assert!(told.contains("; attempt 2 in 59 min "), "{told}");
    let status = served.appset(&["status", "fleet"]).expect_code(0).out;
    let row = status.lines().find(|row| row.starts_with("qa-a")).unwrap();
    assert!(row.contains("attempt 1 of 4 failed: ") && row.contains("; attempt 2 in "), "{status}");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn a_wish_that_cannot_be_meant_is_answered_with_what_can() {
    let served = Served::new(STEPS, FIVE);
    served.annotate("tidegate.dev/rollout: 'steps: [{step: 3, gates: [approval]}]'");
    let serving = served.serve();
    served.until_status(|status| status["rollout"]["steps"][2]["status"] == "Held");
    let reason = ["--reason", "no"];
    for verb in ["skip", "retry"] {
        let step = served.appset(&[&[verb, "fleet", "--step", "7"], &reason[..]].concat()).expect_code(4);
        let steps =
            "there is no step 7; the rollout has 3: 1 (env in (dev)), 2 (env in (qa)), 3 (env in (prod))";
        assert!(step.err.contains(steps), "{step:?}");
        let app = served.appset(&[&[verb, "fleet", "--app", "qa-x"], &reason[..]].concat()).expect_code(4);
        let apps = "has no Application qa-x; in its steps are step 1: dev-a, dev-b; step 2: qa-a; step 3: prod-a, prod-b";
        assert!(app.err.contains(apps), "{app:?}");
    }
    let done = served.appset(&["retry", "fleet", "--app", "dev-a"]).expect_code(4);
    assert!(done.err.contains("; and no other can be retried now either"), "{done:?}");
    let all = served.appset(&["retry", "fleet"]).expect_code(4);
    assert!(
        all.err.contains("say with --app or --step")
            && all.err.contains("; nothing of it can be retried now"),
        "{all:?}"
    );
    served.appset(&["skip", "fleet", "--app", "prod-a", "--reason", "moved"]).expect_code(0);
    let twice = served.appset(&["skip", "fleet", "--app", "prod-a", "--reason", "moved"]).expect_code(4);
    assert!(twice.err.contains("Application prod-a is skipped already, by tester (moved) at "), "{twice:?}");
    assert!(twice.err.contains("; what can be skipped now: step 3: prod-b"), "{twice:?}");
    assert!(!twice.err.contains("Healthy"), "{twice:?}");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn a_retry_that_was_accepted_is_seen_before_it_begins() {
    let served = Served::new(STEPS, FIVE);
    served.annotate("tidegate.dev/rollout: 'steps: [{step: 3, gates: [approval]}]'");
    let serving = served.serve();
    served.until_status(|status| status["rollout"]["steps"][2]["status"] == "Held");
    served.appset(&["terminate", "fleet"]).expect_code(0);
    served.until_explained("begins it again");
    serving.signal("TERM");
    serving.finish().expect_code(0);
    // Nobody knows what the branch means now, and so no rollout begins.
    let (repository, away) = (served.bench.path().join("apps/repo"), served.bench.path().join("away"));
    fs::rename(&repository, &away).unwrap();
    let serving = served.serve();
    let retry = ["retry", "fleet", "--reason", "CHG-8"];
    let accepted = || served.appset(&retry).code() == 0;
    assert!(
        std::iter::repeat_with(accepted).take(3000).any(|accepted| accepted),
        "{:?}",
        served.appset(&retry)
    );
    let told = served.until_explained("it is begun again");
    assert!(told.contains("as tester (CHG-8) has asked at "), "{told}");
    let status = served.status();
    assert_eq!((&status["retry"]["by"], &status["retry"]["reason"]), (&json!("tester"), &json!("CHG-8")));
    assert!(served.appset(&["status", "fleet"]).expect_code(0).out.contains("as tester (CHG-8) has asked"));
    fs::rename(&away, &repository).unwrap();
    served.appset(&["refresh", "fleet"]).expect_code(0);
    let begun = served.until_status(|status| status["rollout"]["steps"][2]["status"] == "Held");
    assert_eq!((&begun["retry"], &begun["rollout"]["by"]), (&Value::Null, &json!("tester")));
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

const BY_HAND: &str = "
  strategy:
    deletionOrder: Custom
    deletionSync:
      steps:
        - {matchExpressions: [{key: env, operator: In, values: [prod]}], maxUpdate: 0}
        - {matchExpressions: [{key: env, operator: In, values: [dev]}]}
";

#[test]
fn what_a_person_has_kept_from_a_deletion_stays_when_others_go() {
    let all = [("prod-a", "prod"), ("prod-b", "prod"), ("dev-a", "dev"), ("dev-b", "dev")];
    let served = Served::new(BY_HAND, &all);
    let serving = served.serve();
    served.until(|set| set["status"]["resourcesCount"] == 4);
    for (number, (name, env)) in (1..).zip(&all[..3]) {
        served.write(BY_HAND, &all[number..]);
        let deletions = || served.runs().iter().filter(|run| run["kind"] == "deletion").count();
        served.until_status(|_| deletions() == number);
        if *env == "prod" {
            served.until_explained("delete it by hand");
            let why = format!("{name} stays");
            served.appset(&["skip", "fleet", "--app", name, "--reason", &why]).expect_code(0);
        }
        served.until_status(|status| status["teardown"]["end"] == "Completed");
    }
    // The last of them knows whom the two before have left, and why.
    let last = served.until_status(|status| status["teardown"]["members"].as_array().unwrap().len() == 3);
    let told: Vec<(&Value, &Value)> = last["teardown"]["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["application"], &one["status"]))
        .collect();
    let [dev, prod_a, prod_b] = ["dev-a", "prod-a", "prod-b"].map(|name| json!(name));
    let [gone, left] = ["Gone", "Left"].map(|status| json!(status));
    assert_eq!(told, [(&prod_a, &left), (&prod_b, &left), (&dev, &gone)]);
    let run = served.shown(last["teardownId"].as_str().unwrap());
    let said: Vec<&Value> = run["decisions"].as_array().unwrap().iter().map(|one| &one["reason"]).collect();
    assert_eq!(said, [&json!("prod-a stays"), &json!("prod-b stays")]);
    for name in ["prod-a", "prod-b"] {
        served.bench.run(&["app", "get", name]).expect_code(0);
    }
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn an_ordered_deletion_says_that_it_goes_on_and_when_it_was_ended_what_is_left_and_how_to_go_on() {
    let served = Served::new(BY_HAND, &[("dev-a", "dev"), ("prod-a", "prod")]);
    let serving = served.serve();
    served.until(|set| set["status"]["resourcesCount"] == 2);
    served.appset(&["delete", "fleet", "--yes", "--async", "--reason", "moved"]).expect_code(0);
    served.until_explained("delete it by hand");
    let deletion = || {
        let runs = served.runs();
        let all: Vec<String> = runs.iter().filter(|run| run["kind"] == "deletion").map(id).collect();
        all
    };
    let [first] = &deletion()[..] else { panic!("{:?}", deletion()) };
    let words = format!(
        "ApplicationSet fleet is being deleted already, as tester (moved) has asked: deletion {first}, deleting step 1 of 2: 0 of 2 Applications gone"
    );
    for args in [&["delete", "fleet", "--yes", "--async", "--reason", "again"][..], &["delete", "fleet"]] {
        let again = served.appset(args).expect_code(0);
        assert!(again.err.contains(&words), "{args:?}: {again:?}");
    }
    assert_eq!(served.shown(first)["reason"], "moved", "it goes on as it was asked for");
    assert_eq!(deletion().len(), 1, "nothing was begun twice");
    let orphan = served.appset(&["delete", "fleet", "--yes", "--orphan"]).expect_code(4);
    assert!(
        orphan.err.contains("being deleted already, and its Applications with it; `tidegate appset skip"),
        "{orphan:?}"
    );
    let skip = served.appset(&["skip", "fleet", "--step", "5", "--reason", "no"]).expect_code(4);
    assert!(
        skip.err.contains("there is no step 5: the order has 2; step 1: prod-a; step 2: dev-a"),
        "{skip:?}"
    );

    served.appset(&["terminate", "fleet", "--reason", "not today"]).expect_code(0);
    let told = served.until_explained("its ordered deletion has ended");
    for words in [
        "terminated by tester (not today)",
        "not deleted: dev-a, prod-a",
        "next: `tidegate appset retry argocd/fleet` begins it again",
    ] {
        assert_eq!(told.matches(words).count(), 1, "{words}: {told}");
    }
    let ended = served.appset(&["delete", "fleet", "--yes"]).expect_code(4);
    assert!(ended.err.contains("is being deleted already, and its ordered deletion has ended"), "{ended:?}");
    assert!(ended.err.contains("`tidegate appset retry argocd/fleet` begins it again"), "{ended:?}");
    served.until_listed(&["its ordered deletion has ended", "not today"]);
    // Whoever writes it down again is told that, too.
    served.write(BY_HAND, &[("dev-a", "dev"), ("prod-a", "prod")]);
    let back = served.until_explained("its document counts again when its deletion is done");
    assert!(back.contains("terminated by tester (not today)") && back.contains("begins it again"), "{back}");
    fs::remove_file(served.bench.path().join("apps/fleet.yaml")).unwrap();

    served.appset(&["retry", "fleet", "--reason", "today"]).expect_code(0);
    served.until_explained("delete it by hand");
    served.bench.run(&["app", "delete", "prod-a", "--yes", "--timeout", "10m"]).expect_code(0);
    served.appset(&["delete", "fleet", "--yes", "--timeout", "10m"]);
    let gone =
        || served.bench.json(&["appset", "list", "-o", "json"])["items"].as_array().unwrap().is_empty();
    assert!(std::iter::repeat_with(gone).take(3000).any(|gone| gone));
    assert_eq!(deletion().len(), 2);
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// A hook that fails when all the rest is deployed.
const FAILS: &str = "
apiVersion: batch/v1
kind: Job
metadata:
  name: smoke
  annotations: {argocd.argoproj.io/hook: PostSync, sim.tidegate.dev/outcome: fail}
spec:
  backoffLimit: 0
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}
";

#[test]
fn a_list_says_of_a_set_that_it_is_rolled_back() {
    let served = Served::new(STEPS, FIVE);
    served.annotate("tidegate.dev/rollout: 'steps: [{step: 1, maxFailures: 0, onFailure: rollback}]'");
    // To go back takes its time.
    served.bench.write("apps/repo/web/web.yaml", WEB.replace("300ms", "3s"));
    served.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    let serving = served.serve();
    served.until(|set| are_healthy(set, 5));
    served.bench.write("apps/repo/web/web.yaml", format!("{}---\n{FAILS}", WEB.replace("1.0", "2.0")));
    served.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    FIVE.iter().for_each(|(name, _)| drop(served.bench.run(&["app", "refresh", name]).expect_code(0)));
    served.until_listed(&["ApplicationSet is rolling back step 1: ", "of step 1 of 3 failed"]);
    served.until_status(|status| status["rollout"]["end"] == "RolledBack");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn sets_are_shown_as_they_stood_last_where_nobody_serves_them() {
    let served = Served::new(STEPS, FIVE);
    let none = served.appset(&["list"]).expect_code(4);
    for words in ["no `tidegate serve` is at work in", "`tidegate appset runs`", "`tidegate ops list`"] {
        assert!(none.err.contains(words), "{words}: {none:?}");
    }
    let serving = served.serve();
    served.until(|set| are_healthy(set, 5));
    let status = served.until_status(|status| status["rollout"]["end"] == "Completed");
    serving.signal("TERM");
    serving.finish().expect_code(0);
    let note = "no `tidegate serve` is at work here; this is how the ApplicationSets stood last";
    for args in [&["list"][..], &["get", "fleet"], &["status", "fleet"], &["explain", "fleet"]] {
        let ran = served.appset(args).expect_code(0);
        assert!(ran.err.contains(note) && ran.out.contains("fleet"), "{args:?}: {ran:?}");
    }
    let list = served.appset(&["list"]).out;
    assert!(list.contains("RollingSync, 3 steps") && list.contains("has completed"), "{list}");
    let explained = served.appset(&["explain", "fleet"]).out;
    assert!(explained.starts_with("fleet: its last rollout has ended at "), "{explained}");
    assert!(explained.contains("(Completed): ApplicationSet Rollout has completed"), "{explained}");
    let last = served.status();
    assert_eq!((&last["rollout"], &last["rolloutId"]), (&status["rollout"], &status["rolloutId"]));
    let unknown = served.appset(&["get", "other"]).expect_code(2);
    assert!(unknown.err.contains("there is no ApplicationSet other"), "{unknown:?}");
    // Nothing is asked of those whom nobody serves.
    let pause = served.appset(&["pause", "fleet"]).expect_code(4);
    assert!(pause.err.contains("no `tidegate serve` is at work in"), "{pause:?}");
}
