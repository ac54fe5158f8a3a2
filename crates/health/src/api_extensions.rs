//! API extensions: CustomResourceDefinition and APIService.

use tidegate_model::Object;

use crate::fields::{Condition, Node};
use crate::verdict::{Verdict, degraded, first_non_blank, healthy, progressing, require_version};

/// Returns the health of a CustomResourceDefinition, which is Healthy once its kind is served.
///
/// It is Progressing while the `Established` condition is missing, because other controllers may write their
/// conditions first.
pub(crate) fn custom_resource_definition(object: &Object) -> Verdict {
    if object.is_deleting() {
        return progressing("Definition is being deleted");
    }
    let conditions = Node::for_object(object).conditions()?;
    let find = |wanted: fn(&Condition<'_>) -> bool| conditions.iter().find(|condition| wanted(condition));
    let explain =
        |what: &str, condition: &Condition<'_>| match first_non_blank(&[condition.message, condition.reason])
        {
            "" => what.to_owned(),
            reason => format!("{what}: {reason}"),
        };
    if let Some(condition) = find(|condition| condition.is_true("Terminating")) {
        return progressing(explain("Definition is being deleted", condition));
    }
    if let Some(condition) = find(|condition| condition.is_false("NamesAccepted")) {
        return degraded(explain("Names are not accepted", condition));
    }
    if let Some(condition) = find(|condition| condition.is_true("NonStructuralSchema")) {
        return degraded(explain("Schema is not structural", condition));
    }
    match find(|condition| condition.kind == "Established") {
        Some(condition) if condition.status == "True" => healthy("Kind is served"),
        Some(condition) if condition.reason != "Installing" => {
            degraded(explain("Kind is not established", condition))
        }
        _ => progressing("Waiting for the kind to be established"),
    }
}

pub(crate) fn api_service(object: &Object) -> Verdict {
    require_version(object, &["v1", "v1beta1"], "apiregistration.k8s.io/v1 or v1beta1")?;
    let conditions = Node::for_object(object).conditions()?;
    match conditions.iter().find(|condition| condition.kind == "Available") {
        None => progressing("Waiting to be processed"),
        Some(condition) => {
            let message = format!("{}: {}", condition.reason, condition.message);
            if condition.status == "True" { healthy(message) } else { progressing(message) }
        }
    }
}
