//! ApplicationSets, managed from a folder on the simulated cluster. The audit log shows their order: each
//! Application deploys into its own namespace, and the last object is written when the Application's
//! Deployment is ready.

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

/// Strategy in which users delete the prod Applications, before the dev Applications are deleted.
pub const MANUAL_DELETION: &str = "
  strategy:
    deletionOrder: Custom
    deletionSync:
      steps:
        - {matchExpressions: [{key: env, operator: In, values: [prod]}], maxUpdate: 0}
        - {matchExpressions: [{key: env, operator: In, values: [dev]}]}
";

/// An ApplicationSet with its repository and the service that manages it.
pub struct ManagedAppset {
    pub bench: Bench,
}

impl ManagedAppset {
    /// Creates the ApplicationSet with these members (name and environment).
    pub fn new(strategy: &str, members: &[(&str, &str)]) -> Self {
        let bench = Bench::new();
        bench.write("apps/repo/web/web.yaml", WEB);
        bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
        let appset = Self { bench };
        appset.write(strategy, members);
        appset
    }

    pub fn write(&self, strategy: &str, members: &[(&str, &str)]) {
        let element = |(name, env): &(&str, &str)| format!("{{name: {name}, env: {env}, path: web}}");
        let elements: Vec<String> = members.iter().map(element).collect();
        self.bench.write("apps/fleet.yaml", appset(strategy, &elements.join(", ")));
    }

