//! Newest warning among an object's events: a short sentence for users, never the basis of a decision.

use tidegate_model::Object;

use crate::text::shorten_sentence;

/// Returns the newest warning among the events, such as `FailedMount: secret "x" not found`, if any.
///
/// Ignores fields of the wrong type, because the warning is only a hint, not a health result.
pub fn newest_warning(events: &[Object]) -> Option<String> {
    let warnings = events.iter().filter(|event| event.text("/type") == "Warning");
    let (_, newest) = warnings.map(|event| (last_occurrence(event), event)).max_by_key(|(at, _)| *at)?;
    let (reason, message) = (newest.text("/reason"), newest.text("/message"));
    let sentence = match (reason, message.trim()) {
        ("", "") => return None,
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    Some(shorten_sentence(sentence))
}

/// Returns true if the events show that a claim is waiting for the first Pod to use it.
pub fn reports_wait_for_first_consumer(events: &[Object]) -> bool {
    let newest = events.iter().max_by_key(|event| last_occurrence(event));
    newest.is_some_and(|event| event.text("/reason") == "WaitForFirstConsumer")
}

/// Returns the time of an event's last occurrence. Such times sort as text, except for fractions of a second.
fn last_occurrence(event: &Object) -> &str {
    let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    times.into_iter().map(|path| event.text(path)).find(|time| !time.is_empty()).unwrap_or_default()
}
