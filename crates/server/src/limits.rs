//! Limits that apply to clients.

use std::time::Duration;

/// Rate limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Sustained rate per second.
    pub per_second: f64,
    /// Maximum burst of requests after a pause.
    pub burst: f64,
}

/// Limits that apply to clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Maximum number of connections; more wait to be accepted. Each takes about 20 KiB of memory and a file
    /// handle.
    pub connections: usize,
    /// Maximum number of connections from one address, so that a single client can't use up all of them.
    /// Excess connections are closed immediately.
    pub connections_per_address: usize,
    /// Maximum number of event streams.
    pub streams: usize,
    /// Maximum size of a request head in bytes; at least 8 KiB. Paths fit easily, because names have at most
    /// 253 characters.
    pub head_bytes: usize,
    /// Timeout for a request head, and for an idle connection.
    pub head_timeout: Duration,
    /// Maximum size of a request body in bytes. The largest are requests to sync selected resources.
    pub body_bytes: usize,
    /// Time limit for a request body.
    pub body_timeout: Duration,
    /// Timeout for a response. A comparison may have to fetch a repository first.
    pub response_timeout: Duration,
    /// Time for which a standby holds a request while the leader changes. A takeover normally takes less.
    pub leader_timeout: Duration,
    /// Timeout for a client that doesn't read the response. The connection is then closed.
    pub stall_timeout: Duration,
    /// Time limit for a TLS handshake.
    pub handshake_timeout: Duration,
    /// Time limit for open responses during shutdown.
    pub shutdown_timeout: Duration,
    /// Rate limit for requests with the same token or from the same signed-in user.
    pub caller_rate: Rate,
    /// Rate limit for all authenticated requests together.
    pub total_rate: Rate,
    /// Rate limit for all unauthenticated requests together, to slow down token guessing.
    pub unauthenticated_rate: Rate,
    /// Rate limit for page files, which are public. A view loads about twenty files from memory.
    pub page_rate: Rate,
    /// Timeout for a response from an OpenID provider.
    pub provider_timeout: Duration,
    /// Maximum size of an OpenID provider's response in bytes.
    pub provider_bytes: usize,
    /// Minimum interval between fetches of the provider's keys when tokens have an unknown key.
    pub provider_keys_interval: Duration,
    /// Rate limit for webhook events from all senders together.
    pub webhook_rate: Rate,
    /// Maximum size of a webhook event in bytes. A larger push is only noticed by the next regular poll.
    pub webhook_bytes: usize,
    /// Maximum number of webhook bodies from unverified senders to read concurrently.
    pub webhook_bodies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            connections_per_address: 128,
            streams: 64,
            head_bytes: 16 << 10,
            head_timeout: Duration::from_secs(10),
            body_bytes: 256 << 10,
            body_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_secs(60),
            leader_timeout: Duration::from_secs(15),
            stall_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            shutdown_timeout: Duration::from_secs(5),
            caller_rate: Rate { per_second: 50.0, burst: 200.0 },
            total_rate: Rate { per_second: 500.0, burst: 1000.0 },
            unauthenticated_rate: Rate { per_second: 5.0, burst: 50.0 },
            page_rate: Rate { per_second: 200.0, burst: 2000.0 },
            provider_timeout: Duration::from_secs(10),
            provider_bytes: 1 << 20,
            provider_keys_interval: Duration::from_secs(30),
            webhook_rate: Rate { per_second: 50.0, burst: 200.0 },
            webhook_bytes: 8 << 20,
            webhook_bodies: 8,
        }
    }
}
