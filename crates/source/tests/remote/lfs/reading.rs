//! Tests for reading files in Git LFS, and for the requests sent.

use tidegate_model::argo::{ApplicationSource, DirectorySource};
use tidegate_source::{Limits, RenderInputs, Repositories, Tools};
use tidegate_testkit::program::write_script;

use super::*;

#[test]
fn the_content_of_a_file_is_fetched_once() {
    let Some(stage) = LfsFixture::new() else { return };
    stage.objects.set_responses(respond_with(&[CONTENT], stage.own_downloads()));
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    // No object is requested for a file that isn't read.
    stage.bench.commit("app/notes.txt", &pointer("other"));
    stage.bench.commit("elsewhere/b.yaml", &pointer("other"));
    assert_eq!(stage.content(), CONTENT);
    let requests = stage.objects.requests();
    let [batch, object] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(batch.line, BATCH);
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
    assert_eq!(object.line, format!("GET /objects/{}", oid(CONTENT)));
    assert_eq!(object.headers["authorization"], ME);
    // The object is stored, so other commits and the next process can use it.
    stage.bench.commit("app/notes.txt", "changed");
    assert_eq!(stage.content(), CONTENT);
    let mut reach = RemoteAccess::new(stage.bench.folder.path().join("mirrors"));
    reach.credentials = credentials("repository", &[("url", &stage.url()), ("enableLfs", "true")]);
    let repository = Repositories::new(reach).open(&stage.url(), Path::new("/")).unwrap();
    repository.observe().unwrap();
    let files = read(&repository, &repository.resolve("main").unwrap()).unwrap();
    assert_eq!(files[0].content, CONTENT.as_bytes());
    assert_eq!(authorized_requests(&stage.objects), []);
    assert_eq!(stage.cached_objects(), [oid(CONTENT)]);
}

#[test]
fn without_the_field_pointers_are_read_and_a_changed_field_is_a_change() {
    let Some(stage) = LfsFixture::new() else { return };
    stage.objects.set_responses(respond_with(&[CONTENT], stage.own_downloads()));
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    let source = ApplicationSource { path: "app".into(), ..ApplicationSource::default() };
    let (repository, making) = (stage.open(), RenderInputs::default());
    stage.set_credentials(&[]);
    assert_eq!(stage.content(), pointer(CONTENT));
    let commit = repository.resolve("main").unwrap();
    let without = repository.locate_manifests(&source, &commit, &making).unwrap();
    assert_eq!(authorized_requests(&stage.objects), []);
    stage.set_credentials(&[("enableLfs", "true")]);
    assert!(repository.observe_availability(), "enabling Git LFS changes the files");
    assert!(!repository.observe_availability());
    let with = repository.locate_manifests(&source, &commit, &making).unwrap();
    assert_ne!(with.key, without.key);
    stage.set_credentials(&[("enableLfs", "false")]);
    assert!(repository.observe_availability());
    assert_eq!(repository.locate_manifests(&source, &commit, &making).unwrap().key, without.key);
    // A located source is always read with the setting in effect when it was located, because the setting is
    // part of the key.
    assert_eq!(repository.read(&with, &making).unwrap()[0].content, CONTENT.as_bytes());
    stage.set_credentials(&[("enableLfs", "true")]);
    assert_eq!(repository.read(&without, &making).unwrap()[0].content, pointer(CONTENT).as_bytes());
    stage.set_credentials(&[("enableLfs", "perhaps")]);
    assert!(
        repository.observe().unwrap_err().to_string().contains("has an invalid enableLfs; use true or false")
    );
}

#[test]
fn repositories_use_the_field_of_the_common_secret() {
    let Some(stage) = LfsFixture::new() else { return };
    stage.objects.set_responses(respond_with(&[CONTENT], stage.own_downloads()));
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    let host = format!("http://{}", stage.front_address);
    let fields = [("url", host.as_str()), ("enableLfs", "true")];
    stage.bench.repositories.set_credentials(credentials("repo-creds", &fields));
    assert_eq!(stage.content(), CONTENT);
    assert_eq!(authorized_requests(&stage.objects).iter().filter(|(_, shown)| shown.is_some()).count(), 0);
}

