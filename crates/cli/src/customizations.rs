//! Health rules of the user: from a folder or a file, and kept for the resume of the operations that use them.
//!
//! ```text
//! --customizations ─▶ load ─▶ HealthRules ─▶ engine
//!                               │  ▲
//!                     remember  ▼  │ recall, on resume without the option
//!                     STATE_DIR/customizations/
//! ```
//!
//! An operation that went on without its scripts would not wait for kinds that only they can judge. So the scripts an
//! operation began with are kept, by application, since an application has one open operation.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate_health::{
    EXPRESSIONS_FILE, EXPRESSIONS_KEY_PREFIX, Expressions, HealthRules, SCRIPT_FILE, SCRIPT_KEY_PREFIX,
    Script, ScriptError, UserRule,
};
use tidegate_model::Object;
use tidegate_service::state_dir::StateDir;

use crate::args::{CustomizationArgs, Switch};
use crate::error::CliError;
use crate::input::{self, Problem};
use crate::output::Printer;

/// The key under which older versions of Argo CD keep all customisations.
const OLD_KEY: &str = "resource.customizations";
/// Scripts are at most this deep in their folder: group, kind.
const DEPTH_MAX: usize = 2;

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
    let rules = read_rules(args)?;
    if let Some(rules) = &rules {
        for fault in rules.faults() {
            printer.warn(&format!("objects of the kind of this health rule count as Unknown: {fault}"));
        }
    }
    Ok(rules)
}

fn read_rules(args: &CustomizationArgs) -> Result<Option<HealthRules>, CliError> {
    // A variable that is set to nothing is not set.
    let given = args.customizations.as_deref().filter(|path| !path.as_os_str().is_empty());
    let Some(path) = given else { return Ok(None) };
    let mut problems = Vec::new();
    let scripts =
        if path.is_dir() { from_folder(path, &mut problems) } else { from_file(path, &mut problems)? };
    if scripts.is_empty() && problems.is_empty() {
        problems.push(Problem::NoScripts { path: path.to_path_buf() });
    }
    let rules = HealthRules::with_rules(scripts).map_err(|error| problems.push(error.into()));
    match rules {
        Ok(rules) if problems.is_empty() => Ok(Some(rules)),
        _ => Err(CliError::BadInput { problems }),
    }
}

fn keep(script: Result<Script, ScriptError>, rules: &mut Vec<UserRule>, problems: &mut Vec<Problem>) {
    match script {
        Ok(script) => rules.push(UserRule::Script(script)),
        Err(error) => problems.push(error.into()),
    }
}

/// Expressions as YAML. What is no YAML is a rule with a fault, and costs its own kind.
fn expressions(text: &str) -> serde_json::Value {
    serde_saphyr::from_str(text).unwrap_or(serde_json::Value::Null)
}

/// The rules of a folder. Other files, such as tests and actions, are not ours.
fn from_folder(folder: &Path, problems: &mut Vec<Problem>) -> Vec<UserRule> {
    let mut scripts = Vec::new();
    let root = fs::canonicalize(folder).unwrap_or_default();
    let mut open = vec![(folder.to_path_buf(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = open.pop() {
        let unreadable = |source| Problem::Unreadable { path: folder.clone(), what: "folder", source };
        let mut entries = match fs::read_dir(&folder).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
            Ok(entries) => entries,
            Err(error) => {
                problems.push(unreadable(error));
                continue;
            }
        };
        entries.sort_unstable_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name());
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            let is_rule = name == SCRIPT_FILE || name == EXPRESSIONS_FILE;
            if (is_rule || path.is_dir()) && input::leads_out(&root, &path) {
                problems.push(Problem::Outside { path });
            } else if path.is_dir() {
                if depth < DEPTH_MAX {
                    open.push((path.clone(), format!("{prefix}{name}/"), depth + 1));
                }
            } else if is_rule {
                let (shown, place) = (path.display().to_string(), format!("{prefix}{name}"));
                match fs::read_to_string(&path) {
                    Ok(text) if name == SCRIPT_FILE => {
                        keep(Script::from_path(&place, shown, text), &mut scripts, problems);
                    }
                    Ok(text) => match Expressions::from_path(&place, &shown, expressions(&text)) {
                        Some(rule) => scripts.push(UserRule::Expressions(rule)),
                        None => problems.push(ScriptError::Path { name: shown }.into()),
                    },
                    Err(source) => problems.push(Problem::Unreadable { path, what: "file", source }),
                }
            }
        }
    }
    scripts
}

