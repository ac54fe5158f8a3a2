//! Wrong input of every kind, as authors of repositories and resources, and disks, may give it: it is refused, or does as it
//! says, and nothing panics, works without end or takes memory without bounds. `just fuzz` tries more of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests stop at the first surprise"
)]

mod manifests;
mod paths;
mod records;
mod specs;
mod windows;

use tidegate_model::Timestamp;

/// When everything happens.
fn now() -> Timestamp {
    Timestamp::from_millis(1_795_253_400_000)
}
