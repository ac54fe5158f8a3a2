use serde_json::Value;
use tidegate_model::{InvalidObject, Object, WrongType, annotations, wrong_types};
use tidegate_yaml::{Content, Node};

use super::error::ManifestCause;
use super::{Origin, Reader, Target, name_validation};
use crate::waves;

/// Converts a document or a list item to targets or errors.
///
/// `inherited` is the type that a typed list such as `PodList` gives to items without their own.
pub(super) fn unroll_lists(
    reader: &mut Reader<'_>,
    mut node: Node,
    lines_before: u64,
    document: usize,
    inherited: Option<&(String, String)>,
) {
    if matches!(&node.content, Content::Scalar(Value::Null)) {
        return;
    }
    if let Some((api_version, kind)) = inherited {
        inherit_type(&mut node, api_version, kind);
    }
    if !is_list(&node) {
        return add_target(reader, node, lines_before, document);
    }
    let kind = node.get("kind").map(Node::text).unwrap_or_default().to_owned();
    let api_version = node.get("apiVersion").map(Node::text).unwrap_or_default().to_owned();
    let item_kind = kind.strip_suffix("List").filter(|kind| !kind.is_empty()).map(str::to_owned);
    let item_type = item_kind.map(|kind| (api_version, kind));
    let line = node.line_of("items");
    let Content::Map(fields) = node.content else { return };
    let items = fields.into_iter().find(|(name, _)| name == "items").map(|(_, items)| items.content);
    match items {
        Some(Content::List(items)) => {
            for item in items {
                unroll_lists(reader, item, lines_before, document, item_type.as_ref());
            }
        }
        None | Some(Content::Scalar(Value::Null)) => {}
        Some(other) => {
            let cause = ManifestCause::ItemsNotAList { kind, found: describe_content(&other) };
            reader.add_error(lines_before + line, None, cause);
        }
    }
}

/// Returns true for a `List` or a typed list such as `PodList`. A custom kind whose name merely ends in
/// `List` has no `items`.
fn is_list(node: &Node) -> bool {
    let kind = node.get("kind").map(Node::text).unwrap_or_default();
    kind == "List"
        || (kind.ends_with("List")
            && matches!(node.get("items"), Some(Node { content: Content::List(_), .. })))
}

fn inherit_type(node: &mut Node, api_version: &str, kind: &str) {
    let line = node.line;
    let Content::Map(fields) = &mut node.content else { return };
    for (field, value) in [("apiVersion", api_version), ("kind", kind)] {
        if !fields.iter().any(|(name, _)| name == field) {
            let content = Content::Scalar(Value::from(value));
            fields.push((field.to_owned(), Node { line, content }));
        }
    }
}

fn describe_content(content: &Content) -> &'static str {
    match content {
        Content::Scalar(Value::Null) => "null",
        Content::Scalar(Value::Bool(_)) => "a boolean",
        Content::Scalar(Value::Number(_)) => "a number",
        Content::Scalar(_) => "a string",
        Content::List(_) => "a list",
        Content::Map(_) => "a map",
    }
}

fn add_target(reader: &mut Reader<'_>, node: Node, lines_before: u64, document: usize) {
    let label = object_label(&node);
    let problems = object_errors(&node, reader.requires_names);
    if !problems.is_empty() {
        for (line, cause) in problems {
            reader.add_error(lines_before + line, label.clone(), cause);
        }
        return;
    }
    let line = lines_before + node.line;
    match Object::try_from(node.into_value()) {
        Ok(object) => {
            let origin = Origin { file: reader.file.to_owned(), line, document };
            reader.targets.push(Target { object, origin });
        }
        Err(error) => reader.add_error(line, label, error),
    }
}

/// Describes the object at a line of a document, if recognizable.
pub(super) fn object_at_line(node: &Node, line: u64) -> Option<String> {
    if !is_list(node) {
        return object_label(node);
    }
    match node.get("items").map(|items| &items.content) {
        Some(Content::List(items)) => items.iter().rfind(|item| item.line <= line).and_then(object_label),
        _ => None,
    }
}

/// Describes an object that may be invalid, such as `Deployment shop/api`. A name with a slash is quoted, so
/// that no part of it looks like a namespace.
fn object_label(node: &Node) -> Option<String> {
    let kind = node.get("kind").map(Node::text).filter(|kind| !kind.is_empty())?;
    let metadata = node.get("metadata");
    let field = |name| metadata.and_then(|metadata| metadata.get(name)).map(Node::text).unwrap_or_default();
    let (name, prefix, namespace) = (field("name"), field("generateName"), field("namespace"));
    let name = if name.is_empty() && !prefix.is_empty() { format!("{prefix}*") } else { name.to_owned() };
    Some(match (namespace, name.as_str()) {
        (_, "") => kind.to_owned(),
        ("", name) if name.contains('/') => format!("{kind} {name:?}"),
        ("", name) => format!("{kind} {name}"),
        (namespace, name) => format!("{kind} {namespace}/{name}"),
    })
}

