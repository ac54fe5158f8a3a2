//! Request and response types.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::super::markdown::{anchor, code, meaning, plural, sentence, table};

/// Types with their own pages.
const PAGES: [(&str, &str); 2] =
    [("Application", "fields-application.md"), ("ApplicationSet", "fields-applicationset.md")];

/// Types used by routes.
pub(super) struct Types<'d> {
    schemas: &'d Value,
    /// Types without a section yet.
    queue: Vec<String>,
    known_types: BTreeSet<String>,
}

impl<'d> Types<'d> {
    pub fn new(schemas: &'d Value) -> Self {
        Self { schemas, queue: Vec::new(), known_types: BTreeSet::new() }
    }

    /// Returns a link to a named type and adds a section for it.
    pub fn link_type(&mut self, name: &str) -> String {
        if let Some((_, page)) = PAGES.iter().find(|(known, _)| *known == name) {
            return format!("[{name}]({page})");
        }
        if self.known_types.insert(name.to_owned()) {
            self.queue.push(name.to_owned());
        }
        format!("[{name}](#{})", anchor(name))
    }

    /// Returns the name of a type for use in a table cell.
    pub fn type_name(&mut self, schema: &Value) -> String {
        let Some(fields) = schema.as_object() else { return "any value".to_owned() };
        if let Some(name) = fields.get("$ref").and_then(Value::as_str) {
            return self.link_type(name.rsplit('/').next().unwrap());
        }
        if let Some(text) = fields.get("enum").and_then(Value::as_array) {
            return join(text.iter().filter(|word| !word.is_null()).map(word).collect());
        }
        if let Some(value) = fields.get("const") {
            return word(value);
        }
        for choice in ["anyOf", "oneOf", "allOf"] {
            if let Some(choices) = fields.get(choice).and_then(Value::as_array) {
                let choices = choices.iter().filter(|one| one["type"] != "null");
                let mut names: Vec<String> = choices.map(|one| self.type_name(one)).collect();
                names.dedup();
                return join(names);
            }
        }
        let kinds: Vec<&str> = match fields.get("type") {
            Some(Value::Array(kinds)) => {
                kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect()
            }
            Some(Value::String(kind)) => vec![kind],
            _ => return "any value".to_owned(),
        };
        let names = kinds.into_iter().map(|kind| self.plain_type_name(kind, fields)).collect();
        join(names)
    }

    fn plain_type_name(&mut self, kind: &str, fields: &Map<String, Value>) -> String {
        match kind {
            "array" => match (fields.get("items"), fields.get("prefixItems").and_then(Value::as_array)) {
                (Some(items), _) => format!("list of {}", plural(&self.type_name(items))),
                (None, Some(items)) => {
                    let items: Vec<String> = items.iter().map(|one| self.type_name(one)).collect();
                    format!("list: {}", items.join(", "))
                }
                (None, None) => "list".to_owned(),
            },
            "object" => match fields.get("additionalProperties").filter(|values| values.is_object()) {
                Some(values) => format!("map of {}", plural(&self.type_name(values))),
                None => "object".to_owned(),
            },
            kind => kind.to_owned(),
        }
    }

    /// Returns the sections for all types that routes use, directly or through other types.
    pub fn sections(mut self) -> String {
        let mut sections = BTreeMap::new();
        while let Some(name) = self.queue.pop() {
            let schema = self.schemas[&name].clone();
            let section = self.section(&name, &schema);
            sections.insert(name, section);
        }
        sections.into_values().collect()
    }

    fn section(&mut self, name: &str, schema: &Value) -> String {
        let about = sentence(schema["description"].as_str().unwrap_or_default());
        let about = if about.is_empty() { about } else { format!("{about}\n\n") };
        let content = self.content(schema);
        format!("\n### {name}\n\n{about}{content}")
    }

    fn content(&mut self, schema: &Value) -> String {
        let mut text = String::new();
        let choices = ["oneOf", "anyOf"].into_iter().find_map(|name| schema.get(name)?.as_array());
        if let Some(rows) = schema.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty())
        {
            let required = schema["required"].as_array();
            let mut notes = String::new();
            let rows = rows.iter().map(|(name, field)| self.row(name, field, required, &mut notes));
            text.push_str(&table(&["field", "type", "meaning"], &rows.collect::<Vec<_>>()));
            if !notes.is_empty() {
                text.push_str(&format!("\n{notes}"));
            }
        }
        if let Some(choices) = choices {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str("One of:\n\n");
            choices.iter().for_each(|one| text.push_str(&self.choice(one)));
        }
        if text.is_empty() {
            text = format!("Type: {}.\n", self.type_name(schema));
        }
        text
    }

    fn row(
        &mut self,
        name: &str,
        field: &Value,
        required: Option<&Vec<Value>>,
        notes: &mut String,
    ) -> Vec<String> {
        let is_required = required.is_some_and(|all| all.iter().any(|one| one == name));
        let optional = if is_required { "" } else { ", optional" };
        let meaning =
            meaning(name, &describe_json_form(field["description"].as_str().unwrap_or_default()), notes);
        let null = if is_nullable(field) { " or null" } else { "" };
        vec![code(name), self.type_name(field) + null + optional, meaning]
    }

    /// Returns the list item for a variant: a word, or an object with fields.
    fn choice(&mut self, schema: &Value) -> String {
        let about = sentence(schema["description"].as_str().unwrap_or_default());
        let about = if about.is_empty() { about } else { format!(": {about}") };
        let Some(fields) = schema.get("properties").and_then(Value::as_object) else {
            let listed = schema.get("enum").and_then(Value::as_array);
            let each = listed.map(|text| text.iter().map(|word_| format!("- {}\n", word(word_))).collect());
            return each.unwrap_or_else(|| format!("- {}{about}\n", self.type_name(schema)));
        };
        let fields: Vec<String> = fields
            .iter()
            .map(|(name, field)| format!("{} ({})", code(name), self.type_name(field)))
            .collect();
        format!("- {}{about}\n", fields.join(", "))
    }
}

/// Returns true if a schema accepts null.
fn is_nullable(schema: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null";
    schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(is_null))
        || schema["anyOf"].as_array().is_some_and(|choices| choices.iter().any(|one| is_null(&one["type"])))
}

/// Adapts the description of a Rust field to its JSON form: `None` means null or an absent field.
fn describe_json_form(text: &str) -> String {
    text.replace(". `None`", ". Null or absent")
        .replace("\n`None`", "\nNull or absent")
        .replace("`None`", "null or absent")
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| code(&value.to_string()), code)
}

/// Joins alternatives for use in a table cell.
fn join(names: Vec<String>) -> String {
    names.join(", ")
}