    pub fn edit(&self, from: &str, to: &str) {
        let path = self.bench.path().join("apps/fleet.yaml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    /// Gives the member qa-a different manifests, from a separate folder.
    pub fn deploy_to_qa(&self, folder: &str, manifests: &str) {
        self.bench.write(&format!("apps/repo/{folder}/web.yaml"), manifests);
        self.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
        self.edit("name: qa-a, env: qa, path: web", &format!("name: qa-a, env: qa, path: {folder}"));
    }

    pub fn serve(&self) -> Running {
        let mut service = self.bench.start(&["serve", "--sim", "--apps", "apps"]);
        service.wait_for_line("managing");
        service
    }

    fn get(&self) -> Value {
        self.bench.json(&["appset", "get", "fleet", "-o", "json"])
    }

    /// Polls until the ApplicationSet satisfies a predicate.
    #[track_caller]
    pub fn wait_until(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        let found = std::iter::repeat_with(|| self.get()).take(3000).find(is_met);
        found.unwrap_or_else(|| panic!("{:#}", self.get()))
    }

    /// Polls until the explanation of the ApplicationSet contains a text.
    #[track_caller]
    pub fn wait_until_explained(&self, words: &str) -> String {
        let explain = || self.bench.run(&["appset", "explain", "fleet"]).expect_code(0).out;
        let found =
            std::iter::repeat_with(explain).take(3000).find(|explanation| explanation.contains(words));
        found.unwrap_or_else(|| panic!("{words}: {}", explain()))
    }

    /// Returns the number of the first matching write in a namespace.
    fn first_write(&self, namespace: &str, is_meant: impl Fn(&Value) -> bool) -> Option<u64> {
        let writes = self.bench.writes();
        let found = writes.iter().find(|one| one["namespace"] == namespace && is_meant(one))?;
        found["sequence"].as_u64()
    }

    /// Returns the position of the first write of an Application's deployment, and of the write at which its
    /// Deployment was ready.
    #[track_caller]
    fn span(&self, name: &str) -> (u64, u64) {
        let made =
            |kind: &'static str| self.first_write(name, move |one| one["kind"] == kind && one["code"] == 201);
        (made("Deployment").expect(name), made("ConfigMap").expect(name))
    }

    #[track_caller]
    fn deletion_number(&self, name: &str) -> u64 {
        let is_meant = |one: &Value| one["kind"] == "Deployment" && one["verb"] == "delete";
        self.first_write(name, is_meant).expect(name)
    }

    pub fn operations(&self, name: &str) -> Vec<Value> {
        let list = self.bench.json(&["ops", "list", "--app", name, "-o", "json"]);
        list.as_array().unwrap().clone()
    }
}

/// Returns an ApplicationSet that generates an Application for each element of a list. `rest` is the rest of
/// its specification.
pub fn appset_of_list(elements: &str, rest: &str) -> String {
    format!(
        "
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {{name: fleet}}
spec:
  goTemplate: true
  generators: [{{list: {{elements: [{elements}]}}}}]
{rest}"
    )
}

fn appset(strategy: &str, elements: &str) -> String {
    let rest = format!(
        "{strategy}
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
    );
    appset_of_list(elements, &rest)
}

pub const FIVE: &[(&str, &str)] =
    &[("dev-a", "dev"), ("dev-b", "dev"), ("qa-a", "qa"), ("prod-a", "prod"), ("prod-b", "prod")];

/// Returns the state of each Application according to the ApplicationSet's status.
fn statuses(set: &Value) -> Vec<(String, String)> {
    let all = set["status"]["applicationStatus"].as_array().cloned().unwrap_or_default();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    all.iter().map(|one| (text(one, "application"), text(one, "status"))).collect()
}

pub fn are_healthy(set: &Value, number: usize) -> bool {
    let all = statuses(set);
    all.len() == number && all.iter().all(|(_, status)| status == "Healthy")
}

/// Returns true if this number of Applications have the current commit of their branch.
fn are_synced(set: &Value, number: usize) -> bool {
    let all = set["status"]["resources"].as_array().cloned().unwrap_or_default();
    all.iter().filter(|one| one["status"] == "Synced").count() == number
}

fn condition<'s>(set: &'s Value, kind: &str) -> Option<&'s Value> {
    set["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// Checks that each step started only when every Application of the previous step was ready, and that the
/// last step's Applications were synced at once.
#[track_caller]
fn assert_steps(appset: &ManagedAppset) {
    let [dev_a, dev_b, qa, prod_a, prod_b] =
        ["dev-a", "dev-b", "qa-a", "prod-a", "prod-b"].map(|name| appset.span(name));
    let ready = dev_a.1.max(dev_b.1);
    assert!(ready < qa.0, "qa began at {} and dev was ready at {ready}", qa.0);
    assert!(qa.1 < prod_a.0.min(prod_b.0), "{qa:?} {prod_a:?} {prod_b:?}");
    let (one, other) = (prod_a.min(prod_b), prod_a.max(prod_b));
    assert!(one.1 < other.0, "maxUpdate is 1: {one:?} {other:?}");
}

#[test]
fn applications_are_synced_step_by_step_despite_a_kill() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    let service = appset.serve();
    appset.wait_until(|set| statuses(set).contains(&("dev-a".to_owned(), "Healthy".to_owned())));
    service.signal("KILL");
    service.finish();
    let service = appset.serve();
    let set = appset.wait_until(|set| are_healthy(set, 5));
    assert_steps(&appset);
    for (name, _) in FIVE {
        assert_eq!(appset.operations(name).len(), 1, "{name}: begun once, whatever died in between");
        let app = appset.bench.json(&["app", "get", name, "-o", "json"]);
        assert_eq!(app["spec"]["syncPolicy"]["automated"]["enabled"], false, "{name}");
        let by = &app["status"]["operationState"]["operation"]["initiatedBy"];
        assert_eq!(
            (by["username"].as_str(), by["automated"].as_bool()),
            (Some("applicationset-controller"), Some(true))
        );
    }
    let by = appset.bench.json(&["ops", "list", "--by", "applicationset-controller", "-o", "json"]);
    assert_eq!(by.as_array().unwrap().len(), FIVE.len(), "{by}");
    assert_eq!(condition(&set, "RolloutProgressing").unwrap()["status"], "False");
    assert_eq!(condition(&set, "ResourcesUpToDate").unwrap()["status"], "True");
    assert_eq!(set["status"]["resourcesCount"], 5);
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn a_new_commit_is_rolled_out_in_the_same_order() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    let service = appset.serve();
    appset.wait_until(|set| are_healthy(set, 5));
    let before = appset.bench.writes().len();
    appset.bench.write("apps/repo/web/web.yaml", WEB.replace("1.0", "2.0"));
    appset.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    FIVE.iter().for_each(|(name, _)| drop(appset.bench.run(&["app", "refresh", name]).expect_code(0)));
    let operations = |name: &str| appset.operations(name).len();
    appset.wait_until(|set| are_healthy(set, 5) && FIVE.iter().all(|(name, _)| operations(name) == 2));
    let writes = appset.bench.writes();
    let order: Vec<&str> = writes[before..]
        .iter()
        .filter(|one| one["kind"] == "ConfigMap" || one["kind"] == "Deployment")
        .map(|one| one["namespace"].as_str().unwrap().split('-').next().unwrap())
        .collect();
    assert!(
        order.is_sorted_by_key(|env| ["dev", "qa", "prod"].iter().position(|one| one == env)),
        "{order:?}"
    );
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// No sync happens before there is something new, so the command must report the change.
#[test]
fn a_change_after_a_rollout_is_reported() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    let service = appset.serve();
    appset.wait_until(|set| are_healthy(set, 5));
    service.signal("TERM");
    service.finish().expect_code(0);
    let other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: is-ready, namespace: qa-a}\ndata: {version: '9.9'}\n";
    appset.bench.write("other.yaml", other);
    appset.bench.run(&["sync", "other.yaml", "--app", "other", "--sim"]).expect_code(0);
    let service = appset.serve();
    let explanation = appset.wait_until_explained("changed since deployment");
    assert!(
        explanation.contains("changed since deployment: qa-a; `tidegate app diff qa-a` shows"),
        "{explanation}"
    );
    appset.bench.run(&["app", "sync", "qa-a"]).expect_code(0);
    let explain = || appset.bench.run(&["appset", "explain", "fleet"]).expect_code(0).out;
    assert!(
        std::iter::repeat_with(explain)
            .take(3000)
            .any(|explanation| !explanation.contains("changed since deployment"))
    );
    assert_eq!(appset.operations("dev-a").len(), 1);
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn a_step_with_max_update_0_waits_for_users() {
    let steps = STEPS.replace("values: [qa]}]", "values: [qa]}]\n          maxUpdate: 0");
    let appset = ManagedAppset::new(&steps, FIVE);
    let service = appset.serve();
    let explanation = appset.wait_until_explained("maxUpdate is 0");
    assert!(explanation.contains("qa-a"), "{explanation}");
    assert!(appset.operations("qa-a").is_empty() && appset.operations("prod-a").is_empty());
    appset.bench.run(&["app", "sync", "qa-a"]).expect_code(0);
    appset.wait_until(|set| are_healthy(set, 5));
    assert_steps(&appset);
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn the_operation_that_blocks_a_step_is_named() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    appset.deploy_to_qa("slow", &WEB.replace("300ms", "1h"));
    let approval = "metadata: {name: fleet, annotations: {tidegate.dev/rollout: 'steps: [{step: 2, gates: [approval]}]'}}";
    appset.edit("metadata: {name: fleet}", approval);
    let service = appset.serve();
    appset.wait_until_explained("tidegate appset approve");
    appset.bench.run(&["app", "sync", "qa-a", "--async"]).expect_code(0);
    let begun = std::iter::repeat_with(|| appset.operations("qa-a")).take(3000).find(|all| !all.is_empty());
    let id = begun.unwrap()[0]["id"].as_str().unwrap().to_owned();
    appset.bench.run(&["appset", "approve", "fleet", "--reason", "CHG-7"]).expect_code(0);
    appset.wait_until_explained(&format!(
        "its sync has not started; operation {id} for this Application is still running"
    ));
    let status = appset.bench.run(&["appset", "status", "fleet"]).expect_code(0).out;
    assert!(status.contains("approved by tester (CHG-7)"), "{status}");
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn a_failed_member_blocks_the_next_step_until_it_is_fixed() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    appset.deploy_to_qa("broken", &WEB.replace("kind: ConfigMap", "kind: Unknown"));
    let service = appset.serve();
    let explanation = appset.wait_until_explained("it failed");
    assert!(
        explanation.contains("Application qa-a") && explanation.contains("retry or skip it"),
        "{explanation}"
    );
    assert!(appset.operations("prod-a").is_empty(), "{explanation}");
    let reason = ["--app", "qa-a", "--reason", "it is repaired tomorrow"];
    appset.bench.run(&[&["appset", "skip", "fleet"], &reason[..]].concat()).expect_code(0);
    appset.wait_until(|set| are_healthy(set, 5));
    assert_eq!(appset.operations("prod-b").len(), 1);
    appset.wait_until_explained(
        "`tidegate appset retry argocd/fleet` (without --app and --step) restarts the progressive sync",
    );
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn requests_for_a_finished_rollout_are_refused_with_advice() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    let service = appset.serve();
    appset.wait_until(|set| are_healthy(set, 5));
    appset.wait_until_explained("Completed");
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
        let ran = appset.bench.run(&[&["appset", verb, "fleet"], more].concat()).expect_code(4);
        let text = format!("nothing to {verb}: its last progressive sync has ended (");
        assert!(ran.err.contains(&text), "{ran:?}");
        assert!(
            ran.err.contains("another progressive sync starts automatically when the targets change"),
            "{ran:?}"
        );
    }
    for (name, _) in FIVE {
        assert_eq!(appset.operations(name).len(), 1, "{name}: nothing was done");
    }
    // Without steps, there is nothing to control.
    appset.edit("type: RollingSync", "type: AllAtOnce");
    appset.edit("deletionOrder: Reverse", "deletionOrder: AllAtOnce");
    appset.wait_until(|set| set["spec"]["strategy"]["type"] == "AllAtOnce");
    let ran = appset.bench.run(&["appset", "retry", "fleet"]).expect_code(4);
    assert!(ran.err.contains("each Application is synced according to its own policy"), "{ran:?}");
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn a_deleted_appset_deletes_its_applications_in_reverse_steps() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    let service = appset.serve();
    appset.wait_until(|set| are_healthy(set, 5));
    let plan = appset.bench.run(&["appset", "delete", "fleet", "--plan"]).expect_code(0).out;
    assert!(plan.contains("prod-a") && plan.contains("dev-b"), "{plan}");
    for orphan in [None, Some("--orphan")] {
        let args: Vec<&str> = ["appset", "delete", "fleet"].into_iter().chain(orphan).collect();
        let output = appset.bench.run(&args).expect_code(2).err;
        assert!(output.contains("the document will be removed from the apps folder"), "{args:?}: {output}");
    }
    appset.bench.run(&["appset", "delete", "fleet", "--yes", "--timeout", "10m"]).expect_code(0);
    let [dev_a, dev_b, qa, prod_a, prod_b] =
        ["dev-a", "dev-b", "qa-a", "prod-a", "prod-b"].map(|name| appset.deletion_number(name));
    assert!(prod_a.max(prod_b) < qa && qa < dev_a.min(dev_b), "{prod_a} {prod_b}, {qa}, {dev_a} {dev_b}");
    assert!(appset.bench.run(&["app", "list"]).expect_code(0).out.is_empty(), "nothing is left");
    assert!(appset.bench.run(&["appset", "list"]).expect_code(0).out.is_empty());
    service.signal("TERM");
    let output = service.finish().expect_code(0).err;
    assert!(output.contains("5 Applications are gone"), "{output}");
}

