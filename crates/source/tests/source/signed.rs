//! Signatures that gpg has made, held against what gpg says of them.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_model::Timestamp;
use tidegate_model::argo::ApplicationSource;
use tidegate_source::{Credentials, Repositories, SourceError, Wanted};
use tidegate_testkit::signed;

const ALL: [&str; 5] = ["alice", "bob", "carol", "dora", "frank"];

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-11-23T00:00:00Z")
}

struct Bench {
    folder: TempDir,
    repositories: Repositories,
}

impl Bench {
    fn new(keys: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        signed::put(&folder.path().join("signed.git"));
        let bench = Self { folder, repositories: Repositories::default() };
        bench.give(keys);
        bench
    }

    fn give(&self, keys: &[&str]) -> bool {
        let mut credentials = Credentials::default();
        assert!(credentials.add(&signed::keys(keys)).unwrap());
        self.repositories.set_credentials(credentials)
    }

    /// Whether what a revision names is signed by one of these.
    fn check(&self, revision: &str, by: &[String], now: Timestamp) -> Result<(), String> {
        let source = ApplicationSource { repo_url: "./signed.git".into(), ..ApplicationSource::default() };
        let repository = self.repositories.open(&source.repo_url, self.folder.path()).unwrap();
        let commit = repository.resolve(revision).unwrap();
        self.check_commit(&source, &commit, (revision, by), now).map_err(|error| error.to_string())
    }

    fn check_commit(
        &self,
        source: &ApplicationSource,
        commit: &str,
        (revision, by): (&str, &[String]),
        now: Timestamp,
    ) -> Result<(), SourceError> {
        let wanted = Wanted::new("shop", by.iter().map(String::as_str)).unwrap();
        let place: (&ApplicationSource, &Path) = (source, self.folder.path());
        self.repositories.check_signed(place, commit, &[revision], (&wanted, now))
    }
}

fn ids(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| signed::key_id(name)).collect()
}

/// What is to be said of a row, where it is refused. gpg's word decides, but where we ask for more.
fn expected(row: &Value) -> Option<String> {
    let (name, word) = (row["name"].as_str().unwrap(), row["gpg"].as_str().unwrap());
    let with = |who: &str, rest: &str| Some(format!("with key {}{rest}", signed::key_id(who)));
    match (word, name) {
        ("GOODSIG", "by-frank") => with("frank", ", but project 'shop' asks for a signature with"),
        ("GOODSIG", "by-alice-sha1") => with("alice", " that is made with SHA1, which is not safe"),
        ("GOODSIG", "v9.0.0") => Some("has the signature of another tag, v1.0.0".to_owned()),
        ("GOODSIG", _) => None,
        ("BADSIG", _) => with("alice", ": what is signed was changed"),
        ("EXPKEYSIG", _) => with("carol", ", which expired at 2020-12-31T00:00:00"),
        ("REVKEYSIG", _) => with("dora", ", which was revoked"),
        ("EXPSIG", _) => with("alice", " that was good until 2026-01-02T00:00:00"),
        ("NO_PUBKEY", _) => with("erin", ", and the ConfigMap argocd-gpg-keys-cm has no such key"),
        ("", "by-ssh") => Some("is signed by SSH; only signatures of OpenPGP are checked".to_owned()),
        ("", _) => Some("is not signed; project 'shop' asks for a signature with".to_owned()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_gpg_finds_good_is_good_and_nothing_else() {
    let bench = Bench::new(&ALL);
    let table = signed::table();
    assert!(table.len() >= 15);
    // All but frank, who signs well and is nobody's choice; erin, whose key nobody has, is.
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
        // What was found once is found again.
        assert_eq!(bench.check(name, &wanted, now()).is_ok(), expected(row).is_none(), "{row}");
    }
}

#[test]
fn a_tag_is_checked_where_the_revision_is_one() {
    let bench = Bench::new(&ALL);
    let wanted = ids(&["alice"]);
    // Whoever names the commit means the commit, which is not signed.
    let commit =
        bench.repositories.open("./signed.git", bench.folder.path()).unwrap().resolve("v1.0.0").unwrap();
    assert!(bench.check(&commit, &wanted, now()).unwrap_err().contains("commit"));
    for (revision, is_signed) in [
        ("v1.0.0", true),
        ("~1.0.0", true),
        ("refs/tags/v1.0.0", true),
        // The commit is signed, and its annotated tag is not.
        ("by-alice", true),
        ("v2.0.0", false),
        ("~2.0.0", false),
        // A tag that is nothing but a name.
        ("v3.0.0", true),
        ("", false),
        ("main", false),
    ] {
        let said = bench.check(revision, &wanted, now());
        assert_eq!(said.is_ok(), is_signed, "{revision}: {said:?}");
    }
}

#[test]
fn a_subkey_counts_as_itself_and_as_what_it_belongs_to() {
    let bench = Bench::new(&ALL);
    let said = bench.check("by-bob", &ids(&["alice"]), now()).unwrap_err();
    let (before, _) = said.split_once(&format!(" of {}", signed::key_id("bob"))).unwrap();
    let own = before.rsplit(' ').next().unwrap().to_owned();
    assert_ne!(own, signed::key_id("bob"));
    assert_eq!(bench.check("by-bob", &[own.to_ascii_lowercase()], now()), Ok(()));
    assert_eq!(bench.check("by-bob", &ids(&["bob"]), now()), Ok(()));
}

#[test]
fn time_and_other_keys_change_what_is_good() {
    let bench = Bench::new(&ALL);
    let (alice, carol) = (ids(&["alice"]), ids(&["carol"]));
    let (name, day) = ("by-alice-for-a-day", at("2026-01-01T12:00:00Z"));
    assert_eq!(bench.check(name, &alice, day), Ok(()));
    assert!(
        bench.check(name, &alice, now()).unwrap_err().contains("good until"),
        "though it was good before"
    );
    assert_eq!(bench.check("by-carol", &carol, at("2020-07-01T00:00:00Z")), Ok(()));
    assert!(bench.check("by-carol", &carol, now()).unwrap_err().contains("expired"));
    // Nobody has signed before that, or there was no such key.
    for early in ["2025-06-01T00:00:00Z", "2024-01-01T00:00:00Z"] {
        assert!(
            bench.check("by-alice", &alice, at(early)).unwrap_err().contains("from the future"),
            "{early}"
        );
    }
    assert_eq!(bench.check("by-alice", &alice, now()), Ok(()));
    assert!(!bench.give(&ALL), "they are the same");
    assert!(bench.give(&["bob"]));
    assert!(bench.check("by-alice", &alice, now()).unwrap_err().contains("has no such key"));
    // A key under another's name is not used.
    let mut renamed = signed::keys(&["frank"]).as_value().clone();
    let frank = renamed["data"][signed::key_id("frank")].take();
    renamed["data"] = serde_json::json!({signed::key_id("alice"): frank, "readme": "none"});
    let mut credentials = Credentials::default();
    credentials.add(&renamed.try_into().unwrap()).unwrap();
    bench.repositories.set_credentials(credentials);
    assert!(bench.check("by-frank", &ids(&["frank"]), now()).unwrap_err().contains("has no such key"));
}

#[test]
fn ids_of_a_project_are_ids() {
    let wanted = |key: &str| Wanted::new("shop", [key]).map(drop);
    assert_eq!(wanted("4AEE18F83AFDEB23"), Ok(()));
    for wrong in ["", "github", "FDEB23"] {
        assert_eq!(wanted(wrong), Err(wrong.to_owned()));
    }
}
