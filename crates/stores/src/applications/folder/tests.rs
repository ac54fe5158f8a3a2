//! Events from a folder of files.

use std::time::Duration;

use super::*;

const WEB: &str = "{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: web}, spec: {project: default, destination: {name: in-cluster}, source: {repoURL: ./repo}}}\n";

/// Returns a folder, a poller for it, and a function that writes files. Tests change the length of files,
/// because a coarse clock may hide changes.
fn test_folder() -> (tempfile::TempDir, FolderPoller, impl Fn(&str, &str)) {
    let folder = tempfile::tempdir().unwrap();
    let (path, state_folder) = (folder.path().to_path_buf(), folder.path().join("kept"));
    let generated = GeneratedApplications::new(Arc::new(SystemDisk), path.join("generated"));
    let watcher =
        without_grace_period(FolderPoller::new(Arc::new(SystemDisk), &path, &state_folder, generated));
    let write = move |name: &str, content: &str| fs::write(path.join(name), content).unwrap();
    (folder, watcher, write)
}

/// Makes the next poll treat every missing file as deleted.
fn without_grace_period(mut watcher: FolderPoller) -> FolderPoller {
    watcher.files = std::mem::take(&mut watcher.files).without_grace_period();
    watcher
}

/// Polls and returns a short text for each event.
fn poll_event_names(watcher: &mut FolderPoller) -> Vec<String> {
    let describe = |event| match event {
        StoreEvent::Applied(stored) => {
            let wrong = stored.problem.map(|problem| format!(" ({problem})")).unwrap_or_default();
            let deleting = if stored.application.is_deleting() { " deleting" } else { "" };
            format!("applied {}{deleting}{wrong}", AppKey::of(&stored.application))
        }
        StoreEvent::Overwritten { key, .. } => format!("overwritten {key}"),
        StoreEvent::Gone(key) => format!("gone {key}"),
        StoreEvent::Projects(_) => "projects".to_owned(),
        StoreEvent::Problems(problems) => format!("problems {problems:?}"),
        StoreEvent::Settled => "settled".to_owned(),
        StoreEvent::ReadDone(number) => format!("looked {number}"),
        StoreEvent::OtherReplica(_) | StoreEvent::OwnedShards(_) => panic!("a folder has one owner"),
    };
    watcher.poll_events().into_iter().map(describe).filter(|name| name != "projects").collect()
}

#[test]
fn the_requester_of_a_deletion_is_known_after_the_file_is_gone() {
    let application: Application = serde_json::from_value(serde_json::json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "web", "namespace": "argocd", "finalizers": [RESOURCES_FINALIZER]},
        "spec": {"project": "default", "destination": {"name": "in-cluster"}, "source": {"repoURL": "./repo"}},
    }))
    .unwrap();
    let before = StoredApplication { application, problem: None, lost_state: None };
    let mut persisted = before.application.clone();
    persisted.metadata.deletion_timestamp = Some(now());
    persisted.metadata.annotations.insert(DELETION_REQUESTED_BY.to_owned(), "ann".to_owned());
    let left = deleted_without_file(&before, Some(persisted.clone())).unwrap().application;
    assert_eq!(left.annotation(DELETION_REQUESTED_BY), Some("ann"));
    assert_eq!(left.metadata.deletion_timestamp, persisted.metadata.deletion_timestamp);
    let without_requester = deleted_without_file(&before, None).unwrap().application;
    assert_eq!(without_requester.annotation(DELETION_REQUESTED_BY), None);
}

#[test]
fn a_change_is_emitted_once() {
    let (_folder, mut watcher, write) = test_folder();
    write("web.yaml", WEB);
    write("notes.txt", "nothing of ours");
    assert_eq!(poll_event_names(&mut watcher), ["applied web", "problems []", "settled"]);
    assert_eq!(poll_event_names(&mut watcher), Vec::<String>::new());
    write("web.yaml", &WEB.replace("./repo", "./other"));
    assert_eq!(poll_event_names(&mut watcher), ["applied web"]);
    let other = WEB.replace("name: web", "name: other");
    write("web.yaml", &format!("{WEB}---\n{other}"));
    assert_eq!(poll_event_names(&mut watcher), ["applied other", "applied web"]);
    write("web.yaml", &other);
    // The rest of the file may still be missing.
    assert_eq!(poll_event_names(&mut watcher), Vec::<String>::new());
    assert_eq!(poll_event_names(&mut watcher), ["gone web"]);
}

