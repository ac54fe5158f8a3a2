//! Manifests that programs make: with the real ones, where they are there, and with small ones of our own that behave badly.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests stop at the first surprise"
)]

mod archives;
mod bases;
mod bench;
mod charts;
mod dependencies;
mod kustomizations;
mod repositories;
mod running;
