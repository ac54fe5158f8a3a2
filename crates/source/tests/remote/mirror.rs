//! Tests for the requests to a Git server, and for the mirror that contains the responses.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;

use tidegate_source::{RemoteAccess, Repositories, SourceError};
use tidegate_testkit::git::{GitServer, RequestKind, ServerBehavior};

use super::fixture::{MAP, RemoteFixture, limits, read};

/// Without changes, an observation must send only one request, which lists the refs.
#[test]
fn a_commit_is_fetched_once() {
    let Some(bench) = RemoteFixture::new() else { return };
    assert_eq!(bench.observe_and_read("main").unwrap()[0].content, MAP.as_bytes());
    assert_eq!(bench.server.request_kinds(), [RequestKind::Refs, RequestKind::Objects]);
    for _ in 0..3 {
        assert_eq!(bench.observe_and_read("main").unwrap().len(), 1);
        assert_eq!(bench.server.request_kinds(), [RequestKind::Refs]);
    }
    bench.commit("elsewhere.yaml", "{}");
    assert_eq!(bench.open().observe(), Ok(true));
    assert_eq!(bench.open().observe(), Ok(false));
    assert_eq!(
        bench.server.request_kinds(),
        [RequestKind::Refs, RequestKind::Refs],
        "the new commit is not needed yet"
    );
    // This registry acts like another process with the same state directory.
    let again = Repositories::new(RemoteAccess::new(bench.folder.path().join("mirrors")));
    let repository = again.open(&bench.url(), Path::new("/")).unwrap();
    repository.observe().unwrap();
    let commit = repository.resolve("").unwrap();
    assert_eq!(read(&repository, &commit).unwrap().len(), 1);
    assert_eq!(bench.server.request_kinds(), [RequestKind::Refs, RequestKind::Objects]);
    assert_eq!(bench.observe_and_read("main").unwrap().len(), 1);
    assert_eq!(bench.server.request_kinds(), [RequestKind::Refs], "fetched commits are shared");
}

/// If a process is killed during a fetch, the next process must delete the incomplete data, and must be able
/// to read earlier commits.
#[test]
fn a_killed_fetch_leaves_nothing() {
    let Some(bench) = RemoteFixture::new() else { return };
    bench.observe_and_read("main").unwrap();
    let mirror = bench.mirrors().remove(0);
    let halves = [".tmpaejKkK", ".tmptMpLvs"].map(|name| mirror.join("objects/pack").join(name));
    let beside = mirror.with_extension("new");
    let names = mirror.join("shallow.new");
    halves.iter().chain([&names]).for_each(|path| fs::write(path, "half").unwrap());
    fs::create_dir_all(beside.join("objects/pack")).unwrap();
    bench.server.request_kinds();
    let next = Repositories::new(RemoteAccess::new(bench.folder.path().join("mirrors")));
    for left in halves.iter().chain([&names, &beside]) {
        assert!(!left.exists(), "{left:?}");
    }
    let repository = next.open(&bench.url(), Path::new("/")).unwrap();
    repository.observe().unwrap();
    let commit = repository.resolve("").unwrap();
    assert_eq!(read(&repository, &commit).unwrap()[0].content, MAP.as_bytes());
    assert_eq!(bench.server.request_kinds(), [RequestKind::Refs], "nothing is fetched again");
}

/// The client must announce the commits that it has. The server must then send neither the history nor a
/// large file that hasn't changed.
#[test]
fn only_new_objects_are_sent() {
    let Some(bench) = RemoteFixture::new() else { return };
    let noise: String =
        (0..200_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    bench.commit("large.txt", &noise);
    let first = bench.commit("app/b.yaml", MAP);
    bench.observe_and_read("main").unwrap();
    let packs = || {
        let folder = bench.mirrors()[0].join("objects/pack");
        let packs = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let mut sizes: Vec<u64> = packs
            .filter(|file| file.path().extension().is_some_and(|end| end == "pack"))
            .map(|file| file.metadata().unwrap().len())
            .collect();
        sizes.sort_unstable();
        sizes
    };
    let before = packs();
    assert!(before.len() == 1 && before[0] > 500_000, "{before:?}");
    bench.server.requests();
    let second = bench.commit("app/c.yaml", MAP);
    assert_eq!(bench.observe_and_read("main").unwrap().len(), 3);
    assert!(packs()[0] < 10_000, "{:?}", packs());
    let requests = bench.server.requests();
    let asked = &requests.iter().find(|one| one.kind == RequestKind::Objects).unwrap().body;
    for line in
        [format!("want {second}"), format!("have {first}"), format!("shallow {first}"), "deepen 1".into()]
    {
        assert!(asked.contains(&line), "{line}: {asked}");
    }
    // The history of the commit is missing, but the commit must be complete according to Git's own check.
    let mut check = std::process::Command::new("git");
    let check = check.arg("-C").arg(&bench.mirrors()[0]).args(["fsck", "--full", &second]).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

/// If many Applications need the same commit at once, it must be fetched only once.
#[test]
fn concurrent_callers_share_a_request() {
    let Some(bench) = RemoteFixture::new() else { return };
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(bench.observe_and_read("main").unwrap().len(), 1));
        }
    });
    let asked = bench.server.request_kinds();
    let names = asked.iter().filter(|one| **one == RequestKind::Refs).count();
    assert_eq!(asked.len() - names, 1, "{asked:?}");
    assert!(names <= 8, "{asked:?}");
}

