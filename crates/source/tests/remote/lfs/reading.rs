//! What is read, and whom that is asked of.

use tidegate_model::argo::{ApplicationSource, DirectorySource};
use tidegate_source::{Limits, Making, Repositories, Tools};
use tidegate_testkit::program::write_script;

use super::*;

#[test]
fn the_content_of_a_file_arrives_and_is_asked_for_once() {
    let Some(stage) = Stage::new() else { return };
    stage.objects.behave(has(&[CONTENT], stage.own()));
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    // Of what nobody reads nothing is asked.
    stage.bench.commit("app/notes.txt", &pointer("other"));
    stage.bench.commit("elsewhere/b.yaml", &pointer("other"));
    assert_eq!(stage.content(), CONTENT);
    let requests = stage.objects.requests();
    let [batch, object] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(batch.asked, BATCH);
    for (name, value) in [
        ("accept", "application/vnd.git-lfs+json"),
        ("content-type", "application/vnd.git-lfs+json"),
        ("authorization", ME),
    ] {
        assert_eq!(batch.headers[name], value, "{name}");
    }
    let said: Value = serde_json::from_str(&batch.body).unwrap();
    assert_eq!((&said["operation"], &said["transfers"]), (&json!("download"), &json!(["basic"])));
    assert_eq!(said["objects"], json!([{"oid": oid(CONTENT), "size": CONTENT.len()}]));
    assert_eq!(object.asked, format!("GET /objects/{}", oid(CONTENT)));
    assert_eq!(object.headers["authorization"], ME);
    // It is kept, also for the next process, and for other commits.
    stage.bench.commit("app/notes.txt", "changed");
    assert_eq!(stage.content(), CONTENT);
    let mut reach = Reach::new(stage.bench.folder.path().join("mirrors"));
    reach.credentials = credentials("repository", &[("url", &stage.url()), ("enableLfs", "true")]);
    let repository = Repositories::new(reach).open(&stage.url(), Path::new("/")).unwrap();
    repository.look().unwrap();
    let files = read(&repository, &repository.resolve("main").unwrap()).unwrap();
    assert_eq!(files[0].content, CONTENT.as_bytes());
    assert_eq!(asked(&stage.objects), []);
    assert_eq!(stage.kept(), [oid(CONTENT)]);
}

#[test]
fn without_the_field_a_pointer_stays_a_pointer_and_a_changed_one_is_news() {
    let Some(stage) = Stage::new() else { return };
    stage.objects.behave(has(&[CONTENT], stage.own()));
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    let source = ApplicationSource { path: "app".into(), ..ApplicationSource::default() };
    let (repository, making) = (stage.open(), Making::default());
    stage.give(&[]);
    assert_eq!(stage.content(), pointer(CONTENT));
    let commit = repository.resolve("main").unwrap();
    let without = repository.locate(&source, &commit, &making).unwrap();
    assert_eq!(asked(&stage.objects), []);
    stage.give(&[("enableLfs", "true")]);
    assert!(repository.look_again(), "the files are other ones");
    assert!(!repository.look_again());
    let with = repository.locate(&source, &commit, &making).unwrap();
    assert_ne!(with.key, without.key);
    stage.give(&[("enableLfs", "false")]);
    assert!(repository.look_again());
    assert_eq!(repository.locate(&source, &commit, &making).unwrap().key, without.key);
    // What was located is read as it was located: it is kept under that key.
    assert_eq!(repository.read(&with, &making).unwrap()[0].content, CONTENT.as_bytes());
    stage.give(&[("enableLfs", "true")]);
    assert_eq!(repository.read(&without, &making).unwrap()[0].content, pointer(CONTENT).as_bytes());
    stage.give(&[("enableLfs", "perhaps")]);
    assert!(repository.look().unwrap_err().to_string().contains("enableLfs that is neither true nor false"));
}

#[test]
fn repositories_of_one_place_take_the_field_from_the_secret_of_all() {
    let Some(stage) = Stage::new() else { return };
    stage.objects.behave(has(&[CONTENT], stage.own()));
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    let host = format!("http://{}", stage.front);
    let fields = [("url", host.as_str()), ("enableLfs", "true")];
    stage.bench.repositories.set_credentials(credentials("repo-creds", &fields));
    assert_eq!(stage.content(), CONTENT);
    assert_eq!(asked(&stage.objects).iter().filter(|(_, shown)| shown.is_some()).count(), 0);
}

