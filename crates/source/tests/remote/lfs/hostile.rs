//! Servers that do not have what they should, and repositories that lead elsewhere.

use std::time::Duration;

use tidegate_source::LfsError;

use super::*;

#[test]
fn what_is_not_what_its_pointer_says_is_refused_by_name() {
    let Some(stage) = Stage::new() else { return };
    let right = oid(CONTENT);
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    for (sent, expected) in [
        (CONTENT.replace("from", "From"), "has the SHA-256"),
        (CONTENT.get(1..).unwrap().to_owned(), "sends 60 bytes, and not 61"),
        (format!("{CONTENT} "), "sends more than 61 bytes"),
        (CONTENT.repeat(100_000), "sends more than 61 bytes"),
    ] {
        let mut batch = has(&[CONTENT], stage.own());
        stage.objects.behave(move |request| match request.asked.starts_with("GET") {
            true => Answer::Whole(200, Vec::new(), sent.clone()),
            false => batch(request),
        });
        let error = stage.read().unwrap_err();
        assert!(matches!(error, SourceError::Lfs(LfsError::Mismatch { .. })), "{error:?}");
        let error = error.to_string();
        for part in ["app/a.yaml", &stage.url(), expected, "git lfs push", &right] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(stage.kept().len(), 0, "{error}");
    }
    // The object is right, and what the repository says of it is not.
    stage.objects.behave(has(&[CONTENT], stage.own()));
    assert_eq!(stage.content(), CONTENT);
    stage.bench.commit("app/a.yaml", &pointer_to(&right, 7));
    assert!(stage.error().contains("its object has 61 bytes, and not 7"));
}

#[test]
fn what_is_not_there_is_named() {
    let Some(stage) = Stage::new() else { return };
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    let says = |expected: &[&str]| {
        let error = stage.error();
        for part in expected.iter().chain(&["app/a.yaml", stage.url().as_str()]) {
            assert!(error.contains(part), "{part}: {error}");
        }
    };
    says(&["404", "Secret given"]);
    stage.objects.behave(has(&["other"], stage.own()));
    says(&[&oid(CONTENT), "404: Object does not exist", "git lfs push"]);
    let mut batch = has(&[CONTENT], stage.own());
    stage.objects.behave(move |request| match request.asked.starts_with("GET") {
        true => answer(404, &json!({})),
        false => batch(request),
    });
    says(&[&oid(CONTENT), "127.0.0.1 answered 404", "git lfs push"]);
    stage.objects.behave(|_| answer(401, &json!({"message": "hunter2"})));
    says(&["401", "does not accept the credentials of Secret given"]);
    stage.objects.behave(|_| answer(200, &json!({"objects": []})));
    says(&["says nothing of it"]);
    stage.objects.behave(|_| answer(200, &json!(["hunter2"])));
    says(&["none of Git LFS"]);
    stage.objects.behave(|_| answer(200, &json!({"transfer": "tus", "objects": []})));
    says(&["`basic`"]);
    for href in ["file:///etc/passwd", "http://me:hunter2@a.example/", "http://169.254.169.254/latest"] {
        stage.objects.behave(has(&[CONTENT], move |_| json!({"href": href})));
        says(&[&oid(CONTENT), if href.contains("169") { "link-local" } else { "no address" }]);
    }
    stage.objects.behave(|_| Answer::Whole(307, vec!["location: /elsewhere".to_owned()], String::new()));
    says(&["nobody is sent on"]);
    stage.bench.commit("app/b.yaml", &pointer("b"));
    says(&["app/a.yaml and 1 more"]);
    assert_eq!(stage.kept().len(), 0);
}

#[test]
fn a_server_without_end_or_without_an_answer() {
    let short = |reach: &mut Reach| (reach.limits.fetch, reach.limits.silence) = (SHORT * 10, SHORT);
    let Some(stage) = Stage::with(short) else { return };
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    for (given, expected) in [
        (Answer::Endless, "longer than anybody reads"),
        (Answer::Begun, "sent nothing within"),
        (Answer::None, "not over after"),
    ] {
        stage.objects.behave(move |_| given.clone());
        let error = stage.error();
        assert!(error.contains("app/a.yaml") && error.contains(expected), "{error}");
    }
    for (given, expected) in [
        (Answer::Endless, "sends more than 61 bytes"),
        (Answer::Begun, "sent nothing within"),
        (Answer::None, "not over after"),
    ] {
        let mut batch = has(&[CONTENT], stage.own());
        stage.objects.behave(move |request| match request.asked.starts_with("GET") {
            true => given.clone(),
            false => batch(request),
        });
        let error = stage.error();
        assert!(error.contains("app/a.yaml") && error.contains(expected), "{error}");
    }
    assert_eq!(stage.kept().len(), 0);
}

const SHORT: Duration = Duration::from_millis(300);

#[test]
fn what_is_too_large_is_not_asked_for() {
    let Some(stage) = Stage::new() else { return };
    stage.bench.commit("app/a.yaml", &pointer_to(&oid(CONTENT), 65 << 20));
    assert!(stage.error().contains("app/a.yaml\" has more than 67108864 bytes in one file"));
    for n in 0..3 {
        stage.bench.commit(&format!("app/{n}.yaml"), &pointer_to(&oid(&n.to_string()), 30 << 20));
    }
    stage.bench.commit("app/a.yaml", "{}");
    assert!(stage.error().contains("more than 67108864 bytes of files of Git LFS"));
    assert_eq!(asked(&stage.objects), []);
    let extended = pointer(CONTENT).replace("oid ", &format!("ext-0-a sha256:{}\noid ", oid("a")));
    stage.bench.commit("app/0.yaml", &extended);
    assert!(stage.error().contains("app/0.yaml is a pointer of Git LFS with extensions"));
}

/// The repository itself says where its objects are: whoever may write to it must not learn who asks.
#[test]
fn a_repository_that_names_another_server() {
    let Some(stage) = Stage::new() else { return };
    let config = |url: &str| stage.bench.commit(".lfsconfig", &format!("[lfs]\n\turl = {url}\n"));
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    config(&format!("{}/store/", stage.elsewhere.url()));
    stage.elsewhere.behave(has(&[CONTENT], stage.own()));
    stage.objects.behave(has(&[CONTENT], stage.own()));
    assert_eq!(stage.content(), CONTENT);
    assert_eq!(asked(&stage.elsewhere), [("POST /store/objects/batch".to_owned(), None)]);
    // The object itself is at the repository's own server.
    assert_eq!(asked(&stage.objects), [(format!("GET /objects/{}", oid(CONTENT)), Some(ME.to_owned()))]);
    config(&format!("http://{}/objects/of/it", stage.front));
    stage.bench.commit("app/a.yaml", &pointer("{}"));
    stage.objects.behave(has(&["{}"], stage.own()));
    assert_eq!(stage.content(), "{}");
    assert_eq!(asked(&stage.objects)[0].1.as_deref(), Some(ME));
    stage.bench.commit("app/a.yaml", &pointer("{a: b}"));
    for (url, expected) in [
        ("ssh://git@a.example/b", ".lfsconfig names a server in lfs.url that is not asked"),
        ("http://169.254.169.254/latest", "link-local"),
        ("\"", ".lfsconfig cannot be read"),
    ] {
        config(url);
        let error = stage.error();
        assert!(error.contains(expected), "{url}: {error}");
    }
    assert_eq!(asked(&stage.objects), []);
}
