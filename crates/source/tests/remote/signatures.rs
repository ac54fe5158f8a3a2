//! Tests for signatures of commits and tags on a Git server.

use std::fs;
use std::path::Path;

use tidegate_model::argo::ApplicationSource;
use tidegate_source::{Credentials, RequiredKeys, SignatureCheck};
use tidegate_testkit::git::{GitServer, RequestKind, ServerBehavior};
use tidegate_testkit::signed_commits;

use super::fixture::RemoteFixture;

fn bench() -> Option<RemoteFixture> {
    let bench = RemoteFixture::with(GitServer::start, |_| {})?;
    signed_commits::copy_repository(&bench.folder.path().join("root/signed.git"));
    let mut credentials = Credentials::default();
    credentials.add(&signed_commits::public_keys(&["alice"])).unwrap();
    bench.repositories.set_credentials(credentials);
    Some(RemoteFixture { name: "signed.git", ..bench })
}

fn check(bench: &RemoteFixture, revision: &str) -> Result<(), String> {
    let source = ApplicationSource { repo_url: bench.url(), ..ApplicationSource::default() };
    let commit = bench.open().resolve(revision).unwrap();
    let wanted = RequiredKeys::new("shop", [signed_commits::key_id("alice").as_str()]).unwrap();
    let now = "2026-11-23T00:00:00Z".parse().unwrap();
    let check = SignatureCheck { commit: &commit, names: &[revision], keys: &wanted, now };
    bench.repositories.check_signed(&source, Path::new("/"), check).map_err(|error| error.to_string())
}

/// If a tag must be signed, the tag must be fetched, but only once. This must work with both versions of the
/// protocol.
#[test]
fn a_tag_is_fetched_for_its_signature() {
    for is_legacy_protocol in [false, true] {
        let Some(bench) = bench() else { return };
        bench.server.set_behavior(ServerBehavior { is_legacy_protocol, ..ServerBehavior::default() });
        assert_eq!(check(&bench, "v1.0.0"), Ok(()), "old: {is_legacy_protocol}");
        let of = |asked: &[RequestKind]| asked.iter().filter(|one| **one == RequestKind::Objects).count();
        assert_eq!(of(&bench.server.request_kinds()), 2, "the commit, and its tag");
        assert_eq!(check(&bench, "v1.0.0"), Ok(()));
        assert_eq!(of(&bench.server.request_kinds()), 0);
        assert!(check(&bench, "v2.0.0").unwrap_err().contains("the tag v2.0.0 of commit"));
        assert!(check(&bench, "v9.0.0").unwrap_err().contains("a different tag, v1.0.0"));
        assert_eq!(check(&bench, "v3.0.0"), Ok(()));
        assert_eq!(check(&bench, "by-alice"), Ok(()));
        assert!(check(&bench, "changed").unwrap_err().contains("has a bad signature"));
        assert!(check(&bench, "main").unwrap_err().contains("is not signed"));
        // The tag is in the mirror now, which must not affect other fetches.
        assert_eq!(bench.observe_and_read("v1.0.0").unwrap().len(), 1);
    }
}

/// A server may list a signed tag for an unsigned commit. The commit must be rejected even if the signature
/// of the tag is cached.
#[test]
fn a_tag_vouches_for_its_own_commit_alone() {
    for is_known in [false, true] {
        let Some(bench) = bench() else { return };
        if is_known {
            assert_eq!(check(&bench, "v1.0.0"), Ok(()));
        }
        let refs = bench.folder.path().join("root/signed.git/packed-refs");
        let honest = fs::read_to_string(&refs).unwrap();
        let of = |name: &str| honest.lines().find(|line| line.ends_with(name)).unwrap();
        let (tag, main) = (of("refs/tags/v1.0.0"), &of("refs/heads/main")[..40]);
        let (before, after) = honest.split_once(tag).unwrap();
        let (_, rest) = after.trim_start().split_once('\n').unwrap();
        fs::write(&refs, format!("{before}{tag}\n^{main}\n{rest}")).unwrap();
        bench.open().observe().unwrap();
        assert_eq!(bench.open().resolve("v1.0.0").unwrap(), main);
        let said = check(&bench, "v1.0.0").unwrap_err();
        assert!(said.contains("refers to a different commit than the repository reports"), "{said}");
    }
}

#[test]
fn charts_are_not_signed() {
    let Some(bench) = bench() else { return };
    let source = ApplicationSource {
        repo_url: "https://charts.example.com".into(),
        chart: "web".into(),
        ..ApplicationSource::default()
    };
    let wanted = RequiredKeys::new("shop", ["4AEE18F83AFDEB23"]).unwrap();
    let now = "2026-11-23T00:00:00Z".parse().unwrap();
    let check = SignatureCheck { commit: "1.0.0", names: &["1.0.0"], keys: &wanted, now };
    let said = bench.repositories.check_signed(&source, Path::new("/"), check).unwrap_err();
    assert!(said.to_string().contains("project 'shop' has signatureKeys, so charts"), "{said}");
}
