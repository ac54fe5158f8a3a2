//! Managed applications, from the example's Git repository to the simulated cluster, with a service that is
//! killed.

use std::fs;

use serde_json::Value;
use tidegate_model::Timestamp;

use crate::bench::{Bench, CommandOutput};
use crate::fleet::Fleet;

#[test]
fn the_fleet_is_synced_wave_by_wave() {
    let fleet = Fleet::new();
    let service = fleet.serve();
    fleet.wait_until_synced(&[]);
    for (app, waves) in [
        ("database", vec![("ConfigMap", "database-settings"), ("StatefulSet", "database")]),
        ("backend", vec![("Job", "migrate"), ("ConfigMap", "backend-settings"), ("Deployment", "backend")]),
        ("frontend", vec![("Deployment", "frontend"), ("Service", "frontend")]),
    ] {
        let made: Vec<Vec<u64>> = waves.iter().map(|(kind, name)| fleet.creations(kind, name)).collect();
        assert!(made.iter().all(|one| one.len() == 1) && made.is_sorted(), "{app}: {made:?}");
        let found = fleet.get(app);
        let status = &found["status"];
        assert_eq!(status["sync"]["status"], "Synced", "{app}");
        assert_eq!(status["health"]["status"], "Healthy", "{app}");
        assert_eq!(status["operationState"]["phase"], "Succeeded", "{app}");
        assert_eq!(status["operationState"]["syncResult"]["revision"], status["sync"]["revision"], "{app}");
        assert_eq!(status["history"][0]["revision"], status["sync"]["revision"], "{app}");
        assert_eq!(found.get("operation"), None, "{app}: it has ended");
        assert!(status["reconciledAt"].as_str() >= status["operationState"]["finishedAt"].as_str(), "{app}");
    }
    let list = fleet.bench.json(&["app", "list", "-o", "json"]);
    assert_eq!((list["kind"].as_str(), list["items"].as_array().unwrap().len()), (Some("List"), 3));
    let text = fleet.bench.run(&["app", "list"]).expect_code(0).out;
    assert!(text.starts_with("NAME") && text.contains("Auto-Prune"), "{text}");
    // No second service may use the same state directory, and the error must identify the first service.
    let second = fleet.bench.run(&["serve", "--sim", "--apps", "fleet"]).expect_code(4);
    assert!(second.err.contains("process"), "{}", second.err);
    Fleet::stop(service);
    let output = fleet.bench.run(&["app", "list"]).expect_code(0);
    assert!(output.err.contains("last recorded status") && output.out.contains("Healthy"), "{output:?}");
}

#[test]
fn a_missing_folder_of_applications_is_reported_like_a_missing_path() {
    let bench = Bench::new();
    for args in [&["serve", "--sim", "--apps", "nowhere"][..], &["sync", "--sim", "--app", "web", "nowhere"]]
    {
        let output = bench.run(args).expect_code(2);
        assert!(output.err.contains("nowhere: no such file or folder; check the path"), "{}", output.err);
    }
}

/// A refresh after a change of a file or a commit must include that change immediately.
#[test]
fn a_refresh_includes_everything_written_before_it() {
    let fleet = Fleet::new();
    let service = fleet.serve();
    fleet.wait_until_synced(&[]);
    for name in ["first", "second"] {
        let document = fs::read_to_string(fleet.path("database.yaml")).unwrap();
        let document = document.replace("name: database", &format!("name: {name}"));
        let document = document.replace("    automated:\n      prune: true\n      selfHeal: true\n", "");
        fs::write(fleet.path(&format!("{name}.yaml")), document).unwrap();
        fleet.bench.run(&["app", "refresh", name]).expect_code(0);
        let found = fleet.get(name);
        assert!(found["status"]["sync"]["revision"].as_str().is_some_and(|one| one.len() == 40), "{found:#}");
    }
    for version in 2..5 {
        fleet.replace("repo/database/database.yaml", "# Wave 0", &format!("# {version}\n# Wave 0"));
        fleet.commit();
        let before = fleet.get("first")["status"]["sync"]["revision"].clone();
        fleet.bench.run(&["app", "refresh", "first"]).expect_code(0);
        assert_ne!(fleet.get("first")["status"]["sync"]["revision"], before);
    }
    Fleet::stop(service);
}

