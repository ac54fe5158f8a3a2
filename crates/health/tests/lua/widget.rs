//! Custom resource for the tests of user rules.

use serde_json::Value;
use tidegate_model::{Object, Timestamp};

/// The time 2026-11-21T09:30:00Z.
pub const NOW: Timestamp = Timestamp::from_millis(1_795_253_400_000);

/// Returns a custom resource with the given fields.
pub fn widget(fields: Value) -> Object {
    let mut all = fields.as_object().cloned().unwrap_or_default();
    all.insert("apiVersion".to_owned(), "example.org/v1".into());
    all.insert("kind".to_owned(), "Widget".into());
    let mut object = Object::try_from(Value::Object(all)).unwrap();
    object.set_name("x");
    object
}
