//! The `tidegate` command as seen from outside: output, exit codes, and the state of the simulated cluster
//! after the process was killed. Each test has its own folder, and doesn't depend on a network or on another
//! test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![allow(clippy::indexing_slicing, missing_docs, reason = "tests may panic")]

mod api;
mod app_of_apps;
mod application_deletion;
mod application_status;
mod applications;
mod appset;
mod appset_messages;
mod appset_preview;
mod appsets;
mod bad_input;
mod bench;
mod clock;
mod control_namespace;
mod damage;
mod delete;
mod dependencies;
mod deploy;
mod diff;
mod disk_syncs;
mod events;
mod example_appset;
mod exit_codes;
mod explain;
mod fleet;
mod gates;
mod health;
mod help;
mod http_receiver;
mod kill;
mod live;
mod log_copy;
mod manifests;
mod many_kills;
mod member_removal;
mod multiple_sources;
mod newer_records;
mod notify;
mod operation_export;
mod output;
mod overrides;
mod permissions;
mod plan;
mod plan_details;
mod plugin;
#[allow(clippy::disallowed_methods, reason = "the server is a process")]
#[path = "../../crates/oplog/tests/log/postgres_server.rs"]
mod postgres_server;
mod projects;
mod prune_confirmation;
mod random_kill;
mod read_only;
mod remote_client;
mod remote_repositories;
mod rendering;
mod rollout_events;
mod rollout_history;
mod schema;
mod secrets;
mod self_heal;
mod serve;
mod signatures;
mod state;
mod stored_plans;
mod superseding;
mod sync;
mod thirty_applications;
mod traces;
mod tracking;
mod tutorial;
mod webhooks;
