//! Health rules selected by the arguments.

use tidegate_health::HealthRules;
use tidegate_state::customizations::LoadedRules;

use crate::args::{CustomizationArgs, Switch};
use crate::error::CliError;
use crate::input::{self, Problem};
use crate::output::Printer;

/// Returns the built-in rules combined with those in the arguments.
pub fn load_rules(args: &CustomizationArgs, printer: &Printer) -> Result<HealthRules, CliError> {
    Ok(apply_convention_switch(load_user_rules(args, printer)?.unwrap_or_default(), args))
}

/// Turns the general convention on or off if the arguments say so.
pub fn apply_convention_switch(rules: HealthRules, args: &CustomizationArgs) -> HealthRules {
    match args.health_convention {
        Some(switch) => rules.with_convention(switch == Switch::On),
        None => rules,
    }
}

/// Returns the rules from the arguments, if any. A rule that fails to load causes a warning and affects only
/// its own kind.
pub fn load_user_rules(args: &CustomizationArgs, printer: &Printer) -> Result<Option<HealthRules>, CliError> {
    // An empty environment variable counts as unset.
    let given = args.customizations.as_deref().filter(|path| !path.as_os_str().is_empty());
    let Some(path) = given else { return Ok(None) };
    let found = if path.is_dir() {
        LoadedRules::from_folder(path)
    } else {
        let manifests = input::load(&[path.to_path_buf()], input::InputRequirements::default())?;
        let objects = manifests.targets.iter().map(|target| &target.object);
        LoadedRules::from_objects(&path.display().to_string(), objects)
    };
    found.warnings.iter().for_each(|warning| printer.warn(warning));
    let mut problems: Vec<Problem> =
        found.outside_links.iter().map(|path| Problem::LinkOutside { path: path.clone() }).collect();
    if found.is_empty() && problems.is_empty() {
        problems.push(Problem::MissingScripts { path: path.to_path_buf() });
    }
    if !problems.is_empty() {
        return Err(CliError::InvalidInput { problems });
    }
    let rules = found.into_rules();
    for fault in rules.rule_errors() {
        printer.warn(&format!(
            "invalid health rule: {fault}; the health of all objects of that kind is Unknown"
        ));
    }
    for doubt in rules.suspicious_parts() {
        printer.warn(&format!("a health expression might not return a result: {doubt}"));
    }
    Ok(Some(rules))
}
