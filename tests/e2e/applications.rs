//! Managed applications with lost, blocked or invalid state.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::fleet::Fleet;

/// Returns the operation IDs of an application, oldest first.
fn operations(fleet: &Fleet, app: &str) -> Vec<String> {
    let list = fleet.bench.json(&["ops", "list", "--app", app, "-o", "json"]);
    list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_lost_or_damaged_status_is_restored_without_another_sync() {
    let fleet = Fleet::new();
    let service = fleet.serve();
    fleet.wait_until_synced(&[]);
    let names = ["backend", "database", "frontend"];
    let before = names.map(|name| fleet.get(name));
    Fleet::stop(service);
    let status = |name: &str| fleet.bench.state().join(format!("applications/argocd_{name}.json"));
    fs::remove_file(status("frontend")).unwrap();
    let whole = fs::read(status("backend")).unwrap();
    fs::write(status("backend"), &whole[..whole.len() / 2]).unwrap();
    fs::copy(status("backend").with_file_name("argocd_database.json"), status("other")).unwrap();
    let service = fleet.serve();
    fleet.wait_until_synced(&[]);
    for (name, before) in names.iter().zip(&before) {
        let now = fleet.get(name);
        assert_eq!(operations(&fleet, name).len(), 1, "{name}");
        for pointer in
            ["/status/history", "/status/operationState/operation/sync/revision", "/status/sync/revision"]
        {
            assert_eq!(now.pointer(pointer), before.pointer(pointer), "{name} {pointer}");
        }
        assert_eq!(
            now["status"]["operationState"]["operation"]["info"],
            before["status"]["operationState"]["operation"]["info"]
        );
        assert_eq!(now["status"]["operationState"]["phase"], "Succeeded", "{name}");
    }
    let told = fleet.condition("backend", "StatusRebuiltWarning");
    assert!(told.contains("damaged") && told.contains("backend.damaged-1"), "{told}");
    assert_eq!(fs::read(status("backend").with_extension("damaged-1")).unwrap(), whole[..whole.len() / 2]);
    assert!(fleet.condition("frontend", "StatusRebuiltWarning").contains("operation log"));
    // The application `other` doesn't have a resource, so its damaged state is only moved aside.
    assert!(status("other").with_extension("damaged-1").exists());
    // The next commit is synced as usual, which resolves the condition.
    fleet.replace("repo/backend/backend.yaml", "backend:1.0", "backend:2.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let synced = fleet.wait_until("backend", |app| {
        app["status"]["history"].as_array().is_some_and(|history| history.len() == 2)
    });
    assert_eq!(synced["status"].get("conditions"), None);
    let told = Fleet::stop(service).err;
    for part in
        ["status rebuilt", "operation started", "operation ended", "sync status changed", "condition cleared"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
}

/// Blocks writes of the backend's state until the folder is removed.
fn block_state_writes(fleet: &Fleet) -> PathBuf {
    let folder = fleet.bench.state().join("applications/argocd_backend.new");
    fs::create_dir(&folder).unwrap();
    folder
}

#[test]
fn without_a_writable_status_no_operation_starts() {
    let fleet = Fleet::new();
    fleet.set_migration_duration("100ms");
    let service = fleet.serve();
    fleet.wait_until_synced(&[]);
    let folder = block_state_writes(&fleet);
    fleet.replace("repo/backend/backend.yaml", "backend:1.0", "backend:2.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let condition = fleet.condition("backend", "StatusWriteError");
    for part in ["cannot store the application's status", "argocd_backend", "retrying every 5 s"] {
        assert!(condition.contains(part), "{part}: {condition}");
    }
    fleet.wait_until("backend", |app| app["operation"]["sync"].is_object());
    assert!(fleet.condition("backend", "StatusWriteError").contains("starts when the status is stored"));
    assert!(fleet.bench.run(&["app", "get", "backend"]).expect_code(0).out.contains("StatusWriteError"));
    assert_eq!((operations(&fleet, "backend").len(), fleet.creations("Job", "migrate").len()), (1, 1));
    // Other applications don't report the problem, and it disappears once it is resolved.
    assert!(fleet.get("frontend")["status"].get("conditions").is_none());
    fs::remove_dir(folder).unwrap();
    let synced = fleet.wait_until("backend", |app| {
        app["status"]["history"].as_array().is_some_and(|history| history.len() == 2)
    });
    assert!(synced["status"].get("conditions").is_none(), "{synced}");
    let stored_text =
        fs::read_to_string(fleet.bench.state().join("applications/argocd_backend.json")).unwrap();
    assert!(!stored_text.contains("StatusWriteError"), "{stored_text}");
    Fleet::stop(service);
}

/// An operation whose id is persisted continues after its service was killed, even if later writes fail.
#[test]
fn a_recorded_operation_continues_with_an_unwritable_status() {
    let fleet = Fleet::new();
    fleet.set_migration_duration("3s");
    let service = fleet.serve();
    fleet.wait_until("backend", |_| !fleet.creations("Job", "migrate").is_empty());
    service.signal("KILL");
    service.finish();
    let folder = block_state_writes(&fleet);
    let service = fleet.serve();
    let ended = fleet.wait_until("backend", |app| app["status"]["operationState"]["phase"] == "Succeeded");
    assert!(fleet.condition("backend", "StatusWriteError").contains("no operation starts"), "{ended}");
    assert_eq!((operations(&fleet, "backend").len(), fleet.creations("Job", "migrate").len()), (1, 1));
    fs::remove_dir(folder).unwrap();
    fleet.wait_until("backend", |app| app["status"].get("conditions").is_none());
    Fleet::stop(service);
}

#[test]
fn health_is_assessed_while_manifests_are_unreadable() {
    let fleet = Fleet::new();
    let service = fleet.serve();
    fleet.wait_until_synced(&["frontend"]);
    fleet.replace("frontend.yaml", "targetRevision: main", "targetRevision: gone");
    fleet.condition("frontend", "ComparisonError");
    fleet.bench.run(&["sim", "delete", "apps:Deployment:fleet/frontend"]).expect_code(0);
    let deployment = |app: &Value| {
        let all = app["status"]["resources"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["kind"] == "Deployment").unwrap_or_default()
    };
    let found = fleet.wait_until("frontend", |app| deployment(app)["health"]["status"] == "Missing");
    assert_eq!(
        (&found["status"]["sync"]["status"], &deployment(&found)["status"]),
        (&"Unknown".into(), &"Unknown".into())
    );
    // The same is true from the start of the service, because it watches earlier applications.
    Fleet::stop(service);
    let service = fleet.serve();
    assert_eq!(deployment(&fleet.get("frontend"))["health"]["status"], "Missing");
    fleet.bench.run(&["sim", "delete", ":Service:fleet/frontend"]).expect_code(0);
    fleet.wait_until("frontend", |app| app["status"]["health"]["status"] == "Missing");
    Fleet::stop(service);
}

#[test]
fn commands_wait_for_the_service_and_report_when_it_is_stopped() {
    let fleet = Fleet::new();
    // The service isn't running yet, so the command keeps waiting.
    let mut waiting = fleet.bench.start(&["app", "wait", "--timeout", "10m"]);
    waiting.wait_for_line("`tidegate serve` is not running in this state directory yet");
    let service = fleet.serve();
    let waited = waiting.finish().expect_code(0);
    assert!(waited.out.contains("backend"), "{waited:?}");
    service.signal("STOP");
    let listed = fleet.bench.run(&["app", "list"]).expect_code(0);
    assert!(listed.err.contains("is not responding") && listed.out.contains("backend"), "{listed:?}");
    let refused = fleet.bench.run(&["app", "sync", "backend"]);
    assert_ne!(refused.code(), 0);
    assert!(refused.err.contains("is not responding"), "{refused:?}");
    let refused = fleet.bench.run(&["app", "refresh", "backend"]);
    assert_ne!(refused.code(), 0);
    assert!(refused.err.contains("is not responding"), "{refused:?}");
    service.signal("CONT");
    Fleet::stop(service);
}

#[test]
fn a_restored_application_finds_its_operation() {
    let fleet = Fleet::new();
    fleet.set_migration_duration("20s");
    let service = fleet.serve();
    fleet.wait_until("backend", |app| {
        app["status"]["operationState"]["phase"] == "Running" && !fleet.creations("Job", "migrate").is_empty()
    });
    let file = fs::read(fleet.path("backend.yaml")).unwrap();
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    let is_gone = || fleet.bench.run(&["app", "get", "backend"]).code() == 2;
    assert!((0..3000).any(|_| is_gone()));
    fs::write(fleet.path("backend.yaml"), file).unwrap();
    assert!((0..3000).any(|_| !is_gone()));
    let found = fleet.get("backend");
    assert_eq!(found["status"]["operationState"]["phase"], "Running");
    let own = operations(&fleet, "backend");
    assert_eq!(found["operation"]["info"][0]["value"].as_str(), own.first().map(String::as_str));
    fleet.bench.run(&["app", "wait", "backend", "--operation", "--timeout", "10m"]).expect_code(0);
    assert_eq!(fleet.get("backend")["status"]["operationState"]["phase"], "Succeeded");
    assert_eq!((operations(&fleet, "backend"), fleet.creations("Job", "migrate").len()), (own, 1));
    Fleet::stop(service);
}

#[test]
fn an_invalid_specification_is_a_condition_of_its_application() {
    let fleet = Fleet::new();
    for (name, from, to, _) in WRONG {
        let text = fs::read_to_string(fleet.path("frontend.yaml")).unwrap();
        let text = text.replace("name: frontend", &format!("name: {name}"));
        assert!(text.contains(from), "{name}");
        fs::write(fleet.path(&format!("{name}.yaml")), text.replacen(from, to, 1)).unwrap();
    }
    let service = fleet.serve();
    fleet.wait_until_synced(&["frontend"]);
    for (name, _, _, part) in WRONG {
        let message = fleet.condition(name, "InvalidSpecError");
        assert!(message.contains(part), "{name}: {message}");
        assert_eq!(operations(&fleet, name), Vec::<String>::new(), "{name}");
    }
    // Each field is one line of the output, regardless of its content.
    let got = fleet.bench.run(&["app", "get", "path"]).expect_code(0).out;
    assert!(got.lines().filter(|line| line.starts_with("Health Status:")).count() == 1, "{got}");
    assert!(!fleet.bench.run(&["app", "list"]).expect_code(0).out.contains('\u{1b}'));
    Fleet::stop(service);
}

/// Returns the example with one application that is synced manually.
fn manual_fleet(name: &str) -> Fleet {
    let fleet = Fleet::new();
    let policy = "    automated:\n      prune: true\n      selfHeal: true\n";
    fleet.replace(&format!("{name}.yaml"), policy, "");
    fleet
}

#[test]
fn an_operation_is_terminated_at_once_whatever_it_waits_for() {
    let fleet = Fleet::new();
    fleet.set_migration_duration("10m");
    let service = fleet.serve();
    fleet.wait_until("backend", |app| {
        app["status"]["operationState"]["phase"] == "Running" && !fleet.creations("Job", "migrate").is_empty()
    });
    fleet.bench.run(&["app", "terminate", "backend"]).expect_code(0);
    let ended = fleet.wait_until("backend", |app| app["status"]["operationState"]["phase"] == "Failed");
    assert!(ended["status"]["operationState"]["message"].as_str().unwrap().contains("terminated"), "{ended}");
    let refused = fleet.bench.run(&["app", "terminate", "backend"]).expect_code(4);
    assert!(refused.err.contains("No operation is in progress"), "{}", refused.err);
    // A wrong name is bad input for every command.
    for command in [
        &["app", "terminate", "nobody"][..],
        &["app", "refresh", "nobody"],
        &["app", "sync", "nobody"],
        &["app", "get", "nobody"],
        &["app", "rollback", "nobody"],
        &["app", "delete", "nobody", "--yes"],
    ] {
        let unknown = fleet.bench.run(command).expect_code(2);
        assert!(unknown.err.contains("application nobody not found"), "{command:?}: {}", unknown.err);
    }
    Fleet::stop(service);
}

#[test]
fn the_changes_of_a_sync_are_shown() {
    let fleet = manual_fleet("database");
    let service = fleet.serve();
    let differs = fleet.bench.run(&["app", "diff", "database"]).expect_code(1);
    assert!(differs.out.contains("+++ wanted/apps.v1.StatefulSet.fleet.database"), "{}", differs.out);
    fleet.bench.run(&["app", "sync", "database"]).expect_code(0);
    assert_eq!(fleet.bench.run(&["app", "diff", "database"]).expect_code(0).out, "");
    fleet.bench.run(&["app", "diff", "nobody"]).expect_code(2);
    let wrong = fleet.bench.run(&["app", "diff", "database", "--revision", "none"]).expect_code(2);
    assert!(wrong.err.contains("no branch, tag or commit"), "{}", wrong.err);
    assert!(wrong.err.contains("and no tag satisfies it as a version constraint"), "{}", wrong.err);
    // The error contains the missing names and the existing names.
    let refused =
        fleet.bench.run(&["app", "sync", "database", "--resource", "apps:StatefulSet:fleet/databse"]);
    let refused = refused.expect_code(1);
    assert!(refused.out.contains("apps:StatefulSet:fleet/databse; it has "), "{}", refused.out);
    fleet
        .bench
        .run(&["app", "sync", "database", "--resource", "apps:StatefulSet:fleet/database"])
        .expect_code(0);
    Fleet::stop(service);
}

#[test]
fn a_rollback_restores_an_earlier_sync() {
    let fleet = manual_fleet("frontend");
    let service = fleet.serve();
    fleet.bench.run(&["app", "sync", "frontend"]).expect_code(0);
    let none = fleet.bench.run(&["app", "rollback", "frontend"]).expect_code(4);
    assert!(none.err.contains("no earlier sync"), "{}", none.err);
    let first = fleet.get("frontend")["status"]["sync"]["revision"].clone();
    fleet.replace("repo/frontend/frontend.yaml", "frontend:1.0", "frontend:2.0");
    fleet.commit();
    fleet.bench.run(&["app", "sync", "frontend"]).expect_code(0);
    fleet.bench.run(&["app", "rollback", "frontend", "7"]).expect_code(4);
    let why = "it greets\nnobody";
    fleet.bench.run(&["app", "rollback", "frontend", "--reason", why]).expect_code(0);
    // The requester and the reason are recorded in the log and, as in Argo CD, in the Application.
    let listed = fleet.bench.json(&["ops", "list", "--app", "frontend", "-o", "json"]);
    assert_eq!(listed.as_array().unwrap().last().unwrap()["reason"], "it greets nobody");
    assert_eq!(listed[0]["reason"], Value::Null, "there is no reason");
    let found = fleet.get("frontend");
    let info = &found["status"]["operationState"]["operation"]["info"];
    assert!(
        info.as_array().unwrap().contains(&json!({"name": "Reason", "value": "it greets nobody"})),
        "{info}"
    );
    let history = found["status"]["history"].as_array().unwrap().clone();
    assert_eq!((history.len(), &history[2]["revision"]), (3, &first));
    assert_eq!(found["status"]["sync"]["status"], "OutOfSync");
    assert_eq!(
        found["status"]["summary"]["images"][0], "example.com/fleet/frontend:1.0",
        "of the existing objects"
    );
    let refused = fleet.bench.run(&["app", "rollback", "backend"]).expect_code(4);
    assert!(refused.err.contains("auto-sync"), "{}", refused.err);
    // A rollback that would be reverted immediately is rejected, except as a dry run or to the current target
    // revision.
    let first = first.as_str().unwrap();
    let refused = fleet.bench.run(&["app", "sync", "backend", "--revision", first]).expect_code(4);
    let text = format!("Cannot sync to {first}: auto-sync currently set to main");
    assert!(refused.err.contains(&text), "{}", refused.err);
    for options in [&["--revision", first, "--dry-run"][..], &["--revision", "main"]] {
        fleet.bench.run(&[&["app", "sync", "backend"], options].concat()).expect_code(0);
    }
    Fleet::stop(service);
}

/// Even a very short wait succeeds.
#[test]
fn waiting_for_a_state_already_reached_succeeds_at_once() {
    let fleet = Fleet::new();
    let service = fleet.serve();
    fleet.wait_until_synced(&[]);
    let waited = fleet.bench.run(&["app", "wait", "backend", "--timeout", "0s"]).expect_code(0);
    assert!(waited.out.contains("backend"), "{}", waited.out);
    Fleet::stop(service);
}

#[test]
fn deletion_runs_in_reverse_and_shows_its_waves() {
    let fleet = manual_fleet("database");
    let service = fleet.serve();
    fleet.bench.run(&["app", "sync", "database"]).expect_code(0);
    let waves = |app: &Value, field: &str| {
        let all = app["status"]["resources"].as_array().unwrap().clone();
        all.iter().map(|one| one[field].as_i64().unwrap_or_default()).collect::<Vec<_>>()
    };
    let before = waves(&fleet.get("database"), "syncWave");
    for entry in fs::read_dir(fleet.path("repo/database")).unwrap() {
        fs::write(entry.unwrap().path(), "# nothing any more\n").unwrap();
    }
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "database"]).expect_code(0);
    let found = fleet.wait_until("database", |app| {
        let all = app["status"]["resources"].as_array().cloned().unwrap_or_default();
        !all.is_empty() && all.iter().all(|one| one["requiresPruning"] == true)
    });
    assert_eq!(waves(&found, "syncWave"), before, "each has a separate one");
    let mut pruned: Vec<(i64, i64)> = before.into_iter().zip(waves(&found, "pruneWave")).collect();
    pruned.sort_unstable();
    assert!(pruned.is_sorted_by(|a, b| a.1 >= b.1) && pruned[0].1 > pruned[pruned.len() - 1].1, "{pruned:?}");
    let got = fleet.bench.run(&["app", "get", "database"]).expect_code(0).out;
    assert!(got.contains("(pruned in "), "{got}");
    Fleet::stop(service);
}