/// Another server is shown what the first one gave for it, and nothing else.
#[test]
fn another_server_is_not_shown_who_asks() {
    let Some(stage) = Stage::new() else { return };
    stage.objects.behave(has(&[CONTENT], stage.other()));
    stage.elsewhere.behave(has(&[CONTENT], |_| json!({})));
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    assert_eq!(stage.content(), CONTENT);
    assert_eq!(asked(&stage.objects), [(BATCH.to_owned(), Some(ME.to_owned()))]);
    let object = |content: &str| format!("GET /objects/{}?token=hunter2", oid(content));
    assert_eq!(asked(&stage.elsewhere), [(object(CONTENT), None)]);
    let other = stage.other();
    stage.objects.behave(has(&["{}"], move |oid| {
        let mut given = other(oid);
        given["header"] = json!({"Authorization": "Bearer given", "X-More": "more", "Host": "a.example"});
        given
    }));
    stage.elsewhere.behave(has(&["{}"], |_| json!({})));
    stage.bench.commit("app/a.yaml", &pointer("{}"));
    assert_eq!(stage.content(), "{}");
    let requests = stage.elsewhere.requests();
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(request.headers["authorization"], "Bearer given");
    assert_eq!(request.headers["x-more"], "more");
    assert_ne!(request.headers["host"], "a.example");
}

#[test]
fn who_is_sent_on_to_another_server_takes_nothing_along() {
    let Some(stage) = Stage::new() else { return };
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    for header in [json!({}), json!({"Authorization": "Bearer given", "X-Secret": "given"})] {
        let (own, to) = (stage.own(), stage.elsewhere.url());
        let given = header.clone();
        let mut batch = has(&[CONTENT], move |oid| {
            let mut action = own(oid);
            action["header"] = given.clone();
            action
        });
        stage.objects.behave(move |request| match request.asked.strip_prefix("GET ") {
            Some(path) => Answer::Whole(302, vec![format!("location: {to}{path}")], String::new()),
            None => batch(request),
        });
        stage.elsewhere.behave(has(&[CONTENT], |_| json!({})));
        assert_eq!(stage.content(), CONTENT);
        let shown = asked(&stage.objects).pop().unwrap().1.unwrap();
        assert_eq!(shown, if header == json!({}) { ME } else { "Bearer given" });
        let requests = stage.elsewhere.requests();
        let [request] = requests.as_slice() else { panic!("{requests:?}") };
        assert!(!request.headers.contains_key("authorization") && !request.headers.contains_key("x-secret"));
        for file in stage.kept() {
            let folder = stage.bench.mirrors().into_iter().find(|path| path.join(&file).exists()).unwrap();
            std::fs::remove_file(folder.join(file)).unwrap();
        }
    }
}

#[test]
fn what_a_server_calls_authenticated_is_shown_nothing_more() {
    let Some(stage) = Stage::new() else { return };
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    let own = stage.own();
    let mut with = has(&[CONTENT], own);
    stage.objects.behave(move |request| match with(request) {
        Answer::Whole(200, headers, body) if request.asked == BATCH => {
            let mut body: Value = serde_json::from_str(&body).unwrap();
            body["objects"][0]["authenticated"] = json!(true);
            Answer::Whole(200, headers, body.to_string())
        }
        other => other,
    });
    assert_eq!(stage.content(), CONTENT);
    let shown: Vec<bool> = asked(&stage.objects).iter().map(|(_, shown)| shown.is_some()).collect();
    assert_eq!(shown, [true, false]);
}

#[test]
fn many_are_asked_for_together_and_the_same_once() {
    let Some(stage) = Stage::new() else { return };
    let contents: Vec<String> = (0..150).map(|n| format!("{{name: n{n}}}")).collect();
    let all: Vec<&str> = contents.iter().map(String::as_str).collect();
    stage.objects.behave(has(&all, stage.own()));
    for (n, content) in contents.iter().enumerate() {
        super::super::bench::write(&stage.bench.path(), &format!("app/deep/{n}.yaml"), &pointer(content));
        super::super::bench::write(
            &stage.bench.path(),
            &format!("app/deep/again-{n}.yaml"),
            &pointer(content),
        );
    }
    stage.bench.commit("app/deep/empty.yaml", &pointer(""));
    let directory = Some(Box::new(DirectorySource { recurse: true, ..DirectorySource::default() }));
    let source = ApplicationSource { path: "app".into(), directory, ..ApplicationSource::default() };
    let (repository, making) = (stage.open(), Making::default());
    repository.look().unwrap();
    let located = repository.locate(&source, &repository.resolve("main").unwrap(), &making).unwrap();
    assert_eq!(repository.read(&located, &making).unwrap().len(), 302);
    let asked = asked(&stage.objects);
    let batches = asked.iter().filter(|(line, _)| line == BATCH).count();
    assert_eq!((batches, asked.len()), (2, 152));
}

