//! Parsing of manifest files.

use tidegate_executor::Targets;
use tidegate_planner::manifests::{Limits, ManifestError, parse};

/// Invalid manifests.
#[derive(Debug, thiserror::Error)]
#[error("{}", problem_lines(problems))]
pub struct InvalidManifests {
    /// All problems, in file order. Never empty.
    pub problems: Vec<ManifestError>,
}

fn problem_lines(problems: &[ManifestError]) -> String {
    problems.iter().map(ManifestError::to_string).collect::<Vec<_>>().join("\n")
}

/// Parses YAML or JSON manifests, with the limits of the command line. `file` is the file name to use in
/// messages.
///
/// # Errors
///
/// Returns all problems at once, each with its line: syntax errors, and objects without a kind or name.
pub fn read_manifests(file: &str, content: &[u8]) -> Result<Targets, InvalidManifests> {
    match parse(file, content, &Limits::default()) {
        Ok(targets) => Ok(Targets { targets, ..Targets::default() }),
        Err(problems) => Err(InvalidManifests { problems }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_reported_with_their_lines() {
        let content = b"kind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\n";
        let error = read_manifests("shop.yaml", content).unwrap_err();
        let message = error.to_string();
        assert_eq!(error.problems.len(), 2, "{message}");
        assert!(message.contains("shop.yaml:1") && message.contains("shop.yaml:4"), "{message}");
    }
}
