//! Pure state machines: operations as a fold over facts.