/// Another server must receive only the credentials that the first server specifies for it.
#[test]
fn another_server_gets_no_credentials() {
    let Some(stage) = LfsFixture::new() else { return };
    stage.objects.set_responses(respond_with(&[CONTENT], stage.other_downloads()));
    stage.elsewhere.set_responses(respond_with(&[CONTENT], |_| json!({})));
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    assert_eq!(stage.content(), CONTENT);
    assert_eq!(authorized_requests(&stage.objects), [(BATCH.to_owned(), Some(ME.to_owned()))]);
    let object = |content: &str| format!("GET /objects/{}?token=hunter2", oid(content));
    assert_eq!(authorized_requests(&stage.elsewhere), [(object(CONTENT), None)]);
    let other = stage.other_downloads();
    stage.objects.set_responses(respond_with(&["{}"], move |oid| {
        let mut given = other(oid);
        given["header"] = json!({"Authorization": "Bearer given", "X-More": "more", "Host": "a.example"});
        given
    }));
    stage.elsewhere.set_responses(respond_with(&["{}"], |_| json!({})));
    stage.bench.commit("app/a.yaml", &pointer("{}"));
    assert_eq!(stage.content(), "{}");
    let requests = stage.elsewhere.requests();
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(request.headers["authorization"], "Bearer given");
    assert_eq!(request.headers["x-more"], "more");
    assert_ne!(request.headers["host"], "a.example");
}

#[test]
fn redirects_to_another_server_carry_no_credentials() {
    let Some(stage) = LfsFixture::new() else { return };
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    for header in [json!({}), json!({"Authorization": "Bearer given", "X-Secret": "given"})] {
        let (own, to) = (stage.own_downloads(), stage.elsewhere.url());
        let given = header.clone();
        let mut batch = respond_with(&[CONTENT], move |oid| {
            let mut action = own(oid);
            action["header"] = given.clone();
            action
        });
        stage.objects.set_responses(move |request| match request.line.strip_prefix("GET ") {
            Some(path) => ServerResponse::Complete(302, vec![format!("location: {to}{path}")], String::new()),
            None => batch(request),
        });
        stage.elsewhere.set_responses(respond_with(&[CONTENT], |_| json!({})));
        assert_eq!(stage.content(), CONTENT);
        let shown = authorized_requests(&stage.objects).pop().unwrap().1.unwrap();
        assert_eq!(shown, if header == json!({}) { ME } else { "Bearer given" });
        let requests = stage.elsewhere.requests();
        let [request] = requests.as_slice() else { panic!("{requests:?}") };
        assert!(!request.headers.contains_key("authorization") && !request.headers.contains_key("x-secret"));
        for file in stage.cached_objects() {
            let folder = stage.bench.mirrors().into_iter().find(|path| path.join(&file).exists()).unwrap();
            std::fs::remove_file(folder.join(file)).unwrap();
        }
    }
}

#[test]
fn authenticated_actions_get_no_more_credentials() {
    let Some(stage) = LfsFixture::new() else { return };
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    let own = stage.own_downloads();
    let mut with = respond_with(&[CONTENT], own);
    stage.objects.set_responses(move |request| match with(request) {
        ServerResponse::Complete(200, headers, body) if request.line == BATCH => {
            let mut body: Value = serde_json::from_str(&body).unwrap();
            body["objects"][0]["authenticated"] = json!(true);
            ServerResponse::Complete(200, headers, body.to_string())
        }
        other => other,
    });
    assert_eq!(stage.content(), CONTENT);
    let shown: Vec<bool> =
        authorized_requests(&stage.objects).iter().map(|(_, shown)| shown.is_some()).collect();
    assert_eq!(shown, [true, false]);
}

#[test]
fn objects_are_requested_in_batches_without_duplicates() {
    let Some(stage) = LfsFixture::new() else { return };
    let contents: Vec<String> = (0..150).map(|n| format!("{{name: n{n}}}")).collect();
    let all: Vec<&str> = contents.iter().map(String::as_str).collect();
    stage.objects.set_responses(respond_with(&all, stage.own_downloads()));
    for (n, content) in contents.iter().enumerate() {
        super::super::fixture::write(&stage.bench.path(), &format!("app/deep/{n}.yaml"), &pointer(content));
        super::super::fixture::write(
            &stage.bench.path(),
            &format!("app/deep/again-{n}.yaml"),
            &pointer(content),
        );
    }
    stage.bench.commit("app/deep/empty.yaml", &pointer(""));
    let directory = Some(Box::new(DirectorySource { recurse: true, ..DirectorySource::default() }));
    let source = ApplicationSource { path: "app".into(), directory, ..ApplicationSource::default() };
    let (repository, making) = (stage.open(), RenderInputs::default());
    repository.observe().unwrap();
    let located =
        repository.locate_manifests(&source, &repository.resolve("main").unwrap(), &making).unwrap();
    assert_eq!(repository.read(&located, &making).unwrap().len(), 302);
    let asked = authorized_requests(&stage.objects);
    let batches = asked.iter().filter(|(line, _)| line == BATCH).count();
    assert_eq!((batches, asked.len()), (2, 152));
}