#[test]
fn a_new_commit_is_synced_and_manual_changes_are_reverted() {
    let fleet = Fleet::new();
    let service = fleet.serve();
    fleet.wait_until_synced(&["frontend"]);
    let first = fleet.get("frontend")["status"]["sync"]["revision"].clone();
    fleet.replace("repo/frontend/frontend.yaml", "frontend:1.0", "frontend:2.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "frontend"]).expect_code(0);
    let found = fleet.wait_until("frontend", |app| {
        app["status"]["history"].as_array().is_some_and(|history| history.len() == 2)
    });
    assert_ne!(found["status"]["history"][1]["revision"], first);
    fleet.wait_until_synced(&["frontend"]);
    assert_eq!(fleet.get("frontend")["status"]["summary"]["images"][0], "example.com/fleet/frontend:2.0");
    // Only the watch can report this, because the next comparison is minutes away.
    let before = fleet.creations("Deployment", "frontend").len();
    fleet.bench.run(&["sim", "delete", "apps:Deployment:fleet/frontend"]).expect_code(0);
    let healed = fleet.wait_until("frontend", |app| {
        app["status"]["operationState"]["operation"]["sync"]["autoHealAttemptsCount"] == 1
            && app["status"]["operationState"]["phase"] == "Succeeded"
    });
    assert_eq!(healed["status"]["history"].as_array().unwrap().len(), 2, "self-heal is not a deployment");
    assert_eq!(fleet.creations("Deployment", "frontend").len(), before + 1);
    fleet.wait_until_synced(&[]);
    Fleet::stop(service);
}

#[test]
fn changes_are_found_without_a_request() {
    let fleet = Fleet::new();
    let service = fleet.serve_with(&["--refresh-every", "1s"]);
    fleet.wait_until_synced(&["frontend"]);
    let revision = |app: &Value| app["status"]["history"].as_array().and_then(|all| all.last().cloned());
    let first = revision(&fleet.get("frontend"));
    fleet.replace("repo/frontend/frontend.yaml", "frontend:1.0", "frontend:2.0");
    fleet.commit();
    fleet.wait_until("frontend", |app| revision(app) != first);
    // The same is true for the application's file, here with a missing branch and its error.
    fleet.replace("frontend.yaml", "targetRevision: main", "targetRevision: gone");
    assert!(fleet.condition("frontend", "ComparisonError").contains("gone"));
    fleet.replace("frontend.yaml", "targetRevision: gone", "targetRevision: main");
    fleet.wait_until_synced(&["frontend"]);
    assert_eq!(fleet.get("frontend")["status"].get("conditions"), None);
    Fleet::stop(service);
}

#[test]
fn a_kill_during_the_migration_runs_it_once() {
    let fleet = Fleet::new();
    fleet.set_migration_duration("15s");
    let service = fleet.serve();
    fleet.wait_until("backend", |app| {
        app["status"]["operationState"]["phase"] == "Running" && !fleet.creations("Job", "migrate").is_empty()
    });
    service.signal("KILL");
    service.finish();
    let killed = fleet.get("backend");
    let id = killed["operation"]["info"][0]["value"].as_str().unwrap().to_owned();
    let service = fleet.serve();
    fleet.wait_until_synced(&[]);
    assert_eq!(fleet.creations("Job", "migrate").len(), 1);
    let state = &fleet.get("backend")["status"]["operationState"];
    assert_eq!(
        state["operation"]["info"][0]["value"].as_str(),
        Some(id.as_str()),
        "the same operation continued"
    );
    let operations = fleet.bench.json(&["ops", "list", "--app", "backend", "-o", "json"]);
    assert_eq!(operations.as_array().unwrap().len(), 1, "{operations}");
    Fleet::stop(service);
}

#[test]
fn a_service_whose_log_fails_ends_with_a_message() {
    let fleet = Fleet::new();
    fleet.set_migration_duration("10m");
    let service = fleet.serve();
    fleet.wait_until("backend", |app| {
        app["status"]["operationState"]["phase"] == "Running" && !fleet.creations("Job", "migrate").is_empty()
    });
    let moved = fleet.bench.path().join("moved");
    fs::rename(fleet.bench.state(), &moved).unwrap();
    let ended = service.finish().expect_code(1);
    assert!(ended.err.contains("the operation log failed"), "{}", ended.err);
    // Each operation continues where it had stopped.
    let _ = fs::remove_dir_all(fleet.bench.state());
    fs::rename(moved, fleet.bench.state()).unwrap();
    let service = fleet.serve();
    fleet.bench.run(&["ops", "terminate", "backend"]).expect_code(0);
    fleet.wait_until("backend", |app| app["status"]["operationState"]["phase"] == "Failed");
    assert_eq!(fleet.creations("Job", "migrate").len(), 1);
    Fleet::stop(service);
}

#[test]
fn a_briefly_missing_folder_has_no_effect() {
    let fleet = Fleet::new();
    let service = fleet.serve_with(&["--refresh-every", "1s"]);
    fleet.wait_until_synced(&[]);
    let away = fleet.bench.path().join("away");
    fs::rename(fleet.bench.path().join("fleet"), &away).unwrap();
    let is_noticed = |listed: &CommandOutput| listed.err.contains("its previous contents remain in effect");
    let list = || fleet.bench.run(&["app", "list"]).expect_code(0);
    assert!(std::iter::repeat_with(list).take(3000).any(|listed| is_noticed(&listed)));
    fs::rename(away, fleet.bench.path().join("fleet")).unwrap();
    assert!(std::iter::repeat_with(list).take(3000).any(|listed| !is_noticed(&listed)));
    fleet.wait_until_synced(&[]);
    assert_eq!(fleet.get("backend")["status"]["history"].as_array().unwrap().len(), 1);
    Fleet::stop(service);
}

/// The service is killed repeatedly at all stages, in random order.
#[test]
fn each_action_happens_once_however_often_the_service_is_killed() {
    let fleet = Fleet::new();
    let marks: [&dyn Fn() -> bool; 4] = [
        &|| !fleet.bench.writes().is_empty(),
        &|| !fleet.creations("StatefulSet", "database").is_empty(),
        &|| !fleet.creations("Job", "migrate").is_empty(),
        &|| !fleet.creations("Deployment", "backend").is_empty(),
    ];
    for is_reached in marks {
        let service = fleet.serve();
        assert!((0..3000).any(|_| is_reached()));
        service.signal("KILL");
        service.finish();
    }
    let service = fleet.serve();
    fleet.wait_until_synced(&[]);
    let names = [
        ("Job", "migrate"),
        ("ConfigMap", "database-settings"),
        ("StatefulSet", "database"),
        ("Deployment", "backend"),
        ("Deployment", "frontend"),
    ];
    for (kind, name) in names {
        assert_eq!(fleet.creations(kind, name).len(), 1, "{name}");
    }
    for app in ["database", "backend", "frontend"] {
        let operations = fleet.bench.json(&["ops", "list", "--app", app, "-o", "json"]);
        assert_eq!(operations.as_array().unwrap().len(), 1, "{operations}");
        assert_eq!(fleet.get(app)["status"]["history"].as_array().unwrap().len(), 1, "{app}");
    }
    Fleet::stop(service);
}

#[test]
fn a_broken_application_reports_its_error_and_the_others_continue() {
    let fleet = Fleet::new();
    for (name, from, to) in [
        ("repo", "./repo", "./gone"),
        ("path", "path: frontend", "path: nowhere"),
        ("revision", "targetRevision: main", "targetRevision: none"),
        ("oci", "./repo", "oci://127.0.0.1:9/fleet"),
        ("metadata", "./repo", "http://169.254.169.254/fleet.git"),
        ("cluster", "name: in-cluster", "name: elsewhere"),
        ("project", "project: default", "project: strict"),
        ("typo", "selfHeal: true", "selfHeal: often"),
        ("helm", "path: frontend", "path: frontend\n    helm: {releaseName: a}"),
        ("nowhere", "    path: frontend\n", ""),
        ("rooted", "path: frontend", "path: /frontend"),
    ] {
        let text = fs::read_to_string(fleet.path("frontend.yaml")).unwrap();
        let text = text.replace("name: frontend", &format!("name: {name}"));
        assert!(text.contains(from), "{name}");
        fs::write(fleet.path(&format!("broken-{name}.yaml")), text.replace(from, to)).unwrap();
    }
    fs::write(fleet.path("broken.yaml"), "kind: [\n").unwrap();
    fs::write(fleet.path("repo/database/broken.yaml"), "apiVersion: v1\nkind: [\n").unwrap();
    // The file is next to manifests, as in a chart.
    fs::write(fleet.path("repo/backend/values.yaml"), "replicas: 2\n").unwrap();
    fleet.commit();
    let service = fleet.serve();
    fleet.wait_until_synced(&["backend", "frontend"]);
    for (name, kind, part) in [
        ("repo", "ComparisonError", "gone"),
        ("path", "ComparisonError", "nowhere"),
        ("revision", "ComparisonError", "none"),
        ("oci", "ComparisonError", "cannot list tags"),
        ("metadata", "ComparisonError", "link-local"),
        ("cluster", "InvalidSpecError", "elsewhere"),
        ("project", "InvalidSpecError", "strict"),
        ("typo", "InvalidSpecError", "broken-typo.yaml"),
        ("helm", "ComparisonError", "is configured as a Helm chart, but has no Chart.yaml"),
        ("nowhere", "InvalidSpecError", "spec.source.path is missing"),
        ("rooted", "InvalidSpecError", "is absolute"),
        ("database", "ComparisonError", "database/broken.yaml:"),
    ] {
        let message = fleet.condition(name, kind);
        assert!(message.contains(part), "{name}: {message}");
        assert_eq!(fleet.get(name)["status"]["sync"]["status"], "Unknown", "{name}");
    }
    let listed = fleet.bench.run(&["app", "list"]).expect_code(0);
    assert!(listed.err.contains("broken.yaml:"), "{}", listed.err);
    let refused = fleet.bench.run(&["app", "sync", "typo"]).expect_code(4);
    assert!(refused.err.contains("broken-typo.yaml"), "{}", refused.err);
    // Once the file is fixed, the application is synced.
    fs::remove_file(fleet.path("repo/database/broken.yaml")).unwrap();
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "database"]).expect_code(0);
    fleet.wait_until_synced(&["database"]);
    Fleet::stop(service);
}