/// The rules of the ConfigMaps and of the Kustomizations of Flux in a file. Other objects in it are passed over.
fn from_file(path: &Path, problems: &mut Vec<Problem>) -> Result<Vec<UserRule>, CliError> {
    let manifests = input::load(&[path.to_path_buf()], input::Wanted::default())?;
    let mut scripts = Vec::new();
    let objects = || manifests.targets.iter().map(|target| &target.object);
    for object in objects() {
        from_flux(path, object, &mut scripts);
    }
    for map in objects().filter(|object| object.group().is_empty() && object.kind() == "ConfigMap") {
        for (key, value) in map.pointer("/data").and_then(|data| data.as_object()).into_iter().flatten() {
            let Some(text) = value.as_str() else { continue };
            let name = named(path, map, key);
            if let Some(kind) = key.strip_prefix(SCRIPT_KEY_PREFIX) {
                keep(Script::from_key(kind, name, text), &mut scripts, problems);
            } else if let Some(kind) = key.strip_prefix(EXPRESSIONS_KEY_PREFIX) {
                match Expressions::from_key(kind, &name, expressions(text)) {
                    Some(rule) => scripts.push(UserRule::Expressions(rule)),
                    None => problems.push(ScriptError::Key { name }.into()),
                }
            } else if key == OLD_KEY {
                old_form(&name, text, &mut scripts, problems);
            }
        }
    }
    Ok(scripts)
}

/// `spec.healthCheckExprs`: `apiVersion`, `kind` and the expressions.
fn from_flux(path: &Path, object: &Object, rules: &mut Vec<UserRule>) {
    if (object.group(), object.kind()) != ("kustomize.toolkit.fluxcd.io", "Kustomization") {
        return;
    }
    let checks = object.pointer("/spec/healthCheckExprs").and_then(|checks| checks.as_array());
    for check in checks.into_iter().flatten() {
        let text = |field: &str| check.get(field).and_then(|text| text.as_str()).unwrap_or_default();
        let group =
            text("apiVersion").split_once('/').map(|(group, _)| format!("{group}/")).unwrap_or_default();
        let target = format!("{group}{}", text("kind"));
        let name = format!("{}: {} {target}", path.display(), object.name());
        rules.push(UserRule::Expressions(Expressions::load(target, name, check.clone())));
    }
}

fn named(path: &Path, map: &Object, key: &str) -> String {
    format!("{}: {} {key}", path.display(), map.name())
}

/// `resource.customizations`: YAML of kinds or patterns, each with `health.lua` and other things.
fn old_form(name: &str, text: &str, scripts: &mut Vec<UserRule>, problems: &mut Vec<Problem>) {
    type Customisations = BTreeMap<String, BTreeMap<String, serde_json::Value>>;
    match serde_saphyr::from_str::<Customisations>(text) {
        Ok(all) => {
            for (target, customisation) in all {
                if let Some(script) = customisation.get(SCRIPT_FILE).and_then(|script| script.as_str()) {
                    let script = Script::load(&target, format!("{name} {target}"), script);
                    scripts.push(UserRule::Script(script));
                }
            }
        }
        Err(error) => problems.push(Problem::Customizations {
            name: name.to_owned(),
            reason: error.to_string().lines().next().unwrap_or_default().to_owned(),
        }),
    }
}

