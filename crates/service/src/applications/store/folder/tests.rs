//! What is told of a folder of files.

use std::time::Duration;

use super::*;

const WEB: &str = "{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: web}, spec: {project: default, destination: {name: in-cluster}, source: {repoURL: ./repo}}}\n";

/// Files change their length, so that a clock that stands still is no harm.
fn bench() -> (tempfile::TempDir, Watcher, impl Fn(&str, &str)) {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().to_path_buf(), folder.path().join("kept"));
    let generated = Generated::new(Arc::new(SystemDisk), path.join("generated"));
    let watcher = quick(Watcher::new(Arc::new(SystemDisk), &path, &kept, generated));
    let write = move |name: &str, content: &str| fs::write(path.join(name), content).unwrap();
    (folder, watcher, write)
}

/// Of what is gone the next look is sure.
fn quick(mut watcher: Watcher) -> Watcher {
    watcher.files = std::mem::take(&mut watcher.files).without_patience();
    watcher
}

/// What has happened, in a word for each.
fn told(watcher: &mut Watcher) -> Vec<String> {
    let tell = |event| match event {
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
        StoreEvent::Looked(number) => format!("looked {number}"),
    };
    watcher.look().into_iter().map(tell).filter(|told| told != "projects").collect()
}

#[test]
fn who_asks_for_a_deletion_stays_known_when_the_file_is_gone() {
    let application: Application = serde_json::from_value(serde_json::json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "web", "namespace": "argocd", "finalizers": [RESOURCES_FINALIZER]},
        "spec": {"project": "default", "destination": {"name": "in-cluster"}, "source": {"repoURL": "./repo"}},
    }))
    .unwrap();
    let before = Stored { application, problem: None, lost: None };
    let mut kept = before.application.clone();
    kept.metadata.deletion_timestamp = Some(now());
    kept.metadata.annotations.insert(DELETION_REQUESTED_BY.to_owned(), "ann".to_owned());
    let left = leaving(&before, Some(kept.clone())).unwrap().application;
    assert_eq!(left.annotation(DELETION_REQUESTED_BY), Some("ann"));
    assert_eq!(left.metadata.deletion_timestamp, kept.metadata.deletion_timestamp);
    let nobody = leaving(&before, None).unwrap().application;
    assert_eq!(nobody.annotation(DELETION_REQUESTED_BY), None);
}

#[test]
fn what_changes_is_told_once() {
    let (_folder, mut watcher, write) = bench();
    write("web.yaml", WEB);
    write("notes.txt", "nothing of ours");
    assert_eq!(told(&mut watcher), ["applied web", "problems []", "settled"]);
    assert_eq!(told(&mut watcher), Vec::<String>::new());
    write("web.yaml", &WEB.replace("./repo", "./other"));
    assert_eq!(told(&mut watcher), ["applied web"]);
    let other = WEB.replace("name: web", "name: other");
    write("web.yaml", &format!("{WEB}---\n{other}"));
    assert_eq!(told(&mut watcher), ["applied other", "applied web"]);
    write("web.yaml", &other);
    // Somebody may be about to write the rest.
    assert_eq!(told(&mut watcher), Vec::<String>::new());
    assert_eq!(told(&mut watcher), ["gone web"]);
}

/// A file that is renamed may be in no list at that moment, and one that is written anew is there in part.
#[test]
fn what_is_not_there_for_a_moment_is_not_gone() {
    let (folder, mut watcher, write) = bench();
    let other = WEB.replace("name: web", "name: other");
    write("web.yaml", &format!("{WEB}---\n{other}"));
    told(&mut watcher);
    let (path, away) = (folder.path().join("web.yaml"), folder.path().join("away"));
    fs::rename(&path, &away).unwrap();
    assert_eq!(told(&mut watcher), Vec::<String>::new());
    fs::rename(&away, &path).unwrap();
    assert_eq!(told(&mut watcher), Vec::<String>::new());
    fs::rename(&path, folder.path().join("all.yaml")).unwrap();
    assert_eq!([told(&mut watcher), told(&mut watcher)], [Vec::<String>::new(), Vec::new()]);
    for part in [WEB.to_owned(), format!("{WEB}---\n# The other"), format!("{WEB}---\n{WEB}# twice")] {
        write("all.yaml", &part);
        assert!(told(&mut watcher).iter().all(|one| !one.starts_with("gone")), "{part}");
        write("all.yaml", &format!("{WEB}---\n{other}# {}", part.len()));
        assert!(told(&mut watcher).iter().all(|one| !one.starts_with("gone")), "{part}");
    }
    told(&mut watcher);
    fs::remove_file(folder.path().join("all.yaml")).unwrap();
    assert_eq!(told(&mut watcher), Vec::<String>::new());
    assert_eq!(told(&mut watcher), ["gone other", "gone web"]);
    assert_eq!(told(&mut watcher), Vec::<String>::new());
}

