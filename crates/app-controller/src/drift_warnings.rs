//! Comparison findings that are reported as conditions.

use tidegate_application::comparison;
use tidegate_model::argo::ConditionType;
use tidegate_model::{Severity, Warning};

/// Maximum number of findings in a condition, and maximum length of each finding in characters.
const FINDINGS_MAX: usize = 10;
const FINDING_CHARS_MAX: usize = 300;
/// Codes of findings that result from a user's own request.
const REQUESTED_CODES: [&str; 1] = ["skipped"];

/// Returns the condition for a finding that, as in Argo CD, has its own condition type.
pub(super) fn finding_condition(finding: &Warning) -> Option<(ConditionType, String)> {
    let kind = match finding.code.as_str() {
        "shared-resource" => ConditionType::SharedResourceWarning,
        "repeated-resource" => ConditionType::RepeatedResourceWarning,
        _ => return None,
    };
    Some((kind, finding.to_string()))
}

/// Returns a condition for the unexpected findings that don't have their own condition type. The condition
/// lists the first few findings and the number of remaining findings.
pub(super) fn warnings_condition(findings: &[Warning]) -> Option<(ConditionType, String)> {
    let is_meant = |one: &&Warning| {
        one.severity == Severity::Warning
            && finding_condition(one).is_none()
            && !REQUESTED_CODES.contains(&one.code.as_str())
    };
    let all: Vec<&Warning> = findings.iter().filter(is_meant).collect();
    let shortened = |one: &&Warning| shorten(&one.to_string());
    let mut texts: Vec<String> = all.iter().take(FINDINGS_MAX).map(shortened).collect();
    let more = all.len().saturating_sub(texts.len());
    texts.extend((more > 0).then(|| format!("and {more} more; see `tidegate app diff`")));
    (!texts.is_empty()).then(|| (comparison::manifest_warning_condition(), texts.join("; ")))
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= FINDING_CHARS_MAX {
        return text.to_owned();
    }
    text.chars().take(FINDING_CHARS_MAX).chain(['…']).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    fn finding(code: &str, message: String, severity: Severity) -> Warning {
        Warning { severity, code: code.to_owned(), object: None, origin: None, message }
    }

    #[test]
    fn each_finding_is_reported_once_and_only_the_first_ones() {
        let warn = |code: &str, message: &str| finding(code, message.to_owned(), Severity::Warning);
        assert_eq!(warnings_condition(&[]), None);
        let not_here = [
            warn("shared-resource", "has a condition of its own"),
            warn("skipped", "it was requested"),
            finding("untrackable-application", "fails the comparison".to_owned(), Severity::Error),
        ];
        assert_eq!(warnings_condition(&not_here), None);
        let (kind, message) =
            warnings_condition(&[warn("invalid-wave", "\"abc\" is not a wave"), warn("a", "b")]).unwrap();
        assert_eq!(kind.to_string(), "ManifestWarning");
        assert!(message.contains("\"abc\" is not a wave") && message.contains("; "), "{message}");
        let many: Vec<Warning> =
            (0..5000).map(|number| warn("a", &format!("{number} {}", "ä".repeat(9999)))).collect();
        let (_, message) = warnings_condition(&many).unwrap();
        assert!(message.chars().count() < 4000, "{}", message.len());
        assert!(message.contains("and 4990 more"), "{message}");
    }
}