/// A listing may miss a file during a rename, and a file is incomplete while it is rewritten.
#[test]
fn a_document_that_is_missing_for_a_moment_is_not_gone() {
    let (folder, mut watcher, write) = test_folder();
    let other = WEB.replace("name: web", "name: other");
    write("web.yaml", &format!("{WEB}---\n{other}"));
    poll_event_names(&mut watcher);
    let (path, away) = (folder.path().join("web.yaml"), folder.path().join("away"));
    fs::rename(&path, &away).unwrap();
    assert_eq!(poll_event_names(&mut watcher), Vec::<String>::new());
    fs::rename(&away, &path).unwrap();
    assert_eq!(poll_event_names(&mut watcher), Vec::<String>::new());
    fs::rename(&path, folder.path().join("all.yaml")).unwrap();
    assert_eq!(
        [poll_event_names(&mut watcher), poll_event_names(&mut watcher)],
        [Vec::<String>::new(), Vec::new()]
    );
    for part in [WEB.to_owned(), format!("{WEB}---\n# The other"), format!("{WEB}---\n{WEB}# twice")] {
        write("all.yaml", &part);
        assert!(poll_event_names(&mut watcher).iter().all(|one| !one.starts_with("gone")), "{part}");
        write("all.yaml", &format!("{WEB}---\n{other}# {}", part.len()));
        assert!(poll_event_names(&mut watcher).iter().all(|one| !one.starts_with("gone")), "{part}");
    }
    poll_event_names(&mut watcher);
    fs::remove_file(folder.path().join("all.yaml")).unwrap();
    assert_eq!(poll_event_names(&mut watcher), Vec::<String>::new());
    assert_eq!(poll_event_names(&mut watcher), ["gone other", "gone web"]);
    assert_eq!(poll_event_names(&mut watcher), Vec::<String>::new());
}

