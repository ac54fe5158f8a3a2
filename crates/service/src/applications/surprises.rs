//! What of the findings of a comparison is told in conditions.

use tidegate_application::comparison;
use tidegate_model::argo::ConditionType;
use tidegate_model::{Severity, Warning};

/// So many findings about manifests are told, and so much of each.
const FINDINGS_MAX: usize = 10;
const FINDING_CHARS_MAX: usize = 300;
/// Findings that say what somebody has asked for.
const WANTED: [&str; 1] = ["skipped"];

/// A finding that has a condition of its own, which Argo CD has too.
pub(super) fn warning(finding: &Warning) -> Option<(ConditionType, String)> {
    let kind = match finding.code.as_str() {
        "shared-resource" => ConditionType::SharedResourceWarning,
        "repeated-resource" => ConditionType::RepeatedResourceWarning,
        _ => return None,
    };
    Some((kind, finding.to_string()))
}

/// What else is surprising in the manifests: so much of it as people read, and the number of the rest.
pub(super) fn surprises(findings: &[Warning]) -> Option<(ConditionType, String)> {
    let is_meant = |one: &&Warning| {
        one.severity == Severity::Warning && warning(one).is_none() && !WANTED.contains(&one.code.as_str())
    };
    let all: Vec<&Warning> = findings.iter().filter(is_meant).collect();
    let shortened = |one: &&Warning| shorten(&one.to_string());
    let mut told: Vec<String> = all.iter().take(FINDINGS_MAX).map(shortened).collect();
    let more = all.len().saturating_sub(told.len());
    told.extend((more > 0).then(|| format!("and {more} more, which `tidegate app diff` names")));
    (!told.is_empty()).then(|| (comparison::manifest_warning(), told.join("; ")))
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= FINDING_CHARS_MAX {
        return text.to_owned();
    }
    text.chars().take(FINDING_CHARS_MAX).chain(['…']).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    fn finding(code: &str, message: String, severity: Severity) -> Warning {
        Warning { severity, code: code.to_owned(), object: None, origin: None, message }
    }

    #[test]
    fn what_is_surprising_is_told_once_each_and_no_more_than_people_read() {
        let warn = |code: &str, message: &str| finding(code, message.to_owned(), Severity::Warning);
        assert_eq!(surprises(&[]), None);
        let not_here = [
            warn("shared-resource", "has a condition of its own"),
            warn("skipped", "somebody has asked for it"),
            finding("untrackable-application", "fails the comparison".to_owned(), Severity::Error),
        ];
        assert_eq!(surprises(&not_here), None);
        let (kind, message) =
            surprises(&[warn("invalid-wave", "\"abc\" is no wave"), warn("a", "b")]).unwrap();
        assert_eq!(kind.to_string(), "ManifestWarning");
        assert!(message.contains("\"abc\" is no wave") && message.contains("; "), "{message}");
        let many: Vec<Warning> =
            (0..5000).map(|number| warn("a", &format!("{number} {}", "ä".repeat(9999)))).collect();
        let (_, message) = surprises(&many).unwrap();
        assert!(message.chars().count() < 4000, "{}", message.len());
        assert!(message.contains("and 4990 more"), "{message}");
    }
}
