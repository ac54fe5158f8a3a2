//! Tests for rendering manifests, with the real tools if they are installed, and with scripts that misbehave.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
#![allow(missing_docs, reason = "tests may panic")]

mod archives;
mod bases;
mod charts;
mod dependencies;
mod execution;
mod fixture;
mod kustomizations;
mod repositories;