#[test]
fn user_requests_are_executed_and_recorded() {
    let fleet = Fleet::new();
    fleet.replace("database.yaml", "    automated:\n      prune: true\n      selfHeal: true\n", "");
    let service = fleet.serve();
    let found = fleet.wait_until("database", |app| app["status"]["sync"]["status"] == "OutOfSync");
    assert_eq!(found["status"]["health"]["status"], "Missing");
    assert_eq!(found["status"].get("operationState"), None, "there was no request");
    let synced = fleet.bench.run(&["app", "sync", "database"]).expect_code(0);
    assert!(synced.out.contains("Succeeded by tester"), "{}", synced.out);
    fleet.wait_until_synced(&["database"]);
    let history = fleet.bench.json(&["app", "history", "database", "-o", "json"]);
    assert_eq!(history[0]["initiatedBy"]["username"], "tester");
    let wrong = fleet.bench.run(&["app", "sync", "database", "--revision", "none"]).expect_code(1);
    assert!(wrong.out.contains("no branch, tag or commit \"none\""), "{}", wrong.out);
    fleet.bench.run(&["app", "sync", "nobody"]).expect_code(2);
    Fleet::stop(service);
}

/// As in Argo CD, objects stay in the cluster without a cascading deletion.
#[test]
fn an_application_without_its_file_is_forgotten_and_its_objects_stay() {
    let fleet = Fleet::new();
    let service = fleet.serve();
    fleet.wait_until_synced(&["frontend", "backend"]);
    fs::remove_file(fleet.path("frontend.yaml")).unwrap();
    let names = || {
        let list = fleet.bench.json(&["app", "list", "-o", "json"]);
        let items = list["items"].as_array().unwrap().clone();
        items.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let is_gone =
        std::iter::repeat_with(names).take(3000).find(|names| !names.contains(&"frontend".to_owned()));
    assert_eq!(is_gone.unwrap(), ["backend", "database"]);
    Fleet::stop(service);
    let objects = fleet.bench.json(&["sim", "objects", "-o", "json"]);
    let is_there = |name: &str| objects.as_array().unwrap().iter().any(|one| one["metadata"]["name"] == name);
    assert!(is_there("frontend") && is_there("backend"));
}

/// In a checkout of this project, the example doesn't have a Git repository.
#[test]
fn the_example_is_managed_without_its_git_repository() {
    let fleet = Fleet::new();
    let (git, made) = (fleet.path("repo/.git"), "created a Git repository in fleet/repo");
    fs::remove_dir_all(&git).unwrap();
    for is_made in [true, false] {
        let service = fleet.serve();
        fleet.wait_until_synced(&[]);
        let output = Fleet::stop(service).err;
        assert_eq!(output.contains(made), is_made, "{output}");
    }
    // A folder that differs from the example is left unchanged.
    fs::remove_dir_all(&git).unwrap();
    fs::remove_file(fleet.path("repo/frontend/frontend.yaml")).unwrap();
    let service = fleet.serve();
    assert!(fleet.condition("backend", "ComparisonError").contains("cannot open a Git repository"));
    Fleet::stop(service);
    assert!(!git.exists());
}

/// The delay applies to objects whose health isn't conclusive.
#[test]
fn argo_cds_wave_delay_is_honored() {
    let mut fleet = Fleet::new();
    fleet.bench.set_variable("ARGOCD_SYNC_WAVE_DELAY", "1");
    let wave = |number: u32| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: wave-{number}, annotations: {{argocd.argoproj.io/sync-wave: \"{number}\"}}}}\n"
        )
    };
    fs::write(fleet.path("repo/frontend/waves.yaml"), (1..9).map(wave).collect::<String>()).unwrap();
    fleet.commit();
    let service = fleet.serve();
    fleet.wait_until_synced(&["frontend"]);
    let state = &fleet.get("frontend")["status"]["operationState"];
    let at = |which: &str| state[which].as_str().unwrap().parse::<Timestamp>().unwrap().as_seconds();
    assert!(at("finishedAt") - at("startedAt") >= 7, "eight waits of one second: {state}");
    Fleet::stop(service);
}

/// Two services for one folder would sync each commit twice, either to separate clusters or to the same one.
#[test]
fn two_services_of_a_folder_detect_each_other() {
    let fleet = Fleet::new();
    let first = fleet.serve();
    let elsewhere = ["serve", "--sim", "--apps", "fleet", "--state-dir", "elsewhere"];
    let second = fleet.bench.run(&elsewhere).expect_code(4);
    for text in [format!("(pid {})", first.pid), "fleet".to_owned(), "--standby".to_owned()] {
        assert!(second.err.contains(&text), "{text}: {}", second.err);
    }
    // Only the suggested command has the state directory of this process.
    let (other, own) = second.err.split_once("stop it first").unwrap();
    assert!(!other.contains("elsewhere"), "{}", second.err);
    assert!(own.contains("`tidegate serve --standby --state-dir elsewhere`"), "{}", second.err);
    let mut standby = fleet.bench.start(&[&elsewhere[..], &["--standby"]].concat());
    standby.wait_for_line("standby: ");
    // The lock ends with its process, regardless of how the process ends.
    first.signal("KILL");
    first.finish();
    standby.wait_for_line("managing");
    Fleet::stop(standby);
}
