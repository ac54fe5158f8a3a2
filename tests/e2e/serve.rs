//! Applications that are served: from the example's Git repository to the simulated cluster, and through kills.

use std::fs;

use serde_json::Value;
use tidegate_model::Timestamp;

use crate::bench::Ran;
use crate::fleet::Fleet;

#[test]
fn the_fleet_is_synced_wave_by_wave() {
    let fleet = Fleet::new();
    let serving = fleet.serve();
    fleet.wait(&[]);
    for (app, waves) in [
        ("database", vec![("ConfigMap", "database-settings"), ("StatefulSet", "database")]),
        ("backend", vec![("Job", "migrate"), ("ConfigMap", "backend-settings"), ("Deployment", "backend")]),
        ("frontend", vec![("Deployment", "frontend"), ("Service", "frontend")]),
    ] {
        let made: Vec<Vec<u64>> = waves.iter().map(|(kind, name)| fleet.made(kind, name)).collect();
        assert!(made.iter().all(|one| one.len() == 1) && made.is_sorted(), "{app}: {made:?}");
        let found = fleet.get(app);
        let status = &found["status"];
        assert_eq!(status["sync"]["status"], "Synced", "{app}");
        assert_eq!(status["health"]["status"], "Healthy", "{app}");
        assert_eq!(status["operationState"]["phase"], "Succeeded", "{app}");
        assert_eq!(status["operationState"]["syncResult"]["revision"], status["sync"]["revision"], "{app}");
        assert_eq!(status["history"][0]["revision"], status["sync"]["revision"], "{app}");
        assert_eq!(found.get("operation"), None, "{app}: it is over");
        assert!(status["reconciledAt"].as_str() >= status["operationState"]["finishedAt"].as_str(), "{app}");
    }
    let list = fleet.bench.json(&["app", "list", "-o", "json"]);
    assert_eq!((list["kind"].as_str(), list["items"].as_array().unwrap().len()), (Some("List"), 3));
    let text = fleet.bench.run(&["app", "list"]).expect_code(0).out;
    assert!(text.starts_with("NAME") && text.contains("Auto-Prune"), "{text}");
    // Nobody else may serve the same state directory meanwhile, and it is said who does.
    let second = fleet.bench.run(&["serve", "--sim", "--apps", "fleet"]).expect_code(4);
    assert!(second.err.contains("process"), "{}", second.err);
    Fleet::end(serving);
    let told = fleet.bench.run(&["app", "list"]).expect_code(0);
    assert!(told.err.contains("stood last") && told.out.contains("Healthy"), "{told:?}");
}

/// Whoever changes a file, or commits, and asks for a refresh then sees at once what came of it.
#[test]
fn a_refresh_is_about_what_was_written_before_it() {
    let fleet = Fleet::new();
    let serving = fleet.serve();
    fleet.wait(&[]);
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
    Fleet::end(serving);
}

