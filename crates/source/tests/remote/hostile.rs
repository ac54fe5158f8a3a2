//! Tests with servers that are unavailable or misbehave.

use std::thread;

use tidegate_source::SourceError;
use tidegate_testkit::git::{GitServer, RequestKind, ServerBehavior};

use super::fixture::{MAP, RemoteFixture, SHORT, limits};

fn never_responds(asked: RequestKind) -> ServerBehavior {
    ServerBehavior { unanswered: Some(asked), ..ServerBehavior::default() }
}

/// Retries a call until it succeeds. On a busy machine, requests sometimes exceed the time limit.
fn retry_until_success<T>(ask: impl Fn() -> Result<T, SourceError>) -> T {
    let is_late = |error: &SourceError| error.to_string().contains("did not respond within 0.3 s");
    let mut asked = (0..1000).map(|_| ask()).skip_while(|answer| answer.as_ref().is_err_and(is_late));
    asked.next().unwrap().unwrap()
}

#[test]
fn an_unresponsive_server() {
    let Some(bench) = RemoteFixture::with(GitServer::start, limits(|limits| limits.response = SHORT)) else {
        return;
    };
    bench.server.set_behavior(never_responds(RequestKind::Refs));
    let error = bench.open().observe().unwrap_err().to_string();
    assert!(error.contains("did not respond within 0.3 s") && error.contains(&bench.url()), "{error}");
    bench.server.set_behavior(ServerBehavior::default());
    let commit = retry_until_success(|| bench.open().observe().and_then(|_| bench.open().resolve("main")));
    bench.server.set_behavior(never_responds(RequestKind::Objects));
    let error = bench.read(&commit).unwrap_err().to_string();
    assert!(error.contains("did not respond") && error.contains(&commit), "{error}");
    bench.server.set_behavior(ServerBehavior::default());
    assert_eq!(retry_until_success(|| bench.read(&commit)).len(), 1);
}

#[test]
fn an_endless_response() {
    let small = limits(|limits| (limits.names_bytes, limits.pack_bytes) = (100_000, 100_000));
    let Some(bench) = RemoteFixture::with(GitServer::start, small) else { return };
    for asked in [RequestKind::Capabilities, RequestKind::Refs] {
        bench.server.set_behavior(ServerBehavior { endless: Some(asked), ..ServerBehavior::default() });
        assert!(bench.open().observe().is_err(), "{asked:?}");
    }
    bench.server.set_behavior(ServerBehavior::default());
    let commit = bench.open().observe().and_then(|_| bench.open().resolve("main")).unwrap();
    bench
        .server
        .set_behavior(ServerBehavior { endless: Some(RequestKind::Objects), ..ServerBehavior::default() });
    let error = bench.read(&commit).unwrap_err().to_string();
    assert!(error.contains(&commit), "{error}");
    // Even a correct response exceeds the limit of this client.
    bench.server.set_behavior(ServerBehavior::default());
    let noise: String =
        (0..50_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    bench.commit("large.txt", &noise);
    let error = bench.observe_and_read("main").unwrap_err().to_string();
    assert!(error.contains("response is too large"), "{error}");
}

/// A small response may decompress to a large object.
#[test]
fn a_decompression_bomb() {
    let Some(bench) = RemoteFixture::with(GitServer::start, limits(|limits| limits.object_bytes = 1 << 20))
    else {
        return;
    };
    bench.commit("bomb.txt", &"a".repeat(4 << 20));
    let error = bench.observe_and_read("main").unwrap_err().to_string();
    assert!(error.contains("cannot fetch commit"), "{error}");
    assert!(bench.mirrors().is_empty(), "the mirror is not empty: {:?}", bench.mirrors());
}

#[test]
fn an_incomplete_response() {
    let Some(bench) = RemoteFixture::new() else { return };
    for asked in [RequestKind::Capabilities, RequestKind::Refs] {
        bench.server.set_behavior(ServerBehavior { truncated: Some(asked), ..ServerBehavior::default() });
        let error = bench.open().observe().unwrap_err().to_string();
        assert!(error.contains("before the end of its response"), "{asked:?}: {error}");
    }
    bench.server.set_behavior(ServerBehavior::default());
    let commit = bench.open().observe().and_then(|_| bench.open().resolve("main")).unwrap();
    bench
        .server
        .set_behavior(ServerBehavior { truncated: Some(RequestKind::Objects), ..ServerBehavior::default() });
    let error = bench.read(&commit).unwrap_err().to_string();
    assert!(error.contains("before the end of its response"), "{error}");
    bench.server.set_behavior(ServerBehavior::default());
    assert_eq!(bench.read(&commit).unwrap().len(), 1);
}

#[test]
fn rejections_of_a_server() {
    let Some(bench) = RemoteFixture::new() else { return };
    for (status, expected) in [
        (404, "private repositories"),
        (403, "403"),
        (500, "next comparison"),
        (204, "204"),
        (302, "without a location"),
    ] {
        bench.server.set_behavior(ServerBehavior { status: Some(status), ..ServerBehavior::default() });
        let error = bench.open().observe().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(&bench.url()), "{status}: {error}");
    }
    let redirect = Some(("/repo".to_owned(), bench.url()));
    bench.server.set_behavior(ServerBehavior { redirect, ..ServerBehavior::default() });
    let error = bench.open().observe().unwrap_err().to_string();
    assert!(error.contains("more than 5 times"), "{error}");
}