/// While a document moves between files, at least one of them contains it.
#[test]
fn a_document_that_moves_to_another_file_stays() {
    let (_folder, mut watcher, write) = test_folder();
    let other = WEB.replace("name: web", "name: other");
    write("a.yaml", &format!("{WEB}---\n{other}"));
    poll_event_names(&mut watcher);
    write("a.yaml", WEB);
    write("b.yaml", &other);
    for _ in 0..3 {
        assert_eq!(poll_event_names(&mut watcher), Vec::<String>::new());
    }
    // The file is rewritten, with its Application last.
    write("b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n");
    assert!(poll_event_names(&mut watcher).iter().all(|one| !one.starts_with("gone")));
    write("b.yaml", &format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\n---\n{other}"));
    assert!(poll_event_names(&mut watcher).iter().all(|one| !one.starts_with("gone")));
}

/// Only a missing document needs confirmation by a second poll. Changed documents take effect immediately,
/// even if the file is rewritten repeatedly.
#[test]
fn other_changes_of_a_rewritten_file_take_effect_immediately() {
    let (_folder, mut watcher, write) = test_folder();
    let named = |name: &str| WEB.replace("name: web", &format!("name: {name}"));
    write("all.yaml", &format!("{WEB}---\n{}", named("other")));
    poll_event_names(&mut watcher);
    let changed = WEB.replace("./repo", "./elsewhere");
    write("all.yaml", &format!("{changed}---\n{}", named("third")));
    assert_eq!(poll_event_names(&mut watcher), ["applied third", "applied web"]);
    write("all.yaml", &format!("{changed}---\n{}# Still at it.\n", named("third")));
    assert_eq!(poll_event_names(&mut watcher), Vec::<String>::new());
    assert_eq!(poll_event_names(&mut watcher), ["gone other"]);
}

/// Even at startup, documents don't count as deleted if the folder appears late or is still being written.
#[test]
fn a_document_missing_at_the_start_is_gone_once_the_folder_is_undisturbed() {
    let (folder, mut watcher, write) = test_folder();
    write("web.yaml", WEB);
    poll_event_names(&mut watcher);
    for name in ["web", "other"] {
        let mut known = watcher.emitted.values().next().unwrap().application.clone();
        known.metadata.name = name.to_owned();
        state_files::write(&SystemDisk, &watcher.state_folder, &known).unwrap();
    }
    let mut again = without_grace_period(FolderPoller::new(
        Arc::new(SystemDisk),
        folder.path(),
        &watcher.state_folder,
        Arc::clone(&watcher.generated),
    ));
    let is_gone = |events: Vec<String>| events.iter().any(|one| one.starts_with("gone"));
    write("web.yaml", "kind: [");
    assert!(!is_gone(poll_event_names(&mut again)) && !is_gone(poll_event_names(&mut again)));
    for text in [WEB.to_owned(), format!("{WEB}# Still at it.\n")] {
        write("web.yaml", &text);
        assert!(!is_gone(poll_event_names(&mut again)), "{text}");
    }
    assert_eq!(poll_event_names(&mut again), ["gone other"]);
}

/// An unmounted volume looks like an empty folder. After mounting, its files may appear one by one.
#[test]
fn nothing_is_gone_from_a_folder_without_files_at_the_start() {
    let (folder, mut watcher, write) = test_folder();
    write("web.yaml", WEB);
    poll_event_names(&mut watcher);
    let known = watcher.emitted.values().next().unwrap().application.clone();
    for name in ["web", "other", "going"] {
        let mut known = known.clone();
        known.metadata.name = name.to_owned();
        known.metadata.finalizers = vec![deletion::RESOURCES_FINALIZER.to_owned()];
        known.metadata.deletion_timestamp = (name == "going").then(now);
        state_files::write(&SystemDisk, &watcher.state_folder, &known).unwrap();
    }
    fs::remove_file(folder.path().join("web.yaml")).unwrap();
    let (state_folder, generated) = (watcher.state_folder.clone(), Arc::clone(&watcher.generated));
    let mut again = without_grace_period(FolderPoller::new(
        Arc::new(SystemDisk),
        folder.path(),
        &state_folder,
        generated,
    ));
    let first = poll_event_names(&mut again);
    let [going, other, web, problems, _] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!(going, "applied going deleting", "its deletion continues");
    for (left, name) in [(other, "other"), (web, "web")] {
        assert!(
            left.starts_with(&format!(
                "applied {name} (the Application is not in any file, so its last valid version remains in effect"
            )),
            "{left}"
        );
    }
    assert!(problems.contains("the folder contains no manifests"), "{problems}");
    for _ in 0..3 {
        assert_eq!(poll_event_names(&mut again), Vec::<String>::new());
    }
    assert!(again.projects.as_ref().unwrap().pending_reason.is_some(), "the permissions are unknown as well");
    write("web.yaml", WEB);
    let (second, third) = (poll_event_names(&mut again), poll_event_names(&mut again));
    assert!(again.projects.as_ref().unwrap().pending_reason.is_none());
    assert!(second.contains(&"applied web".to_owned()), "{second:?}");
    assert!(second.iter().all(|one| !one.contains("deleting")), "{second:?}");
    assert_eq!(third, ["applied other deleting"], "other documents may follow");
}

/// Unmounting a volume leaves an empty mount point.
#[test]
fn an_empty_folder_that_replaces_another_removes_nothing() {
    let (folder, mut watcher, write) = test_folder();
    let place = folder.path().join("mounted");
    fs::create_dir(&place).unwrap();
    watcher.files = PolledFolder::new(&place).without_grace_period();
    for name in ["web", "other"] {
        write(&format!("mounted/{name}.yaml"), &WEB.replace("name: web", &format!("name: {name}")));
    }
    assert_eq!(poll_event_names(&mut watcher), ["applied other", "applied web", "problems []", "settled"]);
    let away = folder.path().join("away");
    fs::rename(&place, &away).unwrap();
    fs::create_dir(&place).unwrap();
    for _ in 0..3 {
        let events = poll_event_names(&mut watcher);
        assert!(!events.iter().any(|one| one.starts_with("gone")), "{events:?}");
    }
    assert!(watcher.problems[0].contains("the folder was replaced"), "{:?}", watcher.problems);
    fs::remove_dir(&place).unwrap();
    fs::rename(&away, &place).unwrap();
    assert_eq!(poll_event_names(&mut watcher), ["problems []"]);
    // Removing all files from the same folder counts as intentional.
    fs::remove_file(place.join("web.yaml")).unwrap();
    fs::remove_file(place.join("other.yaml")).unwrap();
    poll_event_names(&mut watcher);
    assert_eq!(poll_event_names(&mut watcher), ["gone other", "gone web"]);
}

/// If files appear slowly in a previously empty folder, the store waits for the rest.
#[tokio::test(start_paused = true)]
async fn files_that_appear_slowly_are_awaited() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = PolledFolder::new(folder.path());
    let none = BTreeMap::new();
    files.poll_files(&none);
    for number in 0..20 {
        fs::write(folder.path().join(format!("{number}.yaml")), WEB).unwrap();
        files.poll_files(&none);
        assert!(!files.is_initial_confirmed(), "{number}");
        tokio::time::sleep(Duration::from_secs(15)).await;
    }
    files.poll_files(&none);
    tokio::time::sleep(Duration::from_secs(31)).await;
    files.poll_files(&none);
    assert!(files.is_initial_confirmed());
}

