//! Identity of a set of rules. It covers everything that affects an object's health, except the object itself
//! and the time.

use serde_json::Value as Json;

use crate::{HealthRules, ScriptError, UserRule, builtin};

/// Version of the built-in rules written as code. Bump it whenever their results change. Rules written as
/// data are part of the identity themselves.
const CODE_RULES_VERSION: u64 = 3;

impl HealthRules {
    /// Feeds the parts of the identity to a hash function, in a fixed order. Rules with the same parts return
    /// the same results. Their origin and order don't count.
    pub fn visit_identity(&self, part: &mut dyn FnMut(&[u8])) {
        part(b"tidegate health rules");
        part(&CODE_RULES_VERSION.to_be_bytes());
        builtin::table_texts().for_each(|text| part(text.as_bytes()));
        part(&[u8::from(self.has_convention())]);
        for rule in self.user_rules() {
            part(rule.target().as_bytes());
            match rule {
                UserRule::Script(script) => {
                    part(b"lua");
                    part(script.text().as_bytes());
                    // An unavailable script has a different result than an empty one.
                    if let Some(ScriptError::Unavailable { .. }) = script.error() {
                        part(b"unusable");
                    }
                }
                UserRule::Expressions(expressions) => {
                    part(b"cel");
                    // Other fields are ignored.
                    for field in ["current", "inProgress", "failed"] {
                        let text = expressions.source().get(field).filter(|text| **text != Json::Null);
                        part(text.map(Json::to_string).unwrap_or_default().as_bytes());
                    }
                }
            }
        }
    }
}