/// Generators read single files, possibly through a link.
#[test]
fn single_files_are_read_too() {
    let Some(stage) = LfsFixture::new() else { return };
    stage.objects.set_responses(respond_with(&[CONTENT], stage.own_downloads()));
    stage.bench.commit("there/a.json", &pointer(CONTENT));
    std::os::unix::fs::symlink("there/a.json", stage.bench.path().join("b.json")).unwrap();
    stage.bench.git(&["add", "--all"]);
    stage.bench.git(&["commit", "--quiet", "--message", "a link"]);
    let repository = stage.open();
    repository.observe().unwrap();
    let commit = repository.resolve("main").unwrap();
    let content = repository.content(&commit, "b.json", &Limits::default()).unwrap().unwrap();
    assert_eq!(content, CONTENT.as_bytes());
}

#[test]
fn the_oldest_objects_are_evicted() {
    let Some(stage) = LfsFixture::with(|reach| reach.limits.lfs_bytes = 100) else { return };
    let contents =
        ["{name: a}", &format!("{{name: {}}}", "b".repeat(90)), &format!("{{name: {}}}", "c".repeat(90))];
    stage.objects.set_responses(respond_with(&contents, stage.own_downloads()));
    for content in contents {
        stage.bench.commit("app/a.yaml", &pointer(content));
        assert_eq!(stage.content(), content);
        assert_eq!(stage.cached_objects(), [oid(content)]);
    }
    // Together, these objects exceed the store's maximum size, but both are kept while in use.
    stage.bench.commit("app/b.yaml", &pointer(contents[1]));
    assert_eq!(stage.read().unwrap().len(), 2);
    assert_eq!(stage.cached_objects().len(), 2);
    // Once the repository is unused, its objects are deleted.
    let keep = |url: &str| {
        let address = stage.bench.repositories.open(url, Path::new("/")).unwrap().address().clone();
        stage.bench.repositories.keep_only(&[address].into());
    };
    keep(&stage.url());
    assert_eq!(stage.cached_objects().len(), 2);
    keep(&stage.bench.url());
    assert_eq!(stage.cached_objects().len(), 0);
}

/// Files that refer to other files may be in Git LFS. Kustomize must see only the real content of all files.
#[test]
fn a_kustomization_with_lfs_files() {
    let Some(stage) = LfsFixture::new() else { return };
    let program = stage.bench.folder.path().join("kustomize");
    let text = r#"read -r a < "$2/a.yaml"; read -r b < "$2/../base/b.yaml"; printf '%s%s' "$a" "$b""#;
    write_script(&program, text);
    let (own, base) = ("resources: [a.yaml, ../base]", "resources: [b.yaml]");
    stage.objects.set_responses(respond_with(&[own, base, CONTENT, "{b: c}"], stage.own_downloads()));
    for (file, content) in [
        ("app/kustomization.yaml", own),
        ("app/a.yaml", CONTENT),
        ("base/kustomization.yaml", base),
        ("base/b.yaml", "{b: c}"),
    ] {
        stage.bench.commit(file, &pointer(content));
    }
    let mut making =
        RenderInputs { tools: Tools::new(stage.bench.folder.path().join("work")), ..RenderInputs::default() };
    making.tools.kustomize = Some(program);
    let source = ApplicationSource { path: "app".into(), ..ApplicationSource::default() };
    let repository = stage.open();
    repository.observe().unwrap();
    let located =
        repository.locate_manifests(&source, &repository.resolve("main").unwrap(), &making).unwrap();
    let files = repository.read(&located, &making).unwrap();
    assert_eq!(files[0].content, format!("{CONTENT}{{b: c}}").as_bytes());
    let batches = authorized_requests(&stage.objects).iter().filter(|(line, _)| line == BATCH).count();
    assert_eq!(batches, 3, "the kustomization, its resources, and all other files");
}