/// What moves to another file is there all the time, and in one of them.
#[test]
fn what_is_moved_to_another_file_stays() {
    let (_folder, mut watcher, write) = bench();
    let other = WEB.replace("name: web", "name: other");
    write("a.yaml", &format!("{WEB}---\n{other}"));
    told(&mut watcher);
    write("a.yaml", WEB);
    write("b.yaml", &other);
    for _ in 0..3 {
        assert_eq!(told(&mut watcher), Vec::<String>::new());
    }
    // A file is written anew, and comes to its Application last.
    write("b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n");
    assert!(told(&mut watcher).iter().all(|one| !one.starts_with("gone")));
    write("b.yaml", &format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\n---\n{other}"));
    assert!(told(&mut watcher).iter().all(|one| !one.starts_with("gone")));
}

/// What a file lacks is doubted, and what else it says is not; nor does it matter that it is written again and again.
#[test]
fn what_else_a_file_says_counts_at_once() {
    let (_folder, mut watcher, write) = bench();
    let named = |name: &str| WEB.replace("name: web", &format!("name: {name}"));
    write("all.yaml", &format!("{WEB}---\n{}", named("other")));
    told(&mut watcher);
    let changed = WEB.replace("./repo", "./elsewhere");
    write("all.yaml", &format!("{changed}---\n{}", named("third")));
    assert_eq!(told(&mut watcher), ["applied third", "applied web"]);
    write("all.yaml", &format!("{changed}---\n{}# Still at it.\n", named("third")));
    assert_eq!(told(&mut watcher), Vec::<String>::new());
    assert_eq!(told(&mut watcher), ["gone other"]);
}

/// At the start, too: a folder that comes late, and one that is written meanwhile, has nothing gone.
#[test]
fn what_is_in_no_file_at_the_start_is_gone_when_all_is_calm() {
    let (folder, mut watcher, write) = bench();
    write("web.yaml", WEB);
    told(&mut watcher);
    for name in ["web", "other"] {
        let mut known = watcher.told.values().next().unwrap().application.clone();
        known.metadata.name = name.to_owned();
        kept::write(&SystemDisk, &watcher.kept, &known).unwrap();
    }
    let mut again = quick(Watcher::new(
        Arc::new(SystemDisk),
        folder.path(),
        &watcher.kept,
        Arc::clone(&watcher.generated),
    ));
    let is_gone = |events: Vec<String>| events.iter().any(|one| one.starts_with("gone"));
    write("web.yaml", "kind: [");
    assert!(!is_gone(told(&mut again)) && !is_gone(told(&mut again)));
    for text in [WEB.to_owned(), format!("{WEB}# Still at it.\n")] {
        write("web.yaml", &text);
        assert!(!is_gone(told(&mut again)), "{text}");
    }
    assert_eq!(told(&mut again), ["gone other"]);
}

/// A volume that is not mounted yet is an empty folder, and its files come one by one.
#[test]
fn of_a_folder_without_files_at_the_start_nothing_is_gone() {
    let (folder, mut watcher, write) = bench();
    write("web.yaml", WEB);
    told(&mut watcher);
    let known = watcher.told.values().next().unwrap().application.clone();
    for name in ["web", "other", "going"] {
        let mut known = known.clone();
        known.metadata.name = name.to_owned();
        known.metadata.finalizers = vec![deletion::RESOURCES_FINALIZER.to_owned()];
        known.metadata.deletion_timestamp = (name == "going").then(now);
        kept::write(&SystemDisk, &watcher.kept, &known).unwrap();
    }
    fs::remove_file(folder.path().join("web.yaml")).unwrap();
    let (kept, generated) = (watcher.kept.clone(), Arc::clone(&watcher.generated));
    let mut again = quick(Watcher::new(Arc::new(SystemDisk), folder.path(), &kept, generated));
    let first = told(&mut again);
    let [going, other, web, problems, _] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!(going, "applied going deleting", "its deletion goes on");
    for (left, name) in [(other, "other"), (web, "web")] {
        assert!(
            left.starts_with(&format!("applied {name} (it is in no file, so it is left alone")),
            "{left}"
        );
    }
    assert!(problems.contains("there is no manifest in it"), "{problems}");
    for _ in 0..3 {
        assert_eq!(told(&mut again), Vec::<String>::new());
    }
    assert!(again.projects.as_ref().unwrap().coming.is_some(), "what is permitted is not known either");
    write("web.yaml", WEB);
    let (second, third) = (told(&mut again), told(&mut again));
    assert!(again.projects.as_ref().unwrap().coming.is_none());
    assert!(second.contains(&"applied web".to_owned()), "{second:?}");
    assert!(second.iter().all(|one| !one.contains("deleting")), "{second:?}");
    assert_eq!(third, ["applied other deleting"], "others may come with it");
}

/// A volume that is taken away leaves the folder that it was mounted on.
#[test]
fn an_empty_folder_in_the_place_of_another_takes_nothing_away() {
    let (folder, mut watcher, write) = bench();
    let place = folder.path().join("mounted");
    fs::create_dir(&place).unwrap();
    watcher.files = Files::of(&place).without_patience();
    for name in ["web", "other"] {
        write(&format!("mounted/{name}.yaml"), &WEB.replace("name: web", &format!("name: {name}")));
    }
    assert_eq!(told(&mut watcher), ["applied other", "applied web", "problems []", "settled"]);
    let away = folder.path().join("away");
    fs::rename(&place, &away).unwrap();
    fs::create_dir(&place).unwrap();
    for _ in 0..3 {
        let events = told(&mut watcher);
        assert!(!events.iter().any(|one| one.starts_with("gone")), "{events:?}");
    }
    assert!(watcher.problems[0].contains("it is another folder now"), "{:?}", watcher.problems);
    fs::remove_dir(&place).unwrap();
    fs::rename(&away, &place).unwrap();
    assert_eq!(told(&mut watcher), ["problems []"]);
    // Whoever removes all files of the folder means that.
    fs::remove_file(place.join("web.yaml")).unwrap();
    fs::remove_file(place.join("other.yaml")).unwrap();
    told(&mut watcher);
    assert_eq!(told(&mut watcher), ["gone other", "gone web"]);
}

/// Files that come slowly into a folder that had none are waited for.
#[tokio::test(start_paused = true)]
async fn files_that_come_slowly_are_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Files::of(folder.path());
    let none = BTreeMap::new();
    files.look(&none);
    for number in 0..20 {
        fs::write(folder.path().join(format!("{number}.yaml")), WEB).unwrap();
        files.look(&none);
        assert!(!files.has_looked_twice(), "{number}");
        tokio::time::sleep(Duration::from_secs(15)).await;
    }
    files.look(&none);
    tokio::time::sleep(Duration::from_secs(31)).await;
    files.look(&none);
    assert!(files.has_looked_twice());
}

