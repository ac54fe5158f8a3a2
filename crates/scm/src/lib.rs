//! HTTP clients for ApplicationSet generators. They request repositories, branches and pull requests from SCM
//! providers, and parameters from plugins.
//!
//! ```text
//! RequestContext ── branches, pull_requests ──▶ hosts: github gitlab gitea bitbucket bitbucket_server azure
//!                                                  │
//! Plugin ────────── request_parameters ──────┐     │
//!                                            ▼     ▼
//!                              Conversation (one generator: credentials, pages, budget, error messages)
//!                                            ▼
//!                              Web (connections, trust, redirects, rate limits)
//! ```
//!
//! A call blocks until it succeeds or fails. Pages, bytes, requests, redirects and time are limited
//! ([`Limits`]). Credentials go only to the server they are configured for. Errors never contain credentials.

mod api_address;
mod conversation;
mod early_filter;
mod github_apps;
mod hosts;
mod http_client;
mod plugin;
mod problem;
mod pull_requests;
mod repositories;
mod request_credentials;
mod secrets;
mod token_cache;

pub use http_client::{Limits, Web};
pub use plugin::Plugin;
pub use secrets::{Policy, RequestContext, Secrets, Token};
pub use tidegate_web::Clock;
