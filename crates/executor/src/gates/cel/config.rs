//! What must be true of which objects, as people write it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_cluster::{Detail, Scope};
use tidegate_health::Condition;
use tidegate_model::{Gvk, Object};

use super::objects::Selection;

/// So much of an expression is shown, in characters.
const SHOWN_MAX: usize = 200;

/// Objects that an expression must be true of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CelGate {
    /// Their API version, such as `v1` or `apps/v1`.
    pub api_version: String,
    /// Their kind, such as `Deployment`.
    pub kind: String,
    /// Their namespace; for objects in all namespaces, and in none, if not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name of the object; or else labels.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Labels that they have. All such objects count, and there must be one at least.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What must be true of each, which it calls `object`.
    pub expression: String,
    /// An expression that gives the reason while that is not true; the expression itself if not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The same, ready to be asked.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub selection: Selection,
    condition: Condition,
    message: Option<Condition>,
    /// The expression, as it is shown.
    shown: String,
    /// How the objects are called while there are none.
    named: String,
}

impl CelGate {
    /// All that is wrong with it.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut note = |field: &str, problem: &str| wrong.push(format!("{field}: {problem}"));
        let is_version = self.api_version.split('/').count() <= 2 && self.api_version.split('/').all(is_word);
        if !is_version {
            note("apiVersion", "write such as v1 or apps/v1");
        }
        if !is_word(&self.kind) {
            note("kind", "write such as ConfigMap");
        }
        match (self.name.is_empty(), self.labels.is_empty()) {
            (true, true) => note("name", "write the name of an object, or labels"),
            (false, false) => note("labels", "write either a name or labels"),
            _ => {}
        }
        if let Err(problem) = Condition::parse(&self.expression) {
            note("expression", &problem);
        }
        if let Some(Err(problem)) = self.message() {
            note("message", &problem);
        }
        wrong
    }

    fn message(&self) -> Option<Result<Condition, String>> {
        (!self.message.is_empty()).then(|| Condition::parse(&self.message))
    }

    pub(super) fn demand(&self) -> Result<Demand, String> {
        let namespace = Some(self.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let place = namespace.as_ref().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        let named = match self.name.as_str() {
            "" => {
                let labels: Vec<String> =
                    self.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("{}{place} with {}", self.kind, labels.join(","))
            }
            name => format!("{} {name}{place}", self.kind),
        };
        let gvk = Gvk::from_api_version(&self.api_version, &self.kind);
        Ok(Demand {
            selection: Selection {
                scope: Scope { gvk, namespace, detail: Detail::Full },
                name: Some(self.name.clone()).filter(|name| !name.is_empty()),
                labels: self.labels.clone(),
            },
            condition: Condition::parse(&self.expression)
                .map_err(|problem| format!("expression: {problem}"))?,
            message: self.message().transpose().map_err(|problem| format!("message: {problem}"))?,
            shown: short(&self.expression),
            named,
        })
    }
}

impl Demand {
    /// Why the objects do not satisfy it; `None` if they do.
    pub fn unmet<'a>(&self, objects: impl Iterator<Item = &'a Object>) -> Option<String> {
        let mut objects = objects.peekable();
        if objects.peek().is_none() {
            return Some(format!("there is no {}", self.named));
        }
        objects.find_map(|object| self.unmet_by(object))
    }

    fn unmet_by(&self, object: &Object) -> Option<String> {
        let reason = match self.condition.holds(object) {
            Ok(true) => return None,
            Ok(false) => {
                let said = self.message.as_ref().map(|message| message.text(object));
                match said {
                    Some(Ok(text)) if !text.trim().is_empty() => short(&text),
                    _ => format!("not true: {}", self.shown),
                }
            }
            Err(problem) => format!("{problem}: {}", self.shown),
        };
        let namespace = Some(object.namespace()).filter(|namespace| !namespace.is_empty());
        let place = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        Some(format!("{} {place}{}: {reason}", object.kind(), object.name()))
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
}

/// One line of reasonable length.
fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= SHOWN_MAX {
        return line;
    }
    line.chars().take(SHOWN_MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
    fn every_object_must_satisfy_it_and_there_must_be_one() {
        let on = || object("switch", json!({"data": {"deploys": "on"}}));
        let off = || object("switch", json!({"data": {"deploys": "off", "why": " it is\n Friday "}}));
        let labels = json!({"name": null, "labels": {"tier": "db", "app": "shop"}});
        let said = json!({"message": "object.data.why"});
        let table: Vec<(Value, Vec<Object>, Option<&str>)> = vec![
            (json!({}), vec![on()], None),
            (json!({}), vec![on(), object("more", json!({"data": {"deploys": "on"}}))], None),
            (json!({}), vec![], Some("there is no ConfigMap switch in ops")),
            (labels, vec![], Some("there is no ConfigMap in ops with app=shop,tier=db")),
            (json!({}), vec![off()], Some("ConfigMap ops/switch: not true: object.data.deploys == 'on'")),
            (
                json!({}),
                vec![on(), off()],
                Some("ConfigMap ops/switch: not true: object.data.deploys == 'on'"),
            ),
            (said.clone(), vec![off()], Some("ConfigMap ops/switch: it is Friday")),
            // Without a reason of its own the expression is shown.
            (
                said,
                vec![object("switch", json!({"data": {"deploys": "off"}}))],
                Some("ConfigMap ops/switch: not true: object.data.deploys == 'on'"),
            ),
            (
                json!({}),
                vec![object("switch", json!({}))],
                Some("ConfigMap ops/switch: data is not there: object.data.deploys == 'on'"),
            ),
            (
                json!({"expression": "object.data.size()"}),
                vec![on()],
                Some("ConfigMap ops/switch: it gives a number, not a boolean: object.data.size()"),
            ),
        ];
        for (more, objects, expected) in table {
            let unmet = gate(more.clone()).demand().unwrap().unmet(objects.iter());
            assert_eq!(unmet.as_deref(), expected, "{more}");
        }
    }

    /// An expression that takes too long is not true.
    #[test]
    fn an_expression_has_a_budget() {
        let each =
            "object.data.list.all(a, object.data.list.all(b, object.data.list.all(c, a + b + c >= 0)))";
        let list: Vec<u32> = (0..200).collect();
        let objects = [object("switch", json!({"data": {"list": list}}))];
        let unmet = gate(json!({"expression": each})).demand().unwrap().unmet(objects.iter()).unwrap();
        assert!(unmet.contains("it was stopped after 200000 steps"), "{unmet}");
    }

    #[test]
    fn what_cannot_be_judged_is_refused_by_the_name_of_its_field() {
        let table = [
            (json!({"apiVersion": "a/b/c"}), "apiVersion: "),
            (json!({"kind": ""}), "kind: "),
            (json!({"name": null}), "name: write the name of an object, or labels"),
            (json!({"labels": {"a": "b"}}), "labels: write either a name or labels"),
            (json!({"expression": "object.data.deploys =="}), "expression: "),
            (json!({"expression": ""}), "expression: "),
            (json!({"expression": "data.deploys == 'on'"}), "expression: nothing is called data"),
            (json!({"message": "1 +"}), "message: "),
        ];
        for (more, wrong) in table {
            let problems = gate(more.clone()).check();
            assert!(
                matches!(problems.as_slice(), [problem] if problem.starts_with(wrong)),
                "{more}: {problems:?}"
            );
        }
        assert_eq!(gate(json!({})).check(), [""; 0]);
    }
}
