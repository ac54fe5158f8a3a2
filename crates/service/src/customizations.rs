//! Health rules of the user: as they are found in a folder or in objects, and as they are kept for operations.
//!
//! ```text
//! folder, ConfigMap, Kustomization of Flux ─▶ Found ─▶ HealthRules ─▶ engine
//!                                                        │  ▲
//!                                              remember  ▼  │ recall, to go on with an operation
//!                                              STATE_DIR/customizations/
//! ```
//!
//! What is wrong with one rule costs the kind that it is for, which counts as Unknown: another rule in its place would open
//! a gate on a guess. Where it cannot be told which kind that is, it is passed over, with a warning.

mod kept;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate_health::{
    EXPRESSIONS_FILE, EXPRESSIONS_KEY_PREFIX, Expressions, HealthRules, SCRIPT_FILE, SCRIPT_KEY_PREFIX,
    Script, ScriptError, UserRule, target_of_path,
};
use tidegate_model::Object;

use crate::files;

pub use kept::{recall, remember};

/// The key under which older versions of Argo CD keep all customisations.
const OLD_KEY: &str = "resource.customizations";
/// Scripts are at most this deep in their folder: group, kind.
const DEPTH_MAX: usize = 2;
/// More than a rule has. A script that is shorter and still too long says so itself.
const BYTES_MAX: u64 = 1 << 20;

/// The rules that were found, and what is to be told of them.
#[derive(Debug, Default)]
pub struct Found {
    /// Those that are for a kind, as they were found.
    rules: Vec<UserRule>,
    /// What was passed over, or read in another way than it was meant.
    pub warnings: Vec<String>,
    /// Links that lead out of the folder. Rules are programs, and those of a folder are in it.
    pub outside: Vec<PathBuf>,
}

impl Found {
    /// Whether there is nothing to judge by.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, to judge by. Where two are for the same kind, none of them is used, and that kind counts as Unknown.
    pub fn into_rules(self) -> HealthRules {
        HealthRules::with_any(self.rules)
    }

