//! The health rules that the arguments name.

use tidegate_health::HealthRules;
use tidegate_service::customizations::Found;

use crate::args::{CustomizationArgs, Switch};
use crate::error::CliError;
use crate::input::{self, Problem};
use crate::output::Printer;

/// The rules the arguments name, and those that come with us.
pub fn given(args: &CustomizationArgs, printer: &Printer) -> Result<HealthRules, CliError> {
    Ok(switched(load(args, printer)?.unwrap_or_default(), args))
}

/// With the general convention, or without it, if the arguments say so.
pub fn switched(rules: HealthRules, args: &CustomizationArgs) -> HealthRules {
    match args.health_convention {
        Some(switch) => rules.with_convention(switch == Switch::On),
        None => rules,
    }
}

/// The rules of the user the arguments name; `None` when they name none. A rule that does not load costs its own kind, and a
/// warning.
pub fn load(args: &CustomizationArgs, printer: &Printer) -> Result<Option<HealthRules>, CliError> {
    // A variable that is set to nothing is not set.
    let given = args.customizations.as_deref().filter(|path| !path.as_os_str().is_empty());
    let Some(path) = given else { return Ok(None) };
    let found = if path.is_dir() {
        Found::in_folder(path)
    } else {
        let manifests = input::load(&[path.to_path_buf()], input::Wanted::default())?;
        let objects = manifests.targets.iter().map(|target| &target.object);
        Found::in_objects(&path.display().to_string(), objects)
    };
    found.warnings.iter().for_each(|warning| printer.warn(warning));
    let mut problems: Vec<Problem> =
        found.outside.iter().map(|path| Problem::Outside { path: path.clone() }).collect();
    if found.is_empty() && problems.is_empty() {
        problems.push(Problem::NoScripts { path: path.to_path_buf() });
    }
    if !problems.is_empty() {
        return Err(CliError::BadInput { problems });
    }
    let rules = found.into_rules();
    for fault in rules.faults() {
        printer.warn(&format!("objects of the kind of this health rule count as Unknown: {fault}"));
    }
    for doubt in rules.doubts() {
        printer.warn(&format!("this health expression gives no answer where that is asked: {doubt}"));
    }
    Ok(Some(rules))
}