#[test]
fn users_can_delete_what_a_manual_deletion_step_leaves() {
    let appset = ManagedAppset::new(MANUAL_DELETION, &[("dev-a", "dev"), ("prod-a", "prod")]);
    let service = appset.serve();
    appset.wait_until(|set| are_synced(set, 2));
    appset.bench.run(&["appset", "delete", "fleet", "--yes", "--async"]).expect_code(0);
    appset.wait_until_explained("delete it manually");
    // A member is waiting for its step.
    appset.bench.run(&["app", "delete", "dev-a", "--yes", "--async"]).expect_code(0);
    appset.bench.run(&["app", "delete", "prod-a", "--yes", "--timeout", "10m"]).expect_code(0);
    let list = || appset.bench.json(&["app", "list", "-o", "json"])["items"].as_array().unwrap().len();
    assert!(std::iter::repeat_with(list).take(3000).any(|left| left == 0));
    assert!(appset.deletion_number("prod-a") < appset.deletion_number("dev-a"));
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn an_appset_with_an_invalid_order_is_not_deleted_until_it_is_fixed() {
    let appset = ManagedAppset::new("  strategy: {deletionOrder: Reverse}", FIVE);
    let service = appset.serve();
    appset.wait_until(|set| set["status"]["resourcesCount"] == 5);
    let ran = appset.bench.run(&["appset", "delete", "fleet", "--yes"]).expect_code(4);
    assert!(ran.err.contains("or use AllAtOnce") && ran.err.contains("--orphan"), "{ran:?}");
    appset.edit("{deletionOrder: Reverse}", "{deletionOrder: AllAtOnce}");
    appset.wait_until(|set| set["spec"]["strategy"]["deletionOrder"] == "AllAtOnce");
    appset.bench.run(&["appset", "delete", "fleet", "--yes", "--timeout", "10m"]).expect_code(0);
    assert!(appset.bench.run(&["app", "list"]).expect_code(0).out.is_empty(), "nothing is left");
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn removed_members_are_deleted_and_a_failed_generator_deletes_nothing() {
    let appset = ManagedAppset::new("", FIVE);
    let service = appset.serve();
    // The status is empty before the first reconciliation.
    appset.wait_until(|set| set["status"]["resourcesCount"] == 5);
    appset.bench.run(&["app", "wait", "--timeout", "10m"]).expect_code(0);
    appset.edit("env: qa, path: web", "env: '{{ .nothing.there }}', path: web");
    appset.edit("name: '{{ .name }}'\n      labels", "name: '{{ .name | fail }}'\n      labels");
    let set =
        appset.wait_until(|set| condition(set, "ErrorOccurred").is_some_and(|one| one["status"] == "True"));
    let message = condition(&set, "ErrorOccurred").unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("template.metadata.name"), "{message}");
    assert_eq!(set["status"]["health"]["status"], "Degraded");
    appset.write("", &[("dev-a", "dev"), ("prod-a", "prod")]);
    appset.wait_until(|set| set["status"]["resourcesCount"] == 2);
    for (name, _) in FIVE {
        let is_kept = ["dev-a", "prod-a"].contains(name);
        let is_deleted =
            appset.first_write(name, |one| one["kind"] == "Deployment" && one["verb"] == "delete").is_some();
        assert_eq!(is_deleted, !is_kept, "{name}");
    }
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// Commits during a rollout whose steps take this long, and waits until the commit is rolled out.
fn commit_during_rollout(policy: &str, step: &str) -> (ManagedAppset, Running) {
    let appset = ManagedAppset::new(STEPS, FIVE);
    appset.edit(
        "metadata: {name: fleet}",
        &format!(
            "metadata: {{name: fleet, annotations: {{tidegate.dev/rollout: 'onNewTargets: {policy}'}}}}"
        ),
    );
    appset.bench.write("apps/repo/web/web.yaml", WEB.replace("300ms", step));
    appset.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    let service = appset.serve();
    appset.wait_until(|set| statuses(set).iter().any(|(_, status)| status == "Progressing"));
    appset.bench.write("apps/repo/web/web.yaml", WEB.replace("1.0", "2.0"));
    appset.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    FIVE.iter().for_each(|(name, _)| drop(appset.bench.run(&["app", "refresh", name]).expect_code(0)));
    appset.wait_until(|set| are_healthy(set, 5) && are_synced(set, 5));
    (appset, service)
}

#[test]
fn a_rollout_finishes_before_a_newer_commit_if_configured() {
    let (appset, service) = commit_during_rollout("finish", "4s");
    for (name, _) in FIVE {
        assert_eq!(appset.operations(name).len(), 2, "{name}: to both commits");
    }
    assert_steps(&appset);
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn a_newer_commit_supersedes_a_rollout() {
    // The newer commit comes before the second step, regardless of how slow the machine is.
    let (appset, service) = commit_during_rollout("supersede", "1h");
    assert_eq!(appset.operations("prod-a").len(), 1, "the first commit never came so far");
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn a_misspelled_name_deletes_nothing() {
    let appset = ManagedAppset::new("", FIVE);
    let service = appset.serve();
    appset.wait_until(|set| set["status"]["resourcesCount"] == 5);
    appset.bench.run(&["app", "wait", "--timeout", "10m"]).expect_code(0);
    appset.edit("name: prod-a,", "name: Prod-A,");
    let set =
        appset.wait_until(|set| condition(set, "ErrorOccurred").is_some_and(|one| one["status"] == "True"));
    let message = condition(&set, "ErrorOccurred").unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("Prod-A"), "{message}");
    appset.edit("name: Prod-A,", "name: prod-a,");
    appset.wait_until(|set| condition(set, "ErrorOccurred").is_some_and(|one| one["status"] == "False"));
    for (name, _) in FIVE {
        assert_eq!(appset.first_write(name, |one| one["verb"] == "delete"), None, "{name}");
    }
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn a_terminated_rollout_restarts_on_request() {
    let steps = STEPS.replace("values: [qa]}]", "values: [qa]}]\n          maxUpdate: 0");
    let appset = ManagedAppset::new(&steps, FIVE);
    let service = appset.serve();
    appset.wait_until_explained("maxUpdate is 0");
    appset.bench.run(&["appset", "terminate", "fleet", "--reason", "not today"]).expect_code(0);
    let explanation = appset.wait_until_explained("Terminated");
    assert!(explanation.contains("tester (not today)"), "{explanation}");
    appset.bench.run(&["appset", "retry", "fleet"]).expect_code(0);
    appset.wait_until_explained("maxUpdate is 0");
    assert_eq!(appset.operations("dev-a").len(), 1, "what is done stays done");
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn without_its_strategy_an_appset_finishes_and_then_syncs_automatically() {
    let appset = ManagedAppset::new(STEPS, FIVE);
    appset.bench.write("apps/repo/web/web.yaml", WEB.replace("300ms", "3s"));
    appset.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    let service = appset.serve();
    appset.wait_until(|set| statuses(set).iter().any(|(_, status)| status == "Progressing"));
    appset.write("", FIVE);
    appset.bench.run(&["app", "wait", "--timeout", "10m"]).expect_code(0);
    for (name, _) in FIVE {
        let phases: Vec<_> = appset.operations(name).iter().map(|one| one["phase"].clone()).collect();
        assert_eq!(phases, ["Succeeded"], "{name}: nothing was killed");
    }
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn a_misspelled_parameter_is_reported_until_it_is_fixed() {
    let appset = ManagedAppset::new("", &[("dev-a", "dev")]);
    appset.edit("  goTemplate: true\n", "");
    appset.edit("{{ .", "{{ ");
    appset.edit("targetRevision: main", "targetRevision: '{{ revison }}'");
    let service = appset.serve();
    let warning =
        "Application dev-a: spec.source.targetRevision contains {{revison}}, but there is no such parameter";
    let set = appset.wait_until(|set| condition(set, "SpecWarning").is_some());
    let reported = condition(&set, "SpecWarning").unwrap();
    assert_eq!((&reported["status"], &reported["reason"]), (&"True".into(), &"UnknownParameter".into()));
    assert!(reported["message"].as_str().unwrap().contains(warning), "{reported}");
    appset.wait_until_explained(warning);
    appset.edit("'{{ revison }}'", "main");
    appset.wait_until(|set| condition(set, "SpecWarning").is_none());
    drop(service);
}
