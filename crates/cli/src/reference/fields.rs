//! Reference pages for the fields of Applications, ApplicationSets and AppProjects, generated from their
//! schemas and from the table of unsupported fields.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value};
use tidegate_model::argo::all_crds;
use tidegate_model::argo::support::{Support, UNSUPPORTED_FIELDS, UnsupportedField, support_of};

use super::markdown::{anchor, cell, code, meaning, plural, sentence, table};

/// Paths of nested generators, which have the fields of `spec.generators`.
const NESTED: [&str; 2] = ["spec.generators[].matrix.generators[]", "spec.generators[].merge.generators[]"];

const LEGEND: &str = "
- **supported**: the field has the effect described here.
- **ignored**: Tidegate preserves the field but doesn't act on it.
- **refused**: Tidegate doesn't sync a resource with the field, or the requested operation fails.
";

fn intro(kind: &str) -> &'static str {
    match kind {
        "Application" => {
            "An Application deploys objects from one or more sources to one destination. Tidegate reads Argo CD's resource:
`apiVersion: argoproj.io/v1alpha1`, `kind: Application`."
        }
        "ApplicationSet" => {
            "An ApplicationSet generates Applications from a template and sets of parameters. Tidegate reads Argo CD's resource:
`apiVersion: argoproj.io/v1alpha1`, `kind: ApplicationSet`."
        }
        _ => {
            "An AppProject restricts the sources, destinations and kinds of its Applications. Tidegate reads Argo CD's resource:
`apiVersion: argoproj.io/v1alpha1`, `kind: AppProject`."
        }
    }
}

/// Describes the handling of unknown fields.
fn unknown_fields(kind: &str) -> &'static str {
    match kind {
        "Application" => {
            "Tidegate preserves unknown fields but ignores them, and lists them in the `UnknownFieldWarning` condition. It refuses an unknown field of
a source, because the field could change the manifests."
        }
        "ApplicationSet" => {
            "Tidegate preserves unknown fields but ignores them, and lists them in the `SpecWarning` \
             condition. An \
             unknown generator is an error."
        }
        _ => {
            "Tidegate preserves unknown fields but ignores them, and lists them in the `UnknownFieldWarning` \
             condition of the project's Applications."
        }
    }
}

/// Returns the pages of all kinds, by file name.
pub(super) fn pages() -> Vec<(String, String)> {
    let mut known = Vec::new();
    all_crds().iter().map(|definition| page(definition, &mut known)).collect()
}

/// Described objects: the schema without descriptions, the descriptions of the fields, and the link to the
/// section.
type KnownObjects = Vec<(Value, Vec<String>, String)>;

fn page(definition: &Value, known_objects: &mut KnownObjects) -> (String, String) {
    let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
    let file = format!("fields-{}.md", kind.to_lowercase());
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut walk =
        SchemaWalk { kind, file: &file, known_objects, sections: BTreeMap::new(), queue: VecDeque::new() };
    for section in ["spec", "operation", "status"] {
        if let Some(schema) = schema["properties"].get(section) {
            walk.link(section, schema);
            walk.run();
        }
    }
    let mut text = format!("# Fields of {kind}\n\n{}\n{LEGEND}\n{}\n", intro(kind), unknown_fields(kind));
    for top in ["spec", "operation", "status"] {
        let of = walk.sections.iter().filter(|(path, _)| path.split('.').next() == Some(top));
        of.for_each(|(_, section)| text.push_str(section));
    }
    for (_, _, link) in known_objects.iter_mut() {
        if link.starts_with('#') {
            *link = format!("{file}{link}");
        }
    }
    (file, text)
}

struct SchemaWalk<'a> {
    kind: &'a str,
    file: &'a str,
    known_objects: &'a mut KnownObjects,
    /// Finished sections, by path.
    sections: BTreeMap<String, String>,
    /// Objects without a section yet. Those near the root come first, so that deeper ones can link to them.
    queue: VecDeque<(String, &'a Value)>,
}

impl<'a> SchemaWalk<'a> {
    fn run(&mut self) {
        while let Some((path, schema)) = self.queue.pop_front() {
            let section = self.section(&path, schema);
            self.sections.insert(path, section);
        }
    }

