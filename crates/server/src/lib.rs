//! The HTTP API of a `tidegate serve`, and the page that shows it.
//!
//! ```text
//! Server ──connections, TLS, time──▶ Front ──who, how often, how much──▶ one Route of the table ──▶ service::queries
//!                                                                          │
//!                                                        openapi: the same table, described
//! ```
//!
//! A route is a row of one table: path, rights, types of question and answer, and the function between them. The router and
//! the description are made from the same rows, so that what is described is what is answered. Nobody is let in from another
//! machine without a token. The page that people look at (`page`) is files alone: whatever it shows or does, it asks of the
//! same API, in a session that a token opens, or who signs in with a provider (`entrance`, `oidc`). [`Remote`] is the other end: what asks such an API, as the command line does.

mod access;
mod bulletin;
mod description;
mod entrance;
mod error;
mod following;
mod front;
mod health;
mod limits;
mod listening;
mod metrics;
mod notify;
mod oidc;
mod outgoing;
mod page;
mod pages;
mod patience;
mod problem;
mod question;
mod rate;
mod remote;
mod route;
mod routes;
mod seen;
mod sessions;
mod settings;
mod site;
mod tls;
mod tokens;
mod traces;
mod webhooks;

pub use access::{Caller, Role};
pub use error::ServerError;
pub use limits::{Limits, Rate};
pub use listening::Server;
pub use metrics::metric_names;
pub use notify::{Notifying, Targets, WrongTargets};
pub use problem::{Code, Problem};
pub use remote::{Remote, RemoteOutput};
pub use routes::description;
pub use settings::{Settings, TlsFiles};
pub use site::Site;
pub use traces::{Collector, Tracing, WrongCollector};
