use serde_json::Value;
use tidegate_model::{InvalidObject, Object, WrongType, annotations, wrong_types};

use super::error::ManifestCause;
use super::{Origin, Reader, Target, names};
use crate::waves;
use tidegate_yaml::{Content, Node};

/// Turns a document, or an item of a list, into targets or errors.
///
/// `inherited` is the type that the items of a typed list (`PodList`) have when they do not say so themselves.
pub(super) fn unroll(
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
        inherit(&mut node, api_version, kind);
    }
    if !is_list(&node) {
        return take(reader, node, lines_before, document);
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
                unroll(reader, item, lines_before, document, item_type.as_ref());
            }
        }
        None | Some(Content::Scalar(Value::Null)) => {}
        Some(other) => {
            let cause = ManifestCause::ItemsNotAList { kind, found: describe(&other) };
            reader.fail(lines_before + line, None, cause);
        }
    }
}

/// A `List`, or a typed list such as `PodList`. A custom kind that merely ends in `List` has no `items`.
fn is_list(node: &Node) -> bool {
    let kind = node.get("kind").map(Node::text).unwrap_or_default();
    kind == "List"
        || (kind.ends_with("List")
            && matches!(node.get("items"), Some(Node { content: Content::List(_), .. })))
}

fn inherit(node: &mut Node, api_version: &str, kind: &str) {
    let line = node.line;
    let Content::Map(fields) = &mut node.content else { return };
    for (field, value) in [("apiVersion", api_version), ("kind", kind)] {
        if !fields.iter().any(|(name, _)| name == field) {
            let content = Content::Scalar(Value::from(value));
            fields.push((field.to_owned(), Node { line, content }));
        }
    }
}

fn describe(content: &Content) -> &'static str {
    match content {
        Content::Scalar(Value::Null) => "nothing",
        Content::Scalar(Value::Bool(_)) => "a boolean",
        Content::Scalar(Value::Number(_)) => "a number",
        Content::Scalar(_) => "a text",
        Content::List(_) => "a list",
        Content::Map(_) => "a map",
    }
}

fn take(reader: &mut Reader<'_>, node: Node, lines_before: u64, document: usize) {
    let label = label(&node);
    let problems = problems(&node, reader.named);
    if !problems.is_empty() {
        for (line, cause) in problems {
            reader.fail(lines_before + line, label.clone(), cause);
        }
        return;
    }
    let line = lines_before + node.line;
    match Object::try_from(node.into_value()) {
        Ok(object) => {
            let origin = Origin { file: reader.file.to_owned(), line, document };
            reader.targets.push(Target { object, origin });
        }
        Err(error) => reader.fail(line, label, error.into()),
    }
}

/// The object of a document that a line is in, as far as it can be told.
pub(super) fn label_at(node: &Node, line: u64) -> Option<String> {
    if !is_list(node) {
        return label(node);
    }
    match node.get("items").map(|items| &items.content) {
        Some(Content::List(items)) => items.iter().rfind(|item| item.line <= line).and_then(label),
        _ => None,
    }
}

/// What can be said of an object that may not be one: `Deployment shop/api`. A name with a slash in it is in quotes, so that nobody
/// takes a part of it for a namespace.
fn label(node: &Node) -> Option<String> {
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

/// Everything that is wrong with one object, with lines.
fn problems(node: &Node, named: bool) -> Vec<(u64, ManifestCause)> {
    let Content::Map(fields) = &node.content else {
        let found = describe(&node.content);
        return vec![(node.line, InvalidObject::NotAMap { found }.into())];
    };
    let mut problems = Vec::new();
    for field in ["apiVersion", "kind"] {
        match node.get(field).map(|node| (node.line, &node.content)) {
            Some((_, Content::Scalar(Value::String(text)))) if !text.is_empty() => {}
            None | Some((_, Content::Scalar(Value::Null | Value::String(_)))) => {
                problems.push((node.line_of(field), InvalidObject::Missing { field }.into()));
            }
            Some((line, content)) => problems.push((line, wrong_type(field, "a text", content))),
        }
    }
    if problems.is_empty() {
        let (api_version, kind) = (node.get("apiVersion").map(Node::text), node.get("kind").map(Node::text));
        refuse(
            &mut problems,
            node,
            names::check_type(api_version.unwrap_or_default(), kind.unwrap_or_default()),
        );
    }
    match fields.iter().find(|(name, _)| name == "metadata").map(|(_, metadata)| metadata) {
        Some(metadata) if matches!(metadata.content, Content::Map(_)) => {
            metadata_problems(&mut problems, node, metadata, named)
        }
        // An explicit null is how some tools write "not set".
        None | Some(Node { content: Content::Scalar(Value::Null), .. }) => {
            if named {
                problems.push((node.line_of("metadata"), ManifestCause::MissingName { generated: false }));
            }
        }
        Some(other) => problems.push((other.line, wrong_type("metadata", "a map", &other.content))),
    }
    if problems.is_empty() {
        problems.extend(content_problems(node));
    }
    problems
}

/// Fields of built-in kinds that every server would refuse.
fn content_problems(node: &Node) -> impl Iterator<Item = (u64, ManifestCause)> {
    let text = |field| node.get(field).map(Node::text).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    wrong_types(group, text("kind"), node).into_iter().map(|wrong| {
        let WrongType { field, expected, found, value } = wrong;
        (value.line, InvalidObject::WrongType { field, expected, found }.into())
    })
}

fn wrong_type(field: &str, expected: &'static str, content: &Content) -> ManifestCause {
    InvalidObject::WrongType { field: field.to_owned(), expected, found: describe(content) }.into()
}

fn refuse(problems: &mut Vec<(u64, ManifestCause)>, node: &Node, refusals: Vec<names::Refusal>) {
    for (field, value, rule) in refusals {
        problems.push((node.line_of(field), ManifestCause::InvalidField { field, value, rule }));
    }
}

fn metadata_problems(problems: &mut Vec<(u64, ManifestCause)>, node: &Node, metadata: &Node, named: bool) {
    let before = problems.len();
    for (name, path) in [
        ("name", "metadata.name"),
        ("namespace", "metadata.namespace"),
        ("generateName", "metadata.generateName"),
        ("uid", "metadata.uid"),
    ] {
        let Some(field) = metadata.get(name) else { continue };
        if !matches!(field.content, Content::Scalar(Value::String(_) | Value::Null)) {
            problems.push((field.line, wrong_type(path, "a text (put quotes around it)", &field.content)));
        }
    }
    for section in ["annotations", "labels"] {
        if let Some(field) = metadata.get(section) {
            texts_only(problems, section, field);
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
    refuse(problems, node, names::check(group, kind, text("name"), text("generateName"), text("namespace")));
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

fn texts_only(problems: &mut Vec<(u64, ManifestCause)>, section: &str, field: &Node) {
    let path = format!("metadata.{section}");
    match &field.content {
        Content::Scalar(Value::Null) => {}
        Content::Map(entries) => {
            for (key, node) in entries {
                if !matches!(node.content, Content::Scalar(Value::String(_))) {
                    let cause =
                        wrong_type(&format!("{path}.{key}"), "a text (put quotes around it)", &node.content);
                    problems.push((node.line, cause));
                }
            }
        }
        other => problems.push((field.line, wrong_type(&path, "a map of texts", other))),
    }
}
