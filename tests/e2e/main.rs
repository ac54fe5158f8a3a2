//! The `tidegate` command from the outside: what it prints, how it exits, and what is left in the simulated cluster
//! when it is killed. Each test has a folder of its own; none needs a network or another test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests stop at the first surprise"
)]

mod api;
mod app_of_apps;
mod applications;
mod appset;
mod bad_input;
mod bench;
mod clock;
mod compared;
mod confirmed;
mod damage;
mod delete;
mod depends;
mod deploy;
mod diff;
mod elsewhere;
mod events;
mod exit_codes;
mod explained;
mod exported;
mod fleet;
mod gates;
mod healed;
mod health;
mod help;
mod kept;
mod kill;
mod live;
mod mailbox;
mod manifests;
mod many_kills;
mod newer;
mod notify;
mod output;
mod overrides;
mod plan;
mod planned;
mod plugin;
mod projects;
mod random_kill;
mod reading;
mod readme;
mod remote;
mod removal;
mod rendering;
mod runs;
mod schema;
mod secrets;
mod serve;
mod sets;
mod sets_told;
mod several;
mod shops;
mod shrinking;
mod signed;
mod state;
mod statuses;
mod superseding;
mod sync;
mod thirty;
mod told_sets;
mod traces;
mod tracking;
mod trust;
mod webhooks;
