//! Projects and the restrictions of their applications.

use std::fs;

use serde_json::Value;

use crate::fleet::Fleet;

const OPEN: &str = "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: shop}\nspec:\n  \
    sourceRepos: ['./repo']\n  destinations: [{server: '*', namespace: fleet}]\n  \
    clusterResourceWhitelist: [{group: '', kind: Namespace, name: fleet}]\n";

/// Returns the example with one application that belongs to the project `shop` and is synced manually.
fn shop_fleet(name: &str) -> Fleet {
    let fleet = Fleet::new();
    let file = format!("{name}.yaml");
    fleet.replace(&file, "project: default", "project: shop");
    fleet.replace(&file, "    automated:\n      prune: true\n      selfHeal: true\n", "");
    fleet
}

fn project(fleet: &Fleet, more: &str) {
    fs::write(fleet.path("project.yaml"), format!("{OPEN}{more}")).unwrap();
}

/// Waits until the application has a condition of this type with this message, and can't be synced.
#[track_caller]
fn assert_refused(fleet: &Fleet, kind: &str, text: &str) {
    let has = |app: &Value| {
        let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let has = |one: &Value| one["type"] == kind && one["message"].as_str().unwrap().contains(text);
        conditions.iter().any(has) && app["status"]["sync"]["status"] == "Unknown"
    };
    fleet.wait_until("frontend", has);
}

/// A `!` in a destination neither denies nor permits anything (argo-cd#26743).
#[test]
fn destinations_that_deny_permit_nothing() {
    let fleet = shop_fleet("frontend");
    let destinations = |list: &str| {
        fs::write(fleet.path("project.yaml"), OPEN.replace("[{server: '*', namespace: fleet}]", list))
            .unwrap();
    };
    destinations("[{server: '*', namespace: allowed-ns}, {server: '*', namespace: '!kyverno'}]");
    let service = fleet.serve();
    assert_refused(&fleet, "InvalidSpecError", "none of its destinations match");
    destinations("[{server: '*', namespace: '*'}, {server: '*', namespace: '!fleet'}]");
    assert_refused(
        &fleet,
        "InvalidSpecError",
        "denied by the destinations entry with server \"*\", namespace \"!fleet\"",
    );
    for only in ["{server: '*', namespace: '!kyverno'}", "{server: '!https://prod.example', namespace: '*'}"]
    {
        destinations(&format!("[{only}]"));
        assert_refused(&fleet, "InvalidSpecError", "all entries in its destinations are negated (!)");
        let warning = fleet.condition("frontend", "SpecWarning");
        assert!(warning.contains("project 'shop' permits nothing"), "{warning}");
    }
    destinations("[{server: '*', namespace: fleet}, {server: '*', namespace: '!kyverno'}]");
    fleet.wait_until("frontend", |app| app["status"]["sync"]["status"] == "OutOfSync");
    assert_eq!(fleet.get("frontend")["status"].get("conditions"), None);
    Fleet::stop(service);
}

#[test]
fn an_application_stays_within_its_project() {
    let fleet = shop_fleet("frontend");
    let service = fleet.serve();
    assert_refused(&fleet, "InvalidSpecError", "Application referencing project shop which does not exist");
    let answer = fleet.bench.run(&["app", "sync", "frontend"]);
    assert!(answer.code() != 0 && answer.out.contains("shop which does not exist"), "{answer:?}");
    for (more, kind, words) in [
        (
            "  sourceIntegrity: {git: {policies: []}}\n",
            "InvalidSpecError",
            "project 'shop' sets sourceIntegrity",
        ),
        (
            "  namespaceResourceBlacklist: [{group: '', kind: Service}]\n",
            "ComparisonError",
            "resource :Service is not permitted in project shop: its namespaceResourceBlacklist contains the kind",
        ),
        ("  sourceRepos: often\n", "InvalidSpecError", "cannot read project shop"),
    ] {
        let text =
            OPEN.replace(if more.contains("sourceRepos") { "  sourceRepos: ['./repo']\n" } else { "\0" }, "");
        fs::write(fleet.path("project.yaml"), format!("{text}{more}")).unwrap();
        assert_refused(&fleet, kind, words);
        let answer = fleet.bench.run(&["app", "sync", "frontend"]);
        assert!(answer.code() != 0 && answer.out.contains("project"), "{more}: {answer:?}");
    }
    fs::write(fleet.path("project.yaml"), OPEN.replace("'./repo'", "'*', '!./rep*'")).unwrap();
    assert_refused(
        &fleet,
        "InvalidSpecError",
        "application repo ./repo is not permitted in project 'shop': denied by the sourceRepos entry",
    );
    fs::write(fleet.path("project.yaml"), OPEN.replace("namespace: fleet}", "namespace: other}")).unwrap();
    assert_refused(
        &fleet,
        "InvalidSpecError",
        "namespace 'fleet' do not match any of the allowed destinations",
    );
    let written = |name: &str| fleet.bench.writes().iter().filter(|one| one["name"] == name).count();
    assert_eq!(written("frontend"), 0, "nothing of it was written");
    project(&fleet, "");
    fleet.wait_until("frontend", |app| app["status"]["sync"]["status"] == "OutOfSync");
    fleet.bench.run(&["app", "sync", "frontend"]).expect_code(0);
    fleet.wait_until_synced(&[]);
    assert!(written("frontend") > 0);
    assert_eq!(fleet.get("frontend")["status"].get("conditions"), None);
    Fleet::stop(service);
}