#[test]
fn a_new_commit_is_synced_and_what_somebody_changes_is_put_right() {
    let fleet = Fleet::new();
    let serving = fleet.serve();
    fleet.wait(&["frontend"]);
    let first = fleet.get("frontend")["status"]["sync"]["revision"].clone();
    fleet.replace("repo/frontend/frontend.yaml", "frontend:1.0", "frontend:2.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "frontend"]).expect_code(0);
    let found = fleet.until("frontend", |app| {
        app["status"]["history"].as_array().is_some_and(|history| history.len() == 2)
    });
    assert_ne!(found["status"]["history"][1]["revision"], first);
    fleet.wait(&["frontend"]);
    assert_eq!(fleet.get("frontend")["status"]["summary"]["images"][0], "example.com/fleet/frontend:2.0");
    // Nothing but the watch tells of this: the next comparison is minutes away.
    let before = fleet.made("Deployment", "frontend").len();
    fleet.bench.run(&["sim", "delete", "apps:Deployment:fleet/frontend"]).expect_code(0);
    let healed = fleet.until("frontend", |app| {
        app["status"]["operationState"]["operation"]["sync"]["autoHealAttemptsCount"] == 1
            && app["status"]["operationState"]["phase"] == "Succeeded"
    });
    assert_eq!(healed["status"]["history"].as_array().unwrap().len(), 2, "putting right is no deployment");
    assert_eq!(fleet.made("Deployment", "frontend").len(), before + 1);
    fleet.wait(&[]);
    Fleet::end(serving);
}

#[test]
fn what_changes_is_found_without_being_asked_for() {
    let fleet = Fleet::new();
    let serving = fleet.serve_with(&["--refresh-every", "1s"]);
    fleet.wait(&["frontend"]);
    let revision = |app: &Value| app["status"]["history"].as_array().and_then(|all| all.last().cloned());
    let first = revision(&fleet.get("frontend"));
    fleet.replace("repo/frontend/frontend.yaml", "frontend:1.0", "frontend:2.0");
    fleet.commit();
    fleet.until("frontend", |app| revision(app) != first);
    // Of the file of the application as well: a branch that is not there, and what is wrong with that.
    fleet.replace("frontend.yaml", "targetRevision: main", "targetRevision: gone");
    assert!(fleet.condition("frontend", "ComparisonError").contains("gone"));
    fleet.replace("frontend.yaml", "targetRevision: gone", "targetRevision: main");
    fleet.wait(&["frontend"]);
    assert_eq!(fleet.get("frontend")["status"].get("conditions"), None);
    Fleet::end(serving);
}

#[test]
fn a_kill_in_the_middle_of_the_migration_runs_it_once() {
    let fleet = Fleet::new();
    fleet.migrates_for("15s");
    let serving = fleet.serve();
    fleet.until("backend", |app| {
        app["status"]["operationState"]["phase"] == "Running" && !fleet.made("Job", "migrate").is_empty()
    });
    serving.signal("KILL");
    serving.finish();
    let killed = fleet.get("backend");
    let id = killed["operation"]["info"][0]["value"].as_str().unwrap().to_owned();
    let serving = fleet.serve();
    fleet.wait(&[]);
    assert_eq!(fleet.made("Job", "migrate").len(), 1);
    let state = &fleet.get("backend")["status"]["operationState"];
    assert_eq!(
        state["operation"]["info"][0]["value"].as_str(),
        Some(id.as_str()),
        "the same operation went on"
    );
    let operations = fleet.bench.json(&["ops", "list", "--app", "backend", "-o", "json"]);
    assert_eq!(operations.as_array().unwrap().len(), 1, "{operations}");
    Fleet::end(serving);
}

#[test]
fn a_service_whose_log_fails_ends_and_says_so() {
    let fleet = Fleet::new();
    fleet.migrates_for("10m");
    let serving = fleet.serve();
    fleet.until("backend", |app| {
        app["status"]["operationState"]["phase"] == "Running" && !fleet.made("Job", "migrate").is_empty()
    });
    let moved = fleet.bench.path().join("moved");
    fs::rename(fleet.bench.state(), &moved).unwrap();
    let ended = serving.finish().expect_code(1);
    assert!(ended.err.contains("the operation log failed"), "{}", ended.err);
    // Where it was, everything goes on.
    let _ = fs::remove_dir_all(fleet.bench.state());
    fs::rename(moved, fleet.bench.state()).unwrap();
    let serving = fleet.serve();
    fleet.bench.run(&["ops", "terminate", "backend"]).expect_code(0);
    fleet.until("backend", |app| app["status"]["operationState"]["phase"] == "Failed");
    assert_eq!(fleet.made("Job", "migrate").len(), 1);
    Fleet::end(serving);
}

#[test]
fn a_folder_that_is_away_for_a_moment_costs_nothing() {
    let fleet = Fleet::new();
    let serving = fleet.serve_with(&["--refresh-every", "1s"]);
    fleet.wait(&[]);
    let away = fleet.bench.path().join("away");
    fs::rename(fleet.bench.path().join("fleet"), &away).unwrap();
    let is_noticed = |listed: &Ran| listed.err.contains("what was in it before counts");
    let list = || fleet.bench.run(&["app", "list"]).expect_code(0);
    assert!(std::iter::repeat_with(list).take(3000).any(|listed| is_noticed(&listed)));
    fs::rename(away, fleet.bench.path().join("fleet")).unwrap();
    assert!(std::iter::repeat_with(list).take(3000).any(|listed| !is_noticed(&listed)));
    fleet.wait(&[]);
    assert_eq!(fleet.get("backend")["status"]["history"].as_array().unwrap().len(), 1);
    Fleet::end(serving);
}

/// Killed again and again while everything is on its way, in the order in which things happen to fall.
#[test]
fn however_often_it_is_killed_each_thing_happens_once() {
    let fleet = Fleet::new();
    let marks: [&dyn Fn() -> bool; 4] = [
        &|| !fleet.bench.writes().is_empty(),
        &|| !fleet.made("StatefulSet", "database").is_empty(),
        &|| !fleet.made("Job", "migrate").is_empty(),
        &|| !fleet.made("Deployment", "backend").is_empty(),
    ];
    for is_reached in marks {
        let serving = fleet.serve();
        assert!((0..3000).any(|_| is_reached()));
        serving.signal("KILL");
        serving.finish();
    }
    let serving = fleet.serve();
    fleet.wait(&[]);
    let names = [
        ("Job", "migrate"),
        ("ConfigMap", "database-settings"),
        ("StatefulSet", "database"),
        ("Deployment", "backend"),
        ("Deployment", "frontend"),
    ];
    for (kind, name) in names {
        assert_eq!(fleet.made(kind, name).len(), 1, "{name}");
    }
    for app in ["database", "backend", "frontend"] {
        let operations = fleet.bench.json(&["ops", "list", "--app", app, "-o", "json"]);
        assert_eq!(operations.as_array().unwrap().len(), 1, "{operations}");
        assert_eq!(fleet.get(app)["status"]["history"].as_array().unwrap().len(), 1, "{app}");
    }
    Fleet::end(serving);
}

#[test]
fn a_broken_application_says_what_is_wrong_and_the_others_go_on() {
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
    // Beside manifests, as a chart has it.
    fs::write(fleet.path("repo/backend/values.yaml"), "replicas: 2\n").unwrap();
    fleet.commit();
    let serving = fleet.serve();
    fleet.wait(&["backend", "frontend"]);
    for (name, kind, part) in [
        ("repo", "ComparisonError", "gone"),
        ("path", "ComparisonError", "nowhere"),
        ("revision", "ComparisonError", "none"),
        ("oci", "ComparisonError", "its tags cannot be listed"),
        ("metadata", "ComparisonError", "link-local"),
        ("cluster", "InvalidSpecError", "elsewhere"),
        ("project", "InvalidSpecError", "strict"),
        ("typo", "InvalidSpecError", "broken-typo.yaml"),
        ("helm", "ComparisonError", "is said to be a Helm chart, and has no Chart.yaml"),
        ("nowhere", "InvalidSpecError", "spec.source.path is missing"),
        ("rooted", "InvalidSpecError", "begins with a slash"),
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
    // Mended, it is synced.
    fs::remove_file(fleet.path("repo/database/broken.yaml")).unwrap();
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "database"]).expect_code(0);
    fleet.wait(&["database"]);
    Fleet::end(serving);
}

