//! The file of `--gates`.

use std::path::Path;

use tidegate_executor::GateDefinitions;

use super::Problem;
use super::ignore::read_text;
use crate::error::CliError;

/// What the names of gates stand for, checked.
pub fn definitions(path: Option<&Path>) -> Result<GateDefinitions, CliError> {
    let Some(path) = path else { return Ok(GateDefinitions::default()) };
    let wrong = |message: String| Problem::Gates { path: path.to_path_buf(), message };
    let text = read_text(path, wrong)?;
    let definitions: GateDefinitions = serde_saphyr::from_str(&text).map_err(|error| {
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default();
        let problem = wrong(format!("it does not define gates as docs/gates.md shows: {first}"));
        CliError::BadInput { problems: vec![problem] }
    })?;
    let invalid = definitions.check();
    if invalid.is_empty() {
        return Ok(definitions);
    }
    Err(CliError::BadInput { problems: invalid.iter().map(|error| wrong(error.to_string())).collect() })
}
