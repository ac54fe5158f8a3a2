//! Invalid input of every kind, from authors of repositories and resources or from disks. It must be rejected
//! or processed, without panics, hangs or unlimited memory. `just fuzz` tries more input.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![allow(clippy::indexing_slicing, missing_docs, reason = "tests may panic")]

mod checks;
mod manifests;
mod paths;
mod records;
mod specs;
mod windows;
