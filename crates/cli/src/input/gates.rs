//! The file passed with `--gates`.

use std::path::Path;

use tidegate_executor::GateDefinitions;
use tidegate_state::gates;

use super::Problem;
use super::ignore::read_text;
use crate::error::CliError;

/// Returns the validated gate definitions.
pub fn load_definitions(path: Option<&Path>) -> Result<GateDefinitions, CliError> {
    let Some(path) = path else { return Ok(GateDefinitions::default()) };
    let wrong = |message: String| Problem::InvalidGatesFile { path: path.to_path_buf(), message };
    let text = read_text(path, wrong)?;
    gates::parse_gates(&text)
        .map_err(|problems| CliError::InvalidInput { problems: problems.into_iter().map(wrong).collect() })
}
