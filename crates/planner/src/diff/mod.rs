//! Does the live object already say what the target says?

use tidegate_model::Object;

/// The path of the first field in which the live object is not what the target asks for.
pub(crate) fn first_difference(_target: &Object, _live: &Object) -> Option<String> {
    None
}
