//! What generators of ApplicationSets ask over HTTP: SCM providers for repositories and branches, the same for pull
//! requests, and plugins.
//!
//! ```text
//! Asking ── branches, pull_requests ──▶ hosts: github gitlab gitea bitbucket bitbucket_server azure
//!    └───── plugin ─────────────────┐      │
//!                                   ▼      ▼
//!                              Conversation (one question: proof of who asks, pages, budget, words for what goes wrong)
//!                                   ▼
//!                              Web (connections, trust, redirects, who asks us to wait)
//! ```
//!
//! A question blocks until it is answered or cannot be. Pages, bytes, requests, redirects and time all have an end
//! ([`Limits`]); what proves who asks goes to the server it is meant for and to nobody else, and shows in no error.

mod address;
mod apps;
mod conversation;
mod hosts;
mod plugin;
mod problem;
mod proof;
mod repositories;
mod requests;
mod secrets;
mod sieve;
mod web;

pub use plugin::Plugin;
pub use secrets::{Asking, Policy, Secrets, Token};
pub use tidegate_web::Clock;
pub use web::{Limits, Web};