/// Nobody knows what is in a file that cannot be looked at.
#[test]
fn a_file_that_cannot_be_looked_at_is_not_gone() {
    let (folder, mut watcher, write) = bench();
    write("web.yaml", WEB);
    told(&mut watcher);
    let path = folder.path().join("web.yaml");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("web.yaml", &path).unwrap();
    let events: Vec<String> = (0..4).flat_map(|_| told(&mut watcher)).collect();
    assert!(events.len() == 1 && events[0].contains("web.yaml: "), "{events:?}");
}

/// Whose file a command has removed nobody has to look for twice; and if it is there again, it is not going any more.
#[test]
fn what_a_command_removes_is_gone_at_once() {
    let (folder, mut watcher, write) = bench();
    write("web.yaml", WEB);
    told(&mut watcher);
    let path = folder.path().join("web.yaml");
    let removed = |watcher: &Watcher| {
        let key = watcher.told.keys().next().unwrap().clone();
        watcher.removed.add(path.clone(), key);
    };
    removed(&watcher);
    assert_eq!(told(&mut watcher), ["applied web"]);
    fs::remove_file(&path).unwrap();
    removed(&watcher);
    assert_eq!(told(&mut watcher), ["gone web"]);
}

/// One that goes while its document cannot be read goes as it was known, also when nobody looked at it before.
#[test]
fn what_was_known_of_one_that_cannot_be_read_counts_after_a_restart() {
    let (folder, mut watcher, write) = bench();
    let annotated = "name: web, annotations: {tidegate.dev/depends-on: db}, finalizers: [resources-finalizer.argocd.argoproj.io]";
    let text = WEB.replace("name: web", annotated);
    write("web.yaml", &text);
    told(&mut watcher);
    let known = watcher.told.values().next().unwrap().application.clone();
    kept::write(&SystemDisk, &watcher.kept, &known).unwrap();
    for wrong in [
        text.replace("{name: in-cluster}", "{name: in-cluster, namespace: 5}"),
        text.replace("[resources-finalizer.argocd.argoproj.io]", "[5]"),
    ] {
        write("web.yaml", &wrong);
        let mut again = quick(Watcher::new(
            Arc::new(SystemDisk),
            folder.path(),
            &watcher.kept,
            Arc::clone(&watcher.generated),
        ));
        let events = again.look();
        let web = events.iter().find_map(|event| match event {
            StoreEvent::Applied(stored) => Some(stored),
            _ => None,
        });
        let web = web.unwrap();
        assert!(web.problem.as_ref().unwrap().contains("left alone, as it was"), "{:?}", web.problem);
        assert_eq!((&web.application.spec, &web.application.metadata), (&known.spec, &known.metadata));
        fs::remove_file(folder.path().join("web.yaml")).unwrap();
        assert_eq!([told(&mut again).len(), 0], [0, 0]);
        assert!(told(&mut again).iter().any(|one| one.starts_with("applied web deleting")));
    }
}

