//! Namespace of the control plane. A service chooses it, and its clients use the same namespace. Only commands
//! without a service need their own setting.

use std::env;

use tidegate_model::argo::{DEFAULT_CONTROL_NAMESPACE, set_control_namespace};

use crate::args::{CONTROL_NAMESPACE_VARIABLE, Command, parse_namespace};
use crate::error::CliError;

/// Sets the namespace from the command line or the environment, before it is first used. The state directory or the API of a service
/// overrides it for clients (`adopt_control_namespace`).
pub fn initialize(command: &Command) -> Result<(), CliError> {
    let named = match command {
        // The parser has already read the environment.
        Command::Serve(args) => args.control_namespace.clone(),
        _ => env::var(CONTROL_NAMESPACE_VARIABLE).ok().filter(|text| !text.is_empty()),
    };
    let named = named.as_deref().unwrap_or(DEFAULT_CONTROL_NAMESPACE);
    let usage =
        |reason: String| CliError::Usage { message: format!("{CONTROL_NAMESPACE_VARIABLE}: {reason}") };
    let named = parse_namespace(named).map_err(usage)?;
    set_control_namespace(&named).map_err(|error| usage(error.to_string()))
}