const WRONG: [(&str, &str, &str, &str); 7] = [
    ("option", "- CreateNamespace=true", "- CreateNamespace=true\n      - PruneLasst=true", "use one of"),
    (
        "backoff",
        "syncPolicy:",
        "syncPolicy:\n    retry: {limit: 2, backoff: {duration: soon}}",
        "invalid retry.backoff.duration \"soon\"",
    ),
    (
        "both",
        "    name: in-cluster",
        "    name: in-cluster\n    server: https://kubernetes.default.svc",
        "both a name and a server",
    ),
    ("factor", "syncPolicy:", "syncPolicy:\n    retry: {limit: 2, backoff: {factor: 0}}", "factor 0"),
    (
        "jq",
        "  syncPolicy:",
        "  ignoreDifferences: [{kind: A, jqPathExpressions: ['.a[']}]\n  syncPolicy:",
        "jq expression",
    ),
    (
        "pointer",
        "  syncPolicy:",
        "  ignoreDifferences: [{kind: A, jsonPointers: ['a']}]\n  syncPolicy:",
        "JSON pointer",
    ),
    ("path", "path: frontend", "path: \"frontend\\nHealth Status:  Healthy\\e[2J\"", "control character"),
];

#[test]
fn a_password_in_an_address_appears_nowhere() {
    let fleet = Fleet::new();
    fleet.replace("frontend.yaml", "./repo", "https://me:s3cret@127.0.0.1:1/a.git");
    fleet.replace("backend.yaml", "./repo", "ssh://me:s3cret@127.0.0.1:1/a.git");
    let service = fleet.serve();
    fleet.condition("frontend", "ComparisonError");
    fleet.condition("backend", "ComparisonError");
    for args in [
        &["app", "list"][..],
        &["app", "list", "-o", "json"],
        &["app", "get", "frontend"],
        &["app", "get", "frontend", "-o", "yaml"],
        &["app", "get", "backend", "-o", "json"],
        &["app", "sync", "frontend"],
    ] {
        let ran = fleet.bench.run(args);
        assert!(!format!("{}{}", ran.out, ran.err).contains("s3cret"), "{args:?}: {ran:?}");
    }
    assert!(fleet.bench.run(&["app", "get", "backend"]).out.contains("me:******@127.0.0.1"));
    let output = Fleet::stop(service).err;
    assert!(output.contains("frontend") && !output.contains("s3cret"), "{output}");
    for entry in fs::read_dir(fleet.bench.state().join("applications")).unwrap() {
        let path = entry.unwrap().path();
        assert!(!fs::read_to_string(&path).unwrap().contains("s3cret"), "{}", path.display());
    }
    let stood = fleet.bench.run(&["app", "get", "frontend", "-o", "json"]).expect_code(0);
    assert!(!stood.out.contains("s3cret"));
}