#[test]
fn what_is_away_or_empty_for_a_moment_counts_as_it_was() {
    let (folder, mut watcher, write) = bench();
    write("web.yaml", WEB);
    told(&mut watcher);
    let away = folder.path().with_extension("away");
    fs::rename(folder.path(), &away).unwrap();
    let events = told(&mut watcher);
    assert!(events.len() == 1 && events[0].contains("what was in it before counts"), "{events:?}");
    fs::rename(&away, folder.path()).unwrap();
    assert_eq!(told(&mut watcher), ["problems []"]);
    // As far as a file is written that is written anew.
    for begun in ["", " \n", "# Copyright\n", "---\n", "\n---\n---\n# more to come", "null\n"] {
        write("web.yaml", begun);
        let events = told(&mut watcher);
        assert!(events[0].starts_with("applied web (its file cannot be read"), "{begun:?}: {events:?}");
        write("web.yaml", WEB);
        assert_eq!(told(&mut watcher), ["applied web", "problems []"], "{begun:?}");
    }
    fs::remove_file(folder.path().join("web.yaml")).unwrap();
    assert_eq!(told(&mut watcher), Vec::<String>::new());
    assert_eq!(told(&mut watcher), ["gone web"]);
}

#[test]
fn what_cannot_be_read_costs_nothing_else() {
    let (_folder, mut watcher, write) = bench();
    write("web.yaml", WEB);
    write("other.yaml", &WEB.replace("name: web", "name: other"));
    told(&mut watcher);
    write("web.yaml", "kind: [");
    let events = told(&mut watcher);
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].starts_with("applied web (its file cannot be read"), "{events:?}");
    assert!(events[1].contains("web.yaml"), "{events:?}");
    write("web.yaml", WEB);
    assert_eq!(told(&mut watcher), ["applied web", "problems []"]);
}