    /// The rules of a folder. Other files, such as tests and actions, are not ours.
    pub fn in_folder(folder: &Path) -> Self {
        let mut found = Self::default();
        let root = fs::canonicalize(folder).unwrap_or_default();
        let mut open = vec![(folder.to_path_buf(), String::new(), 0)];
        while let Some((folder, prefix, depth)) = open.pop() {
            let mut entries = match fs::read_dir(&folder).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
                Ok(entries) => entries,
                Err(error) => {
                    found.warnings.push(format!("the folder {} cannot be read: {error}", folder.display()));
                    continue;
                }
            };
            entries.sort_unstable_by_key(fs::DirEntry::file_name);
            for entry in entries {
                let (path, name) = (entry.path(), entry.file_name());
                let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
                let is_rule = name == SCRIPT_FILE || name == EXPRESSIONS_FILE;
                let place = format!("{prefix}{name}");
                if (is_rule || path.is_dir()) && files::leads_out(&root, &path) {
                    found.outside.push(path);
                } else if path.is_dir() {
                    if depth < DEPTH_MAX {
                        open.push((path, format!("{place}/"), depth + 1));
                    }
                } else if is_rule {
                    found.take_file(&path, &place, name);
                }
            }
        }
        found
    }

    /// The rule in a file, which is at this place of its folder.
    fn take_file(&mut self, path: &Path, place: &str, file: &str) {
        let shown = path.display().to_string();
        let Some(target) = target_of_path(place, file) else {
            return self.pass_over(&ScriptError::Path { name: shown });
        };
        let bytes = match files::read(path, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) => {
                let fault = format!("{shown}: it cannot be read: {error}");
                return self.rules.push(UserRule::Script(Script::unusable(target, shown, fault)));
            }
        };
        let text = String::from_utf8(bytes).unwrap_or_else(|error| {
            self.warnings
                .push(format!("{shown}: it is not UTF-8 text, and what is none in it is read as U+FFFD"));
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        self.rules.push(match file {
            SCRIPT_FILE => UserRule::Script(Script::load(target, shown, text)),
            _ => UserRule::Expressions(Expressions::load(target, shown, expressions(&text))),
        });
    }

    fn pass_over(&mut self, error: &ScriptError) {
        self.warnings.push(format!("a health rule is passed over: {error}"));
    }

    /// The rules of the ConfigMaps and of the Kustomizations of Flux among objects; `from` is where these were read. Other
    /// objects are passed over.
    pub fn in_objects<'o>(from: &str, objects: impl IntoIterator<Item = &'o Object>) -> Self {
        let mut found = Self::default();
        for object in objects {
            match (object.group(), object.kind()) {
                ("kustomize.toolkit.fluxcd.io", "Kustomization") => found.take_flux(from, object),
                ("", "ConfigMap") => found.take_map(from, object),
                _ => {}
            }
        }
        found
    }

    fn take_map(&mut self, from: &str, map: &Object) {
        for (key, value) in map.pointer("/data").and_then(Value::as_object).into_iter().flatten() {
            let Some(text) = value.as_str() else { continue };
            let name = format!("{from}: {} {key}", map.name());
            if let Some(kind) = key.strip_prefix(SCRIPT_KEY_PREFIX) {
                match Script::from_key(kind, name, text) {
                    Ok(script) => self.rules.push(UserRule::Script(script)),
                    Err(error) => self.pass_over(&error),
                }
            } else if let Some(kind) = key.strip_prefix(EXPRESSIONS_KEY_PREFIX) {
                match Expressions::from_key(kind, &name, expressions(text)) {
                    Some(rule) => self.rules.push(UserRule::Expressions(rule)),
                    None => self.pass_over(&ScriptError::Key { name }),
                }
            } else if key == OLD_KEY {
                self.take_old(&name, text);
            }
        }
    }

    /// `resource.customizations`: YAML of kinds or patterns, each with `health.lua` and other things.
    fn take_old(&mut self, name: &str, text: &str) {
        let all: BTreeMap<String, Value> = match serde_saphyr::from_str(text) {
            Ok(all) => all,
            Err(error) => {
                let reason = error.to_string();
                let reason = reason.lines().next().unwrap_or_default();
                return self.warnings.push(format!(
                    "the health rules in it are passed over: {name}: not a map of kinds to customisations: {reason}; mend the YAML in this key"
                ));
            }
        };
        for (target, customisation) in all {
            let name = format!("{name} {target}");
            let script = match customisation {
                Value::Null => continue,
                Value::Object(fields) => match fields.get(SCRIPT_FILE) {
                    None | Some(Value::Null) => continue,
                    Some(Value::String(script)) => Script::load(target, name, script),
                    Some(_) => {
                        let fault = format!("{name}: {SCRIPT_FILE} is not a text; mend the YAML");
                        Script::unusable(target, name, fault)
                    }
                },
                _ => {
                    let fault = format!("{name}: not a map of customisations; mend the YAML");
                    Script::unusable(target, name, fault)
                }
            };
            self.rules.push(UserRule::Script(script));
        }
    }

    /// `spec.healthCheckExprs`: `apiVersion`, `kind` and the expressions.
    fn take_flux(&mut self, from: &str, object: &Object) {
        let checks = object.pointer("/spec/healthCheckExprs").and_then(Value::as_array);
        for check in checks.into_iter().flatten() {
            let text = |field: &str| check.get(field).and_then(Value::as_str).unwrap_or_default();
            let group =
                text("apiVersion").split_once('/').map(|(group, _)| format!("{group}/")).unwrap_or_default();
            let target = format!("{group}{}", text("kind"));
            let name = format!("{from}: {} {target}", object.name());
            self.rules.push(UserRule::Expressions(Expressions::load(target, name, check.clone())));
        }
    }
}

/// Expressions as YAML. What is no YAML is a rule with a fault, and costs its own kind.
fn expressions(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or(Value::Null)
}
