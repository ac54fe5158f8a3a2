//! Configuration of `cel` gates, which require a condition on objects to be true.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_cluster::{Detail, Scope};
use tidegate_health::Condition;
use tidegate_model::{Gvk, Object};

use super::object_watches::Selection;

/// Maximum length of an expression in messages, in characters.
const EXPRESSION_CHARS_MAX: usize = 200;

/// A selection of objects, and an expression that must be true for each of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CelGate {
    /// API version, such as `v1` or `apps/v1`.
    pub api_version: String,
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Namespace. [default: all namespaces, and cluster-scoped objects]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object. Alternative to `labels`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Labels of the objects. The expression must be true for all matching objects, and at least one object
    /// must match.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Expression that must be true for each object. The expression refers to the object as `object`.
    pub expression: String,
    /// Expression that returns the reason while the condition is false. [default: text of `expression`]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Compiled form of a [`CelGate`].
#[derive(Clone, Debug)]
pub(super) struct CompiledGate {
    pub selection: Selection,
    condition: Condition,
    message: Option<Condition>,
    /// The expression as shown in messages.
    expression_text: String,
    /// Description of the selected objects for messages, in case there are none.
    objects_text: String,
}

impl CelGate {
    /// Returns all problems with the configuration.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut note = |field: &str, problem: &str| wrong.push(format!("{field}: {problem}"));
        let is_version =
            self.api_version.split('/').count() <= 2 && self.api_version.split('/').all(is_plain_name);
        if !is_version {
            note("apiVersion", "use a version such as v1 or apps/v1");
        }
        if !is_plain_name(&self.kind) {
            note("kind", "use a kind such as ConfigMap");
        }
        match (self.name.is_empty(), self.labels.is_empty()) {
            (true, true) => note("name", "set either an object's name or labels"),
            (false, false) => note("labels", "set either a name or labels"),
            _ => {}
        }
        if let Err(problem) = Condition::parse(&self.expression) {
            note("expression", &problem);
        }
        if let Some(Err(problem)) = self.compile_message() {
            note("message", &problem);
        }
        wrong
    }

    fn compile_message(&self) -> Option<Result<Condition, String>> {
        (!self.message.is_empty()).then(|| Condition::parse(&self.message))
    }

    pub(super) fn compile(&self) -> Result<CompiledGate, String> {
        let namespace = Some(self.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let place = namespace.as_ref().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        let objects_text = match self.name.as_str() {
            "" => {
                let labels: Vec<String> =
                    self.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("{}{place} with {}", self.kind, labels.join(","))
            }
            name => format!("{} {name}{place}", self.kind),
        };
        let gvk = Gvk::from_api_version(&self.api_version, &self.kind);
        Ok(CompiledGate {
            selection: Selection {
                scope: Scope { gvk, namespace, detail: Detail::Full },
                name: Some(self.name.clone()).filter(|name| !name.is_empty()),
                labels: self.labels.clone(),
            },
            condition: Condition::parse(&self.expression)
                .map_err(|problem| format!("expression: {problem}"))?,
            message: self.compile_message().transpose().map_err(|problem| format!("message: {problem}"))?,
            expression_text: shorten(&self.expression),
            objects_text,
        })
    }
}

impl CompiledGate {
    /// Explains why the objects don't meet the condition, or returns `None` if they do.
    pub fn unmet_reason<'a>(&self, objects: impl Iterator<Item = &'a Object>) -> Option<String> {
        let mut objects = objects.peekable();
        if objects.peek().is_none() {
            return Some(format!("there is no {}", self.objects_text));
        }
        objects.find_map(|object| self.object_unmet_reason(object))
    }

    fn object_unmet_reason(&self, object: &Object) -> Option<String> {
        let reason = match self.condition.is_true(object) {
            Ok(true) => return None,
            Ok(false) => {
                let said = self.message.as_ref().map(|message| message.to_text(object));
                match said {
                    Some(Ok(text)) if !text.trim().is_empty() => shorten(&text),
                    _ => format!("the condition is false: {}", self.expression_text),
                }
            }
            Err(problem) => format!("{problem}: {}", self.expression_text),
        };
        let namespace = Some(object.namespace()).filter(|namespace| !namespace.is_empty());
        let place = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        Some(format!("{} {place}{}: {reason}", object.kind(), object.name()))
    }
}

