//! Tests for signatures created by gpg. The results must match gpg's.

use serde_json::Value;
use tempfile::TempDir;
use tidegate_model::Timestamp;
use tidegate_model::argo::ApplicationSource;
use tidegate_source::{Credentials, Repositories, RequiredKeys, SignatureCheck, SourceError};
use tidegate_testkit::signed_commits;

const ALL: [&str; 5] = ["alice", "bob", "carol", "dora", "frank"];

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-11-23T00:00:00Z")
}

struct SignatureFixture {
    folder: TempDir,
    repositories: Repositories,
}

impl SignatureFixture {
    fn new(keys: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        signed_commits::copy_repository(&folder.path().join("signed.git"));
        let bench = Self { folder, repositories: Repositories::default() };
        bench.set_keys(keys);
        bench
    }

    fn set_keys(&self, keys: &[&str]) -> bool {
        let mut credentials = Credentials::default();
        assert!(credentials.add(&signed_commits::public_keys(keys)).unwrap());
        self.repositories.set_credentials(credentials)
    }

    /// Checks that a revision is signed with one of these keys, at the given time.
    fn check(&self, revision: &str, by: &[String], now: Timestamp) -> Result<(), String> {
        let source = ApplicationSource { repo_url: "./signed.git".into(), ..ApplicationSource::default() };
        let repository = self.repositories.open(&source.repo_url, self.folder.path()).unwrap();
        let commit = repository.resolve(revision).unwrap();
        self.check_commit(&source, &commit, revision, by, now).map_err(|error| error.to_string())
    }

    fn check_commit(
        &self,
        source: &ApplicationSource,
        commit: &str,
        revision: &str,
        by: &[String],
        now: Timestamp,
    ) -> Result<(), SourceError> {
        let wanted = RequiredKeys::new("shop", by.iter().map(String::as_str)).unwrap();
        let check = SignatureCheck { commit, names: &[revision], keys: &wanted, now };
        self.repositories.check_signed(source, self.folder.path(), check)
    }
}

fn ids(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| signed_commits::key_id(name)).collect()
}