#[test]
fn the_reasons_are_named() {
    let fleet = Fleet::new();
    fleet.replace(
        "repo/backend/migrate.yaml",
        "sim.tidegate.dev/ready-after: 3s",
        "sim.tidegate.dev/outcome: fail\n    sim.tidegate.dev/logs: no such table",
    );
    fleet.replace("repo/frontend/frontend.yaml", "ready-after: 500ms", "outcome: fail");
    fleet.replace("backend.yaml", "syncPolicy:", "syncPolicy:\n    retry: {limit: 0}");
    fleet.commit();
    let service = fleet.serve();
    fleet.wait_until("backend", |app| app["status"]["operationState"]["phase"] == "Failed");
    let got = fleet.bench.run(&["app", "get", "backend"]).expect_code(0).out;
    let line =
        got.lines().find(|line| line.starts_with("Job fleet/migrate")).unwrap_or_else(|| panic!("{got}"));
    assert!(line.contains("PreSync hook Failed"), "{got}");
    fleet.wait_until("frontend", |app| app["status"]["health"]["status"] == "Degraded");
    let got = fleet.bench.run(&["app", "get", "frontend"]).expect_code(0).out;
    let line = got
        .lines()
        .find(|line| line.starts_with("Deployment fleet/frontend"))
        .unwrap_or_else(|| panic!("{got}"));
    assert!(
        line.contains("Degraded") && line.len() > "Deployment fleet/frontend  Degraded".len() + 3,
        "{got}"
    );
    let list = fleet.bench.run(&["app", "list"]).expect_code(0).out;
    assert!(list.contains("Degraded (Deployment fleet/frontend: "), "{list}");
    Fleet::stop(service);
}