/// A commit must be readable even if no branch contains it. If the server doesn't have the commit, the error
/// must name the commit.
#[test]
fn history_is_rewritten() {
    let Some(bench) = RemoteFixture::new() else { return };
    let first = bench.open().resolve("main").unwrap();
    bench.git(&["commit", "--amend", "--quiet", "--message", "another"]);
    assert_eq!(bench.read(&first).unwrap().len(), 1, "the server still has the commit");
    assert_ne!(bench.open().observe().and_then(|_| bench.open().resolve("main")).unwrap(), first);
    let gone = "1234567890123456789012345678901234567890";
    let error = bench.read(gone).unwrap_err().to_string();
    assert!(error.contains(gone) && error.contains("not our ref"), "{error}");
}

/// A mirror must be deleted if its repository isn't used, even if another process created it. It must remain
/// if the repository is used or open.
#[test]
fn a_mirror_is_deleted_with_its_last_user() {
    let Some(bench) = RemoteFixture::new() else { return };
    bench.observe_and_read("main").unwrap();
    let mirrors = bench.folder.path().join("mirrors");
    let used = BTreeSet::from([bench.open().address().clone()]);
    // The folder contains a mirror from an earlier process, an incomplete mirror, and a folder that isn't a
    // mirror.
    for name in
        ["0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef.new", "charts", "keys-1"]
    {
        fs::create_dir_all(mirrors.join(name).join("objects")).unwrap();
    }
    let names = || {
        let mut names: Vec<_> =
            bench.mirrors().iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let own = names()
        .into_iter()
        .find(|name| name.len() == 32 && *name != "0123456789abcdef0123456789abcdef")
        .unwrap();
    let kept = |has_own: bool| {
        let mut kept = vec!["charts".into(), "keys-1".into()];
        kept.extend(has_own.then(|| own.clone()));
        kept.sort();
        kept
    };
    bench.repositories.keep_only(&used);
    assert_eq!(names(), kept(true));
    let at_work = bench.open();
    bench.repositories.keep_only(&BTreeSet::new());
    assert_eq!(names(), kept(true), "an open repository keeps its mirror");
    drop(at_work);
    bench.repositories.keep_only(&BTreeSet::new());
    assert_eq!(names(), kept(false));
    assert_eq!(bench.observe_and_read("main").unwrap().len(), 1, "a deleted mirror is fetched again");
    assert_eq!(names(), kept(true));
}

#[test]
fn a_damaged_mirror_is_recreated() {
    let Some(bench) = RemoteFixture::new() else { return };
    let commit = bench.open().resolve("main").unwrap();
    bench.read(&commit).unwrap();
    let mirror = bench.mirrors()[0].clone();
    let damage: [&dyn Fn(); 5] = [
        &|| fs::remove_dir_all(mirror.join("objects")).unwrap(),
        &|| fs::remove_file(mirror.join("HEAD")).unwrap(),
        &|| fs::write(mirror.join("shallow"), "nonsense").unwrap(),
        &|| fs::remove_dir_all(&mirror).unwrap(),
        // The commit object exists, but its files are missing.
        &|| {
            for file in fs::read_dir(mirror.join("objects/pack")).unwrap().map(|file| file.unwrap().path()) {
                let mut content = fs::read(&file).unwrap();
                if file.extension().is_some_and(|end| end == "pack") {
                    let end = content.len() - 20;
                    content[12..end].fill(0xff);
                    let mut permissions = fs::metadata(&file).unwrap().permissions();
                    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
                    fs::set_permissions(&file, permissions).unwrap();
                    fs::write(&file, content).unwrap();
                }
            }
        },
    ];
    for (number, damage) in damage.iter().enumerate() {
        bench.server.requests();
        damage();
        assert_eq!(bench.read(&commit).unwrap().len(), 1, "{number}");
        assert_eq!(bench.server.request_kinds(), [RequestKind::Objects], "{number}");
        assert_eq!(bench.read(&commit).unwrap().len(), 1, "{number}");
        assert!(bench.server.request_kinds().is_empty(), "{number}");
    }
}

/// Only the next fetch reads the damaged file of the mirror.
#[test]
fn a_fetch_that_finds_damage_recreates_the_mirror() {
    let Some(bench) = RemoteFixture::new() else { return };
    let noise: String =
        (0..9_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    bench.commit("large.txt", &noise);
    bench.observe_and_read("main").unwrap();
    let pack =
        fs::read_dir(bench.mirrors()[0].join("objects/pack")).unwrap().map(|file| file.unwrap().path());
    let pack = pack.into_iter().find(|path| path.extension().is_some_and(|end| end == "pack")).unwrap();
    let mut content = fs::read(&pack).unwrap();
    let middle = content.len() / 2;
    content[middle..middle + 100].fill(0);
    fs::remove_file(&pack).unwrap();
    fs::write(&pack, content).unwrap();
    // The server sends the new file as a delta, but the delta's base file can't be read.
    bench.commit("large.txt", &format!("{noise} and more"));
    assert_eq!(bench.observe_and_read("main").unwrap().len(), 1);
    let mut asked = bench.server.request_kinds();
    asked.retain(|one| *one == RequestKind::Objects);
    assert_eq!(asked.len(), 3, "one earlier, one failed and one full fetch");
}

/// Old data must be deleted after some time.
#[test]
fn a_mirror_does_not_grow_without_bound() {
    let Some(bench) = RemoteFixture::with(GitServer::start, limits(|limits| limits.mirror_fetches = 4))
    else {
        return;
    };
    let first = bench.open().resolve("main").unwrap();
    for number in 0..10 {
        bench.commit("app/a.yaml", &format!("{MAP} # {number}"));
        bench.observe_and_read("main").unwrap();
        let packs = fs::read_dir(bench.mirrors()[0].join("objects/pack")).unwrap();
        assert!(packs.count() <= 2 * 4, "{number}");
        assert_eq!(bench.mirrors().len(), 1);
    }
    bench.server.requests();
    assert_eq!(bench.read(&first).unwrap().len(), 1, "a commit that is needed again is fetched again");
    assert_eq!(bench.server.request_kinds(), [RequestKind::Objects]);
    let by_size = RemoteFixture::with(GitServer::start, limits(|limits| limits.mirror_bytes = 1)).unwrap();
    for number in 0..12 {
        let noise: String = (0..2_000_u64)
            .map(|n| format!("{:x}", (n + number * 7919).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        by_size.commit("app/a.yaml", &format!("{MAP} # {noise}"));
        by_size.observe_and_read("main").unwrap();
    }
    let shallow = fs::read_to_string(by_size.mirrors()[0].join("shallow")).unwrap();
    assert!(shallow.lines().count() < 12, "{shallow}");
}

/// The server supports only the first version of Git's protocol.
#[test]
fn an_old_server() {
    let Some(bench) = RemoteFixture::new() else { return };
    bench.server.set_behavior(ServerBehavior { is_legacy_protocol: true, ..ServerBehavior::default() });
    assert_eq!(bench.observe_and_read("main").unwrap().len(), 1);
    bench.commit("app/b.yaml", MAP);
    assert_eq!(bench.observe_and_read("").unwrap().len(), 2);
    assert_eq!(bench.observe_and_read("").unwrap().len(), 2);
    assert_eq!(
        bench.server.request_kinds(),
        [RequestKind::Objects, RequestKind::Objects],
        "names come with the greeting"
    );
}

#[test]
fn revisions() {
    let Some(bench) = RemoteFixture::new() else { return };
    let first = bench.open().resolve("main").unwrap();
    let second = bench.commit("app/b.yaml", MAP);
    bench.git(&["tag", "--annotate", "--message", "first", "v1", &first]);
    bench.git(&["tag", "plain", &first]);
    bench.git(&["branch", "plain", &second]);
    bench.git(&["branch", "deep/er", &first]);
    // The names of two branches look like version constraints, and only one of them matches a tag.
    bench.git(&["branch", "1.x", &second]);
    bench.git(&["branch", "2.x", &second]);
    bench.open().observe().unwrap();
    for (revision, expected) in [
        ("", &second),
        ("HEAD", &second),
        ("main", &second),
        ("refs/heads/main", &second),
        ("v1", &first),
        ("refs/tags/v1", &first),
        ("plain", &second),
        ("refs/tags/plain", &first),
        ("deep/er", &first),
        ("v1.*", &first),
        ("~1.0", &first),
        ("1.x", &first),
        ("2.x", &second),
        (first.as_str(), &first),
        (&first[..7], &first),
        (&second[..12], &second),
    ] {
        assert_eq!(bench.open().resolve(revision).unwrap(), *expected, "{revision}");
        assert!(!bench.read(expected).unwrap().is_empty());
    }
    for revision in ["none", "HEAD~1", "-x", "refs/heads/none"] {
        let error = bench.open().resolve(revision).unwrap_err();
        assert!(matches!(error, SourceError::NoRevision { .. }), "{error}");
    }
    let error = bench.open().resolve("1234567").unwrap_err().to_string();
    assert!(error.contains("1234567") && error.contains("40-digit ID"), "{error}");
}

#[test]
fn an_empty_repository() {
    let Some(mut bench) = RemoteFixture::new() else { return };
    bench.name = "empty";
    fs::create_dir(bench.path()).unwrap();
    bench.git(&["init", "--quiet"]);
    bench.open().observe().unwrap();
    assert!(matches!(bench.open().resolve(""), Err(SourceError::Empty { .. })));
}
