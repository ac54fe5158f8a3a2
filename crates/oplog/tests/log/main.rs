//! Tests of the log through its public face: one program, so that it is built and linked once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests stop at the first surprise, and measure real processes"
)]

mod child;
mod conformance;
mod environment;
mod files;
mod golden;
mod inventory;
mod keeping;
mod kinds;
mod kit;
mod process;
mod property;
mod reading;
mod records;
mod sealed;
mod trials;