/// Another application has the same object. With the option to fail in this case, the comparison only shows a
/// warning. The sync therefore starts, and reports the reason for its failure.
#[test]
fn a_sync_of_a_shared_object_fails_if_requested() {
    let fleet = Fleet::new();
    let frontend = fs::read_to_string(fleet.path("frontend.yaml")).unwrap();
    let options = "- CreateNamespace=true\n      - FailOnSharedResource=true";
    let twin = frontend.replace("name: frontend", "name: twin").replace("- CreateNamespace=true", options);
    let service = fleet.serve();
    fleet.wait_until_synced(&[]);
    let write = |name: &str, content: String| {
        fs::write(fleet.path(&format!("{name}.yaml")), content).unwrap();
        assert!((0..3000).any(|_| fleet.bench.run(&["app", "get", name]).code() == 0), "{name}");
    };
    write("twin", twin);
    let why = "Shared resource found: Deployment/frontend is part of applications twin and frontend";
    let fails = |app: &Value| app["status"]["operationState"]["message"].to_string().contains(why);
    let twin = fleet.wait_until("twin", fails);
    assert!(fleet.condition("twin", "SharedResourceWarning").contains("twin and frontend"));
    assert_eq!(twin["status"]["sync"]["status"], "OutOfSync", "{twin}");
    // The command accepts the name with or without the namespace.
    for name in ["frontend", "argocd/frontend"] {
        assert_eq!(operations(&fleet, name).len(), 1, "{name}");
        fleet.bench.run(&["explain", name]).expect_code(0);
    }
    // An unknown revision is not reported.
    let lost = frontend.replace("name: frontend", "name: lost").replace("./repo", "./nowhere");
    write("lost", lost);
    fleet.wait_until("lost", |app| app["status"]["conditions"].to_string().contains("nowhere"));
    let shown = fleet.bench.run(&["app", "get", "lost"]).expect_code(0).out;
    assert!(shown.contains("Unknown with main\n"), "{shown}");
    Fleet::stop(service);
}

