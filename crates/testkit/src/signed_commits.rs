//! A repository with signed commits and tags, created by `scripts/signed-commits` with gpg.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_model::Object;

fn data_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../source/tests/data/signed").join(name)
}

/// Copies the repository to a folder.
pub fn copy_repository(folder: &Path) {
    copy_folder(&data_path("signed.git"), folder);
    // Git doesn't store empty folders.
    fs::create_dir_all(folder.join("refs")).unwrap();
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

fn read_json_lines(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(data_path(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns gpg's result for each object: `kind`, `name`, `commit` and the verdict.
pub fn gpg_results() -> Vec<Value> {
    read_json_lines("table.jsonl")
}

/// Returns the ID of a user's key.
pub fn key_id(name: &str) -> String {
    let keys = read_json_lines("keys.jsonl");
    let key = keys.iter().find(|key| key["name"] == name).unwrap();
    key["fingerprint"].as_str().unwrap().chars().skip(24).collect()
}

/// Returns the ConfigMap with the public keys of the given users.
pub fn public_keys(names: &[&str]) -> Object {
    let of =
        |name: &&str| (key_id(name), fs::read_to_string(data_path(&format!("{name}.asc"))).unwrap().into());
    let keys: serde_json::Map<String, Value> = names.iter().map(of).collect();
    let metadata = json!({"name": "argocd-gpg-keys-cm", "namespace": "argocd"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": keys});
    Object::try_from(map).unwrap()
}
