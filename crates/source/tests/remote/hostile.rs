//! Servers that are not there, or behave badly.

use std::thread;

use tidegate_source::SourceError;
use tidegate_testkit::git::{Asked, GitServer, Manners};

use super::bench::{Bench, MAP, SHORT, limits};

fn hangs(asked: Asked) -> Manners {
    Manners { hang: Some(asked), ..Manners::default() }
}

/// What comes in the end: a machine that has much to do is slower than the limit now and then.
fn at_last<T>(ask: impl Fn() -> Result<T, SourceError>) -> T {
    let is_late = |error: &SourceError| error.to_string().contains("did not answer within 0.3 s");
    let mut asked = (0..1000).map(|_| ask()).skip_while(|answer| answer.as_ref().is_err_and(is_late));
    asked.next().unwrap().unwrap()
}

#[test]
fn a_server_that_does_not_answer() {
    let Some(bench) = Bench::with(GitServer::start, limits(|limits| limits.answer = SHORT)) else { return };
    bench.server.behave(hangs(Asked::Names));
    let error = bench.open().look().unwrap_err().to_string();
    assert!(error.contains("did not answer within 0.3 s") && error.contains(&bench.url()), "{error}");
    bench.server.behave(Manners::default());
    let commit = at_last(|| bench.open().look().and_then(|_| bench.open().resolve("main")));
    bench.server.behave(hangs(Asked::Objects));
    let error = bench.read(&commit).unwrap_err().to_string();
    assert!(error.contains("did not answer") && error.contains(&commit), "{error}");
    bench.server.behave(Manners::default());
    assert_eq!(at_last(|| bench.read(&commit)).len(), 1);
}

#[test]
fn an_answer_without_end() {
    let small = limits(|limits| (limits.names_bytes, limits.pack_bytes) = (100_000, 100_000));
    let Some(bench) = Bench::with(GitServer::start, small) else { return };
    for asked in [Asked::Greeting, Asked::Names] {
        bench.server.behave(Manners { endless: Some(asked), ..Manners::default() });
        assert!(bench.open().look().is_err(), "{asked:?}");
    }
    bench.server.behave(Manners::default());
    let commit = bench.open().look().and_then(|_| bench.open().resolve("main")).unwrap();
    bench.server.behave(Manners { endless: Some(Asked::Objects), ..Manners::default() });
    let error = bench.read(&commit).unwrap_err().to_string();
    assert!(error.contains(&commit), "{error}");
    // More than is read, of a server that means well.
    bench.server.behave(Manners::default());
    let noise: String =
        (0..50_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    bench.commit("large.txt", &noise);
    let error = bench.look_and_read("main").unwrap_err().to_string();
    assert!(error.contains("longer than anybody reads"), "{error}");
}

/// Little that becomes much.
#[test]
fn a_bomb() {
    let Some(bench) = Bench::with(GitServer::start, limits(|limits| limits.object_bytes = 1 << 20)) else {
        return;
    };
    bench.commit("bomb.txt", &"a".repeat(4 << 20));
    let error = bench.look_and_read("main").unwrap_err().to_string();
    assert!(error.contains("cannot be fetched"), "{error}");
    assert!(bench.mirrors().is_empty(), "nothing is left of it: {:?}", bench.mirrors());
}

#[test]
fn half_an_answer() {
    let Some(bench) = Bench::new() else { return };
    for asked in [Asked::Greeting, Asked::Names] {
        bench.server.behave(Manners { half: Some(asked), ..Manners::default() });
        let error = bench.open().look().unwrap_err().to_string();
        assert!(error.contains("middle of its answer"), "{asked:?}: {error}");
    }
    bench.server.behave(Manners::default());
    let commit = bench.open().look().and_then(|_| bench.open().resolve("main")).unwrap();
    bench.server.behave(Manners { half: Some(Asked::Objects), ..Manners::default() });
    let error = bench.read(&commit).unwrap_err().to_string();
    assert!(error.contains("middle of its answer"), "{error}");
    bench.server.behave(Manners::default());
    assert_eq!(bench.read(&commit).unwrap().len(), 1);
}

#[test]
fn what_a_server_refuses() {
    let Some(bench) = Bench::new() else { return };
    for (status, expected) in [
        (404, "private repository"),
        (403, "403"),
        (500, "next look"),
        (204, "204"),
        (302, "without saying where"),
    ] {
        bench.server.behave(Manners { status: Some(status), ..Manners::default() });
        let error = bench.open().look().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(&bench.url()), "{status}: {error}");
    }
    let redirect = Some(("/repo".to_owned(), bench.url()));
    bench.server.behave(Manners { redirect, ..Manners::default() });
    let error = bench.open().look().unwrap_err().to_string();
    assert!(error.contains("more than 5 times"), "{error}");
}

/// While it is away nothing is made up; who asks learns why. When it is back, that is a change.
#[test]
fn a_server_that_goes_and_comes_back() {
    let Some(mut bench) = Bench::new() else { return };
    let commit = bench.open().resolve("main").unwrap();
    bench.read(&commit).unwrap();
    bench.server.go_away();
    assert!(bench.open().look_again(), "that it is away is new");
    assert!(!bench.open().look_again());
    let error = bench.open().resolve("main").unwrap_err().to_string();
    assert!(error.contains("cannot be reached") && error.contains(&bench.url()), "{error}");
    assert_eq!(bench.read(&commit).unwrap().len(), 1, "what was fetched is there");
    bench.server.come_back();
    assert!(bench.open().look_again());
    assert_eq!(bench.open().resolve("main").unwrap(), commit);
}

/// Whoever ends does not wait for a server.
#[test]
fn it_can_be_interrupted() {
    let Some(bench) = Bench::new() else { return };
    bench.server.behave(hangs(Asked::Greeting));
    thread::scope(|scope| {
        let look = scope.spawn(|| bench.open().look().unwrap_err().to_string());
        bench.server.await_request();
        bench.repositories.stop();
        let error = look.join().unwrap();
        assert!(error.contains("interrupted"), "{error}");
    });
    assert!(bench.open().look().is_err(), "and nothing begins any more");
}

/// A name that leads out of the repository is content like any other, and is refused where it is read.
#[test]
fn hostile_trees() {
    let Some(bench) = Bench::new() else { return };
    bench.commit("app/b.yaml", MAP);
    std::os::unix::fs::symlink("../../../../etc/passwd", bench.path().join("app/c.yaml")).unwrap();
    bench.git(&["add", "--all"]);
    bench.git(&["commit", "--quiet", "--message", "a link"]);
    let error = bench.look_and_read("main").unwrap_err().to_string();
    assert!(error.contains("outside of the repository"), "{error}");
    // Another repository is not fetched because a tree names one of its commits.
    bench.git(&["rm", "--quiet", "-r", "app"]);
    let elsewhere = format!("160000,{},app", "1".repeat(40));
    bench.git(&["update-index", "--add", "--cacheinfo", &elsewhere]);
    bench.git(&["commit", "--quiet", "--message", "a submodule"]);
    let error = bench.look_and_read("main").unwrap_err().to_string();
    assert!(error.contains("app is a submodule"), "{error}");
}
