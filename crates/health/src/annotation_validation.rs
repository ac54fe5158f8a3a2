//! Validation of an object's health annotations before it is applied.

use tidegate_model::Object;
use tidegate_model::annotations::{HEALTH_CONVENTION, HEALTH_GRACE};
use tidegate_model::parse_duration;

use crate::cel::Expressions;

/// Returns the problems in an object's health annotations, as codes and messages with a remedy.
pub fn review_annotations(object: &Object) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if let Some(request) = object.annotation(HEALTH_CONVENTION)
        && !["on", "off", "required"].contains(&request)
    {
        let problem = format!(
            "invalid value {request:?} in the {HEALTH_CONVENTION} annotation is ignored; use off, required \
             or on"
        );
        found.push(("invalid-health-convention", problem));
    }
    if let Some(Err(error)) = object.annotation(HEALTH_GRACE).map(parse_duration) {
        found.push(("invalid-health-grace", format!("the {HEALTH_GRACE} annotation is ignored: {error}")));
    }
    let Some(rule) = Expressions::from_annotations(object) else { return found };
    if let Some(reason) = rule.error_reason() {
        let problem = format!(
            "the health expressions in the annotations are invalid; the object's health will be Unknown and the wave cannot complete: {reason}"
        );
        found.push(("invalid-health-expression", problem));
    }
    found.extend(rule.suspicious_parts().into_iter().map(|doubt| {
        (
            "doubtful-health-expression",
            format!("a health expression in the annotations might never return a result: {doubt}"),
        )
    }));
    found
}