/// Hooks aren't compared, but an operation that would fail because of a hook must not start.
#[test]
fn a_hook_that_a_project_forbids_blocks_its_application() {
    let fleet = Fleet::new();
    fleet.replace("backend.yaml", "project: default", "project: shop");
    project(&fleet, "  namespaceResourceBlacklist: [{group: batch, kind: Job}]\n");
    let service = fleet.serve();
    let condition = fleet.condition("backend", "ComparisonError");
    assert!(condition.contains("resource batch:Job is not permitted in project shop"), "{condition}");
    fleet.wait_until_synced(&["frontend"]);
    let found = fleet.get("backend");
    assert_eq!(
        (found["status"].get("operationState"), &found["status"]["sync"]["status"]),
        (None, &"Unknown".into())
    );
    project(&fleet, "");
    fleet.wait_until_synced(&[]);
    assert_eq!(fleet.creations("Job", "migrate").len(), 1);
    Fleet::stop(service);
}

/// An operation must obey the current rules instead of those at its start, even after a crash.
#[test]
fn a_stricter_project_stops_a_running_operation() {
    for is_killed in [false, true] {
        let fleet = shop_fleet("backend");
        fleet.set_migration_duration(if is_killed { "8s" } else { "5s" });
        project(&fleet, "");
        let started = fleet.serve();
        fleet.wait_until("backend", |app| app["status"]["sync"]["status"] == "OutOfSync");
        fleet.bench.run(&["app", "sync", "backend", "--async"]).expect_code(0);
        fleet.wait_until("backend", |app| {
            app["status"]["operationState"]["phase"] == "Running"
                && !fleet.creations("Job", "migrate").is_empty()
        });
        let more = "  namespaceResourceBlacklist: [{group: apps, kind: '*'}]\n";
        let service = if is_killed {
            started.signal("KILL");
            started.finish();
            project(&fleet, more);
            fleet.serve()
        } else {
            project(&fleet, more);
            started
        };
        let ended = fleet.wait_until("backend", |app| app["status"]["operationState"]["phase"] == "Failed");
        let text = ended["status"]["operationState"].to_string();
        let rule = "resource apps:Deployment is not permitted in project shop: its namespaceResourceBlacklist contains the kind";
        assert!(text.contains(rule), "{text}");
        assert!(fleet.creations("Deployment", "backend").is_empty(), "killed: {is_killed}");
        assert_eq!(fleet.creations("Job", "migrate").len(), 1);
        Fleet::stop(service);
    }
}

/// A deletion must depend only on the cluster, so a repository that is no longer permitted must not block it.
#[test]
fn an_application_is_deleted_although_its_repository_is_forbidden() {
    let fleet = shop_fleet("frontend");
    project(&fleet, "");
    let service = fleet.serve();
    fleet.bench.run(&["app", "wait", "backend", "--timeout", "10m"]).expect_code(0);
    fleet.wait_until("frontend", |app| app["status"]["sync"]["status"] == "OutOfSync");
    fleet.bench.run(&["app", "sync", "frontend"]).expect_code(0);
    fs::write(fleet.path("project.yaml"), OPEN.replace("['./repo']", "[]")).unwrap();
    assert_refused(&fleet, "InvalidSpecError", "application repo ./repo is not permitted in project 'shop'");
    fleet.bench.run(&["app", "delete", "frontend", "--yes"]).expect_code(0);
    let objects = fleet.bench.json(&["sim", "objects", "-o", "json"]).to_string();
    assert!(!objects.contains("\"frontend\""), "{objects}");
    Fleet::stop(service);
}

