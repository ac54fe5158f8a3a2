//! The file of `--gates`.

use std::path::Path;

use tidegate_executor::GateDefinitions;
use tidegate_service::gates;

use super::Problem;
use super::ignore::read_text;
use crate::error::CliError;

/// What the names of gates stand for, checked.
pub fn definitions(path: Option<&Path>) -> Result<GateDefinitions, CliError> {
    let Some(path) = path else { return Ok(GateDefinitions::default()) };
    let wrong = |message: String| Problem::Gates { path: path.to_path_buf(), message };
    let text = read_text(path, wrong)?;
    gates::parse(&text)
        .map_err(|problems| CliError::BadInput { problems: problems.into_iter().map(wrong).collect() })
}
