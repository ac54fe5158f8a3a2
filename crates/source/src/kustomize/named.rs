//! What fields of kustomizations are called, and which of them name files. Kustomize tells no capitals from small letters in them.

use serde_json::{Map, Value};

use super::needs::is_address;

/// Fields that name files or folders.
pub(super) const NAMED: [&str; 6] =
    ["resources", "bases", "components", "generators", "transformers", "validators"];
/// Those of them whose files say what a plugin of Kustomize does, and may name others.
pub(super) const PLUGINS: [&str; 3] = ["generators", "transformers", "validators"];
/// Fields that have Kustomize make charts.
pub(super) const CHARTS: [&str; 2] = ["helmCharts", "helmChartInflationGenerator"];
/// Fields that name files alone.
const FILES: [&str; 3] = ["crds", "configurations", "patchesStrategicMerge"];
/// Lists whose entries have a field `path` that names a file.
const WITH_PATH: [&str; 4] = ["patches", "patchesJson6902", "replacements", "patchesStrategicMerge"];
/// Lists whose entries have fields that name files, as `file` or `key=file`.
const GENERATORS: [&str; 2] = ["configMapGenerator", "secretGenerator"];
/// The fields of generators that name files.
const GENERATED: [&str; 3] = ["files", "envs", "env"];
/// Says how fields are described, by a file.
const OPEN_API: &str = "openapi";
/// The field of many things that names a file.
const PATH: &str = "path";
/// The fields of plugins that name files.
const IN_PLUGINS: [&str; 8] =
    [PATH, "paths", "files", "envs", "env", "resources", "valuesFile", "additionalValuesFiles"];

/// Fields of plugins below which names are anybody's, and paths those of fields.
const FREE: [&str; 3] = ["annotations", "labels", "fieldSpecs"];

/// A field that is read here and is written otherwise, with how it should be: Kustomize would know it, and nobody else.
pub(super) fn otherwise_spelt(value: &Value) -> Option<(&str, &'static str)> {
    let known = [NAMED.as_slice(), &CHARTS, &FILES, &WITH_PATH, &GENERATORS, &[OPEN_API]].concat();
    let written = value.as_object().into_iter().flat_map(Map::keys);
    written.filter(|written| !known.contains(&written.as_str())).find_map(|written| {
        let is_meant = |known: &&&str| folded(known) == folded(written);
        known.iter().find(is_meant).map(|known| (written.as_str(), *known))
    })
}

/// The files that its fields name; not the entries of the fields that name folders as well.
pub(super) fn files(value: &Value) -> Vec<String> {
    let mut named = Vec::new();
    for entry in entries(value, &FILES) {
        texts(entry, &mut named);
    }
    for (lists, fields) in [(WITH_PATH.as_slice(), [PATH].as_slice()), (&GENERATORS, &GENERATED)] {
        for entry in entries(value, lists) {
            fields.iter().for_each(|name| field(entry, name).for_each(|found| texts(found, &mut named)));
        }
    }
    if let Some(open_api) = value.get(OPEN_API) {
        field(open_api, PATH).for_each(|found| texts(found, &mut named));
    }
    named.retain(|text| !is_written_out(text));
    named
}

/// The files that are named by what configures plugins. What cannot be read is Kustomize's to tell.
pub(super) fn by_plugin(text: &str) -> Vec<String> {
    let mut named = Vec::new();
    for document in serde_saphyr::from_multiple::<Value>(text).unwrap_or_default() {
        search(&document, &mut named);
    }
    named.retain(|text| !is_written_out(text));
    named
}

fn search(value: &Value, named: &mut Vec<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| search(one, named)),
        Value::Object(fields) => {
            IN_PLUGINS.iter().for_each(|name| field(value, name).for_each(|found| texts(found, named)));
            let further = fields.iter().filter(|(name, _)| !FREE.contains(&name.as_str()));
            further.for_each(|(_, one)| search(one, named));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a file is on a server, named by itself or after its key.
pub(super) fn is_served(text: &str) -> bool {
    is_address(file_of(text)) || is_address(text)
}

/// The file of an entry that may have a key before it.
pub(super) fn file_of(text: &str) -> &str {
    text.split_once('=').map_or(text, |(_, file)| file)
}

/// What is no file, but stands there itself.
fn is_written_out(text: &str) -> bool {
    text.contains('\n') || text.trim_start().starts_with(['{', '['])
}

fn entries<'v>(value: &'v Value, names: &'v [&str]) -> impl Iterator<Item = &'v Value> {
    let list = |name: &&str| value.get(*name).and_then(Value::as_array);
    names.iter().filter_map(list).flatten()
}

/// The values of a field, however it is written.
fn field<'v>(value: &'v Value, name: &'v str) -> impl Iterator<Item = &'v Value> {
    let fields = value.as_object().into_iter().flatten();
    fields.filter(move |(written, _)| folded(written) == folded(name)).map(|(_, value)| value)
}

/// The text that a value is, or those of its list.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|one| texts(one, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
    }
}

/// A name as Kustomize compares it: two letters of no alphabet of ours count as `s` and `k`.
fn folded(name: &str) -> String {
    let plain = |sign| match sign {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        _ => char::to_ascii_lowercase(&sign),
    };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_by_other_letters() {
        for (written, known) in [
            ("Resources", Some("resources")),
            ("BASES", Some("bases")),
            ("re\u{17f}ources", Some("resources")),
            ("ConfigMapGenerator", Some("configMapGenerator")),
            ("HelmCharts", Some("helmCharts")),
            ("openAPI", Some("openapi")),
            ("resources", None),
            ("namePrefix", None),
            ("NamePrefix", None),
        ] {
            let value = json!({written: []});
            assert_eq!(otherwise_spelt(&value).map(|(_, known)| known), known, "{written}");
        }
    }

    fn served(mut named: Vec<String>) -> Vec<String> {
        named.retain(|text| is_served(text));
        named
    }

    #[test]
    fn files_on_servers() {
        for (value, expected) in [
            (json!({"patches": [{"Path": "http://a"}]}), vec!["http://a"]),
            (
                json!({"configMapGenerator": [{"FILES": ["b=http://a"], "env": "git::a"}]}),
                vec!["b=http://a", "git::a"],
            ),
            (json!({"openapi": {"path": "https://a"}}), vec!["https://a"]),
            (json!({"patchesStrategicMerge": ["https://a", "a: https://b\n"]}), vec!["https://a"]),
            (
                json!({"commonAnnotations": {"path": "https://a"}, "patches": [{"patch": "https://a"}]}),
                vec![],
            ),
        ] {
            assert_eq!(served(files(&value)), expected, "{value}");
        }
    }

    #[test]
    fn files_that_plugins_name() {
        let generator = "kind: ConfigMapGenerator\nfiles: [a.txt, 'b=http://a']\n---\nkind: PatchTransformer\npath: http://b\n";
        assert_eq!(served(by_plugin(generator)), ["b=http://a", "http://b"]);
        let labels = "kind: AnnotationsTransformer\nannotations: {path: https://a}\nfieldSpecs: [{path: /metadata/annotations, create: true}]\n";
        assert_eq!(by_plugin(labels), Vec::<String>::new());
        assert_eq!(by_plugin("a: ["), Vec::<String>::new());
    }
}
