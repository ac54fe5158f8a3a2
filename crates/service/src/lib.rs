//! What every front end of Tidegate needs: a state directory with its log, the clusters that operations work on, questions
//! about operations and wishes for them, and the socket by which processes reach the one at work.
//!
//! ```text
//! Session   an engine at work in a state directory: log, clusters, control socket
//! route     who answers for a state directory: the process at work, or else the log
//! queries   the answers
//! control   how processes ask each other
//! applications  Applications that are compared and synced for as long as the process lives
//! direct        the Applications of a cluster, for somebody who asks no service
//! sets          ApplicationSets that are generated for as long as the process lives
//! ```

pub mod applications;
mod board;
pub mod clock;
pub mod clusters;
pub mod control;
pub mod customizations;
pub mod direct;
pub mod disk;
pub mod documents;
mod ending;
pub mod error;
mod exposed;
pub mod files;
pub mod gates;
pub mod generating;
pub mod last;
pub mod lines;
pub mod log;
pub mod notices;
pub mod operations;
pub mod outage;
pub mod plain;
pub mod plans;
pub mod queries;
pub mod reach;
pub mod route;
pub mod runs;
pub mod session;
pub mod sets;
pub mod simulated;
pub mod state_dir;
pub mod user;