/// Returns all errors in an object, with their lines.
fn object_errors(node: &Node, named: bool) -> Vec<(u64, ManifestCause)> {
    let Content::Map(fields) = &node.content else {
        let found = describe_content(&node.content);
        return vec![(node.line, InvalidObject::NotAMap { found }.into())];
    };
    let mut problems = Vec::new();
    for field in ["apiVersion", "kind"] {
        match node.get(field).map(|node| (node.line, &node.content)) {
            Some((_, Content::Scalar(Value::String(text)))) if !text.is_empty() => {}
            None | Some((_, Content::Scalar(Value::Null | Value::String(_)))) => {
                problems.push((node.line_of(field), InvalidObject::Missing { field }.into()));
            }
            Some((line, content)) => problems.push((line, wrong_type_error(field, "a string", content))),
        }
    }
    if problems.is_empty() {
        let (api_version, kind) = (node.get("apiVersion").map(Node::text), node.get("kind").map(Node::text));
        add_name_errors(
            &mut problems,
            node,
            name_validation::check_type(api_version.unwrap_or_default(), kind.unwrap_or_default()),
        );
    }
    match fields.iter().find(|(name, _)| name == "metadata").map(|(_, metadata)| metadata) {
        Some(metadata) if matches!(metadata.content, Content::Map(_)) => {
            metadata_errors(&mut problems, node, metadata, named)
        }
        // Some tools write an explicit null for an unset field.
        None | Some(Node { content: Content::Scalar(Value::Null), .. }) => {
            if named {
                problems.push((node.line_of("metadata"), ManifestCause::MissingName { generated: false }));
            }
        }
        Some(other) => problems.push((other.line, wrong_type_error("metadata", "a map", &other.content))),
    }
    if problems.is_empty() {
        problems.extend(content_errors(node));
    }
    problems
}

/// Returns an error for each field of a built-in kind that every server would reject.
fn content_errors(node: &Node) -> impl Iterator<Item = (u64, ManifestCause)> {
    let text = |field| node.get(field).map(Node::text).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    wrong_types(group, text("kind"), node).into_iter().map(|wrong| {
        let WrongType { field, expected, found, value } = wrong;
        (value.line, InvalidObject::WrongType { field, expected, found }.into())
    })
}

fn wrong_type_error(field: &str, expected: &'static str, content: &Content) -> ManifestCause {
    InvalidObject::WrongType { field: field.to_owned(), expected, found: describe_content(content) }.into()
}

fn add_name_errors(
    problems: &mut Vec<(u64, ManifestCause)>,
    node: &Node,
    refusals: Vec<name_validation::InvalidName>,
) {
    for (field, value, rule) in refusals {
        problems.push((node.line_of(field), ManifestCause::InvalidField { field, value, rule }));
    }
}

fn metadata_errors(problems: &mut Vec<(u64, ManifestCause)>, node: &Node, metadata: &Node, named: bool) {
    let before = problems.len();
    for (name, path) in [
        ("name", "metadata.name"),
        ("namespace", "metadata.namespace"),
        ("generateName", "metadata.generateName"),
        ("uid", "metadata.uid"),
    ] {
        let Some(field) = metadata.get(name) else { continue };
        if !matches!(field.content, Content::Scalar(Value::String(_) | Value::Null)) {
            problems.push((
                field.line,
                wrong_type_error(path, "a string (put quotes around it)", &field.content),
            ));
        }
    }
    for section in ["annotations", "labels"] {
        if let Some(field) = metadata.get(section) {
            check_text_values(problems, section, field);
        }
    }
    if problems.len() > before {
        return;
    }
    let text = |name| metadata.get(name).map(Node::text).unwrap_or_default();
    let annotated = |name| metadata.get("annotations").and_then(|all| all.get(name)).is_some();
    let is_hook = annotated(annotations::HOOK) || annotated(annotations::HELM_HOOK);
    let generated = !text("generateName").is_empty();
    if named && text("name").is_empty() && !(generated && is_hook) {
        let field = if generated { "generateName" } else { "name" };
        problems.push((metadata.line_of(field), ManifestCause::MissingName { generated }));
    }
    let api_version = node.get("apiVersion").map(Node::text).unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = node.get("kind").map(Node::text).unwrap_or_default();
    add_name_errors(
        problems,
        node,
        name_validation::check_names(group, kind, text("name"), text("generateName"), text("namespace")),
    );
    for annotation in [annotations::SYNC_WAVE, annotations::HELM_HOOK_WEIGHT] {
        let Some(field) = metadata.get("annotations").and_then(|all| all.get(annotation)) else { continue };
        if waves::is_overflow(field.text()) {
            problems.push((
                field.line,
                ManifestCause::WaveOverflow { annotation, value: field.text().to_owned() },
            ));
        }
    }
}

fn check_text_values(problems: &mut Vec<(u64, ManifestCause)>, section: &str, field: &Node) {
    let path = format!("metadata.{section}");
    match &field.content {
        Content::Scalar(Value::Null) => {}
        Content::Map(entries) => {
            for (key, node) in entries {
                if !matches!(node.content, Content::Scalar(Value::String(_))) {
                    let cause = wrong_type_error(
                        &format!("{path}.{key}"),
                        "a string (put quotes around it)",
                        &node.content,
                    );
                    problems.push((node.line, cause));
                }
            }
        }
        other => problems.push((field.line, wrong_type_error(&path, "a map of strings", other))),
    }
}
