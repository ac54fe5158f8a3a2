//! The file of `--ignore-differences`.

use std::path::Path;

use tidegate_model::{IgnoreDifference, Tracking};
use tidegate_planner::Comparer;

use super::content::{Content, read_file};
use super::problem::Problem;
use crate::error::CliError;

/// More than anybody writes by hand.
const BYTES_MAX: u64 = 1 << 20;

/// The text of a file that people write; `wrong` says what is wrong with it.
pub(super) fn read_text(path: &Path, wrong: impl Fn(String) -> Problem) -> Result<String, CliError> {
    let refuse = |problem: Problem| CliError::BadInput { problems: vec![problem] };
    match read_file(path, BYTES_MAX) {
        Ok(Content::Whole(bytes)) => {
            String::from_utf8(bytes).map_err(|_| refuse(wrong("it is not UTF-8 text".to_owned())))
        }
        Ok(Content::TooLarge(bytes)) => {
            Err(refuse(wrong(format!("it has {bytes} bytes, more than the {BYTES_MAX} allowed"))))
        }
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
            Err(refuse(Problem::Missing { path: path.to_path_buf() }))
        }
        Err(source) => Err(refuse(Problem::Unreadable { path: path.to_path_buf(), what: "file", source })),
    }
}

/// The differences that do not count, checked.
pub fn ignored(path: Option<&Path>) -> Result<Vec<IgnoreDifference>, CliError> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let wrong = |message: String| Problem::Ignore { path: path.to_path_buf(), message };
    let refuse = |problem: Problem| CliError::BadInput { problems: vec![problem] };
    let text = read_text(path, wrong)?;
    let entries: Vec<IgnoreDifference> = serde_saphyr::from_str(&text).map_err(|error| {
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default();
        refuse(wrong(format!("it is not a list of entries with kind and jsonPointers, jqPathExpressions or managedFieldsManagers: {first}")))
    })?;
    let (_, errors) = Comparer::new(&entries, &Tracking::default());
    if errors.is_empty() {
        return Ok(entries);
    }
    Err(CliError::BadInput { problems: errors.iter().map(|error| wrong(error.to_string())).collect() })
}