/// An inaccessible file may still contain the Application.
#[test]
fn an_inaccessible_file_is_not_gone() {
    let (folder, mut watcher, write) = test_folder();
    write("web.yaml", WEB);
    poll_event_names(&mut watcher);
    let path = folder.path().join("web.yaml");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("web.yaml", &path).unwrap();
    let events: Vec<String> = (0..4).flat_map(|_| poll_event_names(&mut watcher)).collect();
    assert!(events.len() == 1 && events[0].contains("web.yaml: "), "{events:?}");
}

/// If a command removes a file, the Application is gone without a second poll. If the file comes back, the
/// deletion is canceled.
#[test]
fn a_file_that_a_command_removes_is_gone_immediately() {
    let (folder, mut watcher, write) = test_folder();
    write("web.yaml", WEB);
    poll_event_names(&mut watcher);
    let path = folder.path().join("web.yaml");
    let removed = |watcher: &FolderPoller| {
        let key = watcher.emitted.keys().next().unwrap().clone();
        watcher.removed.add(path.clone(), key);
    };
    removed(&watcher);
    assert_eq!(poll_event_names(&mut watcher), ["applied web"]);
    fs::remove_file(&path).unwrap();
    removed(&watcher);
    assert_eq!(poll_event_names(&mut watcher), ["gone web"]);
}

/// Deleting an Application with an unreadable document uses its last known state, even one from before the
/// start.
#[test]
fn the_last_known_state_of_an_unreadable_document_counts_after_a_restart() {
    let (folder, mut watcher, write) = test_folder();
    let annotated = "name: web, annotations: {tidegate.dev/depends-on: db}, finalizers: [resources-finalizer.argocd.argoproj.io]";
    let text = WEB.replace("name: web", annotated);
    write("web.yaml", &text);
    poll_event_names(&mut watcher);
    let known = watcher.emitted.values().next().unwrap().application.clone();
    state_files::write(&SystemDisk, &watcher.state_folder, &known).unwrap();
    for wrong in [
        text.replace("{name: in-cluster}", "{name: in-cluster, namespace: 5}"),
        text.replace("[resources-finalizer.argocd.argoproj.io]", "[5]"),
    ] {
        write("web.yaml", &wrong);
        let mut again = without_grace_period(FolderPoller::new(
            Arc::new(SystemDisk),
            folder.path(),
            &watcher.state_folder,
            Arc::clone(&watcher.generated),
        ));
        let events = again.poll_events();
        let web = events.iter().find_map(|event| match event {
            StoreEvent::Applied(stored) => Some(stored),
            _ => None,
        });
        let web = web.unwrap();
        assert!(
            web.problem.as_ref().unwrap().contains("its last valid version remains in effect"),
            "{:?}",
            web.problem
        );
        assert_eq!((&web.application.spec, &web.application.metadata), (&known.spec, &known.metadata));
        fs::remove_file(folder.path().join("web.yaml")).unwrap();
        assert_eq!([poll_event_names(&mut again).len(), 0], [0, 0]);
        assert!(poll_event_names(&mut again).iter().any(|one| one.starts_with("applied web deleting")));
    }
}

