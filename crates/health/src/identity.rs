//! What tells one set of rules from another: everything a verdict depends on besides the object and the time.

use serde_json::Value as Json;

use crate::{HealthRules, ScriptError, UserRule, builtin};

/// Of the rules that come with us and are written as code: raised with every change of what one of them says. The rules
/// written as data speak for themselves.
const RULES_IN_CODE: u64 = 2;

impl HealthRules {
    /// The parts that tell these rules from others, in an order of their own, to be hashed by whoever has a hash. Two sets
    /// with the same parts judge alike. Where rules were read, and in which order, is not among them.
    pub fn each_part(&self, part: &mut dyn FnMut(&[u8])) {
        part(b"tidegate health rules");
        part(&RULES_IN_CODE.to_be_bytes());
        builtin::texts().for_each(|text| part(text.as_bytes()));
        part(&[u8::from(self.has_convention())]);
        for rule in self.user_rules() {
            part(rule.target().as_bytes());
            match rule {
                UserRule::Script(script) => {
                    part(b"lua");
                    part(script.text().as_bytes());
                    // Without a text it says something else than an empty text.
                    if let Some(ScriptError::Unusable { .. }) = script.fault() {
                        part(b"unusable");
                    }
                }
                UserRule::Expressions(expressions) => {
                    part(b"cel");
                    // What else stands beside them is passed over.
                    for field in ["current", "inProgress", "failed"] {
                        let text = expressions.source().get(field).filter(|text| **text != Json::Null);
                        part(text.map(Json::to_string).unwrap_or_default().as_bytes());
                    }
                }
            }
        }
    }
}