/// Rules as they are kept.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Kept {
    /// As earlier programs kept them.
    Scripts(Vec<KeptRule>),
    Rules {
        convention: bool,
        rules: Vec<KeptRule>,
    },
}

/// A rule of the user as it is kept.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeptRule {
    target: String,
    name: String,
    /// A script.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expressions: Option<serde_json::Value>,
}

fn kept(rules: &HealthRules) -> Kept {
    let keep = |rule: &UserRule| {
        let (target, name) = (rule.target().to_owned(), rule.name().to_owned());
        match rule {
            UserRule::Script(script) => {
                KeptRule { target, name, text: script.text().to_owned(), expressions: None }
            }
            UserRule::Expressions(rule) => {
                KeptRule { target, name, text: String::new(), expressions: Some(rule.source().clone()) }
            }
        }
    };
    Kept::Rules { convention: rules.has_convention(), rules: rules.user_rules().map(keep).collect() }
}

fn revived(kept: Kept) -> Result<HealthRules, ScriptError> {
    let (convention, rules) = match kept {
        Kept::Scripts(rules) => (true, rules),
        Kept::Rules { convention, rules } => (convention, rules),
    };
    let revive = |rule: KeptRule| match rule.expressions {
        Some(source) => UserRule::Expressions(Expressions::load(rule.target, rule.name, source)),
        None => UserRule::Script(Script::load(rule.target, rule.name, rule.text)),
    };
    Ok(HealthRules::with_rules(rules.into_iter().map(revive))?.with_convention(convention))
}

fn place(state_dir: &StateDir, application: &str) -> PathBuf {
    let digest: String =
        Sha256::digest(application.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    state_dir.customizations().join(format!("{digest}.json"))
}

/// Keeps the scripts of an application's operation. The caller holds the lock of the state directory.
pub fn remember(state_dir: &StateDir, application: &str, rules: &HealthRules) -> Result<(), CliError> {
    let path = place(state_dir, application);
    let done = if rules.has_convention() && rules.user_rules().next().is_none() {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    } else {
        write(&path, &kept(rules))
    };
    done.map_err(|source| CliError::io("keep the health scripts in", path, source))
}

/// All or nothing: half a file would be no scripts.
fn write(path: &Path, scripts: &Kept) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let text = serde_json::to_string_pretty(scripts).map_err(io::Error::other)?;
    let draft = path.with_extension("new");
    fs::write(&draft, text)?;
    fs::File::open(&draft)?.sync_all()?;
    fs::rename(&draft, path)
}

/// The scripts the open operations of these applications began with. They must be the same, because one engine has one
/// set of rules.
pub fn recall(state_dir: &StateDir, applications: &[&str]) -> Result<HealthRules, CliError> {
    let mut found: Option<(&str, Option<Kept>)> = None;
    for application in applications {
        let rules = read(state_dir, application)?;
        match &found {
            Some((first, other)) if *other != rules => {
                return Err(CliError::usage(format!(
                    "the operations of {first} and {application} began with different health scripts; resume them one \
                     after the other, or name the scripts for all with --customizations"
                )));
            }
            Some(_) => {}
            None => found = Some((application, rules)),
        }
    }
    match found.and_then(|(_, rules)| rules) {
        None => Ok(HealthRules::built_in()),
        Some(kept) => revived(kept).map_err(|error| CliError::BadInput { problems: vec![error.into()] }),
    }
}

fn read(state_dir: &StateDir, application: &str) -> Result<Option<Kept>, CliError> {
    let path = place(state_dir, application);
    // Opening a pipe may last for ever.
    let is_odd = fs::metadata(&path).is_ok_and(|found| !found.is_file());
    let text = match is_odd {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        false => fs::read_to_string(&path),
    };
    let read = match text {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    read.map_err(|source| CliError::io("read the health rules kept in", path, source))
}
