//! ApplicationSets, served from a folder on the simulated cluster. Order is read from its audit log: each Application deploys
//! into a namespace of its own, and its last object is written when its Deployment is ready.

use std::fs;

use serde_json::Value;

use crate::bench::{Bench, Running};

pub const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {sim.tidegate.dev/ready-after: 300ms}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'example.com/web:1.0'}]}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: is-ready
  annotations: {argocd.argoproj.io/sync-wave: '1'}
data: {version: '1.0'}
";

pub const STEPS: &str = "
  strategy:
    type: RollingSync
    deletionOrder: Reverse
    rollingSync:
      steps:
        - matchExpressions: [{key: env, operator: In, values: [dev]}]
        - matchExpressions: [{key: env, operator: In, values: [qa]}]
        - matchExpressions: [{key: env, operator: In, values: [prod]}]
          maxUpdate: 1
";

/// A set of Applications and their repository, and what serves them.
pub struct Served {
    pub bench: Bench,
}

impl Served {
    /// With these members: name, environment.
    pub fn new(strategy: &str, members: &[(&str, &str)]) -> Self {
        let bench = Bench::new();
        bench.write("apps/repo/web/web.yaml", WEB);
        bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
        let served = Self { bench };
        served.write(strategy, members);
        served
    }

    pub fn write(&self, strategy: &str, members: &[(&str, &str)]) {
        let element = |(name, env): &(&str, &str)| format!("{{name: {name}, env: {env}, path: web}}");
        let elements: Vec<String> = members.iter().map(element).collect();
        self.bench.write("apps/fleet.yaml", set(strategy, &elements.join(", ")));
    }

