//! Health rules for built-in kinds.