#[test]
fn a_file_that_is_missing_or_empty_for_a_moment_keeps_its_content() {
    let (folder, mut watcher, write) = test_folder();
    write("web.yaml", WEB);
    poll_event_names(&mut watcher);
    let away = folder.path().with_extension("away");
    fs::rename(folder.path(), &away).unwrap();
    let events = poll_event_names(&mut watcher);
    assert!(events.len() == 1 && events[0].contains("its previous contents remain in effect"), "{events:?}");
    fs::rename(&away, folder.path()).unwrap();
    assert_eq!(poll_event_names(&mut watcher), ["problems []"]);
    // Intermediate states of a file while it is rewritten.
    for started in ["", " \n", "# Copyright\n", "---\n", "\n---\n---\n# more to come", "null\n"] {
        write("web.yaml", started);
        let events = poll_event_names(&mut watcher);
        assert!(events[0].starts_with("applied web (the file is invalid"), "{started:?}: {events:?}");
        write("web.yaml", WEB);
        assert_eq!(poll_event_names(&mut watcher), ["applied web", "problems []"], "{started:?}");
    }
    fs::remove_file(folder.path().join("web.yaml")).unwrap();
    assert_eq!(poll_event_names(&mut watcher), Vec::<String>::new());
    assert_eq!(poll_event_names(&mut watcher), ["gone web"]);
}

#[test]
fn an_unreadable_file_does_not_affect_others() {
    let (_folder, mut watcher, write) = test_folder();
    write("web.yaml", WEB);
    write("other.yaml", &WEB.replace("name: web", "name: other"));
    poll_event_names(&mut watcher);
    write("web.yaml", "kind: [");
    let events = poll_event_names(&mut watcher);
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].starts_with("applied web (the file is invalid"), "{events:?}");
    assert!(events[1].contains("web.yaml"), "{events:?}");
    write("web.yaml", WEB);
    assert_eq!(poll_event_names(&mut watcher), ["applied web", "problems []"]);
}

#[test]
fn an_error_affects_only_its_document() {
    let (folder, mut watcher, write) = test_folder();
    let other = WEB.replace("name: web", "name: other");
    write("web.yaml", &format!("{WEB}---\n{other}"));
    poll_event_names(&mut watcher);
    let changed = other.replace("./repo", "./elsewhere");
    // The first document's name is unreadable, so it may be any Application that is missing from the file.
    // Missing Applications are kept, and the other documents are applied.
    write("web.yaml", &format!("kind: [\n---\n{changed}"));
    let events = poll_event_names(&mut watcher);
    assert_eq!(events[0], "applied other");
    assert!(events[1].starts_with("applied web (the file is invalid"), "{events:?}");
    assert!(events[1].contains("(document 1)"), "{events:?}");
    assert_eq!((events.len(), events[2].starts_with("problems")), (3, true), "{events:?}");
    // The name is readable. The Application keeps its last valid state, and the error contains the field and
    // the line.
    let wrong = WEB.replace("spec: {", "spec: {\n  syncPolicy: {\n    automated: {prune: often}}, ");
    write("web.yaml", &format!("{changed}---\n{wrong}"));
    let events = poll_event_names(&mut watcher);
    let part = "web.yaml:5: Application web: field spec.syncPolicy.automated.prune must be true or false";
    assert!(events[0].contains(part) && events[0].contains("(document 2)"), "{events:?}");
    let web = watcher.emitted.values().find(|one| one.application.metadata.name == "web").unwrap();
    assert_eq!(web.application.sources()[0].repo_url, "./repo");
    // Without an earlier poll, the persisted state counts.
    let known = web.application.clone();
    state_files::write(&SystemDisk, &watcher.state_folder, &known).unwrap();
    write("web.yaml", &format!("kind: [\n---\n{changed}"));
    let mut again = without_grace_period(FolderPoller::new(
        Arc::new(SystemDisk),
        folder.path(),
        &watcher.state_folder,
        Arc::clone(&watcher.generated),
    ));
    let events = poll_event_names(&mut again);
    assert_eq!(events[0], "applied other");
    assert!(events[1].starts_with("applied web (the Application is not in any readable file"), "{events:?}");
    write("web.yaml", &changed);
    let doubted = "applied web (the Application is not in any file; the folder will be read again before the Application is treated as deleted)";
    assert_eq!(poll_event_names(&mut again), [doubted, "problems []"]);
    assert_eq!(poll_event_names(&mut again), ["gone web"]);
}

