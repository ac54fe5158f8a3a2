//! Kustomization fields that refer to files. Kustomize ignores the case of field names.

use serde_json::{Map, Value};

use super::remote_entry::is_address;

/// Fields that refer to files or folders.
pub(super) const FILE_OR_FOLDER_FIELDS: [&str; 6] =
    ["resources", "bases", "components", "generators", "transformers", "validators"];
/// Fields that refer to plugin configurations, which may refer to further files.
pub(super) const PLUGIN_FIELDS: [&str; 3] = ["generators", "transformers", "validators"];
/// Fields that make Kustomize render charts.
pub(super) const CHART_FIELDS: [&str; 2] = ["helmCharts", "helmChartInflationGenerator"];
/// Fields that refer only to files.
const FILE_FIELDS: [&str; 3] = ["crds", "configurations", "patchesStrategicMerge"];
/// Fields with a list of entries that refer to a file in their `path` field.
const PATH_ENTRY_FIELDS: [&str; 4] = ["patches", "patchesJson6902", "replacements", "patchesStrategicMerge"];
/// Fields with a list of generators, which refer to files as `file` or `key=file`.
const GENERATOR_FIELDS: [&str; 2] = ["configMapGenerator", "secretGenerator"];
/// Fields of a generator that refer to files.
const GENERATOR_FILE_FIELDS: [&str; 3] = ["files", "envs", "env"];
/// Field that refers to a file with an OpenAPI schema.
const OPEN_API: &str = "openapi";
/// Field that refers to a file in many types of entries.
const PATH: &str = "path";
/// Plugin configuration fields that refer to files.
const PLUGIN_FILE_FIELDS: [&str; 8] =
    [PATH, "paths", "files", "envs", "env", "resources", "valuesFile", "additionalValuesFiles"];

/// Plugin configuration fields with arbitrary content or names of object fields.
const FREE_FORM_FIELDS: [&str; 3] = ["annotations", "labels", "fieldSpecs"];

/// Returns a field that differs from a known field only in case, along with the known spelling. Kustomize
/// accepts both, but Tidegate only looks for the latter.
pub(super) fn find_misspelled_field(value: &Value) -> Option<(&str, &'static str)> {
    let known = [
        FILE_OR_FOLDER_FIELDS.as_slice(),
        &CHART_FIELDS,
        &FILE_FIELDS,
        &PATH_ENTRY_FIELDS,
        &GENERATOR_FIELDS,
        &[OPEN_API],
    ]
    .concat();
    let written = value.as_object().into_iter().flat_map(Map::keys);
    written.filter(|written| !known.contains(&written.as_str())).find_map(|written| {
        let is_meant = |known: &&&str| fold_case(known) == fold_case(written);
        known.iter().find(is_meant).map(|known| (written.as_str(), *known))
    })
}

/// Returns the entries of all fields that refer only to files.
pub(super) fn named_files(value: &Value) -> Vec<String> {
    let mut named = Vec::new();
    for entry in list_entries(value, &FILE_FIELDS) {
        collect_texts(entry, &mut named);
    }
    for (lists, fields) in
        [(PATH_ENTRY_FIELDS.as_slice(), [PATH].as_slice()), (&GENERATOR_FIELDS, &GENERATOR_FILE_FIELDS)]
    {
        for entry in list_entries(value, lists) {
            fields.iter().for_each(|name| {
                field_values(entry, name).for_each(|found| collect_texts(found, &mut named))
            });
        }
    }
    if let Some(open_api) = value.get(OPEN_API) {
        field_values(open_api, PATH).for_each(|found| collect_texts(found, &mut named));
    }
    named.retain(|text| !is_inline(text));
    named
}

/// Returns the files that a plugin configuration refers to. Kustomize reports invalid configurations.
pub(super) fn plugin_files(text: &str) -> Vec<String> {
    let mut named = Vec::new();
    for document in serde_saphyr::from_multiple::<Value>(text).unwrap_or_default() {
        search_files(&document, &mut named);
    }
    named.retain(|text| !is_inline(text));
    named
}

fn search_files(value: &Value, named: &mut Vec<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| search_files(one, named)),
        Value::Object(fields) => {
            PLUGIN_FILE_FIELDS
                .iter()
                .for_each(|name| field_values(value, name).for_each(|found| collect_texts(found, named)));
            let further = fields.iter().filter(|(name, _)| !FREE_FORM_FIELDS.contains(&name.as_str()));
            further.for_each(|(_, one)| search_files(one, named));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns true if an entry, with or without a key, refers to a file on a server.
pub(super) fn is_remote_file(text: &str) -> bool {
    is_address(file_of(text)) || is_address(text)
}

/// Returns the file of an entry, without its key, if any.
pub(super) fn file_of(text: &str) -> &str {
    text.split_once('=').map_or(text, |(_, file)| file)
}

/// Returns true if an entry is inline content instead of a file name.
fn is_inline(text: &str) -> bool {
    text.contains('\n') || text.trim_start().starts_with(['{', '['])
}

fn list_entries<'v>(value: &'v Value, names: &'v [&str]) -> impl Iterator<Item = &'v Value> {
    let list = |name: &&str| value.get(*name).and_then(Value::as_array);
    names.iter().filter_map(list).flatten()
}

/// Returns the values of a field, ignoring the case of field names.
fn field_values<'v>(value: &'v Value, name: &'v str) -> impl Iterator<Item = &'v Value> {
    let fields = value.as_object().into_iter().flatten();
    fields.filter(move |(written, _)| fold_case(written) == fold_case(name)).map(|(_, value)| value)
}

/// Collects a string, or all strings in a list.
fn collect_texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|one| collect_texts(one, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
    }
}

/// Lower-cases a name for comparison. Like Go, this folds the long s to `s` and the Kelvin sign to `k`.
fn fold_case(name: &str) -> String {
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
    fn fields_in_other_spellings() {
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
            assert_eq!(find_misspelled_field(&value).map(|(_, known)| known), known, "{written}");
        }
    }

    fn remote_only(mut named: Vec<String>) -> Vec<String> {
        named.retain(|text| is_remote_file(text));
        named
    }

    #[test]
    fn remote_files() {
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
            assert_eq!(remote_only(named_files(&value)), expected, "{value}");
        }
    }

    #[test]
    fn files_named_by_plugins() {
        let generator = "kind: ConfigMapGenerator\nfiles: [a.txt, 'b=http://a']\n---\nkind: PatchTransformer\npath: http://b\n";
        assert_eq!(remote_only(plugin_files(generator)), ["b=http://a", "http://b"]);
        let labels = "kind: AnnotationsTransformer\nannotations: {path: https://a}\nfieldSpecs: [{path: /metadata/annotations, create: true}]\n";
        assert_eq!(plugin_files(labels), Vec::<String>::new());
        assert_eq!(plugin_files("a: ["), Vec::<String>::new());
    }
}
