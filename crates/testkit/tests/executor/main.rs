//! The engine with failing extensions, clusters, logs and clocks. The tests run in virtual time and check the
//! cluster's own audit log.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![allow(clippy::indexing_slicing, reason = "tests may panic")]

mod admission;
mod bindings;
mod cel_gates;
mod claims;
mod compaction;
mod compared_plans;
mod concurrency;
mod concurrency_groups;
mod deletions;
mod diagnostics;
mod ensure;
mod events;
mod extensions;
mod external_deletions;
mod growth;
mod handover;
mod health_judges;
mod health_scripts;
mod hook_inputs;
mod hook_output;
mod inventory;
mod late_requests;
mod log_failures;
mod machines;
mod namespaces;
mod operation_events;
mod outages;
mod planned_writes;
mod pruning;
mod refused;
mod replacing;
mod rights;
mod rivals;
mod runtime_changes;
mod secrets;
mod shutdown;
mod supervision;
mod support;
mod wait_reasons;
mod watches;