fn is_plain_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
}

/// Shortens a text to one line.
fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= EXPRESSION_CHARS_MAX {
        return line;
    }
    line.chars().take(EXPRESSION_CHARS_MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::gates::assert_problem;

    fn gate(more: Value) -> CelGate {
        let mut gate = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "ops", "name": "switch",
            "expression": "object.data.deploys == 'on'"});
        let fields = gate.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        fields.retain(|_, field| !field.is_null());
        serde_json::from_value(gate).unwrap()
    }

    fn object(name: &str, more: Value) -> Object {
        let mut object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ops"}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Object::try_from(object).unwrap()
    }

    #[test]
    fn every_object_must_match_and_there_must_be_at_least_one() {
        let on = || object("switch", json!({"data": {"deploys": "on"}}));
        let off = || object("switch", json!({"data": {"deploys": "off", "why": " it is\n Friday "}}));
        let labels = json!({"name": null, "labels": {"tier": "db", "app": "shop"}});
        let said = json!({"message": "object.data.why"});
        let table: Vec<(Value, Vec<Object>, Option<&str>)> = vec![
            (json!({}), vec![on()], None),
            (json!({}), vec![on(), object("more", json!({"data": {"deploys": "on"}}))], None),
            (json!({}), vec![], Some("there is no ConfigMap switch in ops")),
            (labels, vec![], Some("there is no ConfigMap in ops with app=shop,tier=db")),
            (
                json!({}),
                vec![off()],
                Some("ConfigMap ops/switch: the condition is false: object.data.deploys == 'on'"),
            ),
            (
                json!({}),
                vec![on(), off()],
                Some("ConfigMap ops/switch: the condition is false: object.data.deploys == 'on'"),
            ),
            (said.clone(), vec![off()], Some("ConfigMap ops/switch: it is Friday")),
            // Without `message`, the expression is the reason.
            (
                said,
                vec![object("switch", json!({"data": {"deploys": "off"}}))],
                Some("ConfigMap ops/switch: the condition is false: object.data.deploys == 'on'"),
            ),
            (
                json!({}),
                vec![object("switch", json!({}))],
                Some("ConfigMap ops/switch: data does not exist: object.data.deploys == 'on'"),
            ),
            (
                json!({"expression": "object.data.size()"}),
                vec![on()],
                Some("ConfigMap ops/switch: the result is a number, not a boolean: object.data.size()"),
            ),
        ];
        for (more, objects, expected) in table {
            let unmet = gate(more.clone()).compile().unwrap().unmet_reason(objects.iter());
            assert_eq!(unmet.as_deref(), expected, "{more}");
        }
    }

    /// An expression that exceeds its budget counts as false.
    #[test]
    fn an_expression_has_a_budget() {
        let each =
            "object.data.list.all(a, object.data.list.all(b, object.data.list.all(c, a + b + c >= 0)))";
        let list: Vec<u32> = (0..200).collect();
        let objects = [object("switch", json!({"data": {"list": list}}))];
        let unmet =
            gate(json!({"expression": each})).compile().unwrap().unmet_reason(objects.iter()).unwrap();
        assert!(unmet.contains("evaluation stopped after 200000 steps"), "{unmet}");
    }

    #[test]
    fn invalid_configuration_is_rejected_by_field_name() {
        let table = [
            (json!({"apiVersion": "a/b/c"}), "apiVersion: "),
            (json!({"kind": ""}), "kind: "),
            (json!({"name": null}), "name: set either an object's name or labels"),
            (json!({"labels": {"a": "b"}}), "labels: set either a name or labels"),
            (json!({"expression": "object.data.deploys =="}), "expression: "),
            (json!({"expression": ""}), "expression: "),
            (json!({"expression": "data.deploys == 'on'"}), "expression: unknown name data"),
            (json!({"message": "1 +"}), "message: "),
        ];
        for (more, wrong) in table {
            assert_problem(&gate(more.clone()).check(), wrong, &more);
        }
        assert_eq!(gate(json!({})).check(), [""; 0]);
    }
}
