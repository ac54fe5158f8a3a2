//! A repository whose commits and tags are signed, as `scripts/signed-commits` has made it with gpg.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_model::Object;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../source/tests/data/signed").join(name)
}

/// Puts the repository there.
pub fn put(folder: &Path) {
    copy(&data("signed.git"), folder);
    // Git keeps no empty folder.
    fs::create_dir_all(folder.join("refs")).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

fn lines(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(data(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What gpg says of each: `kind`, `name`, `commit` and its word.
pub fn table() -> Vec<Value> {
    lines("table.jsonl")
}

/// The id of somebody's key.
pub fn key_id(name: &str) -> String {
    let keys = lines("keys.jsonl");
    let key = keys.iter().find(|key| key["name"] == name).unwrap();
    key["fingerprint"].as_str().unwrap().chars().skip(24).collect()
}

/// The ConfigMap with the public keys of some.
pub fn keys(names: &[&str]) -> Object {
    let of = |name: &&str| (key_id(name), fs::read_to_string(data(&format!("{name}.asc"))).unwrap().into());
    let keys: serde_json::Map<String, Value> = names.iter().map(of).collect();
    let metadata = json!({"name": "argocd-gpg-keys-cm", "namespace": "argocd"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": keys});
    Object::try_from(map).unwrap()
}
