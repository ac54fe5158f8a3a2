//! Projects: what their applications may not do, they do not.

use std::fs;

use serde_json::Value;

use crate::fleet::Fleet;

const OPEN: &str = "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: shop}\nspec:\n  \
    sourceRepos: ['./repo']\n  destinations: [{server: '*', namespace: fleet}]\n  \
    clusterResourceWhitelist: [{group: '', kind: Namespace, name: fleet}]\n";

/// The example, with one application that is of the project `shop`, and is synced by hand.
fn of_shop(name: &str) -> Fleet {
    let fleet = Fleet::new();
    let file = format!("{name}.yaml");
    fleet.replace(&file, "project: default", "project: shop");
    fleet.replace(&file, "    automated:\n      prune: true\n      selfHeal: true\n", "");
    fleet
}

fn project(fleet: &Fleet, more: &str) {
    fs::write(fleet.path("project.yaml"), format!("{OPEN}{more}")).unwrap();
}

/// Waits until the application has a condition of a kind with these words, and is out of the reach of any sync.
#[track_caller]
fn refused(fleet: &Fleet, kind: &str, words: &str) {
    let has = |app: &Value| {
        let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let has = |one: &Value| one["type"] == kind && one["message"].as_str().unwrap().contains(words);
        conditions.iter().any(has) && app["status"]["sync"]["status"] == "Unknown"
    };
    fleet.until("frontend", has);
}

#[test]
fn an_application_keeps_to_its_project() {
    let fleet = of_shop("frontend");
    let serving = fleet.serve();
    refused(&fleet, "InvalidSpecError", "Application referencing project shop which does not exist");
    let answer = fleet.bench.run(&["app", "sync", "frontend"]);
    assert!(answer.code() != 0 && answer.out.contains("shop which does not exist"), "{answer:?}");
    for (more, kind, words) in [
        (
            "  sourceIntegrity: {git: {policies: []}}\n",
            "InvalidSpecError",
            "project 'shop' has sourceIntegrity",
        ),
        (
            "  namespaceResourceBlacklist: [{group: '', kind: Service}]\n",
            "ComparisonError",
            "resource :Service is not permitted in project shop: its namespaceResourceBlacklist has it",
        ),
        ("  sourceRepos: often\n", "InvalidSpecError", "project shop cannot be read"),
    ] {
        let text =
            OPEN.replace(if more.contains("sourceRepos") { "  sourceRepos: ['./repo']\n" } else { "\0" }, "");
        fs::write(fleet.path("project.yaml"), format!("{text}{more}")).unwrap();
        refused(&fleet, kind, words);
        let answer = fleet.bench.run(&["app", "sync", "frontend"]);
        assert!(answer.code() != 0 && answer.out.contains("project"), "{more}: {answer:?}");
    }
    fs::write(fleet.path("project.yaml"), OPEN.replace("'./repo'", "'*', '!./rep*'")).unwrap();
    refused(
        &fleet,
        "InvalidSpecError",
        "application repo ./repo is not permitted in project 'shop': sourceRepos denies",
    );
    fs::write(fleet.path("project.yaml"), OPEN.replace("namespace: fleet}", "namespace: other}")).unwrap();
    refused(&fleet, "InvalidSpecError", "namespace 'fleet' do not match any of the allowed destinations");
    let written = |name: &str| fleet.bench.writes().iter().filter(|one| one["name"] == name).count();
    assert_eq!(written("frontend"), 0, "nothing of it was written");
    project(&fleet, "");
    fleet.until("frontend", |app| app["status"]["sync"]["status"] == "OutOfSync");
    fleet.bench.run(&["app", "sync", "frontend"]).expect_code(0);
    fleet.wait(&[]);
    assert!(written("frontend") > 0);
    assert_eq!(fleet.get("frontend")["status"].get("conditions"), None);
    Fleet::end(serving);
}