#[test]
fn what_a_person_asks_for_is_done_and_recorded() {
    let fleet = Fleet::new();
    fleet.replace("database.yaml", "    automated:\n      prune: true\n      selfHeal: true\n", "");
    let serving = fleet.serve();
    let found = fleet.until("database", |app| app["status"]["sync"]["status"] == "OutOfSync");
    assert_eq!(found["status"]["health"]["status"], "Missing");
    assert_eq!(found["status"].get("operationState"), None, "nobody has asked");
    let synced = fleet.bench.run(&["app", "sync", "database"]).expect_code(0);
    assert!(synced.out.contains("Succeeded by tester"), "{}", synced.out);
    fleet.wait(&["database"]);
    let history = fleet.bench.json(&["app", "history", "database", "-o", "json"]);
    assert_eq!(history[0]["initiatedBy"]["username"], "tester");
    let wrong = fleet.bench.run(&["app", "sync", "database", "--revision", "none"]).expect_code(1);
    assert!(wrong.out.contains("no branch, tag or commit \"none\""), "{}", wrong.out);
    fleet.bench.run(&["app", "sync", "nobody"]).expect_code(2);
    Fleet::end(serving);
}

/// As in Argo CD: what is not to be cascaded stays in the cluster.
#[test]
fn an_application_whose_file_is_gone_is_forgotten_and_its_objects_stay() {
    let fleet = Fleet::new();
    let serving = fleet.serve();
    fleet.wait(&["frontend", "backend"]);
    fs::remove_file(fleet.path("frontend.yaml")).unwrap();
    let names = || {
        let list = fleet.bench.json(&["app", "list", "-o", "json"]);
        let items = list["items"].as_array().unwrap().clone();
        items.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let is_gone =
        std::iter::repeat_with(names).take(3000).find(|names| !names.contains(&"frontend".to_owned()));
    assert_eq!(is_gone.unwrap(), ["backend", "database"]);
    Fleet::end(serving);
    let objects = fleet.bench.json(&["sim", "objects", "-o", "json"]);
    let is_there = |name: &str| objects.as_array().unwrap().iter().any(|one| one["metadata"]["name"] == name);
    assert!(is_there("frontend") && is_there("backend"));
}

/// As a checkout of this project has it.
#[test]
fn the_example_is_served_where_its_git_repository_is_missing() {
    let fleet = Fleet::new();
    let (git, made) = (fleet.path("repo/.git"), "made a Git repository of fleet/repo");
    fs::remove_dir_all(&git).unwrap();
    for is_made in [true, false] {
        let serving = fleet.serve();
        fleet.wait(&[]);
        let told = Fleet::end(serving).err;
        assert_eq!(told.contains(made), is_made, "{told}");
    }
    // A folder that is not the example's is left as it is.
    fs::remove_dir_all(&git).unwrap();
    fs::remove_file(fleet.path("repo/frontend/frontend.yaml")).unwrap();
    let serving = fleet.serve();
    assert!(fleet.condition("backend", "ComparisonError").contains("there is no Git repository"));
    Fleet::end(serving);
    assert!(!git.exists());
}

/// It is for objects whose health is no evidence.
#[test]
fn argo_cds_wave_delay_is_honoured() {
    let mut fleet = Fleet::new();
    fleet.bench.set("ARGOCD_SYNC_WAVE_DELAY", "1");
    let wave = |number: u32| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: wave-{number}, annotations: {{argocd.argoproj.io/sync-wave: \"{number}\"}}}}\n"
        )
    };
    fs::write(fleet.path("repo/frontend/waves.yaml"), (1..9).map(wave).collect::<String>()).unwrap();
    fleet.commit();
    let serving = fleet.serve();
    fleet.wait(&["frontend"]);
    let state = &fleet.get("frontend")["status"]["operationState"];
    let at = |which: &str| state[which].as_str().unwrap().parse::<Timestamp>().unwrap().as_seconds();
    assert!(at("finishedAt") - at("startedAt") >= 7, "eight gaps of a second: {state}");
    Fleet::end(serving);
}