#[test]
fn sync_windows_block_an_application() {
    let fleet = Fleet::new();
    fleet.replace("frontend.yaml", "project: default", "project: shop");
    let window = |more: &str| {
        let always = "{kind: deny, schedule: '* * * * *', duration: 1h, applications: [front*]";
        project(&fleet, &format!("  syncWindows: [{always}{more}}}]\n"));
    };
    window("");
    let service = fleet.serve();
    let condition = fleet.condition("frontend", "SyncWindowWarning");
    let words = "syncs are denied by sync window deny:* * * * *:1h of project shop";
    assert_eq!(condition, format!("the sync is waiting: {words}"));
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
    fleet.wait_until_synced(&["backend"]);
    assert!(fleet.creations("Deployment", "frontend").is_empty());
    // A person may sync if the window permits it. An automated sync may not.
    window(", manualSync: true");
    let synced = || fleet.bench.run(&["app", "sync", "frontend"]).code() == 0;
    assert!((0..3000).any(|_| synced()));
    assert_eq!(shown("frontend"), format!("Manual Allowed: {words}"));
    assert_eq!(fleet.creations("Deployment", "frontend").len(), 1);
    fleet.bench.run(&["sim", "delete", "apps:Deployment:fleet/frontend"]).expect_code(0);
    fleet.condition("frontend", "SyncWindowWarning");
    assert_eq!(fleet.creations("Deployment", "frontend").len(), 1);
    project(&fleet, "");
    fleet.wait_until_synced(&[]);
    assert_eq!(fleet.creations("Deployment", "frontend").len(), 2);
    assert_eq!(fleet.get("frontend")["status"].get("conditions"), None);
    Fleet::stop(service);
}

#[test]
fn a_file_that_may_contain_the_default_project_permits_nothing() {
    let fleet = Fleet::new();
    fs::write(fleet.path("project.yaml"), "kind: AppProject\nmetadata: [\n").unwrap();
    let service = fleet.serve();
    assert_refused(&fleet, "InvalidSpecError", "cannot read project default");
    assert_eq!(fleet.bench.writes(), Vec::<Value>::new());
    fs::remove_file(fleet.path("project.yaml")).unwrap();
    fleet.wait_until_synced(&[]);
    Fleet::stop(service);
}

/// A misspelled rule doesn't restrict anything. An Argo CD rule that has no meaning here doesn't either. Both
/// must be reported.
#[test]
fn a_misspelled_rule_is_reported() {
    let fleet = shop_fleet("frontend");
    project(
        &fleet,
        "  namespaceResourceBlackList: [{group: '', kind: Service}]\n  orphanedResources: {warn: true}\n  roles: [{name: a}]\n",
    );
    let service = fleet.serve();
    let message = fleet.condition("frontend", "UnknownFieldWarning");
    assert!(
        message.contains("project 'shop'") && message.contains("spec.namespaceResourceBlackList"),
        "{message}"
    );
    let unsupported = "these fields of project 'shop' have no effect: spec.orphanedResources, spec.roles";
    assert!(message.contains(unsupported), "{message}");
    let restrict = message.split(';').find(|part| part.contains("are unknown and have no effect")).unwrap();
    assert!(!restrict.contains("orphanedResources"), "{message}");
    // A disabled setting isn't reported.
    project(&fleet, "  orphanedResources: {warn: false}\n  roles: []\n");
    let is_quiet = |app: &Value| !app["status"]["conditions"].to_string().contains("UnknownFieldWarning");
    fleet.wait_until("frontend", is_quiet);
    Fleet::stop(service);
}

/// As in Argo CD, this changes only if it is configured explicitly.
#[test]
fn the_default_project_excludes_applications_of_other_namespaces() {
    let fleet = Fleet::new();
    fleet.replace("frontend.yaml", "  name: frontend\n", "  name: frontend\n  namespace: tenant\n");
    let service = fleet.serve();
    assert_refused(
        &fleet,
        "InvalidSpecError",
        "application in namespace tenant is not permitted to use project 'default'",
    );
    assert_eq!(fleet.creations("Deployment", "frontend"), Vec::<u64>::new());
    let open = "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: default}\nspec:\n  \
        sourceNamespaces: [tenant]\n  sourceRepos: ['*']\n  destinations: [{server: '*', namespace: '*'}]\n  \
        clusterResourceWhitelist: [{group: '*', kind: '*'}]\n";
    fs::write(fleet.path("default.yaml"), open).unwrap();
    fleet.wait_until_synced(&["tenant/frontend"]);
    Fleet::stop(service);
}
