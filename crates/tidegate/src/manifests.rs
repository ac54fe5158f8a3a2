//! From the text of a file to the manifests of an operation.

use tidegate_executor::Targets;
use tidegate_planner::manifests::{Limits, ManifestError, parse};

/// Manifests that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}", lines(problems))]
pub struct InvalidManifests {
    /// All that is wrong, in the order of the file; never empty.
    pub problems: Vec<ManifestError>,
}

fn lines(problems: &[ManifestError]) -> String {
    problems.iter().map(ManifestError::to_string).collect::<Vec<_>>().join("\n")
}

/// Reads manifests in YAML or JSON, with the limits of the command. `file` names them in messages.
///
/// # Errors
///
/// All problems of the text at once, each with its line: what is no YAML, and objects without kind or name.
pub fn read_manifests(file: &str, content: &[u8]) -> Result<Targets, InvalidManifests> {
    match parse(file, content, &Limits::default()) {
        Ok(targets) => Ok(Targets { targets, ..Targets::default() }),
        Err(problems) => Err(InvalidManifests { problems }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_told_with_their_lines() {
        let content = b"kind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\n";
        let error = read_manifests("shop.yaml", content).unwrap_err();
        let told = error.to_string();
        assert_eq!(error.problems.len(), 2, "{told}");
        assert!(told.contains("shop.yaml:1") && told.contains("shop.yaml:4"), "{told}");
    }
}
