//! The HTTP API of `tidegate serve`, and its web page.
//!
//! ```text
//! Server ──connections, TLS, timeouts──▶ Middleware ──auth, rate, size──▶ one Route of the table ──▶ Queries
//!                                                                          │
//!                                                         openapi: description of the same table
//! ```
//!
//! Each route is a row in a table: path, permissions, request and response types, and handler. Both the
//! router and the API description are generated from it, so they always match. Access from another machine
//! requires a token. The web page (`page`) consists of static files and uses the same API. Users open a
//! session on the page with a token or by signing in with a provider (`auth`, `oidc`). [`ApiClient`] is the
//! client that the command line uses.

mod access;
mod api_client;
mod auth;
mod error;
mod event_buffer;
mod event_publisher;
mod forward;
mod framing;
mod headers;
mod health;
mod http_client;
mod limits;
mod listener;
mod loopback;
mod merged_events;
mod metrics;
mod middleware;
mod notify;
mod oidc;
mod openapi;
mod owner;
mod page;
mod pagination;
mod problem;
mod query;
mod rate_limit;
mod route;
mod router;
mod routes;
mod server_state;
mod session_store;
mod sessions;
mod settings;
mod stall_timeout;
mod subscriber_progress;
mod tls;
mod tokens;
mod traces;
mod webhooks;

pub use access::{Caller, Role};
pub use api_client::{ApiClient, HookOutputStream};
pub use error::ServerError;
pub use forward::{PeerName, PeerTls, parse_peer_name};
pub use limits::{Limits, Rate};
pub use listener::Server;
pub use metrics::{METRICS, Metric, MetricKind, metric_names};
pub use notify::{Notifier, Targets, TargetsError};
pub use owner::{Owner, ShardOwners, parse_service_url};
pub use problem::{Code, Problem};
pub use routes::openapi_description;
pub use server_state::ServerState;
pub use session_store::SessionStore;
pub use settings::{Settings, TlsFiles};
pub use traces::{Collector, CollectorError, TraceExporter};