/// A file that was named alone, through a link, as generators read them.
#[test]
fn files_are_read_one_by_one_as_well() {
    let Some(stage) = Stage::new() else { return };
    stage.objects.behave(has(&[CONTENT], stage.own()));
    stage.bench.commit("there/a.json", &pointer(CONTENT));
    std::os::unix::fs::symlink("there/a.json", stage.bench.path().join("b.json")).unwrap();
    stage.bench.git(&["add", "--all"]);
    stage.bench.git(&["commit", "--quiet", "--message", "a link"]);
    let repository = stage.open();
    repository.look().unwrap();
    let commit = repository.resolve("main").unwrap();
    let content = repository.content(&commit, "b.json", &Limits::default()).unwrap().unwrap();
    assert_eq!(content, CONTENT.as_bytes());
}

#[test]
fn what_came_first_gives_way() {
    let Some(stage) = Stage::with(|reach| reach.limits.lfs_bytes = 100) else { return };
    let contents =
        ["{name: a}", &format!("{{name: {}}}", "b".repeat(90)), &format!("{{name: {}}}", "c".repeat(90))];
    stage.objects.behave(has(&contents, stage.own()));
    for content in contents {
        stage.bench.commit("app/a.yaml", &pointer(content));
        assert_eq!(stage.content(), content);
        assert_eq!(stage.kept(), [oid(content)]);
    }
    // More than there is room for, all of it read at one time.
    stage.bench.commit("app/b.yaml", &pointer(contents[1]));
    assert_eq!(stage.read().unwrap().len(), 2);
    assert_eq!(stage.kept().len(), 2);
    // With the repository its objects go.
    let keep = |url: &str| {
        let address = stage.bench.repositories.open(url, Path::new("/")).unwrap().address().clone();
        stage.bench.repositories.keep_only(&[address].into());
    };
    keep(&stage.url());
    assert_eq!(stage.kept().len(), 2);
    keep(&stage.bench.url());
    assert_eq!(stage.kept().len(), 0);
}

/// What names other files may be kept there itself. A program reads what is in the folder, as it will be.
#[test]
fn a_kustomization_and_what_it_names() {
    let Some(stage) = Stage::new() else { return };
    let program = stage.bench.folder.path().join("kustomize");
    let text = r#"read -r a < "$2/a.yaml"; read -r b < "$2/../base/b.yaml"; printf '%s%s' "$a" "$b""#;
    write_script(&program, text);
    let (own, base) = ("resources: [a.yaml, ../base]", "resources: [b.yaml]");
    stage.objects.behave(has(&[own, base, CONTENT, "{b: c}"], stage.own()));
    for (file, content) in [
        ("app/kustomization.yaml", own),
        ("app/a.yaml", CONTENT),
        ("base/kustomization.yaml", base),
        ("base/b.yaml", "{b: c}"),
    ] {
        stage.bench.commit(file, &pointer(content));
    }
    let mut making =
        Making { tools: Tools::new(stage.bench.folder.path().join("work")), ..Making::default() };
    making.tools.kustomize = Some(program);
    let source = ApplicationSource { path: "app".into(), ..ApplicationSource::default() };
    let repository = stage.open();
    repository.look().unwrap();
    let located = repository.locate(&source, &repository.resolve("main").unwrap(), &making).unwrap();
    let files = repository.read(&located, &making).unwrap();
    assert_eq!(files[0].content, format!("{CONTENT}{{b: c}}").as_bytes());
    let batches = asked(&stage.objects).iter().filter(|(line, _)| line == BATCH).count();
    assert_eq!(batches, 3, "the kustomization, what that names, and all the rest");
}
