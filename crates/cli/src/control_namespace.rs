//! Namespace of the control plane. Clients of a service use the service's; only commands without a service
//! need a setting of their own.

use std::env;

use tidegate_model::argo::{DEFAULT_CONTROL_NAMESPACE, set_control_namespace};

use crate::args::{CONTROL_NAMESPACE_VARIABLE, Command, parse_namespace};
use crate::error::CliError;

/// Sets the namespace from the command line or the environment. Call this before the first use of the
/// namespace. In clients, a service's state directory or API overrides it (`adopt_control_namespace`).
pub fn initialize(command: &Command) -> Result<(), CliError> {
    let named = match command {
        // The argument parser already reads the environment variable.
        Command::Serve(args) => args.control_namespace.clone(),
        _ => env::var(CONTROL_NAMESPACE_VARIABLE).ok().filter(|text| !text.is_empty()),
    };
    let named = named.as_deref().unwrap_or(DEFAULT_CONTROL_NAMESPACE);
    let usage =
        |reason: String| CliError::Usage { message: format!("{CONTROL_NAMESPACE_VARIABLE}: {reason}") };
    let named = parse_namespace(named).map_err(usage)?;
    set_control_namespace(&named).map_err(|error| usage(error.to_string()))
}
