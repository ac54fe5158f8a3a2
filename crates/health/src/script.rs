//! Health scripts and the kinds they are for, named as Argo CD names them.

use crate::lua;

/// What a script is called in a folder.
pub const SCRIPT_FILE: &str = "health.lua";
/// What the keys of scripts in a ConfigMap begin with.
pub const SCRIPT_KEY_PREFIX: &str = "resource.customizations.health.";
/// Longest script. Those of Argo CD are a hundred times shorter.
pub const SCRIPT_BYTES_MAX: usize = 256 << 10;

/// A health script. One that does not load judges its kind all the same: as [`HealthStatus::Unknown`], because another
/// rule in its place would open a gate on a guess.
///
/// [`HealthStatus::Unknown`]: tidegate_model::HealthStatus::Unknown
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    target: String,
    name: String,
    text: String,
    fault: Option<ScriptError>,
}

/// Why a script cannot be used. Every message begins with where the script was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The place in the folder does not say which kind.
    #[error(
        "{name}: it is not clear which kind this script is for; write <group>/<Kind>/health.lua, or <Kind>/health.lua for kinds without a group, with _ for any text"
    )]
    Path {
        /// Where the script was read.
        name: String,
    },
    /// The key in the ConfigMap does not say which kind.
    #[error("{name}: it is not clear which kind this script is for; write {SCRIPT_KEY_PREFIX}<group>_<Kind>")]
    Key {
        /// Where the script was read.
        name: String,
    },
    /// Too long.
    #[error("{name}: the script has {bytes} bytes, and at most {SCRIPT_BYTES_MAX} are allowed; shorten it")]
    TooLong {
        /// Where the script was read.
        name: String,
        /// Its length.
        bytes: usize,
    },
    /// Not Lua.
    #[error("{reason}; mend the script")]
    Syntax {
        /// Lua's words, with file and line.
        reason: String,
    },
    /// There is nothing to judge by.
    #[error("{reason}")]
    Unusable {
        /// Where it should be, and why it is not.
        reason: String,
    },
    /// More than one rule for a kind.
    #[error("{second}: there is a health rule for {target} already, in {first}; remove one of the two")]
    Twice {
        /// The kind, or the pattern.
        target: String,
        /// Where the one was read.
        first: String,
        /// Where the other was read.
        second: String,
    },
}

impl Script {
    /// A script for `group/Kind`, or `Kind` where there is no group; `*` is any text, `?` any character. `name` says
    /// where it was read.
    pub fn new(
        target: impl Into<String>,
        name: impl Into<String>,
        text: impl Into<String>,
    ) -> Result<Self, ScriptError> {
        let script = Self::load(target, name, text);
        match script.fault {
            Some(fault) => Err(fault),
            None => Ok(script),
        }
    }

    /// As [`Script::new`], for one of many scripts that others do not depend on: what keeps it from being used is its
    /// [`Script::fault`].
    pub fn load(target: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        let (target, name, text) = (target.into(), name.into(), text.into());
        let fault = if text.len() > SCRIPT_BYTES_MAX {
            Some(ScriptError::TooLong { name: name.clone(), bytes: text.len() })
        } else {
            lua::check(&name, &text).map_err(|reason| ScriptError::Syntax { reason }).err()
        };
        Self { target, name, text, fault }
    }

    /// A script that is not to be had, for its kind all the same. `reason` says where it should be, and why it is not.
    pub fn unusable(target: impl Into<String>, name: impl Into<String>, reason: impl Into<String>) -> Self {
        let fault = Some(ScriptError::Unusable { reason: reason.into() });
        Self { target: target.into(), name: name.into(), text: String::new(), fault }
    }

    /// A script from a folder, [loaded](Script::load). `path` leads from the folder to the script, with `/` between its
    /// parts: `<group>/<Kind>/health.lua` or `<Kind>/health.lua`, where `_` is any text.
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

    /// A script from a ConfigMap, [loaded](Script::load), by what follows [`SCRIPT_KEY_PREFIX`] in its key:
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

    /// What it is for: `group/Kind`, `Kind`, or a pattern of these.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Where it was read.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The script itself.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What keeps it from being used.
    pub fn fault(&self) -> Option<&ScriptError> {
        self.fault.as_ref()
    }
}

/// The kind, or pattern of kinds, that the place of a file in a folder means; `None` where it means none.
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

/// The kind that the key of a ConfigMap means, by what follows its prefix.
pub(crate) fn target_of_key(key: &str) -> Option<String> {
    let parts: Vec<_> = key.split('_').collect();
    match parts.as_slice() {
        [kind] if !kind.is_empty() => Some((*kind).to_owned()),
        [group, kind] if !group.is_empty() && !kind.is_empty() => Some(format!("{group}/{kind}")),
        _ => None,
    }
}

/// Whether a text is what a pattern means: `*` any text, `?` any byte.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut item) = (0, 0);
    // Where to go back to: the newest star, and how much of the text it has taken.
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
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
