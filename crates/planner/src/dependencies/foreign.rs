//! Dependencies that objects declare for other tools: cli-utils, kapp and Nelm.

use std::collections::BTreeMap;

use tidegate_model::{Object, ObjectKey, Task};

use super::entry::format_key;
use crate::hooks::Remark;

/// Dependencies of cli-utils and kpt: `GROUP/namespaces/NAMESPACE/KIND/NAME` or `GROUP/KIND/NAME`.
const CLI_UTILS: &str = "config.kubernetes.io/depends-on";
/// Group of kapp that an object belongs to. The name may have a suffix, such as `.db`.
const KAPP_GROUP: &str = "kapp.k14s.io/change-group";
/// Rule of kapp that orders an object and a group. The name may have a suffix, such as `.db`.
const KAPP_RULE: &str = "kapp.k14s.io/change-rule";
/// Prefix of Nelm's dependencies.
const NELM: &str = "werf.io/deploy-dependency-";
/// Placeholders in the names of kapp's groups.
const KAPP_PLACEHOLDERS: [&str; 4] = ["{api-group}", "{kind}", "{name}", "{namespace}"];

/// Code of the warning about a dependency that can't be translated.
pub(super) const UNTRANSLATED: &str = "untranslated-dependency";

/// Dependencies that an object declares for other tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForeignDependencies {
    /// Dependencies of cli-utils, as entries of `tidegate.dev/depends-on`.
    pub cli_utils: Vec<String>,
    /// Groups of kapp that the object belongs to.
    pub groups: Vec<String>,
    /// Relations to other objects.
    pub relations: Vec<Relation>,
}

/// Relation between an object and others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The object is applied after all members of a group are healthy.
    AfterGroup(String),
    /// All members of a group are applied after the object is healthy.
    BeforeGroup(String),
    /// The object is deleted before all members of a group.
    DeletedBefore(String),
    /// The object is deleted after all members of a group.
    DeletedAfter(String),
    /// The object is applied after all matching objects are healthy.
    AfterMatching(ObjectPattern),
}

/// Properties of objects. A missing property matches all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ObjectPattern {
    group: Option<String>,
    version: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    /// `metadata.name`, by which the objects are indexed.
    pub name: Option<String>,
}

impl ObjectPattern {
    /// Returns true if a task's object has all properties.
    pub fn matches(&self, task: &Task) -> bool {
        let Self { group, version, kind, namespace, name } = self;
        let pairs = [
            (group, &task.gvk.group),
            (version, &task.gvk.version),
            (kind, &task.gvk.kind),
            (namespace, &task.namespace),
            (name, &task.name),
        ];
        pairs.into_iter().all(|(wanted, found)| wanted.as_ref().is_none_or(|wanted| wanted == found))
    }
}

fn annotations_of(object: &Object) -> impl Iterator<Item = (&str, &str)> {
    let all = object.pointer("/metadata/annotations").and_then(|all| all.as_object());
    all.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
}

/// Returns the dependencies of cli-utils as entries of `tidegate.dev/depends-on`.
pub(super) fn cli_utils_entries(object: &Object) -> Vec<String> {
    let declared = object.annotation(CLI_UTILS).unwrap_or_default();
    declared.split(',').filter_map(|entry| parse_cli_utils(entry.trim())).collect()
}

fn parse_cli_utils(entry: &str) -> Option<String> {
    let parts: Vec<&str> = entry.split('/').collect();
    let key = match parts.as_slice() {
        [group, "namespaces", namespace, kind, name] if !namespace.is_empty() => {
            ObjectKey::new(*group, *kind, *namespace, *name)
        }
        [group, kind, name] => ObjectKey::new(*group, *kind, "", *name),
        _ => return None,
    };
    let is_plain = !entry.contains(|c: char| c.is_whitespace() || "*?{}".contains(c));
    (is_plain && !key.kind.is_empty() && !key.name.is_empty()).then(|| format_key(&key))
}

