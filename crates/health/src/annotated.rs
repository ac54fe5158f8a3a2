//! What an object says in its annotations about how its health is judged, looked at before anything is done with it.

use tidegate_model::Object;
use tidegate_model::annotations::HEALTH_CONVENTION;

use crate::cel::Expressions;

/// What is wrong with the annotations about the health of an object: a code, and what to do about it.
pub fn review(object: &Object) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if let Some(wish) = object.annotation(HEALTH_CONVENTION)
        && !["on", "off", "required"].contains(&wish)
    {
        let problem =
            format!("annotation {HEALTH_CONVENTION} is ignored: it is {wish:?}; write off, required or on");
        found.push(("invalid-health-convention", problem));
    }
    let Some(rule) = Expressions::of(object) else { return found };
    if let Some(reason) = rule.reason() {
        let problem = format!(
            "the health expressions in its annotations cannot be read, so it counts as Unknown and its wave does not pass: {reason}"
        );
        found.push(("invalid-health-expression", problem));
    }
    found.extend(rule.doubts().into_iter().map(|doubt| {
        (
            "doubtful-health-expression",
            format!("a health expression in its annotations gives no answer: {doubt}"),
        )
    }));
    found
}
