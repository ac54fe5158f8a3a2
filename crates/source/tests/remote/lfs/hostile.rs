//! Tests with servers that send wrong objects, and with repositories that specify another server.

use std::time::Duration;

use tidegate_source::LfsError;

use super::*;

#[test]
fn mismatching_objects_are_rejected_by_name() {
    let Some(stage) = LfsFixture::new() else { return };
    let right = oid(CONTENT);
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    for (sent, expected) in [
        (CONTENT.replace("from", "From"), "content with SHA-256"),
        (CONTENT.get(1..).unwrap().to_owned(), "sent 60 bytes instead of 61"),
        (format!("{CONTENT} "), "sent more than 61 bytes"),
        (CONTENT.repeat(100_000), "sent more than 61 bytes"),
    ] {
        let mut batch = respond_with(&[CONTENT], stage.own_downloads());
        stage.objects.set_responses(move |request| match request.line.starts_with("GET") {
            true => ServerResponse::Complete(200, Vec::new(), sent.clone()),
            false => batch(request),
        });
        let error = stage.read().unwrap_err();
        assert!(matches!(error, SourceError::Lfs(LfsError::Mismatch { .. })), "{error:?}");
        let error = error.to_string();
        for part in ["app/a.yaml", &stage.url(), expected, "git lfs push", &right] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(stage.cached_objects().len(), 0, "{error}");
    }
    // The server sends the correct object, but the size in the pointer is wrong.
    stage.objects.set_responses(respond_with(&[CONTENT], stage.own_downloads()));
    assert_eq!(stage.content(), CONTENT);
    stage.bench.commit("app/a.yaml", &pointer_to(&right, 7));
    assert!(stage.error().contains("the object has 61 bytes instead of 7"));
}

#[test]
fn missing_objects_are_named() {
    let Some(stage) = LfsFixture::new() else { return };
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    let says = |expected: &[&str]| {
        let error = stage.error();
        for part in expected.iter().chain(&["app/a.yaml", stage.url().as_str()]) {
            assert!(error.contains(part), "{part}: {error}");
        }
    };
    says(&["404", "Secret given"]);
    stage.objects.set_responses(respond_with(&["other"], stage.own_downloads()));
    says(&[&oid(CONTENT), "404: Object does not exist", "git lfs push"]);
    let mut batch = respond_with(&[CONTENT], stage.own_downloads());
    stage.objects.set_responses(move |request| match request.line.starts_with("GET") {
        true => answer(404, &json!({})),
        false => batch(request),
    });
    says(&[&oid(CONTENT), "127.0.0.1 returned 404", "git lfs push"]);
    stage.objects.set_responses(|_| answer(401, &json!({"message": "hunter2"})));
    says(&["401", "does not accept the credentials in Secret given"]);
    stage.objects.set_responses(|_| answer(200, &json!({"objects": []})));
    says(&["response does not contain the object"]);
    stage.objects.set_responses(|_| answer(200, &json!(["hunter2"])));
    says(&["is not a Git LFS response"]);
    stage.objects.set_responses(|_| answer(200, &json!({"transfer": "tus", "objects": []})));
    says(&["`basic`"]);
    for href in ["file:///etc/passwd", "http://me:hunter2@a.example/", "http://169.254.169.254/latest"] {
        stage.objects.set_responses(respond_with(&[CONTENT], move |_| json!({"href": href})));
        says(&[&oid(CONTENT), if href.contains("169") { "link-local" } else { "invalid URL" }]);
    }
    stage.objects.set_responses(|_| {
        ServerResponse::Complete(307, vec!["location: /elsewhere".to_owned()], String::new())
    });
    says(&["does not follow redirects"]);
    stage.bench.commit("app/b.yaml", &pointer("b"));
    says(&["app/a.yaml and 1 more"]);
    assert_eq!(stage.cached_objects().len(), 0);
}