#[test]
fn documents_that_are_no_applications_are_named() {
    let (_folder, mut watcher, write) = test_folder();
    for (content, expected) in [
        (WEB.replace("argoproj.io/v1alpha1", "v1"), "unsupported kind"),
        (WEB.replace("name: web", "name: ../../web"), "lower-case"),
        (WEB.replace("name: web", "name: web, namespace: a_b"), "lower-case"),
        (
            WEB.replace("{project: default", "{project: 7"),
            "applied web (the document is invalid, so its last valid version remains in effect until this is \
             fixed: web.yaml:1: Application web: field spec.project",
        ),
        (WEB.replace("spec:", "operation: {sync: {}}, spec:"), "the operation field has no effect in a file"),
        (
            format!("{WEB}---\n{WEB}"),
            "the resource is defined in both web.yaml:1 and web.yaml:3, so it is not managed",
        ),
    ] {
        write("web.yaml", &content);
        let events = poll_event_names(&mut watcher).join("\n");
        assert!(events.contains(expected), "{content}: {events}");
    }
    write("web.yaml", WEB);
    poll_event_names(&mut watcher);
    write("zzz.yaml", &format!("{WEB}\n"));
    assert_eq!(
        poll_event_names(&mut watcher),
        ["applied web (the resource is defined in both web.yaml and zzz.yaml, so it is not managed until \
             one definition is removed)"]
    );
}

#[test]
fn persisted_state_is_restored_and_deletions_meanwhile_are_emitted() {
    let (folder, mut watcher, write) = test_folder();
    write("web.yaml", WEB);
    poll_event_names(&mut watcher);
    let mut known = watcher.emitted.values().next().unwrap().application.clone();
    known.status.source_type = "Directory".into();
    state_files::write(&SystemDisk, &watcher.state_folder, &known).unwrap();
    let mut gone = known.clone();
    gone.metadata.name = "gone".into();
    state_files::write(&SystemDisk, &watcher.state_folder, &gone).unwrap();
    let mut deleting = known.clone();
    deleting.metadata.name = "leaving".into();
    deleting.metadata.finalizers = vec![deletion::RESOURCES_FINALIZER.to_owned()];
    state_files::write(&SystemDisk, &watcher.state_folder, &deleting).unwrap();
    let again = || {
        without_grace_period(FolderPoller::new(
            Arc::new(SystemDisk),
            folder.path(),
            &watcher.state_folder,
            Arc::clone(&watcher.generated),
        ))
    };
    let mut first = again();
    let no_file = "(the Application is not in any file; the folder will be read again before the Application is treated as deleted)";
    let expected = [
        format!("applied gone {no_file}"),
        format!("applied leaving {no_file}"),
        "applied web".to_owned(),
        "problems []".to_owned(),
        "settled".to_owned(),
    ];
    assert_eq!(poll_event_names(&mut first), expected);
    assert_eq!(poll_event_names(&mut first), ["gone gone", "applied leaving deleting"]);
    // A deletion persisted before the start continues immediately.
    deleting.metadata.deletion_timestamp = Some(now());
    state_files::write(&SystemDisk, &watcher.state_folder, &deleting).unwrap();
    assert!(poll_event_names(&mut again()).contains(&"applied leaving deleting".to_owned()));
    let events = again().poll_events();
    let web = events.iter().find_map(|event| match event {
        StoreEvent::Applied(stored) if stored.application.metadata.name == "web" => Some(stored),
        _ => None,
    });
    assert_eq!(web.unwrap().application.status, known.status);
}

