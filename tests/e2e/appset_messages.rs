//! Messages about ApplicationSets with irregular rollouts and deletions. They cover departed members,
//! approvals, retries, terminations, and possible actions.

use std::fs;

use serde_json::{Value, json};

use crate::appsets::{FIVE, MANUAL_DELETION, ManagedAppset, STEPS, WEB, are_healthy};
use crate::bench::CommandOutput;

impl ManagedAppset {
    fn appset(&self, args: &[&str]) -> CommandOutput {
        self.bench.run(&[&["appset"], args].concat())
    }

    fn status(&self) -> Value {
        self.bench.json(&["appset", "status", "fleet", "-o", "json"])
    }

    #[track_caller]
    fn wait_for_status(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        let found = std::iter::repeat_with(|| self.status()).take(3000).find(is_met);
        found.unwrap_or_else(|| panic!("{:#}", self.status()))
    }

    /// Polls until a list contains all these texts, because the list may be up to a fifth of a second old.
    #[track_caller]
    fn wait_until_listed(&self, words: &[&str]) {
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

    fn show_run(&self, id: &str) -> Value {
        self.bench.json(&["appset", "show-run", id, "-o", "json"])
    }
}

/// Returns the id of an operation, a rollout or a deletion.
fn id(line: &Value) -> String {
    line["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_member_that_left_during_a_rollout_stays_in_its_record() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    appset.annotate("tidegate.dev/rollout: 'steps: [{step: 3, gates: [approval]}]'");
    let service = appset.serve();
    appset.wait_for_status(|status| status["rollout"]["steps"][2]["status"] == "Held");
    let operation = id(&appset.operations("dev-a")[0]);
    // Two members are no longer generated: one at its target, and one that is waiting for its turn.
    appset.edit("{name: dev-a, env: dev, path: web}, ", "");
    appset.edit(", {name: prod-b, env: prod, path: web}", "");
    let left = |run: &Value| run["departed"].as_array().map_or(0, Vec::len);
    let status = appset.wait_for_status(|status| left(&status["rollout"]) == 2);
    assert_eq!(
        status["rollout"]["members"].as_array().unwrap().len(),
        3,
        "the ApplicationSet no longer has them"
    );
    appset.appset(&["approve", "fleet"]).expect_code(0);
    appset.wait_for_status(|status| status["rollout"]["outcome"] == "Completed");
    service.signal("TERM");
    service.finish().expect_code(0);
    // The output is the same without a running process.
    let runs = appset.runs();
    let rollout = runs.iter().find(|run| run["kind"] == "rollout").unwrap();
    assert!(
        rollout["message"].as_str().unwrap().contains("left the ApplicationSet: dev-a, prod-b"),
        "{rollout:#}"
    );
    let run = appset.show_run(&id(rollout));
    let members: Vec<(&Value, &Value, &Value, &Value)> = run["rollout"]["departed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["application"], &one["step"], &one["status"], &one["operation"]))
        .collect();
    let expected = [
        (&json!("dev-a"), &json!("1"), &json!("Healthy"), &json!(operation)),
        (&json!("prod-b"), &json!("3"), &json!("Waiting"), &Value::Null),
    ];
    assert_eq!(members, expected);
    let text = appset.appset(&["show-run", &id(rollout)]).expect_code(0).out;
    let row = |name: &str| text.lines().find(|row| row.starts_with(name)).unwrap();
    assert!(row("dev-a").contains("Departed"), "{text}");
    assert!(row("dev-a").contains("left the ApplicationSet after it reached its target"), "{text}");
    assert!(row("prod-b").contains("left the ApplicationSet before its turn came"), "{text}");
    assert!(row("1 ").contains("1/1, 1 left"), "{text}");
    appset.appset(&["export-run", &id(rollout), "-o", "rollout.html"]).expect_code(0);
    let page = fs::read_to_string(appset.bench.path().join("rollout.html")).unwrap();
    assert!(
        page.contains("dev-a") && page.contains("left the ApplicationSet after it reached its target"),
        "{page}"
    );
}

#[test]
fn the_approver_of_held_deletions_is_recorded() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    appset.annotate("tidegate.dev/max-deletions: '1'");
    let service = appset.serve();
    appset.wait_until(|set| are_healthy(set, 5));
    appset.edit("{name: dev-a, env: dev, path: web}, ", "");
    appset.edit(", {name: prod-b, env: prod, path: web}", "");
    let held = appset.wait_for_status(|status| status["heldDeletions"]["token"].is_string());
    let token = held["heldDeletions"]["token"].as_str().unwrap().to_owned();
    let approve = ["approve", "fleet", "--deletions", &token, "--reason", "CHG-9"];
    appset.appset(&approve).expect_code(0);
    appset.wait_for_status(|status| status["deletion"]["outcome"] == "Completed");
    let runs = appset.runs();
    let deletions: Vec<&Value> = runs.iter().filter(|run| run["kind"] == "deletion").collect();
    let [deletion] = deletions[..] else { panic!("{runs:#?}") };
    let run = appset.show_run(&id(deletion));
    let [decision] = &run["decisions"].as_array().unwrap()[..] else { panic!("{run:#}") };
    let recorded =
        (&decision["kind"], &decision["by"], &decision["reason"], &decision["details"]["deletions"]);
    assert_eq!(recorded, (&json!("approved"), &json!("tester"), &json!("CHG-9"), &json!(token)));
    let approval = &run["deletion"]["approvals"][0];
    assert_eq!((&approval["by"], &approval["reason"]), (&json!("tester"), &json!("CHG-9")));
    assert_eq!(approval["at"], decision["at"]);
    let at = approval["at"].as_str().unwrap();
    assert!(at <= run["startedAt"].as_str().unwrap(), "it started after the approval: {run:#}");
    let words = format!(
        "deletions that were blocked because their number exceeded the limit; approved by tester (CHG-9) at {at}"
    );
    for args in [&["show-run", &id(deletion)][..], &["status", "fleet"]] {
        let text = appset.appset(args).expect_code(0).out;
        assert!(text.contains(&words), "{args:?}: {text}");
    }
    appset.appset(&["export-run", &id(deletion), "-o", "deletion.html"]).expect_code(0);
    let page = fs::read_to_string(appset.bench.path().join("deletion.html")).unwrap();
    assert!(page.contains("approved by tester (CHG-9)"), "{page}");
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn a_step_that_waits_for_a_retried_operation_says_so() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    appset.deploy_to_qa("broken", &WEB.replace("kind: ConfigMap", "kind: Unknown"));
    appset.edit("limit: 1, backoff: {duration: 100ms}", "limit: 3, backoff: {duration: 1h, maxDuration: 1h}");
    let service = appset.serve();
    let explanation = appset.wait_until_explained("attempt 1 of 4 failed: ");
    let operation = id(&appset.operations("qa-a")[0]);
    assert!(
        explanation.contains(&format!("Application qa-a (operation {operation} is running: attempt 1 of 4")),
        "{explanation}"
    );
    assert!(explanation.contains("; attempt 2 in 59 min "), "{explanation}");
    let status = appset.appset(&["status", "fleet"]).expect_code(0).out;
    let row = status.lines().find(|row| row.starts_with("qa-a")).unwrap();
    assert!(row.contains("attempt 1 of 4 failed: ") && row.contains("; attempt 2 in "), "{status}");
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn an_impossible_request_is_answered_with_the_possible_ones() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    appset.annotate("tidegate.dev/rollout: 'steps: [{step: 3, gates: [approval]}]'");
    let service = appset.serve();
    appset.wait_for_status(|status| status["rollout"]["steps"][2]["status"] == "Held");
    let reason = ["--reason", "no"];
    for verb in ["skip", "retry"] {
        let step = appset.appset(&[&[verb, "fleet", "--step", "7"], &reason[..]].concat()).expect_code(4);
        let steps = "step 7 does not exist; the rollout has 3 steps: 1 (env in (dev)), 2 (env in (qa)), 3 (env in (prod))";
        assert!(step.err.contains(steps), "{step:?}");
        let app = appset.appset(&[&[verb, "fleet", "--app", "qa-x"], &reason[..]].concat()).expect_code(4);
        let apps = "has no Application qa-x; its Applications by step: step 1: dev-a, dev-b; step 2: qa-a; step 3: prod-a, prod-b";
        assert!(app.err.contains(apps), "{app:?}");
    }
    let done = appset.appset(&["retry", "fleet", "--app", "dev-a"]).expect_code(4);
    assert!(done.err.contains("; no other Application can be retried now"), "{done:?}");
    let all = appset.appset(&["retry", "fleet"]).expect_code(4);
    assert!(
        all.err.contains("use --app or --step to select") && all.err.contains("; nothing can be retried now"),
        "{all:?}"
    );
    appset.appset(&["skip", "fleet", "--app", "prod-a", "--reason", "moved"]).expect_code(0);
    let twice = appset.appset(&["skip", "fleet", "--app", "prod-a", "--reason", "moved"]).expect_code(4);
    assert!(twice.err.contains("Application prod-a was already skipped by tester (moved) at "), "{twice:?}");
    assert!(twice.err.contains("; these Applications can be skipped now: step 3: prod-b"), "{twice:?}");
    assert!(!twice.err.contains("Healthy"), "{twice:?}");
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn an_accepted_retry_is_visible_before_it_starts() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    appset.annotate("tidegate.dev/rollout: 'steps: [{step: 3, gates: [approval]}]'");
    let service = appset.serve();
    appset.wait_for_status(|status| status["rollout"]["steps"][2]["status"] == "Held");
    appset.appset(&["terminate", "fleet"]).expect_code(0);
    appset.wait_until_explained("restarts the run");
    service.signal("TERM");
    service.finish().expect_code(0);
    // The branch can't be resolved, so no rollout starts.
    let (repository, away) = (appset.bench.path().join("apps/repo"), appset.bench.path().join("away"));
    fs::rename(&repository, &away).unwrap();
    let service = appset.serve();
    let retry = ["retry", "fleet", "--reason", "CHG-8"];
    let accepted = || appset.appset(&retry).code() == 0;
    assert!(
        std::iter::repeat_with(accepted).take(3000).any(|accepted| accepted),
        "{:?}",
        appset.appset(&retry)
    );
    let explanation = appset.wait_until_explained("a new run starts");
    assert!(explanation.contains("as requested by tester (CHG-8) at "), "{explanation}");
    let status = appset.status();
    assert_eq!((&status["retry"]["by"], &status["retry"]["reason"]), (&json!("tester"), &json!("CHG-8")));
    assert!(
        appset.appset(&["status", "fleet"]).expect_code(0).out.contains("as requested by tester (CHG-8)")
    );
    fs::rename(&away, &repository).unwrap();
    appset.appset(&["refresh", "fleet"]).expect_code(0);
    let started = appset.wait_for_status(|status| status["rollout"]["steps"][2]["status"] == "Held");
    assert_eq!((&started["retry"], &started["rollout"]["initiatedBy"]), (&Value::Null, &json!("tester")));
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn members_that_a_user_excluded_from_a_deletion_stay() {
    let all = [("prod-a", "prod"), ("prod-b", "prod"), ("dev-a", "dev"), ("dev-b", "dev")];
    let appset = ManagedAppset::new(MANUAL_DELETION, &all);
    let service = appset.serve();
    appset.wait_until(|set| set["status"]["resourcesCount"] == 4);
    for (number, (name, env)) in (1..).zip(&all[..3]) {
        appset.write(MANUAL_DELETION, &all[number..]);
        let deletions = || appset.runs().iter().filter(|run| run["kind"] == "deletion").count();
        appset.wait_for_status(|_| deletions() == number);
        if *env == "prod" {
            appset.wait_until_explained("delete it manually");
            let why = format!("{name} stays");
            appset.appset(&["skip", "fleet", "--app", name, "--reason", &why]).expect_code(0);
        }
        appset.wait_for_status(|status| status["deletion"]["outcome"] == "Completed");
    }
    // The last run records the reason, and the members that remain from the previous two runs.
    let last = appset.wait_for_status(|status| status["deletion"]["members"].as_array().unwrap().len() == 3);
    let members: Vec<(&Value, &Value)> = last["deletion"]["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["application"], &one["status"]))
        .collect();
    let [dev, prod_a, prod_b] = ["dev-a", "prod-a", "prod-b"].map(|name| json!(name));
    let [gone, left] = ["Deleted", "Skipped"].map(|status| json!(status));
    assert_eq!(members, [(&prod_a, &left), (&prod_b, &left), (&dev, &gone)]);
    let run = appset.show_run(last["deletionId"].as_str().unwrap());
    let reasons: Vec<&Value> =
        run["decisions"].as_array().unwrap().iter().map(|one| &one["reason"]).collect();
    assert_eq!(reasons, [&json!("prod-a stays"), &json!("prod-b stays")]);
    for name in ["prod-a", "prod-b"] {
        appset.bench.run(&["app", "get", name]).expect_code(0);
    }
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn an_ordered_deletion_reports_progress_and_after_termination_the_rest() {
    let appset = ManagedAppset::new(MANUAL_DELETION, &[("dev-a", "dev"), ("prod-a", "prod")]);
    let service = appset.serve();
    appset.wait_until(|set| set["status"]["resourcesCount"] == 2);
    appset.appset(&["delete", "fleet", "--yes", "--async", "--reason", "moved"]).expect_code(0);
    appset.wait_until_explained("delete it manually");
    let deletion = || {
        let runs = appset.runs();
        let all: Vec<String> = runs.iter().filter(|run| run["kind"] == "deletion").map(id).collect();
        all
    };
    let [first] = &deletion()[..] else { panic!("{:?}", deletion()) };
    let text = format!(
        "ApplicationSet fleet is already being deleted, requested by tester (moved): deletion {first}, deleting step 1 of 2: 0 of 2 Applications deleted"
    );
    for args in [&["delete", "fleet", "--yes", "--async", "--reason", "again"][..], &["delete", "fleet"]] {
        let again = appset.appset(args).expect_code(0);
        assert!(again.err.contains(&text), "{args:?}: {again:?}");
    }
    assert_eq!(appset.show_run(first)["reason"], "moved", "the first request is unchanged");
    assert_eq!(deletion().len(), 1, "nothing was started twice");
    let orphan = appset.appset(&["delete", "fleet", "--yes", "--orphan"]).expect_code(4);
    assert!(
        orphan.err.contains("already being deleted together with its Applications; `tidegate appset skip"),
        "{orphan:?}"
    );
    let skip = appset.appset(&["skip", "fleet", "--step", "5", "--reason", "no"]).expect_code(4);
    assert!(
        skip.err.contains(
            "step 5 does not exist (number of steps in the deletion order: 2); step 1: prod-a; step 2: dev-a"
        ),
        "{skip:?}"
    );

    appset.appset(&["terminate", "fleet", "--reason", "not today"]).expect_code(0);
    let explanation = appset.wait_until_explained("the ordered deletion has ended");
    for text in [
        "terminated by tester (not today)",
        "not deleted: dev-a, prod-a",
        "next: `tidegate appset retry argocd/fleet` restarts the run once the cause is fixed",
    ] {
        assert_eq!(explanation.matches(text).count(), 1, "{text}: {explanation}");
    }
    let ended = appset.appset(&["delete", "fleet", "--yes"]).expect_code(4);
    assert!(ended.err.contains("is already being deleted, and the ordered deletion"), "{ended:?}");
    assert!(ended.err.contains("`tidegate appset retry argocd/fleet` restarts the deletion"), "{ended:?}");
    appset.wait_until_listed(&["the ordered deletion ended", "not today"]);
    // A repeated change is reported as well.
    appset.write(MANUAL_DELETION, &[("dev-a", "dev"), ("prod-a", "prod")]);
    let back = appset.wait_until_explained(
        "the document in the apps folder is ignored until the deletion of the ApplicationSet is complete",
    );
    assert!(
        back.contains("terminated by tester (not today)") && back.contains("restarts the deletion"),
        "{back}"
    );
    fs::remove_file(appset.bench.path().join("apps/fleet.yaml")).unwrap();

    appset.appset(&["retry", "fleet", "--reason", "today"]).expect_code(0);
    appset.wait_until_explained("delete it manually");
    appset.bench.run(&["app", "delete", "prod-a", "--yes", "--timeout", "10m"]).expect_code(0);
    appset.appset(&["delete", "fleet", "--yes", "--timeout", "10m"]);
    let gone =
        || appset.bench.json(&["appset", "list", "-o", "json"])["items"].as_array().unwrap().is_empty();
    assert!(std::iter::repeat_with(gone).take(3000).any(|gone| gone));
    assert_eq!(deletion().len(), 2);
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// A hook that fails after all other objects are deployed.
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
fn a_list_shows_that_an_appset_is_rolled_back() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    appset.annotate("tidegate.dev/rollout: 'steps: [{step: 1, maxFailures: 0, onFailure: rollback}]'");
    // Slows down the rollback.
    appset.bench.write("apps/repo/web/web.yaml", WEB.replace("300ms", "3s"));
    appset.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    let service = appset.serve();
    appset.wait_until(|set| are_healthy(set, 5));
    appset.bench.write("apps/repo/web/web.yaml", format!("{}---\n{FAILS}", WEB.replace("1.0", "2.0")));
    appset.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    FIVE.iter().for_each(|(name, _)| drop(appset.bench.run(&["app", "refresh", name]).expect_code(0)));
    appset.wait_until_listed(&[
        "ApplicationSet is rolling back step 1: ",
        "1 Application failed in step 1 of 3",
    ]);
    appset.wait_for_status(|status| status["rollout"]["outcome"] == "RolledBack");
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn unmanaged_appsets_are_shown_in_their_last_state() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    let none = appset.appset(&["list"]).expect_code(4);
    for text in ["no `tidegate serve` is running in", "`tidegate appset runs`", "`tidegate ops list`"] {
        assert!(none.err.contains(text), "{text}: {none:?}");
    }
    let service = appset.serve();
    appset.wait_until(|set| are_healthy(set, 5));
    let status = appset.wait_for_status(|status| status["rollout"]["outcome"] == "Completed");
    service.signal("TERM");
    service.finish().expect_code(0);
    let note = "no `tidegate serve` is running in this state directory; showing the last recorded status of \
                the ApplicationSets";
    for args in [&["list"][..], &["get", "fleet"], &["status", "fleet"], &["explain", "fleet"]] {
        let ran = appset.appset(args).expect_code(0);
        assert!(ran.err.contains(note) && ran.out.contains("fleet"), "{args:?}: {ran:?}");
    }
    let list = appset.appset(&["list"]).out;
    assert!(list.contains("RollingSync, 3 steps") && list.contains("has completed"), "{list}");
    let explained = appset.appset(&["explain", "fleet"]).out;
    assert!(explained.starts_with("fleet: the last rollout ended at "), "{explained}");
    assert!(explained.contains("(Completed): ApplicationSet Rollout has completed"), "{explained}");
    let last = appset.status();
    assert_eq!((&last["rollout"], &last["rolloutId"]), (&status["rollout"], &status["rolloutId"]));
    let unknown = appset.appset(&["get", "other"]).expect_code(2);
    assert!(unknown.err.contains("ApplicationSet other not found"), "{unknown:?}");
    // An ApplicationSet that isn't managed doesn't accept requests.
    let pause = appset.appset(&["pause", "fleet"]).expect_code(4);
    assert!(pause.err.contains("no `tidegate serve` is running in"), "{pause:?}");
}