    pub fn edit(&self, from: &str, to: &str) {
        let path = self.bench.path().join("apps/fleet.yaml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    /// The member qa-a deploys other manifests than all others, from a folder of its own.
    pub fn qa_deploys(&self, folder: &str, manifests: &str) {
        self.bench.write(&format!("apps/repo/{folder}/web.yaml"), manifests);
        self.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
        self.edit("name: qa-a, env: qa, path: web", &format!("name: qa-a, env: qa, path: {folder}"));
    }

    pub fn serve(&self) -> Running {
        let mut serving = self.bench.start(&["serve", "--sim", "--apps", "apps"]);
        serving.await_line("serving");
        serving
    }

    fn get(&self) -> Value {
        self.bench.json(&["appset", "get", "fleet", "-o", "json"])
    }

    /// Asks until the set is as it should be.
    #[track_caller]
    pub fn until(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        let found = std::iter::repeat_with(|| self.get()).take(3000).find(is_met);
        found.unwrap_or_else(|| panic!("{:#}", self.get()))
    }

    /// Asks until what explains the set has these words.
    #[track_caller]
    pub fn until_explained(&self, words: &str) -> String {
        let explain = || self.bench.run(&["appset", "explain", "fleet"]).expect_code(0).out;
        let found = std::iter::repeat_with(explain).take(3000).find(|told| told.contains(words));
        found.unwrap_or_else(|| panic!("{words}: {}", explain()))
    }

    /// The number of the first write that is meant in a namespace.
    fn first(&self, namespace: &str, is_meant: impl Fn(&Value) -> bool) -> Option<u64> {
        let writes = self.bench.writes();
        let found = writes.iter().find(|one| one["namespace"] == namespace && is_meant(one))?;
        found["sequence"].as_u64()
    }

    /// When an Application began to be deployed, and when its Deployment was ready.
    #[track_caller]
    fn span(&self, name: &str) -> (u64, u64) {
        let made =
            |kind: &'static str| self.first(name, move |one| one["kind"] == kind && one["code"] == 201);
        (made("Deployment").expect(name), made("ConfigMap").expect(name))
    }

    #[track_caller]
    fn deleted(&self, name: &str) -> u64 {
        let is_meant = |one: &Value| one["kind"] == "Deployment" && one["verb"] == "delete";
        self.first(name, is_meant).expect(name)
    }

    pub fn operations(&self, name: &str) -> Vec<Value> {
        let list = self.bench.json(&["ops", "list", "--app", name, "-o", "json"]);
        list.as_array().unwrap().clone()
    }
}

fn set(strategy: &str, elements: &str) -> String {
    format!(
        "
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {{name: fleet}}
spec:
  goTemplate: true
  generators: [{{list: {{elements: [{elements}]}}}}]
{strategy}
  template:
    metadata:
      name: '{{{{ .name }}}}'
      labels: {{env: '{{{{ .env }}}}'}}
      finalizers: [resources-finalizer.argocd.argoproj.io]
    spec:
      project: default
      source: {{repoURL: ./repo, targetRevision: main, path: '{{{{ .path }}}}'}}
      destination: {{name: in-cluster, namespace: '{{{{ .name }}}}'}}
      syncPolicy:
        automated: {{prune: true}}
        retry: {{limit: 1, backoff: {{duration: 100ms}}}}
        syncOptions: [CreateNamespace=true]
"
    )
}

pub const FIVE: &[(&str, &str)] =
    &[("dev-a", "dev"), ("dev-b", "dev"), ("qa-a", "qa"), ("prod-a", "prod"), ("prod-b", "prod")];

/// How each Application stands, by the status of the set.
fn statuses(set: &Value) -> Vec<(String, String)> {
    let all = set["status"]["applicationStatus"].as_array().cloned().unwrap_or_default();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    all.iter().map(|one| (text(one, "application"), text(one, "status"))).collect()
}

pub fn are_healthy(set: &Value, number: usize) -> bool {
    let all = statuses(set);
    all.len() == number && all.iter().all(|(_, status)| status == "Healthy")
}

/// Whether so many Applications have what their branch means now.
fn are_synced(set: &Value, number: usize) -> bool {
    let all = set["status"]["resources"].as_array().cloned().unwrap_or_default();
    all.iter().filter(|one| one["status"] == "Synced").count() == number
}

fn condition<'s>(set: &'s Value, kind: &str) -> Option<&'s Value> {
    set["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// That each step began when every Application of the one before was ready, and that of the last one was at work at once.
#[track_caller]
fn expect_steps(served: &Served) {
    let [dev_a, dev_b, qa, prod_a, prod_b] =
        ["dev-a", "dev-b", "qa-a", "prod-a", "prod-b"].map(|name| served.span(name));
    let ready = dev_a.1.max(dev_b.1);
    assert!(ready < qa.0, "qa began at {} and dev was ready at {ready}", qa.0);
    assert!(qa.1 < prod_a.0.min(prod_b.0), "{qa:?} {prod_a:?} {prod_b:?}");
    let (one, other) = (prod_a.min(prod_b), prod_a.max(prod_b));
    assert!(one.1 < other.0, "maxUpdate is 1: {one:?} {other:?}");
}

#[test]
fn applications_are_synced_step_by_step_also_by_a_process_that_was_killed() {
    let served = Served::new(STEPS, FIVE);
    let serving = served.serve();
    served.until(|set| statuses(set).contains(&("dev-a".to_owned(), "Healthy".to_owned())));
    serving.signal("KILL");
    serving.finish();
    let serving = served.serve();
    let set = served.until(|set| are_healthy(set, 5));
    expect_steps(&served);
    for (name, _) in FIVE {
        assert_eq!(served.operations(name).len(), 1, "{name}: begun once, whatever died in between");
        let app = served.bench.json(&["app", "get", name, "-o", "json"]);
        assert_eq!(app["spec"]["syncPolicy"]["automated"]["enabled"], false, "{name}");
        let by = &app["status"]["operationState"]["operation"]["initiatedBy"];
        assert_eq!(
            (by["username"].as_str(), by["automated"].as_bool()),
            (Some("applicationset-controller"), Some(true))
        );
    }
    let by = served.bench.json(&["ops", "list", "--by", "applicationset-controller", "-o", "json"]);
    assert_eq!(by.as_array().unwrap().len(), FIVE.len(), "{by}");
    assert_eq!(condition(&set, "RolloutProgressing").unwrap()["status"], "False");
    assert_eq!(condition(&set, "ResourcesUpToDate").unwrap()["status"], "True");
    assert_eq!(set["status"]["resourcesCount"], 5);
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn a_new_commit_is_rolled_out_in_the_same_order() {
    let served = Served::new(STEPS, FIVE);
    let serving = served.serve();
    served.until(|set| are_healthy(set, 5));
    let before = served.bench.writes().len();
    served.bench.write("apps/repo/web/web.yaml", WEB.replace("1.0", "2.0"));
    served.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    FIVE.iter().for_each(|(name, _)| drop(served.bench.run(&["app", "refresh", name]).expect_code(0)));
    let operations = |name: &str| served.operations(name).len();
    served.until(|set| are_healthy(set, 5) && FIVE.iter().all(|(name, _)| operations(name) == 2));
    let writes = served.bench.writes();
    let order: Vec<&str> = writes[before..]
        .iter()
        .filter(|one| one["kind"] == "ConfigMap" || one["kind"] == "Deployment")
        .map(|one| one["namespace"].as_str().unwrap().split('-').next().unwrap())
        .collect();
    assert!(
        order.is_sorted_by_key(|env| ["dev", "qa", "prod"].iter().position(|one| one == env)),
        "{order:?}"
    );
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// Nothing syncs it before there is something new, so it is said.
#[test]
fn what_was_changed_after_a_rollout_is_named() {
    let served = Served::new(STEPS, FIVE);
    let serving = served.serve();
    served.until(|set| are_healthy(set, 5));
    serving.signal("TERM");
    serving.finish().expect_code(0);
    let other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: is-ready, namespace: qa-a}\ndata: {version: '9.9'}\n";
    served.bench.write("other.yaml", other);
    served.bench.run(&["sync", "other.yaml", "--app", "other", "--sim"]).expect_code(0);
    let serving = served.serve();
    let told = served.until_explained("not as deployed any more");
    assert!(told.contains("any more: qa-a; `tidegate app diff qa-a` shows"), "{told}");
    served.bench.run(&["app", "sync", "qa-a"]).expect_code(0);
    let explain = || served.bench.run(&["appset", "explain", "fleet"]).expect_code(0).out;
    assert!(std::iter::repeat_with(explain).take(3000).any(|told| !told.contains("not as deployed")));
    assert_eq!(served.operations("dev-a").len(), 1);
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn a_step_with_max_update_0_waits_for_people() {
    let steps = STEPS.replace("values: [qa]}]", "values: [qa]}]\n          maxUpdate: 0");
    let served = Served::new(&steps, FIVE);
    let serving = served.serve();
    let told = served.until_explained("maxUpdate is 0");
    assert!(told.contains("qa-a"), "{told}");
    assert!(served.operations("qa-a").is_empty() && served.operations("prod-a").is_empty());
    served.bench.run(&["app", "sync", "qa-a"]).expect_code(0);
    served.until(|set| are_healthy(set, 5));
    expect_steps(&served);
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn the_operation_is_named_that_keeps_a_step_from_going_on() {
    let served = Served::new(STEPS, FIVE);
    served.qa_deploys("slow", &WEB.replace("300ms", "1h"));
    let approval = "metadata: {name: fleet, annotations: {tidegate.dev/rollout: 'steps: [{step: 2, gates: [approval]}]'}}";
    served.edit("metadata: {name: fleet}", approval);
    let serving = served.serve();
    served.until_explained("tidegate appset approve");
    served.bench.run(&["app", "sync", "qa-a", "--async"]).expect_code(0);
    let begun = std::iter::repeat_with(|| served.operations("qa-a")).take(3000).find(|all| !all.is_empty());
    let id = begun.unwrap()[0]["id"].as_str().unwrap().to_owned();
    served.bench.run(&["appset", "approve", "fleet", "--reason", "CHG-7"]).expect_code(0);
    served.until_explained(&format!("its sync has not begun; operation {id} is at work on it"));
    let status = served.bench.run(&["appset", "status", "fleet"]).expect_code(0).out;
    assert!(status.contains("approved by tester (CHG-7)"), "{status}");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn a_member_that_fails_keeps_the_next_step_closed_until_somebody_sees_to_it() {
    let served = Served::new(STEPS, FIVE);
    served.qa_deploys("broken", &WEB.replace("kind: ConfigMap", "kind: Unknown"));
    let serving = served.serve();
    let told = served.until_explained("it failed");
    assert!(told.contains("Application qa-a") && told.contains("retry or skip it"), "{told}");
    assert!(served.operations("prod-a").is_empty(), "{told}");
    let reason = ["--app", "qa-a", "--reason", "it is repaired tomorrow"];
    served.bench.run(&[&["appset", "skip", "fleet"], &reason[..]].concat()).expect_code(0);
    served.until(|set| are_healthy(set, 5));
    assert_eq!(served.operations("prod-b").len(), 1);
    served.until_explained("`tidegate appset retry argocd/fleet`, without --app and --step, begins it again");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn what_is_asked_of_a_rollout_that_is_over_is_refused_with_what_there_is_and_what_to_do() {
    let served = Served::new(STEPS, FIVE);
    let serving = served.serve();
    served.until(|set| are_healthy(set, 5));
    served.until_explained("Completed");
    for (verb, more) in [
        ("retry", &[][..]),
        ("retry", &["--app", "dev-a"]),
        ("retry", &["--step", "1"]),
        ("skip", &["--app", "dev-a", "--reason", "no"]),
        ("approve", &[]),
        ("pause", &[]),
        ("resume", &[]),
        ("terminate", &[]),
    ] {
        let ran = served.bench.run(&[&["appset", verb, "fleet"], more].concat()).expect_code(4);
        let said = format!("there is nothing to {verb}: its last progressive sync is over (");
        assert!(ran.err.contains(&said), "{ran:?}");
        assert!(ran.err.contains("another one begins by itself when there are other targets"), "{ran:?}");
    }
    for (name, _) in FIVE {
        assert_eq!(served.operations(name).len(), 1, "{name}: nothing was done");
    }
    // Without steps, there is nothing to steer.
    served.edit("type: RollingSync", "type: AllAtOnce");
    served.edit("deletionOrder: Reverse", "deletionOrder: AllAtOnce");
    served.until(|set| set["spec"]["strategy"]["type"] == "AllAtOnce");
    let ran = served.bench.run(&["appset", "retry", "fleet"]).expect_code(4);
    assert!(ran.err.contains("each Application is synced by its own policy"), "{ran:?}");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn a_set_that_is_deleted_takes_its_applications_down_step_by_step_backwards() {
    let served = Served::new(STEPS, FIVE);
    let serving = served.serve();
    served.until(|set| are_healthy(set, 5));
    let plan = served.bench.run(&["appset", "delete", "fleet", "--plan"]).expect_code(0).out;
    assert!(plan.contains("prod-a") && plan.contains("dev-b"), "{plan}");
    for orphan in [None, Some("--orphan")] {
        let args: Vec<&str> = ["appset", "delete", "fleet"].into_iter().chain(orphan).collect();
        let told = served.bench.run(&args).expect_code(2).err;
        assert!(told.contains("its document is removed from the folder that is served"), "{args:?}: {told}");
    }
    served.bench.run(&["appset", "delete", "fleet", "--yes", "--timeout", "10m"]).expect_code(0);
    let [dev_a, dev_b, qa, prod_a, prod_b] =
        ["dev-a", "dev-b", "qa-a", "prod-a", "prod-b"].map(|name| served.deleted(name));
    assert!(prod_a.max(prod_b) < qa && qa < dev_a.min(dev_b), "{prod_a} {prod_b}, {qa}, {dev_a} {dev_b}");
    assert!(served.bench.run(&["app", "list"]).expect_code(0).out.is_empty(), "nothing is left");
    assert!(served.bench.run(&["appset", "list"]).expect_code(0).out.is_empty());
    serving.signal("TERM");
    let told = serving.finish().expect_code(0).err;
    assert!(told.contains("5 Applications are gone"), "{told}");
}

#[test]
fn what_a_step_of_a_deletion_leaves_to_people_they_can_delete() {
    let steps = "
  strategy:
    deletionOrder: Custom
    deletionSync:
      steps:
        - {matchExpressions: [{key: env, operator: In, values: [prod]}], maxUpdate: 0}
        - {matchExpressions: [{key: env, operator: In, values: [dev]}]}
";
    let served = Served::new(steps, &[("dev-a", "dev"), ("prod-a", "prod")]);
    let serving = served.serve();
    served.until(|set| are_synced(set, 2));
    served.bench.run(&["appset", "delete", "fleet", "--yes", "--async"]).expect_code(0);
    served.until_explained("delete it by hand");
    // Before its turn, one waits.
    served.bench.run(&["app", "delete", "dev-a", "--yes", "--async"]).expect_code(0);
    served.bench.run(&["app", "delete", "prod-a", "--yes", "--timeout", "10m"]).expect_code(0);
    let list = || served.bench.json(&["app", "list", "-o", "json"])["items"].as_array().unwrap().len();
    assert!(std::iter::repeat_with(list).take(3000).any(|left| left == 0));
    assert!(served.deleted("prod-a") < served.deleted("dev-a"));
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn a_set_whose_order_means_nothing_is_not_deleted_before_that_is_mended() {
    let served = Served::new("  strategy: {deletionOrder: Reverse}", FIVE);
    let serving = served.serve();
    served.until(|set| set["status"]["resourcesCount"] == 5);
    let ran = served.bench.run(&["appset", "delete", "fleet", "--yes"]).expect_code(4);
    assert!(ran.err.contains("or write AllAtOnce") && ran.err.contains("--orphan"), "{ran:?}");
    served.edit("{deletionOrder: Reverse}", "{deletionOrder: AllAtOnce}");
    served.until(|set| set["spec"]["strategy"]["deletionOrder"] == "AllAtOnce");
    served.bench.run(&["appset", "delete", "fleet", "--yes", "--timeout", "10m"]).expect_code(0);
    assert!(served.bench.run(&["app", "list"]).expect_code(0).out.is_empty(), "nothing is left");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn what_drops_out_of_a_set_is_deleted_and_a_generator_that_fails_deletes_nothing() {
    let served = Served::new("", FIVE);
    let serving = served.serve();
    // None is there before the first look at the set.
    served.until(|set| set["status"]["resourcesCount"] == 5);
    served.bench.run(&["app", "wait", "--timeout", "10m"]).expect_code(0);
    served.edit("env: qa, path: web", "env: '{{ .nothing.there }}', path: web");
    served.edit("name: '{{ .name }}'\n      labels", "name: '{{ .name | fail }}'\n      labels");
    let set = served.until(|set| condition(set, "ErrorOccurred").is_some_and(|one| one["status"] == "True"));
    let said = condition(&set, "ErrorOccurred").unwrap()["message"].as_str().unwrap().to_owned();
    assert!(said.contains("template.metadata.name"), "{said}");
    assert_eq!(set["status"]["health"]["status"], "Degraded");
    served.write("", &[("dev-a", "dev"), ("prod-a", "prod")]);
    served.until(|set| set["status"]["resourcesCount"] == 2);
    for (name, _) in FIVE {
        let is_kept = ["dev-a", "prod-a"].contains(name);
        let is_deleted =
            served.first(name, |one| one["kind"] == "Deployment" && one["verb"] == "delete").is_some();
        assert_eq!(is_deleted, !is_kept, "{name}");
    }
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// What a rollout to a new commit does that comes while the one before is at work, of which each step takes so long.
fn commit_meanwhile(policy: &str, step: &str) -> (Served, Running) {
    let served = Served::new(STEPS, FIVE);
    served.edit(
        "metadata: {name: fleet}",
        &format!(
            "metadata: {{name: fleet, annotations: {{tidegate.dev/rollout: 'onNewTargets: {policy}'}}}}"
        ),
    );
    served.bench.write("apps/repo/web/web.yaml", WEB.replace("300ms", step));
    served.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    let serving = served.serve();
    served.until(|set| statuses(set).iter().any(|(_, status)| status == "Progressing"));
    served.bench.write("apps/repo/web/web.yaml", WEB.replace("1.0", "2.0"));
    served.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    FIVE.iter().for_each(|(name, _)| drop(served.bench.run(&["app", "refresh", name]).expect_code(0)));
    served.until(|set| are_healthy(set, 5) && are_synced(set, 5));
    (served, serving)
}

#[test]
fn a_rollout_is_finished_before_a_newer_commit_where_the_set_says_so() {
    let (served, serving) = commit_meanwhile("finish", "4s");
    for (name, _) in FIVE {
        assert_eq!(served.operations(name).len(), 2, "{name}: to both commits");
    }
    expect_steps(&served);
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn a_newer_commit_supersedes_a_rollout() {
    // However slow the machine is, the newer commit comes before the second step.
    let (served, serving) = commit_meanwhile("supersede", "1h");
    assert_eq!(served.operations("prod-a").len(), 1, "the first commit never came so far");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn a_misspelt_name_deletes_nothing() {
    let served = Served::new("", FIVE);
    let serving = served.serve();
    served.until(|set| set["status"]["resourcesCount"] == 5);
    served.bench.run(&["app", "wait", "--timeout", "10m"]).expect_code(0);
    served.edit("name: prod-a,", "name: Prod-A,");
    let set = served.until(|set| condition(set, "ErrorOccurred").is_some_and(|one| one["status"] == "True"));
    let said = condition(&set, "ErrorOccurred").unwrap()["message"].as_str().unwrap().to_owned();
    assert!(said.contains("Prod-A"), "{said}");
    served.edit("name: Prod-A,", "name: prod-a,");
    served.until(|set| condition(set, "ErrorOccurred").is_some_and(|one| one["status"] == "False"));
    for (name, _) in FIVE {
        assert_eq!(served.first(name, |one| one["verb"] == "delete"), None, "{name}");
    }
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn what_a_person_has_ended_is_begun_again_when_somebody_asks() {
    let steps = STEPS.replace("values: [qa]}]", "values: [qa]}]\n          maxUpdate: 0");
    let served = Served::new(&steps, FIVE);
    let serving = served.serve();
    served.until_explained("maxUpdate is 0");
    served.bench.run(&["appset", "terminate", "fleet", "--reason", "not today"]).expect_code(0);
    let told = served.until_explained("Terminated");
    assert!(told.contains("tester (not today)"), "{told}");
    served.bench.run(&["appset", "retry", "fleet"]).expect_code(0);
    served.until_explained("maxUpdate is 0");
    assert_eq!(served.operations("dev-a").len(), 1, "what is done stays done");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn without_its_strategy_a_set_lets_what_has_begun_end_and_its_applications_sync_by_themselves() {
    let served = Served::new(STEPS, FIVE);
    served.bench.write("apps/repo/web/web.yaml", WEB.replace("300ms", "3s"));
    served.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    let serving = served.serve();
    served.until(|set| statuses(set).iter().any(|(_, status)| status == "Progressing"));
    served.write("", FIVE);
    served.bench.run(&["app", "wait", "--timeout", "10m"]).expect_code(0);
    for (name, _) in FIVE {
        let phases: Vec<_> = served.operations(name).iter().map(|one| one["phase"].clone()).collect();
        assert_eq!(phases, ["Succeeded"], "{name}: nothing was killed");
    }
    serving.signal("TERM");
    serving.finish().expect_code(0);
}