#[test]
fn a_mistake_costs_its_document_only() {
    let (folder, mut watcher, write) = bench();
    let other = WEB.replace("name: web", "name: other");
    write("web.yaml", &format!("{WEB}---\n{other}"));
    told(&mut watcher);
    let changed = other.replace("./repo", "./elsewhere");
    // Nothing of it can be told: whatever was there is left alone, and the rest goes on.
    write("web.yaml", &format!("kind: [\n---\n{changed}"));
    let events = told(&mut watcher);
    assert_eq!(events[0], "applied other");
    assert!(events[1].starts_with("applied web (its file cannot be read"), "{events:?}");
    assert!(events[1].contains("(document 1)"), "{events:?}");
    assert_eq!((events.len(), events[2].starts_with("problems")), (3, true), "{events:?}");
    // Whose it is can be told: it has its last good state, and the field and its line are named.
    let wrong = WEB.replace("spec: {", "spec: {\n  syncPolicy: {\n    automated: {prune: often}}, ");
    write("web.yaml", &format!("{changed}---\n{wrong}"));
    let events = told(&mut watcher);
    let part = "web.yaml:5: Application web: field spec.syncPolicy.automated.prune must be true or false";
    assert!(events[0].contains(part) && events[0].contains("(document 2)"), "{events:?}");
    let web = watcher.told.values().find(|one| one.application.metadata.name == "web").unwrap();
    assert_eq!(web.application.sources()[0].repo_url, "./repo");
    // Also when nobody has looked before, with what is kept.
    let known = web.application.clone();
    kept::write(&SystemDisk, &watcher.kept, &known).unwrap();
    write("web.yaml", &format!("kind: [\n---\n{changed}"));
    let mut again = quick(Watcher::new(
        Arc::new(SystemDisk),
        folder.path(),
        &watcher.kept,
        Arc::clone(&watcher.generated),
    ));
    let events = told(&mut again);
    assert_eq!(events[0], "applied other");
    assert!(events[1].starts_with("applied web (it is in no file that can be read"), "{events:?}");
    write("web.yaml", &changed);
    let doubted =
        "applied web (it is in no file; before anything follows from that, it is looked for once more)";
    assert_eq!(told(&mut again), [doubted, "problems []"]);
    assert_eq!(told(&mut again), ["gone web"]);
}

#[test]
fn what_is_no_application_is_named() {
    let (_folder, mut watcher, write) = bench();
    for (content, expected) in [
        (WEB.replace("argoproj.io/v1alpha1", "v1"), "is no Application"),
        (WEB.replace("name: web", "name: ../../web"), "lower-case"),
        (WEB.replace("name: web", "name: web, namespace: a_b"), "lower-case"),
        (
            WEB.replace("{project: default", "{project: 7"),
            "applied web (its document cannot be read, so it is left alone, as it was, until that is mended: web.yaml:1: Application web: field spec.project",
        ),
        (WEB.replace("spec:", "operation: {sync: {}}, spec:"), "operation in a file has no effect"),
        (
            format!("{WEB}---\n{WEB}"),
            "it is written down in web.yaml:1 and in web.yaml:3, so it is left alone",
        ),
    ] {
        write("web.yaml", &content);
        let events = told(&mut watcher).join("\n");
        assert!(events.contains(expected), "{content}: {events}");
    }
    write("web.yaml", WEB);
    told(&mut watcher);
    write("zzz.yaml", &format!("{WEB}\n"));
    assert_eq!(
        told(&mut watcher),
        [
            "applied web (it is written down in web.yaml and in zzz.yaml, so it is left alone until one of them is gone)"
        ]
    );
}