    fn section(&mut self, path: &str, schema: &'a Value) -> String {
        let is_status = path.split('.').next() == Some("status");
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
        let (mut rows, mut effects) = (Vec::new(), String::new());
        // The schemas of these fields have no descriptions, because the API server limits the size of a
        // definition.
        let of_template = "Fields that override those of `spec.template`.";
        for (name, field) in schema["properties"].as_object().unwrap() {
            let place = format!("{path}.{name}");
            let support = support_of(self.kind, &place);
            let mut kind = self.type_of(&place, field, support == Support::Supported);
            if is_required(name) {
                kind.push_str(", required");
            }
            let about = field.get("description").and_then(Value::as_str);
            let about = about.unwrap_or(if name == "template" { of_template } else { "" });
            let meaning = meaning(name, about, &mut effects);
            rows.push(row(name, kind, (!is_status).then_some(support), meaning));
        }
        for one in self.unsupported(path) {
            let name = one.path.strip_prefix(path).unwrap().trim_start_matches('.');
            if let Some((kind, meaning)) = one.undeclared {
                rows.push(row(name, kind.to_owned(), Some(one.support), cell(meaning)));
            }
            effects.push_str(&format!("- `{name}` is {}. {}\n", one.support.name(), one.effect));
        }
        let header: &[&str] = match is_status {
            true => &["field", "type", "meaning"],
            false => &["field", "type", "support", "meaning"],
        };
        let about = sentence(schema.get("description").and_then(Value::as_str).unwrap_or_default());
        let about = if about.is_empty() { String::new() } else { format!("{about}\n\n") };
        let effects = if effects.is_empty() { effects } else { format!("\n{effects}") };
        format!("\n## `{path}`\n\n{about}{}{effects}", table(header, &rows))
    }

    fn unsupported(&self, path: &str) -> impl Iterator<Item = &'static UnsupportedField> {
        let (kind, path) = (self.kind.to_owned(), path.to_owned());
        let is_of = move |field: &&UnsupportedField| {
            field.kind == kind && field.path.rsplit_once('.').is_some_and(|(parent, _)| parent == path)
        };
        UNSUPPORTED_FIELDS.iter().filter(is_of)
    }

    /// Returns a field's type. For an object, adds a link to its section unless `describes` is false.
    fn type_of(&mut self, path: &str, schema: &'a Value, describes: bool) -> String {
        if let Some(text) = schema.get("enum").and_then(Value::as_array) {
            let text = text.iter().filter_map(Value::as_str).filter(|word| !word.is_empty()).map(code);
            return text.collect::<Vec<_>>().join(", ");
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("array") => {
                let items = &schema["items"];
                let path = format!("{path}[]");
                match self.object_link(&path, items, describes) {
                    Some(link) => format!("[list of objects]({link})"),
                    None => format!("list of {}", plural(&self.type_of(&path, items, false))),
                }
            }
            Some("object") => {
                match (self.object_link(path, schema, describes), schema.get("additionalProperties")) {
                    (Some(link), _) => format!("[object]({link})"),
                    (None, Some(values)) => format!("map of {}", plural(&self.type_of(path, values, false))),
                    (None, None) => "object".to_owned(),
                }
            }
            Some(name) => name.to_owned(),
            None => "any value".to_owned(),
        }
    }

    fn object_link(&mut self, path: &str, schema: &'a Value, describes: bool) -> Option<String> {
        schema.get("properties").and_then(Value::as_object).filter(|all| describes && !all.is_empty())?;
        Some(self.link(path, schema))
    }

    /// Returns the link to an object's section. Adds the section unless there is one for an identical object.
    fn link(&mut self, path: &str, schema: &'a Value) -> String {
        if NESTED.contains(&path) {
            return format!("#{}", anchor("spec.generators[]"));
        }
        let (plain, about) = (without_descriptions(schema), descriptions(schema));
        // Repeated templates have no descriptions in their schemas. Other objects may happen to have equal
        // schemas, so compare their descriptions, too.
        let is_same = |known: &Value, of: &Vec<String>| *known == plain && (about.is_empty() || *of == about);
        if let Some((_, _, link)) = self.known_objects.iter().find(|(known, of, _)| is_same(known, of)) {
            return link.strip_prefix(self.file).unwrap_or(link).to_owned();
        }
        let link = format!("#{}", anchor(path));
        self.known_objects.push((plain, about, link.clone()));
        self.queue.push_back((path.to_owned(), schema));
        link
    }
}

fn row(name: &str, kind: String, support: Option<Support>, meaning: String) -> Vec<String> {
    let support = support.map(|support| support.name().to_owned());
    [code(name), kind].into_iter().chain(support).chain([meaning]).collect()
}

fn descriptions(schema: &Value) -> Vec<String> {
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    fields.filter_map(|(_, field)| field.get("description")?.as_str()).map(str::to_owned).collect()
}

/// Removes the parts of a schema that differ between occurrences of the same object.
fn without_descriptions(schema: &Value) -> Value {
    let Some(fields) = schema.as_object() else { return schema.clone() };
    let is_kept = |name: &&String| !["description", "nullable"].contains(&name.as_str());
    let mut plain: Map<String, Value> = fields
        .iter()
        .filter(|(name, _)| is_kept(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = plain.get_mut(name) {
            *inner = without_descriptions(inner);
        }
    }
    if let Some(properties) = plain.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|inner| *inner = without_descriptions(inner));
    }
    plain.into()
}

#[test]
fn each_field_has_a_meaning() {
    for (name, text) in pages() {
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        let empty: Vec<&str> = rows.filter(|line| line.ends_with("| |")).collect();
        assert!(empty.is_empty(), "{name}: {empty:#?}");
    }
}