/// Hooks are not compared, and nothing is begun that would fail at one of them.
#[test]
fn a_hook_that_a_project_forbids_keeps_its_application_back() {
    let fleet = Fleet::new();
    fleet.replace("backend.yaml", "project: default", "project: shop");
    project(&fleet, "  namespaceResourceBlacklist: [{group: batch, kind: Job}]\n");
    let serving = fleet.serve();
    let told = fleet.condition("backend", "ComparisonError");
    assert!(told.contains("resource batch:Job is not permitted in project shop"), "{told}");
    fleet.wait(&["frontend"]);
    let found = fleet.get("backend");
    assert_eq!(
        (found["status"].get("operationState"), &found["status"]["sync"]["status"]),
        (None, &"Unknown".into())
    );
    project(&fleet, "");
    fleet.wait(&[]);
    assert_eq!(fleet.made("Job", "migrate").len(), 1);
    Fleet::end(serving);
}

/// The rules of an operation are those of now, and not those of its beginning, also after a kill.
#[test]
fn a_project_that_forbids_more_stops_an_operation_under_way() {
    for is_killed in [false, true] {
        let fleet = of_shop("backend");
        fleet.migrates_for(if is_killed { "8s" } else { "5s" });
        project(&fleet, "");
        let begun = fleet.serve();
        fleet.until("backend", |app| app["status"]["sync"]["status"] == "OutOfSync");
        fleet.bench.run(&["app", "sync", "backend", "--async"]).expect_code(0);
        fleet.until("backend", |app| {
            app["status"]["operationState"]["phase"] == "Running" && !fleet.made("Job", "migrate").is_empty()
        });
        let more = "  namespaceResourceBlacklist: [{group: apps, kind: '*'}]\n";
        let serving = if is_killed {
            begun.signal("KILL");
            begun.finish();
            project(&fleet, more);
            fleet.serve()
        } else {
            project(&fleet, more);
            begun
        };
        let ended = fleet.until("backend", |app| app["status"]["operationState"]["phase"] == "Failed");
        let words = ended["status"]["operationState"].to_string();
        let rule = "resource apps:Deployment is not permitted in project shop: its namespaceResourceBlacklist has it";
        assert!(words.contains(rule), "{words}");
        assert!(fleet.made("Deployment", "backend").is_empty(), "killed: {is_killed}");
        assert_eq!(fleet.made("Job", "migrate").len(), 1);
        Fleet::end(serving);
    }
}

/// What is deleted is what the cluster has: a repository that is permitted no more has no part in that.
#[test]
fn an_application_goes_whose_repository_is_permitted_no_more() {
    let fleet = of_shop("frontend");
    project(&fleet, "");
    let serving = fleet.serve();
    fleet.bench.run(&["app", "wait", "backend", "--timeout", "10m"]).expect_code(0);
    fleet.until("frontend", |app| app["status"]["sync"]["status"] == "OutOfSync");
    fleet.bench.run(&["app", "sync", "frontend"]).expect_code(0);
    fs::write(fleet.path("project.yaml"), OPEN.replace("['./repo']", "[]")).unwrap();
    refused(&fleet, "InvalidSpecError", "application repo ./repo is not permitted in project 'shop'");
    fleet.bench.run(&["app", "delete", "frontend", "--yes"]).expect_code(0);
    let objects = fleet.bench.json(&["sim", "objects", "-o", "json"]).to_string();
    assert!(!objects.contains("\"frontend\""), "{objects}");
    Fleet::end(serving);
}

