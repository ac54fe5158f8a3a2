//! Health scripts and the kinds they apply to, named as in Argo CD.

use crate::lua;

/// Name of script files in rule folders.
pub const SCRIPT_FILE: &str = "health.lua";
/// Prefix of script keys in a ConfigMap.
pub const SCRIPT_KEY_PREFIX: &str = "resource.customizations.health.";
/// Maximum length of a script in bytes, a hundred times that of Argo CD's own scripts.
pub const SCRIPT_BYTES_MAX: usize = 256 << 10;

/// Health script. An invalid script still applies to its kind, and its objects' health is
/// [`HealthStatus::Unknown`]. Falling back to another rule could open a gate without evidence.
///
/// [`HealthStatus::Unknown`]: tidegate_model::HealthStatus::Unknown
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    target: String,
    name: String,
    text: String,
    error: Option<ScriptError>,
}

/// Reason why a script is invalid. Every message starts with the script's origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The path does not specify a kind.
    #[error(
        "{name}: the path does not contain a kind; use <group>/<Kind>/health.lua, or <Kind>/health.lua for kinds without a group (_ is a wildcard)"
    )]
    Path {
        /// Origin of the script.
        name: String,
    },
    /// The key in the ConfigMap doesn't name a kind.
    #[error("{name}: the key does not contain a kind; use {SCRIPT_KEY_PREFIX}<group>_<Kind>")]
    Key {
        /// Origin of the script.
        name: String,
    },
    /// The script is too long.
    #[error("{name}: the script is too large: {bytes} bytes (maximum: {SCRIPT_BYTES_MAX}); shorten it")]
    TooLong {
        /// Origin of the script.
        name: String,
        /// Length in bytes.
        bytes: usize,
    },
    /// The script is not valid Lua.
    #[error("{reason}; fix the script")]
    Syntax {
        /// Lua's message, with the file and line.
        reason: String,
    },
    /// The script isn't available.
    #[error("{reason}")]
    Unavailable {
        /// Expected location of the script, and the reason it isn't available.
        reason: String,
    },
    /// Two rules have the same target.
    #[error("{second}: duplicate health rule for {target}, already defined in {first}; remove one of them")]
    Duplicate {
        /// The kind or pattern.
        target: String,
        /// Origin of the first rule.
        first: String,
        /// Origin of the second rule.
        second: String,
    },
}

impl Script {
    /// Creates a script for `group/Kind`, or for `Kind` in the core group. `*` matches any text and `?` any
    /// character. `name` is the script's origin.
    pub fn new(
        target: impl Into<String>,
        name: impl Into<String>,
        text: impl Into<String>,
    ) -> Result<Self, ScriptError> {
        let script = Self::load(target, name, text);
        match script.error {
            Some(fault) => Err(fault),
            None => Ok(script),
        }
    }

    /// Works like [`Script::new`], but for independent scripts: an error is stored for [`Script::error`].
    pub fn load(target: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        let (target, name, text) = (target.into(), name.into(), text.into());
        let fault = if text.len() > SCRIPT_BYTES_MAX {
            Some(ScriptError::TooLong { name: name.clone(), bytes: text.len() })
        } else {
            lua::check_syntax(&name, &text).map_err(|reason| ScriptError::Syntax { reason }).err()
        };
        Self { target, name, text, error: fault }
    }

    /// Creates a script that isn't available but still applies to its kind. `reason` gives the expected
    /// location and the error.
    pub fn unavailable(
        target: impl Into<String>,
        name: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        let fault = Some(ScriptError::Unavailable { reason: reason.into() });
        Self { target: target.into(), name: name.into(), text: String::new(), error: fault }
    }

    /// [Loads](Script::load) a script from a folder. `path` is relative to the folder, with `/` as the
    /// separator: `<group>/<Kind>/health.lua` or `<Kind>/health.lua`, where `_` matches any text.
    pub fn from_path(
        path: &str,
        name: impl Into<String>,
        text: impl Into<String>,
    ) -> Result<Self, ScriptError> {
        let name = name.into();
        match target_of_path(path, SCRIPT_FILE) {
            Some(target) => Ok(Self::load(target, name, text)),
            None => Err(ScriptError::Path { name }),
        }
    }

    /// [Loads](Script::load) a script from a ConfigMap entry, based on its key after [`SCRIPT_KEY_PREFIX`]:
    /// `<group>_<Kind>` or `<Kind>`.
    pub fn from_key(
        key: &str,
        name: impl Into<String>,
        text: impl Into<String>,
    ) -> Result<Self, ScriptError> {
        let name = name.into();
        match target_of_key(key) {
            Some(target) => Ok(Self::load(target, name, text)),
            None => Err(ScriptError::Key { name }),
        }
    }

    /// Returns the script's target: `group/Kind`, `Kind`, or a pattern for these.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Returns the origin of the script.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text of the script.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the reason the script is invalid.
    pub fn error(&self) -> Option<&ScriptError> {
        self.error.as_ref()
    }
}

/// Returns the kind or pattern in a file's path within a folder, or `None` if there is none.
pub fn target_of_path(path: &str, file: &str) -> Option<String> {
    let parts: Vec<_> = path.split('/').collect();
    match parts.as_slice() {
        [kind, last] if *last == file && !kind.is_empty() => Some(kind.replace('_', "*")),
        [group, kind, last] if *last == file && !group.is_empty() && !kind.is_empty() => {
            Some(format!("{group}/{kind}").replace('_', "*"))
        }
        _ => None,
    }
}

/// Returns the kind in a ConfigMap key, given the part after its prefix.
pub(crate) fn target_of_key(key: &str) -> Option<String> {
    let parts: Vec<_> = key.split('_').collect();
    match parts.as_slice() {
        [kind] if !kind.is_empty() => Some((*kind).to_owned()),
        [group, kind] if !group.is_empty() && !kind.is_empty() => Some(format!("{group}/{kind}")),
        _ => None,
    }
}

/// Returns true if a text matches a pattern. `*` matches any text, `?` any byte.
pub(crate) fn matches_pattern(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut item) = (0, 0);
    // Backtracking point: the last star, and how much text it has matched.
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(item) {
            Some(b'*') => {
                star = Some((item, at));
                item += 1;
            }
            Some(wanted) if *wanted == b'?' || text.get(at) == Some(wanted) => {
                item += 1;
                at += 1;
            }
            _ => match star {
                None => return false,
                Some((place, taken)) => {
                    star = Some((place, taken + 1));
                    item = place + 1;
                    at = taken + 1;
                }
            },
        }
    }
    pattern.get(item..).unwrap_or_default().iter().all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "apps/Deployment", true),
            ("*.crossplane.io/*", "aws.crossplane.io/Bucket", true),
            ("*.crossplane.io/*", "crossplane.io/Bucket", false),
            ("*.crossplane.io/*", "a.b.crossplane.io/Bucket", true),
            ("example.org/*Class", "example.org/StorageClass", true),
            ("example.org/*Class", "example.org/StorageClasses", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1b2b3", false),
            ("P?d", "Pod", true),
            ("P?d", "Pd", false),
            ("Pod", "Pods", false),
        ] {
            assert_eq!(matches_pattern(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
