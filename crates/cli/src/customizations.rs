//! Health scripts: from a folder or a ConfigMap, and kept for the resume of the operations that use them.
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
use tidegate_health::{HealthRules, SCRIPT_FILE, SCRIPT_KEY_PREFIX, Script, ScriptError};
use tidegate_model::Object;

use crate::args::CustomizationArgs;
use crate::error::CliError;
use crate::input::{self, Problem};
use crate::output::Printer;
use crate::state_dir::StateDir;

/// The key under which older versions of Argo CD keep all customisations.
const OLD_KEY: &str = "resource.customizations";
/// Scripts are at most this deep in their folder: group, kind.
const DEPTH_MAX: usize = 2;

/// The rules the arguments name; `None` when they name none. A script that does not load costs its own kind, and a
/// warning.
pub fn load(args: &CustomizationArgs, printer: &Printer) -> Result<Option<HealthRules>, CliError> {
    let rules = read_rules(args)?;
    if let Some(rules) = &rules {
        for fault in rules.faults() {
            printer.warn(&format!("objects of the kind of this health script count as Unknown: {fault}"));
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
        if path.is_dir() { from_folder(path, &mut problems) } else { from_config_maps(path, &mut problems)? };
    if scripts.is_empty() && problems.is_empty() {
        problems.push(Problem::NoScripts { path: path.to_path_buf() });
    }
    let rules = HealthRules::with_scripts(scripts).map_err(|error| problems.push(error.into()));
    match rules {
        Ok(rules) if problems.is_empty() => Ok(Some(rules)),
        _ => Err(CliError::BadInput { problems }),
    }
}

fn keep(script: Result<Script, ScriptError>, scripts: &mut Vec<Script>, problems: &mut Vec<Problem>) {
    match script {
        Ok(script) => scripts.push(script),
        Err(error) => problems.push(error.into()),
    }
}

/// The scripts of a folder. Other files, such as tests and actions, are not ours.
fn from_folder(folder: &Path, problems: &mut Vec<Problem>) -> Vec<Script> {
    let mut scripts = Vec::new();
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
            if path.is_dir() {
                if depth < DEPTH_MAX {
                    open.push((path.clone(), format!("{prefix}{name}/"), depth + 1));
                }
            } else if name == SCRIPT_FILE {
                let shown = path.display().to_string();
                match fs::read_to_string(&path) {
                    Ok(text) => {
                        let script = Script::from_path(&format!("{prefix}{name}"), shown, text);
                        keep(script, &mut scripts, problems);
                    }
                    Err(source) => problems.push(Problem::Unreadable { path, what: "file", source }),
                }
            }
        }
    }
    scripts
}

/// The scripts of the ConfigMaps in a file. Other objects in it are passed over.
fn from_config_maps(path: &Path, problems: &mut Vec<Problem>) -> Result<Vec<Script>, CliError> {
    let manifests = input::load(&[path.to_path_buf()], input::Wanted::default())?;
    let mut scripts = Vec::new();
    let maps = manifests.targets.iter().map(|target| &target.object);
    for map in maps.filter(|object| object.group().is_empty() && object.kind() == "ConfigMap") {
        for (key, value) in map.pointer("/data").and_then(|data| data.as_object()).into_iter().flatten() {
            let Some(text) = value.as_str() else { continue };
            let name = named(path, map, key);
            if let Some(kind) = key.strip_prefix(SCRIPT_KEY_PREFIX) {
                keep(Script::from_key(kind, name, text), &mut scripts, problems);
            } else if key == OLD_KEY {
                old_form(&name, text, &mut scripts, problems);
            }
        }
    }
    Ok(scripts)
}

fn named(path: &Path, map: &Object, key: &str) -> String {
    format!("{}: {} {key}", path.display(), map.name())
}

/// `resource.customizations`: YAML of kinds or patterns, each with `health.lua` and other things.
fn old_form(name: &str, text: &str, scripts: &mut Vec<Script>, problems: &mut Vec<Problem>) {
    type Customisations = BTreeMap<String, BTreeMap<String, serde_json::Value>>;
    match serde_saphyr::from_str::<Customisations>(text) {
        Ok(all) => {
            for (target, customisation) in all {
                if let Some(script) = customisation.get(SCRIPT_FILE).and_then(|script| script.as_str()) {
                    scripts.push(Script::load(&target, format!("{name} {target}"), script));
                }
            }
        }
        Err(error) => problems.push(Problem::Customizations {
            name: name.to_owned(),
            reason: error.to_string().lines().next().unwrap_or_default().to_owned(),
        }),
    }
}

/// A script as it is kept.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    target: String,
    name: String,
    text: String,
}

fn kept(rules: &HealthRules) -> Vec<Kept> {
    let keep = |script: &Script| Kept {
        target: script.target().to_owned(),
        name: script.name().to_owned(),
        text: script.text().to_owned(),
    };
    rules.scripts().map(keep).collect()
}

fn place(state_dir: &StateDir, application: &str) -> PathBuf {
    let digest: String =
        Sha256::digest(application.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    state_dir.customizations().join(format!("{digest}.json"))
}

/// Keeps the scripts of an application's operation. The caller holds the lock of the state directory.
pub fn remember(state_dir: &StateDir, application: &str, rules: &HealthRules) -> Result<(), CliError> {
    let path = place(state_dir, application);
    let scripts = kept(rules);
    let done = if scripts.is_empty() {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    } else {
        write(&path, &scripts)
    };
    done.map_err(|source| CliError::Io { action: "keep the health scripts in", path, source })
}

/// All or nothing: half a file would be no scripts.
fn write(path: &Path, scripts: &[Kept]) -> io::Result<()> {
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
    let mut found: Option<(&str, Vec<Kept>)> = None;
    for application in applications {
        let scripts = read(state_dir, application)?;
        match &found {
            Some((first, other)) if *other != scripts => {
                return Err(CliError::usage(format!(
                    "the operations of {first} and {application} began with different health scripts; resume them one \
                     after the other, or name the scripts for all with --customizations"
                )));
            }
            Some(_) => {}
            None => found = Some((application, scripts)),
        }
    }
    let scripts = found.map(|(_, scripts)| scripts).unwrap_or_default();
    let scripts = scripts.into_iter().map(|kept| Script::load(kept.target, kept.name, kept.text));
    HealthRules::with_scripts(scripts).map_err(|error| CliError::BadInput { problems: vec![error.into()] })
}

fn read(state_dir: &StateDir, application: &str) -> Result<Vec<Kept>, CliError> {
    let path = place(state_dir, application);
    // Opening a pipe may last for ever.
    let is_odd = fs::metadata(&path).is_ok_and(|found| !found.is_file());
    let text = match is_odd {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        false => fs::read_to_string(&path),
    };
    let read = match text {
        Ok(text) => serde_json::from_str(&text).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    read.map_err(|source| CliError::Io { action: "read the health scripts kept in", path, source })
}