#[test]
fn sync_windows_keep_an_application_back() {
    let fleet = Fleet::new();
    fleet.replace("frontend.yaml", "project: default", "project: shop");
    let window = |more: &str| {
        let always = "{kind: deny, schedule: '* * * * *', duration: 1h, applications: [front*]";
        project(&fleet, &format!("  syncWindows: [{always}{more}}}]\n"));
    };
    window("");
    let serving = fleet.serve();
    let told = fleet.condition("frontend", "SyncWindowWarning");
    let words = "syncs are denied by sync window deny:* * * * *:1h of project shop";
    assert_eq!(told, format!("it waits to be synced: {words}"));
    let listed = fleet.bench.run(&["app", "list"]).expect_code(0).out;
    assert!(listed.contains("SyncWindowWarning"), "{listed}");
    let refused = fleet.bench.run(&["app", "sync", "frontend"]).expect_code(4);
    assert!(
        refused.err.contains(&format!("cannot sync: blocked by sync window: {words}")),
        "{}",
        refused.err
    );
    let shown = |name: &str| {
        let text = fleet.bench.run(&["app", "get", name]).expect_code(0).out;
        let line = text.lines().find_map(|line| line.strip_prefix("Sync Window:")).map(str::trim);
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert_eq!(shown("frontend"), format!("Sync Denied: {words}"));
    assert_eq!(shown("backend"), "Sync Allowed");
    fleet.wait(&["backend"]);
    assert!(fleet.made("Deployment", "frontend").is_empty());
    // A person may, where the window says so; nobody else.
    window(", manualSync: true");
    let synced = || fleet.bench.run(&["app", "sync", "frontend"]).code() == 0;
    assert!((0..3000).any(|_| synced()));
    assert_eq!(shown("frontend"), format!("Manual Allowed: {words}"));
    assert_eq!(fleet.made("Deployment", "frontend").len(), 1);
    fleet.bench.run(&["sim", "delete", "apps:Deployment:fleet/frontend"]).expect_code(0);
    fleet.condition("frontend", "SyncWindowWarning");
    assert_eq!(fleet.made("Deployment", "frontend").len(), 1);
    project(&fleet, "");
    fleet.wait(&[]);
    assert_eq!(fleet.made("Deployment", "frontend").len(), 2);
    assert_eq!(fleet.get("frontend")["status"].get("conditions"), None);
    Fleet::end(serving);
}

#[test]
fn what_may_hide_the_project_default_permits_nothing() {
    let fleet = Fleet::new();
    fs::write(fleet.path("project.yaml"), "kind: AppProject\nmetadata: [\n").unwrap();
    let serving = fleet.serve();
    refused(&fleet, "InvalidSpecError", "project default cannot be read");
    assert_eq!(fleet.bench.writes(), Vec::<Value>::new());
    fs::remove_file(fleet.path("project.yaml")).unwrap();
    fleet.wait(&[]);
    Fleet::end(serving);
}

/// One that is misspelt restricts nothing, and so does one of Argo CD that means nothing here. Both are told.
#[test]
fn a_rule_that_is_misspelt_is_told() {
    let fleet = of_shop("frontend");
    project(
        &fleet,
        "  namespaceResourceBlackList: [{group: '', kind: Service}]\n  orphanedResources: {warn: true}\n  roles: [{name: a}]\n",
    );
    let serving = fleet.serve();
    let said = fleet.condition("frontend", "UnknownFieldWarning");
    assert!(said.contains("project 'shop'") && said.contains("spec.namespaceResourceBlackList"), "{said}");
    let unsupported = "these fields of project 'shop' have no effect: spec.orphanedResources, spec.roles";
    assert!(said.contains(unsupported), "{said}");
    let restrict = said.split(';').find(|part| part.contains("restrict nothing")).unwrap();
    assert!(!restrict.contains("orphanedResources"), "{said}");
    // It is not worth a word where somebody has switched it off.
    project(&fleet, "  orphanedResources: {warn: false}\n  roles: []\n");
    let is_quiet = |app: &Value| !app["status"]["conditions"].to_string().contains("UnknownFieldWarning");
    fleet.until("frontend", is_quiet);
    Fleet::end(serving);
}

/// Unless somebody has written that down, as with Argo CD.
#[test]
fn the_default_project_has_no_applications_of_other_namespaces() {
    let fleet = Fleet::new();
    fleet.replace("frontend.yaml", "  name: frontend\n", "  name: frontend\n  namespace: tenant\n");
    let serving = fleet.serve();
    refused(
        &fleet,
        "InvalidSpecError",
        "application in namespace tenant is not permitted to use project 'default'",
    );
    assert_eq!(fleet.made("Deployment", "frontend"), Vec::<u64>::new());
    let open = "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: default}\nspec:\n  \
        sourceNamespaces: [tenant]\n  sourceRepos: ['*']\n  destinations: [{server: '*', namespace: '*'}]\n  \
        clusterResourceWhitelist: [{group: '*', kind: '*'}]\n";
    fs::write(fleet.path("default.yaml"), open).unwrap();
    fleet.wait(&["tenant/frontend"]);
    Fleet::end(serving);
}
