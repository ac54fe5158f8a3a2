//! The file passed with `--ignore-differences`.

use std::path::Path;

use tidegate_model::{IgnoreDifference, Tracking};
use tidegate_planner::Comparer;

use super::content::{FileContent, read_file};
use super::problem::Problem;
use crate::error::CliError;

/// Maximum file size in bytes. No handwritten file should be this large.
const BYTES_MAX: u64 = 1 << 20;

/// Returns the text of a handwritten file. `wrong` converts an error message to a problem.
pub(super) fn read_text(path: &Path, wrong: impl Fn(String) -> Problem) -> Result<String, CliError> {
    let refuse = |problem: Problem| CliError::InvalidInput { problems: vec![problem] };
    match read_file(path, BYTES_MAX) {
        Ok(FileContent::Whole(bytes)) => {
            String::from_utf8(bytes).map_err(|_| refuse(wrong("the file is not UTF-8 text".to_owned())))
        }
        Ok(FileContent::TooLarge(bytes)) => {
            Err(refuse(wrong(format!("the file is too large: {bytes} bytes (maximum: {BYTES_MAX})"))))
        }
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
            Err(refuse(Problem::Missing { path: path.to_path_buf() }))
        }
        Err(source) => Err(refuse(Problem::Unreadable { path: path.to_path_buf(), what: "file", source })),
    }
}

/// Returns the validated ignore rules.
pub fn load_ignore_rules(path: Option<&Path>) -> Result<Vec<IgnoreDifference>, CliError> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let wrong = |message: String| Problem::InvalidIgnoreFile { path: path.to_path_buf(), message };
    let refuse = |problem: Problem| CliError::InvalidInput { problems: vec![problem] };
    let text = read_text(path, wrong)?;
    let entries: Vec<IgnoreDifference> = serde_saphyr::from_str(&text).map_err(|error| {
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default();
        refuse(wrong(format!("the file is not a list of entries with kind and jsonPointers, jqPathExpressions or managedFieldsManagers: {first}")))
    })?;
    let (_, errors) = Comparer::new(&entries, &Tracking::default());
    if errors.is_empty() {
        return Ok(entries);
    }
    Err(CliError::InvalidInput { problems: errors.iter().map(|error| wrong(error.to_string())).collect() })
}