/// Returns the expected error for a row of the table. The error corresponds to gpg's result, except where
/// Tidegate is stricter.
fn expected(row: &Value) -> Option<String> {
    let (name, word) = (row["name"].as_str().unwrap(), row["gpg"].as_str().unwrap());
    let with = |who: &str, rest: &str| Some(format!("key {}{rest}", signed_commits::key_id(who)));
    match (word, name) {
        ("GOODSIG", "by-frank") => with("frank", ", but project 'shop' requires a signature with"),
        ("GOODSIG", "by-alice-sha1") => with("alice", " using SHA1, which is not secure"),
        ("GOODSIG", "v9.0.0") => Some("has the signature of a different tag, v1.0.0".to_owned()),
        ("GOODSIG", _) => None,
        ("BADSIG", _) => with("alice", ": the content was changed"),
        ("EXPKEYSIG", _) => with("carol", ", which expired at 2020-12-31T00:00:00"),
        ("REVKEYSIG", _) => with("dora", ", which was revoked"),
        ("EXPSIG", _) => with("alice", ", but the signature expired at 2026-01-02T00:00:00"),
        ("NO_PUBKEY", _) => with("erin", ", but the argocd-gpg-keys-cm ConfigMap has no such key"),
        ("", "by-ssh") => Some("is signed with SSH; only OpenPGP signatures are supported".to_owned()),
        ("", _) => Some("is not signed; project 'shop' requires a signature with".to_owned()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn verdicts_match_gpg() {
    let bench = SignatureFixture::new(&ALL);
    let table = signed_commits::gpg_results();
    assert!(table.len() >= 15);
    // All keys are required except for frank's, so frank's valid signatures must be rejected. The key of erin
    // is required but missing from the keyring.
    let wanted = ids(&["alice", "bob", "carol", "dora", "erin"]);
    for row in &table {
        let name = row["name"].as_str().unwrap();
        let said = bench.check(name, &wanted, now());
        match expected(row) {
            None => assert_eq!(said, Ok(()), "{row}"),
            Some(part) => {
                let said = said.unwrap_err();
                assert!(said.contains(&part), "{row}: {said}, not {part}");
                assert!(
                    said.contains(row["commit"].as_str().unwrap()) && said.contains("signed.git"),
                    "{said}"
                );
            }
        }
        // A repeated check, which uses the cache, must have the same result.
        assert_eq!(bench.check(name, &wanted, now()).is_ok(), expected(row).is_none(), "{row}");
    }
}

#[test]
fn a_tag_is_checked_where_the_revision_is_one() {
    let bench = SignatureFixture::new(&ALL);
    let wanted = ids(&["alice"]);
    // The ID of the commit refers to the commit itself, which isn't signed.
    let commit =
        bench.repositories.open("./signed.git", bench.folder.path()).unwrap().resolve("v1.0.0").unwrap();
    assert!(bench.check(&commit, &wanted, now()).unwrap_err().contains("commit"));
    for (revision, is_signed) in [
        ("v1.0.0", true),
        ("~1.0.0", true),
        ("refs/tags/v1.0.0", true),
        // The commit is signed, but the annotated tag isn't.
        ("by-alice", true),
        ("v2.0.0", false),
        ("~2.0.0", false),
        // This tag is a lightweight tag.
        ("v3.0.0", true),
        ("", false),
        ("main", false),
    ] {
        let said = bench.check(revision, &wanted, now());
        assert_eq!(said.is_ok(), is_signed, "{revision}: {said:?}");
    }
}

#[test]
fn a_subkey_counts_as_itself_and_as_its_primary_key() {
    let bench = SignatureFixture::new(&ALL);
    let said = bench.check("by-bob", &ids(&["alice"]), now()).unwrap_err();
    let (before, _) = said.split_once(&format!(" of {}", signed_commits::key_id("bob"))).unwrap();
    let own = before.rsplit(' ').next().unwrap().to_owned();
    assert_ne!(own, signed_commits::key_id("bob"));
    assert_eq!(bench.check("by-bob", &[own.to_ascii_lowercase()], now()), Ok(()));
    assert_eq!(bench.check("by-bob", &ids(&["bob"]), now()), Ok(()));
}

#[test]
fn time_and_keys_change_the_verdict() {
    let bench = SignatureFixture::new(&ALL);
    let (alice, carol) = (ids(&["alice"]), ids(&["carol"]));
    let (name, day) = ("by-alice-for-a-day", at("2026-01-01T12:00:00Z"));
    assert_eq!(bench.check(name, &alice, day), Ok(()));
    assert!(
        bench.check(name, &alice, now()).unwrap_err().contains("expired at"),
        "the cached signature has expired"
    );
    assert_eq!(bench.check("by-carol", &carol, at("2020-07-01T00:00:00Z")), Ok(()));
    assert!(bench.check("by-carol", &carol, now()).unwrap_err().contains("expired"));
    // At this time, the signature or the key doesn't exist yet.
    for early in ["2025-06-01T00:00:00Z", "2024-01-01T00:00:00Z"] {
        assert!(bench.check("by-alice", &alice, at(early)).unwrap_err().contains("in the future"), "{early}");
    }
    assert_eq!(bench.check("by-alice", &alice, now()), Ok(()));
    assert!(!bench.set_keys(&ALL), "the keys have not changed");
    assert!(bench.set_keys(&["bob"]));
    assert!(bench.check("by-alice", &alice, now()).unwrap_err().contains("has no such key"));
    // The name of the entry is the ID of another key, so the key isn't used.
    let mut renamed = signed_commits::public_keys(&["frank"]).as_value().clone();
    let frank = renamed["data"][signed_commits::key_id("frank")].take();
    renamed["data"] = serde_json::json!({signed_commits::key_id("alice"): frank, "readme": "none"});
    let mut credentials = Credentials::default();
    credentials.add(&renamed.try_into().unwrap()).unwrap();
    bench.repositories.set_credentials(credentials);
    assert!(bench.check("by-frank", &ids(&["frank"]), now()).unwrap_err().contains("has no such key"));
}

#[test]
fn key_ids_of_a_project_are_validated() {
    let wanted = |key: &str| RequiredKeys::new("shop", [key]).map(drop);
    assert_eq!(wanted("4AEE18F83AFDEB23"), Ok(()));
    for wrong in ["", "github", "FDEB23"] {
        assert_eq!(wanted(wrong), Err(wrong.to_owned()));
    }
}
