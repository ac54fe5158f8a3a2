//! Manifests for all contenders.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Files in a folder, each with one hundred objects or one wave.
pub struct Manifests {
    pub folder: PathBuf,
    pub count: usize,
    /// The objects, for contenders without files.
    pub objects: Vec<Value>,
}

const FILES: usize = 10;

impl Manifests {
    /// Writes `count` ConfigMaps, spread over this many waves.
    pub fn write(folder: &Path, count: usize, waves: usize) -> Self {
        fs::create_dir_all(folder).unwrap();
        let per_file = count / FILES;
        let objects: Vec<Value> = (0..count).map(|number| config_map(number, waves, per_file)).collect();
        for (number, part) in objects.chunks(per_file).enumerate() {
            let documents: Vec<String> = part.iter().map(format_yaml).collect();
            fs::write(folder.join(format!("{number:02}.yaml")), documents.join("---\n")).unwrap();
        }
        Self { folder: folder.to_owned(), count, objects }
    }
}

fn config_map(number: usize, waves: usize, per_file: usize) -> Value {
    let name = format!("settings-{number:04}");
    let mut metadata = json!({"name": name, "labels": {"app": "bench", "part": format!("p{}", number % 7)}});
    if waves > 1 {
        let wave = (number / per_file).to_string();
        metadata["annotations"] = json!({"argocd.argoproj.io/sync-wave": wave});
    }
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        "data": {
            "endpoint": format!("https://service-{number}.example.org/api"),
            "mode": if number.is_multiple_of(2) { "primary" } else { "secondary" },
            "settings.properties": format!("cache.size={}\ncache.ttl=30s\nretries=3\n", number * 16),
        },
    })
}

/// Returns the object as YAML, with all strings in JSON quotes.
fn format_yaml(object: &Value) -> String {
    let mut text = String::new();
    for (name, value) in object.as_object().unwrap() {
        let Some(fields) = value.as_object() else {
            text.push_str(&format!("{name}: {value}\n"));
            continue;
        };
        text.push_str(&format!("{name}:\n"));
        for (name, value) in fields {
            text.push_str(&format!("  {name}: {value}\n"));
        }
    }
    text
}