/// The directory was moved away. A new one at its path would be a different directory.
#[tokio::test]
async fn a_missing_state_directory_is_not_created_again() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let apps = folder.path().join("apps");
    [&state, &apps].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let store = FolderStore::open(&apps, state.join("applications"), state.join("generated")).unwrap();
    let web: Application = serde_json::from_value(serde_json::json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "web"},
        "spec": {"project": "default", "destination": {"name": "in-cluster"}, "source": {"repoURL": "./repo"}},
    }))
    .unwrap();
    store.persist(&web).await.unwrap();
    let aside = folder.path().join("aside");
    fs::rename(&state, &aside).unwrap();
    let error = store.persist(&web).await.unwrap_err().to_string();
    assert!(error.contains("cannot write") && !state.exists(), "{error}");
    fs::rename(&aside, &state).unwrap();
    store.persist(&web).await.unwrap();
}

/// Part of the name must not be treated as a namespace. Healthy Applications elsewhere are unaffected.
#[test]
fn a_name_with_a_slash_is_invalid_and_affects_no_other_application() {
    let (_folder, mut watcher, write) = test_folder();
    let named = |name: &str| WEB.replace("name: web", name);
    write("healthy.yaml", &format!("{WEB}---\n{}", named("name: b, namespace: a")));
    assert_eq!(poll_event_names(&mut watcher), ["applied a/b", "applied web", "problems []", "settled"]);
    for (number, name) in ["a/b", "/web", "../evil", "Upper"].into_iter().enumerate() {
        for document in [named(&format!("name: {name}")), named(&format!("name: {name}, name: {name}"))] {
            write("wrong.yaml", &format!("{document}# {}", "#".repeat(number)));
            let names = poll_event_names(&mut watcher);
            let [problems] = names.as_slice() else { panic!("{name}: {names:?}") };
            assert!(problems.starts_with("problems [") && problems.contains(name), "{problems}");
        }
    }
    let project = "{apiVersion: argoproj.io/v1alpha1, kind: AppProject, metadata: {name: a/default}}\n";
    write("wrong.yaml", project);
    let names = poll_event_names(&mut watcher);
    let [problems] = names.as_slice() else { panic!("{names:?}") };
    assert!(problems.starts_with("problems [") && problems.contains("a/default"), "{problems}");
    assert!(watcher.files.projects().is_empty(), "{:?}", watcher.files.projects());
}

/// A requested poll is reported after all changes made before the request.
#[tokio::test]
async fn changes_before_a_requested_poll_are_emitted_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    let (state_folder, generated) = (state.path().join("kept"), state.path().join("generated"));
    let store = FolderStore::open(folder.path(), state_folder, generated).unwrap();
    let mut events = store.watch();
    while events.recv().await.unwrap() != StoreEvent::Settled {}
    for round in 1..=3_usize {
        let name = format!("web-{round}");
        let text = WEB.replace("name: web", &format!("name: {name}"));
        fs::write(folder.path().join(format!("{name}.yaml")), text).unwrap();
        let number = store.request_read().unwrap();
        let mut names = Vec::new();
        loop {
            match events.recv().await.unwrap() {
                StoreEvent::ReadDone(looked) if looked == number => break,
                StoreEvent::Applied(stored) => names.push(stored.application.metadata.name),
                _ => {}
            }
        }
        assert_eq!(names, [name]);
    }
}