/// Returns the dependencies that an object declares for kapp and Nelm, and warnings about those that can't be
/// translated.
pub(crate) fn foreign_dependencies(object: &Object) -> (ForeignDependencies, Vec<Remark>) {
    let mut found = ForeignDependencies { cli_utils: cli_utils_entries(object), ..Default::default() };
    let mut remarks = Vec::new();
    let mut warn = |name: &str, value: &str, why: &str| {
        let message = format!("{value:?} in the {name} annotation has no effect on the order: {why}");
        remarks.push((UNTRANSLATED, message));
    };
    let entries = object.annotation(CLI_UTILS).into_iter().flat_map(|all| all.split(',')).map(str::trim);
    for entry in entries.filter(|entry| parse_cli_utils(entry).is_none()) {
        warn(CLI_UTILS, entry, "use GROUP/namespaces/NAMESPACE/KIND/NAME, or GROUP/KIND/NAME");
    }
    for (name, value) in annotations_of(object) {
        if has_suffix(name, KAPP_GROUP) {
            match expand_group(value, object) {
                Some(group) => found.groups.push(group),
                None => warn(name, value, "the placeholder isn't supported"),
            }
        } else if has_suffix(name, KAPP_RULE) {
            match parse_rule(value, object) {
                Ok(relation) => found.relations.push(relation),
                Err(why) => warn(name, value, why),
            }
        } else if name.starts_with(NELM) {
            match parse_nelm(value) {
                Ok(pattern) => found.relations.push(Relation::AfterMatching(pattern)),
                Err(why) => warn(name, value, why),
            }
        }
    }
    (found, remarks)
}

/// Returns true for the name itself, and for the name with a suffix after a dot.
fn has_suffix(name: &str, base: &str) -> bool {
    name.strip_prefix(base).is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('.'))
}

/// Replaces the placeholders in the name of a group. Returns `None` for an unknown one.
fn expand_group(group: &str, object: &Object) -> Option<String> {
    let values = [object.group(), object.kind(), object.name(), object.namespace()];
    let replace = |text: String, (placeholder, value): (&str, &str)| text.replace(placeholder, value);
    let expanded = KAPP_PLACEHOLDERS.into_iter().zip(values).fold(group.trim().to_owned(), replace);
    (!expanded.contains('{') && !expanded.is_empty()).then_some(expanded)
}

fn parse_rule(rule: &str, object: &Object) -> Result<Relation, &'static str> {
    let words: Vec<&str> = rule.split_whitespace().collect();
    let [action, order, other, group] = words.as_slice() else {
        return Err("use ACTION ORDER ACTION GROUP, such as \"upsert after upserting apps.example.com/db\"");
    };
    let group = expand_group(group, object).ok_or("the placeholder isn't supported")?;
    match (*action, *order, *other) {
        ("upsert", "after", "upserting") => Ok(Relation::AfterGroup(group)),
        ("upsert", "before", "upserting") => Ok(Relation::BeforeGroup(group)),
        ("delete", "before", "deleting") => Ok(Relation::DeletedBefore(group)),
        ("delete", "after", "deleting") => Ok(Relation::DeletedAfter(group)),
        ("upsert" | "delete", "before" | "after", "upserting" | "deleting") => {
            Err("in each wave, all prunes come before all writes")
        }
        _ => Err("the rule isn't valid"),
    }
}

fn parse_nelm(value: &str) -> Result<ObjectPattern, &'static str> {
    let pairs =
        value.split(',').map(|pair| pair.split_once('=').map(|(key, value)| (key.trim(), value.trim())));
    let mut all: BTreeMap<&str, &str> =
        pairs.collect::<Option<_>>().ok_or("use KEY=VALUE pairs, separated by commas")?;
    match all.remove("state") {
        Some("ready") => {}
        Some("present") => return Err("Tidegate waits only for healthy objects; use state=ready"),
        _ => return Err("the state must be ready"),
    }
    let mut take = |key: &str| all.remove(key).map(str::to_owned);
    let pattern = ObjectPattern {
        group: take("group"),
        version: take("version"),
        kind: take("kind"),
        namespace: take("namespace"),
        name: take("name"),
    };
    match () {
        () if !all.is_empty() => Err("it contains an unknown key"),
        () if pattern == ObjectPattern::default() => Err("it must name a property of the object"),
        () => Ok(pattern),
    }
}