#[test]
fn endless_and_unresponsive_servers() {
    let short = |reach: &mut RemoteAccess| (reach.limits.fetch, reach.limits.idle) = (SHORT * 10, SHORT);
    let Some(stage) = LfsFixture::with(short) else { return };
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    for (given, expected) in [
        (ServerResponse::Endless, "response is too large"),
        (ServerResponse::Incomplete, "sent nothing within"),
        (ServerResponse::None, "not finish within"),
    ] {
        stage.objects.set_responses(move |_| given.clone());
        let error = stage.error();
        assert!(error.contains("app/a.yaml") && error.contains(expected), "{error}");
    }
    for (given, expected) in [
        (ServerResponse::Endless, "sent more than 61 bytes"),
        (ServerResponse::Incomplete, "sent nothing within"),
        (ServerResponse::None, "not finish within"),
    ] {
        let mut batch = respond_with(&[CONTENT], stage.own_downloads());
        stage.objects.set_responses(move |request| match request.line.starts_with("GET") {
            true => given.clone(),
            false => batch(request),
        });
        let error = stage.error();
        assert!(error.contains("app/a.yaml") && error.contains(expected), "{error}");
    }
    assert_eq!(stage.cached_objects().len(), 0);
}

const SHORT: Duration = Duration::from_millis(300);

#[test]
fn too_large_objects_are_not_requested() {
    let Some(stage) = LfsFixture::new() else { return };
    stage.bench.commit("app/a.yaml", &pointer_to(&oid(CONTENT), 65 << 20));
    assert!(stage.error().contains("app/a.yaml\" contains more than 67108864 bytes in one file"));
    for n in 0..3 {
        stage.bench.commit(&format!("app/{n}.yaml"), &pointer_to(&oid(&n.to_string()), 30 << 20));
    }
    stage.bench.commit("app/a.yaml", "{}");
    assert!(stage.error().contains("more than 67108864 bytes of other Git LFS files"));
    assert_eq!(authorized_requests(&stage.objects), []);
    let extended = pointer(CONTENT).replace("oid ", &format!("ext-0-a sha256:{}\noid ", oid("a")));
    stage.bench.commit("app/0.yaml", &extended);
    assert!(stage.error().contains("app/0.yaml is a Git LFS pointer with extensions"));
}

/// A repository can name its LFS server, but its authors must not be able to obtain the credentials this way.
#[test]
fn a_repository_that_names_another_server() {
    let Some(stage) = LfsFixture::new() else { return };
    let config = |url: &str| stage.bench.commit(".lfsconfig", &format!("[lfs]\n\turl = {url}\n"));
    stage.bench.commit("app/a.yaml", &pointer(CONTENT));
    config(&format!("{}/store/", stage.elsewhere.url()));
    stage.elsewhere.set_responses(respond_with(&[CONTENT], stage.own_downloads()));
    stage.objects.set_responses(respond_with(&[CONTENT], stage.own_downloads()));
    assert_eq!(stage.content(), CONTENT);
    assert_eq!(authorized_requests(&stage.elsewhere), [("POST /store/objects/batch".to_owned(), None)]);
    // The URL of the object is on the server of the repository, so the credentials are sent.
    assert_eq!(
        authorized_requests(&stage.objects),
        [(format!("GET /objects/{}", oid(CONTENT)), Some(ME.to_owned()))]
    );
    config(&format!("http://{}/objects/of/it", stage.front_address));
    stage.bench.commit("app/a.yaml", &pointer("{}"));
    stage.objects.set_responses(respond_with(&["{}"], stage.own_downloads()));
    assert_eq!(stage.content(), "{}");
    assert_eq!(authorized_requests(&stage.objects)[0].1.as_deref(), Some(ME));
    stage.bench.commit("app/a.yaml", &pointer("{a: b}"));
    for (url, expected) in [
        ("ssh://git@a.example/b", ".lfsconfig contains an invalid server URL"),
        ("http://169.254.169.254/latest", "link-local"),
        ("\"", ".lfsconfig is not a valid Git configuration"),
    ] {
        config(url);
        let error = stage.error();
        assert!(error.contains(expected), "{url}: {error}");
    }
    assert_eq!(authorized_requests(&stage.objects), []);
}