#[test]
fn the_list_contains_only_the_requested_applications() {
    let fleet = Fleet::new();
    fleet.replace("backend.yaml", "fleet: demo", "fleet: demo\n    tier: back");
    fleet.replace("frontend.yaml", "repoURL: ./repo", "repoURL: https://Example.com:443/org/shop.git");
    let service = fleet.serve();
    let listed = |options: &[&str]| {
        let list = fleet.bench.json(&[&["app", "list", "-o", "json"], options].concat());
        let names = list["items"].as_array().unwrap().iter().map(|one| one["metadata"]["name"].clone());
        names
            .map(|name| name.as_str().unwrap().to_owned())
            .filter(|name| !name.starts_with("shop"))
            .collect::<Vec<_>>()
    };
    for (options, names) in [
        (&[][..], &["backend", "database", "frontend"][..]),
        (&["--selector", "tier=back"], &["backend"]),
        (&["-l", "fleet,!tier"], &["database", "frontend"]),
        (&["--project", "default", "-p", "other"], &["backend", "database", "frontend"]),
        (&["-p", "other"], &[]),
        (&["--repo", "./repo", "-l", "tier!=back"], &["database"]),
        (&["-r", "https://example.com/org/shop"], &["frontend"]),
    ] {
        assert_eq!(listed(options), names, "{options:?}");
    }
    let none = fleet.bench.run(&["app", "list", "-p", "other"]).expect_code(0);
    assert!(none.out.is_empty() && none.err.contains("matches the filters"), "{none:?}");
    let refused = fleet.bench.run(&["app", "list", "-l", "tier in (back)"]).expect_code(2);
    assert!(refused.err.contains("use KEY, !KEY, KEY=VALUE or KEY!=VALUE"), "{}", refused.err);
    Fleet::stop(service);
}
