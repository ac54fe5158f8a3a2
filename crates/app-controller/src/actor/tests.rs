//! Behavior of one Application's actor in a service on a simulated cluster.

mod approval;
mod change_debounce;
mod child_operations;
mod comparison;
mod confirmations;
mod operation;
mod persistence;
mod refresh_requests;
mod superseding;
mod wait_reasons;