/// During an outage, resolving a revision must return the reason. The end of the outage must be reported as a
/// change.
#[test]
fn a_server_outage() {
    let Some(mut bench) = RemoteFixture::new() else { return };
    let commit = bench.open().resolve("main").unwrap();
    bench.read(&commit).unwrap();
    bench.server.stop_listening();
    assert!(bench.open().observe_availability(), "the outage is reported as a change");
    assert!(!bench.open().observe_availability());
    let error = bench.open().resolve("main").unwrap_err().to_string();
    assert!(error.contains("cannot be reached") && error.contains(&bench.url()), "{error}");
    assert_eq!(bench.read(&commit).unwrap().len(), 1, "fetched content remains available");
    bench.server.resume_listening();
    assert!(bench.open().observe_availability());
    assert_eq!(bench.open().resolve("main").unwrap(), commit);
}

/// A shutdown must not wait until a server responds.
#[test]
fn requests_can_be_canceled() {
    let Some(bench) = RemoteFixture::new() else { return };
    bench.server.set_behavior(never_responds(RequestKind::Capabilities));
    thread::scope(|scope| {
        let look = scope.spawn(|| bench.open().observe().unwrap_err().to_string());
        bench.server.wait_for_request();
        bench.repositories.stop();
        let error = look.join().unwrap();
        assert!(error.contains("interrupted"), "{error}");
    });
    assert!(bench.open().observe().is_err(), "new requests fail immediately");
}

/// A link may refer to a file outside the repository, but reading the link must be refused.
#[test]
fn hostile_trees() {
    let Some(bench) = RemoteFixture::new() else { return };
    bench.commit("app/b.yaml", MAP);
    std::os::unix::fs::symlink("../../../../etc/passwd", bench.path().join("app/c.yaml")).unwrap();
    bench.git(&["add", "--all"]);
    bench.git(&["commit", "--quiet", "--message", "a link"]);
    let error = bench.observe_and_read("main").unwrap_err().to_string();
    assert!(error.contains("outside the repository"), "{error}");
    // An entry for a commit is a submodule, which must not cause a fetch from another repository.
    bench.git(&["rm", "--quiet", "-r", "app"]);
    let elsewhere = format!("160000,{},app", "1".repeat(40));
    bench.git(&["update-index", "--add", "--cacheinfo", &elsewhere]);
    bench.git(&["commit", "--quiet", "--message", "a submodule"]);
    let error = bench.observe_and_read("main").unwrap_err().to_string();
    assert!(error.contains("app is a submodule"), "{error}");
}