#[test]
fn what_is_kept_comes_back_and_what_went_meanwhile_is_told() {
    let (folder, mut watcher, write) = bench();
    write("web.yaml", WEB);
    told(&mut watcher);
    let mut known = watcher.told.values().next().unwrap().application.clone();
    known.status.source_type = "Directory".into();
    kept::write(&SystemDisk, &watcher.kept, &known).unwrap();
    let mut gone = known.clone();
    gone.metadata.name = "gone".into();
    kept::write(&SystemDisk, &watcher.kept, &gone).unwrap();
    let mut leaving = known.clone();
    leaving.metadata.name = "leaving".into();
    leaving.metadata.finalizers = vec![deletion::RESOURCES_FINALIZER.to_owned()];
    kept::write(&SystemDisk, &watcher.kept, &leaving).unwrap();
    let again = || {
        quick(Watcher::new(
            Arc::new(SystemDisk),
            folder.path(),
            &watcher.kept,
            Arc::clone(&watcher.generated),
        ))
    };
    let mut first = again();
    let no_file = "(it is in no file; before anything follows from that, it is looked for once more)";
    let expected = [
        format!("applied gone {no_file}"),
        format!("applied leaving {no_file}"),
        "applied web".to_owned(),
        "problems []".to_owned(),
        "settled".to_owned(),
    ];
    assert_eq!(told(&mut first), expected);
    assert_eq!(told(&mut first), ["gone gone", "applied leaving deleting"]);
    // One that was going before goes on at once.
    leaving.metadata.deletion_timestamp = Some(now());
    kept::write(&SystemDisk, &watcher.kept, &leaving).unwrap();
    assert!(told(&mut again()).contains(&"applied leaving deleting".to_owned()));
    let events = again().look();
    let web = events.iter().find_map(|event| match event {
        StoreEvent::Applied(stored) if stored.application.metadata.name == "web" => Some(stored),
        _ => None,
    });
    assert_eq!(web.unwrap().application.status, known.status);
}

/// It was moved away, and what is there later would be another.
#[tokio::test]
async fn a_state_directory_that_is_gone_is_not_begun_anew() {
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
    store.keep(&web).await.unwrap();
    let aside = folder.path().join("aside");
    fs::rename(&state, &aside).unwrap();
    let error = store.keep(&web).await.unwrap_err().to_string();
    assert!(error.contains("cannot write") && !state.exists(), "{error}");
    fs::rename(&aside, &state).unwrap();
    store.keep(&web).await.unwrap();
}

/// A part of it is taken for no namespace: what is healthy elsewhere stays so.
#[test]
fn a_name_with_a_slash_is_wrong_and_nobody_else_is_meant() {
    let (_folder, mut watcher, write) = bench();
    let named = |name: &str| WEB.replace("name: web", name);
    write("healthy.yaml", &format!("{WEB}---\n{}", named("name: b, namespace: a")));
    assert_eq!(told(&mut watcher), ["applied a/b", "applied web", "problems []", "settled"]);
    for (number, name) in ["a/b", "/web", "../evil", "Upper"].into_iter().enumerate() {
        for document in [named(&format!("name: {name}")), named(&format!("name: {name}, name: {name}"))] {
            write("wrong.yaml", &format!("{document}# {}", "#".repeat(number)));
            let said = told(&mut watcher);
            let [problems] = said.as_slice() else { panic!("{name}: {said:?}") };
            assert!(problems.starts_with("problems [") && problems.contains(name), "{problems}");
        }
    }
    let project = "{apiVersion: argoproj.io/v1alpha1, kind: AppProject, metadata: {name: a/default}}\n";
    write("wrong.yaml", project);
    let said = told(&mut watcher);
    let [problems] = said.as_slice() else { panic!("{said:?}") };
    assert!(problems.starts_with("problems [") && problems.contains("a/default"), "{problems}");
    assert!(watcher.files.projects().is_empty(), "{:?}", watcher.files.projects());
}

/// Whoever asks for a look is told of it after what was written before that.
#[tokio::test]
async fn what_was_written_before_a_look_is_told_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    let (kept, generated) = (state.path().join("kept"), state.path().join("generated"));
    let store = FolderStore::open(folder.path(), kept, generated).unwrap();
    let mut told = store.watch();
    while told.recv().await.unwrap() != StoreEvent::Settled {}
    for round in 1..=3_usize {
        let name = format!("web-{round}");
        let text = WEB.replace("name: web", &format!("name: {name}"));
        fs::write(folder.path().join(format!("{name}.yaml")), text).unwrap();
        let number = store.look_soon().unwrap();
        let mut names = Vec::new();
        loop {
            match told.recv().await.unwrap() {
                StoreEvent::Looked(looked) if looked == number => break,
                StoreEvent::Applied(stored) => names.push(stored.application.metadata.name),
                _ => {}
            }
        }
        assert_eq!(names, [name]);
    }
}
