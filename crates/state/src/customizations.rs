//! User-defined health rules, loaded from folders or objects and stored for operations.
//!
//! ```text
//! folder, ConfigMap, Flux Kustomization ────▶ LoadedRules ─▶ HealthRules ─▶ engine
//!                                                              │  ▲
//!                                                `store_rules` ▼  │ `load_rules`, to resume an operation
//!                                                    STATE_DIR/customizations/
//! ```
//!
//! If a rule is invalid, objects of its kind have the health Unknown, because falling back to another rule
//! could open a gate by mistake. A rule with an unknown kind is skipped with a warning.

mod stored_rules;

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

pub use stored_rules::{load_rules, store_rules};

/// Key for all customizations in older versions of Argo CD.
const LEGACY_KEY: &str = "resource.customizations";
/// Maximum folder depth of scripts: group and kind.
const DEPTH_MAX: usize = 2;
/// Maximum size of a file in bytes. Overlong scripts below this size get a more specific error.
const BYTES_MAX: u64 = 1 << 20;

/// Loaded rules and warnings.
#[derive(Debug, Default)]
pub struct LoadedRules {
    /// Rules with a known kind.
    rules: Vec<UserRule>,
    /// Warnings about rules that were skipped or interpreted differently.
    pub warnings: Vec<String>,
    /// Links that point outside the folder. They aren't followed, because rules are programs and must come
    /// from inside the folder.
    pub outside_links: Vec<PathBuf>,
}

impl LoadedRules {
    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Converts the loaded rules to rules for assessing health. Two rules for the same kind are both dropped,
    /// and objects of the kind have the health Unknown.
    pub fn into_rules(self) -> HealthRules {
        HealthRules::with_rules_lenient(self.rules)
    }

    /// Loads the rules from a folder. Ignores other files, such as tests and actions.
    pub fn from_folder(folder: &Path) -> Self {
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
                if (is_rule || path.is_dir()) && files::is_link_outside(&root, &path) {
                    found.outside_links.push(path);
                } else if path.is_dir() {
                    if depth < DEPTH_MAX {
                        open.push((path, format!("{place}/"), depth + 1));
                    }
                } else if is_rule {
                    found.add_file(&path, &place, name);
                }
            }
        }
        found
    }

    /// Loads the rule from a file. `place` is its path within the folder.
    fn add_file(&mut self, path: &Path, place: &str, file: &str) {
        let shown = path.display().to_string();
        let Some(target) = target_of_path(place, file) else {
            return self.add_skipped(&ScriptError::Path { name: shown });
        };
        let bytes = match files::read_file(path, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) => {
                let fault = format!("{shown}: cannot read the file: {error}");
                return self.rules.push(UserRule::Script(Script::unavailable(target, shown, fault)));
            }
        };
        let text = String::from_utf8(bytes).unwrap_or_else(|error| {
            self.warnings
                .push(format!("{shown}: the file is not valid UTF-8; invalid bytes are read as U+FFFD"));
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        self.rules.push(match file {
            SCRIPT_FILE => UserRule::Script(Script::load(target, shown, text)),
            _ => UserRule::Expressions(Expressions::load(target, shown, parse_expressions(&text))),
        });
    }

    fn add_skipped(&mut self, error: &ScriptError) {
        self.warnings.push(format!("ignoring a health rule: {error}"));
    }

    /// Loads the rules from ConfigMaps and Flux Kustomizations, ignoring other objects. `from` is the
    /// objects' origin.
    pub fn from_objects<'o>(from: &str, objects: impl IntoIterator<Item = &'o Object>) -> Self {
        let mut found = Self::default();
        for object in objects {
            match (object.group(), object.kind()) {
                ("kustomize.toolkit.fluxcd.io", "Kustomization") => {
                    found.add_flux_kustomization(from, object)
                }
                ("", "ConfigMap") => found.add_config_map(from, object),
                _ => {}
            }
        }
        found
    }

    fn add_config_map(&mut self, from: &str, map: &Object) {
        for (key, value) in map.pointer("/data").and_then(Value::as_object).into_iter().flatten() {
            let Some(text) = value.as_str() else { continue };
            let name = format!("{from}: {} {key}", map.name());
            if let Some(kind) = key.strip_prefix(SCRIPT_KEY_PREFIX) {
                match Script::from_key(kind, name, text) {
                    Ok(script) => self.rules.push(UserRule::Script(script)),
                    Err(error) => self.add_skipped(&error),
                }
            } else if let Some(kind) = key.strip_prefix(EXPRESSIONS_KEY_PREFIX) {
                match Expressions::from_key(kind, &name, parse_expressions(text)) {
                    Some(rule) => self.rules.push(UserRule::Expressions(rule)),
                    None => self.add_skipped(&ScriptError::Key { name }),
                }
            } else if key == LEGACY_KEY {
                self.add_legacy_rules(&name, text);
            }
        }
    }

    /// Loads `resource.customizations`, a YAML map from kinds or patterns to `health.lua` and other fields.
    fn add_legacy_rules(&mut self, name: &str, text: &str) {
        let all: BTreeMap<String, Value> = match serde_saphyr::from_str(text) {
            Ok(all) => all,
            Err(error) => {
                let reason = error.to_string();
                let reason = reason.lines().next().unwrap_or_default();
                return self.warnings.push(format!(
                    "ignoring the health rules in {name}: not a map of kinds to customizations: {reason}; fix the YAML in this key"
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
                        let fault = format!("{name}: {SCRIPT_FILE} is not a string; fix the YAML");
                        Script::unavailable(target, name, fault)
                    }
                },
                _ => {
                    let fault = format!("{name}: not a map of customizations; fix the YAML");
                    Script::unavailable(target, name, fault)
                }
            };
            self.rules.push(UserRule::Script(script));
        }
    }

    /// Loads `spec.healthCheckExprs`: entries with `apiVersion`, `kind` and expressions.
    fn add_flux_kustomization(&mut self, from: &str, object: &Object) {
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

/// Parses expressions as YAML. Invalid YAML becomes an invalid rule, which affects only its own kind.
fn parse_expressions(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or(Value::Null)
}
