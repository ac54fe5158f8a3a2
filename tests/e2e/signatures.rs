//! Applications whose project requires signatures: only revisions with the required signature are synced.

use std::fs;

use serde_json::Value;
use tidegate_testkit::signed_commits;

use crate::fleet::Fleet;

fn project(fleet: &Fleet, keys: &[&str]) {
    let keys: Vec<String> =
        keys.iter().map(|name| format!("{{keyID: {}}}", signed_commits::key_id(name))).collect();
    let text = format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {{name: signed}}\nspec:\n  \
         sourceRepos: ['*']\n  destinations: [{{server: '*', namespace: '*'}}]\n  signatureKeys: [{}]\n",
        keys.join(", ")
    );
    fs::write(fleet.path("project.yaml"), text).unwrap();
}

fn application(fleet: &Fleet, revision: &str) {
    let text = format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: signed}}\nspec:\n  project: signed\n  \
         source: {{repoURL: ./signed.git, path: app, targetRevision: '{revision}'}}\n  \
         destination: {{name: in-cluster, namespace: fleet}}\n"
    );
    fs::write(fleet.path("signed.yaml"), text).unwrap();
}

fn give(fleet: &Fleet, names: &[&str]) {
    fs::write(
        fleet.bench.path().join("keys/keys.json"),
        signed_commits::public_keys(names).as_value().to_string(),
    )
    .unwrap();
    fleet.bench.run(&["app", "refresh", "signed"]).expect_code(0);
}

fn comparison_error(app: &Value) -> String {
    let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == "ComparisonError");
    found.map_or_else(String::new, |found| found["message"].as_str().unwrap().to_owned())
}

/// Returns the number of writes of the application that requires signatures.
fn writes(fleet: &Fleet) -> usize {
    fleet.bench.writes().iter().filter(|one| one["name"] == "signed" && one["kind"] == "ConfigMap").count()
}

#[test]
fn unsigned_revisions_are_not_synced() {
    let fleet = Fleet::new();
    signed_commits::copy_repository(&fleet.path("signed.git"));
    fs::create_dir(fleet.bench.path().join("keys")).unwrap();
    project(&fleet, &["alice", "bob"]);
    application(&fleet, "by-alice");
    let service = fleet.serve_with(&["--repositories", "keys"]);
    // The key is missing, and other keys don't count.
    let says = |part: &str| drop(fleet.wait_until("signed", |app| comparison_error(app).contains(part)));
    says(&format!(
        "is signed with key {}, but the argocd-gpg-keys-cm ConfigMap has no such key",
        signed_commits::key_id("alice")
    ));
    fleet.wait_until_synced(&["backend", "database", "frontend"]);
    let refused = fleet.bench.run(&["app", "sync", "signed"]);
    assert!(refused.code() != 0 && writes(&fleet) == 0, "{refused:?}");
    give(&fleet, &["alice", "bob", "frank"]);
    fleet.wait_until("signed", |app| {
        app["status"]["sync"]["status"] == "OutOfSync" && comparison_error(app).is_empty()
    });
    let sync = |options: &[&str]| {
        let ran = fleet.bench.run(&[&["app", "sync", "signed", "--timeout", "10m"], options].concat());
        (ran.code(), format!("{}{}", ran.out, ran.err))
    };
    assert_eq!(sync(&[]).0, 0);
    assert_eq!(writes(&fleet), 1);
    // One revision is signed by a subkey of a listed key. The other is a signed tag of an unsigned commit.
    for (revision, commit) in [("by-bob", "by-bob"), ("v1.0.0", "unsigned")] {
        let (code, said) = sync(&["--revision", revision]);
        assert_eq!(code, 0, "{revision}: {said}");
        let objects = fleet.bench.json(&["sim", "objects", "-o", "json"]);
        let mut objects = objects.as_array().unwrap().iter();
        let map = objects.find(|one| one["kind"] == "ConfigMap" && one["metadata"]["name"] == "signed");
        assert_eq!(map.unwrap()["data"]["commit"], commit, "{revision}");
    }
    let before = writes(&fleet);
    for (revision, part) in [
        ("unsigned", "is not signed; project 'signed' requires a signature with"),
        ("v2.0.0", "the tag v2.0.0 of commit"),
        ("by-frank", "has a good signature from key"),
        ("changed", "has a bad signature from key"),
    ] {
        let (code, said) = sync(&["--revision", revision]);
        assert!(code != 0 && said.contains(part), "{revision}: {said}");
        application(&fleet, revision);
        says(part);
        let shown = fleet.bench.run(&["app", "diff", "signed"]);
        assert!(shown.code() > 1 && format!("{}{}", shown.out, shown.err).contains(part), "{shown:?}");
    }
    // An automated sync of a tag contains the tag's commit, but the signature of the tag counts.
    let automated = |revision: &str| {
        application(&fleet, revision);
        let path = fleet.path("signed.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}  syncPolicy: {{automated: {{}}}}\n")).unwrap();
    };
    assert_eq!(writes(&fleet), before);
    automated("v2.0.0");
    says("the tag v2.0.0 of commit");
    assert_eq!(writes(&fleet), before);
    automated("by-alice");
    fleet.wait_until("signed", |app| {
        app["status"]["sync"]["status"] == "Synced" && comparison_error(app).is_empty()
    });
    automated("v1.0.0");
    fleet.wait_until("signed", |app| {
        app["status"]["sync"]["status"] == "Synced" && comparison_error(app).is_empty()
    });
    // If a key is removed, its signatures become invalid. An invalid entry is reported.
    give(&fleet, &["bob"]);
    says("has no such key");
    let text = fs::read_to_string(fleet.path("project.yaml")).unwrap();
    fs::write(fleet.path("project.yaml"), text.replace(&signed_commits::key_id("bob"), "bob")).unwrap();
    says("invalid keyID \"bob\"");
    Fleet::stop(service);
}
