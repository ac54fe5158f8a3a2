//! What is taken from those who ask.

use std::time::Duration;

/// How often something may happen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// In the long run, every second.
    pub per_second: f64,
    /// At once, after a rest.
    pub burst: f64,
}

/// What is taken from those who ask.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Connections at once; others wait to be accepted. Each costs some 20 KiB, and a file handle.
    pub connections: usize,
    /// Those of one address; more are closed at once, so that nobody takes all places.
    pub connections_each: usize,
    /// Connections that are told events at once.
    pub streams: usize,
    /// Bytes of the head of a request, at least 8 KiB. Names are at most 253 characters, so it is ample.
    pub head_bytes: usize,
    /// How long the head of a request may take, and how long a connection may be idle.
    pub head_within: Duration,
    /// Bytes of the body of a request. The largest is a sync of named resources.
    pub body_bytes: usize,
    /// How long it may take.
    pub body_within: Duration,
    /// How long an answer may take. A comparison may fetch a repository first.
    pub answer_within: Duration,
    /// How long somebody may take nothing of an answer before the connection is cut.
    pub stalled_for: Duration,
    /// How long a TLS handshake may take.
    pub handshake_within: Duration,
    /// How long answers on their way may take when the process ends.
    pub end_within: Duration,
    /// Requests of one token, or of one person who has signed in otherwise.
    pub each: Rate,
    /// Requests of all that are let in.
    pub all: Rate,
    /// Requests of those who are not, of all together: nobody guesses tokens.
    pub strangers: Rate,
    /// Files of the page, which everybody may have: a view asks for some twenty, from memory.
    pub visitors: Rate,
    /// How long an OpenID provider may take for an answer.
    pub provider_within: Duration,
    /// Bytes of such an answer.
    pub provider_bytes: usize,
    /// How often its keys are fetched, where a token names one that is not known.
    pub provider_keys_again: Duration,
    /// Events of webhooks, of all senders.
    pub webhooks: Rate,
    /// Bytes of an event. Larger pushes are found by the next regular look.
    pub webhook_bytes: usize,
    /// Events that are read at once, as long as nobody knows whose they are.
    pub webhook_bodies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            connections_each: 128,
            streams: 64,
            head_bytes: 16 << 10,
            head_within: Duration::from_secs(10),
            body_bytes: 256 << 10,
            body_within: Duration::from_secs(10),
            answer_within: Duration::from_secs(60),
            stalled_for: Duration::from_secs(30),
            handshake_within: Duration::from_secs(10),
            end_within: Duration::from_secs(5),
            each: Rate { per_second: 50.0, burst: 200.0 },
            all: Rate { per_second: 500.0, burst: 1000.0 },
            strangers: Rate { per_second: 5.0, burst: 50.0 },
            visitors: Rate { per_second: 200.0, burst: 2000.0 },
            provider_within: Duration::from_secs(10),
            provider_bytes: 1 << 20,
            provider_keys_again: Duration::from_secs(30),
            webhooks: Rate { per_second: 50.0, burst: 200.0 },
            webhook_bytes: 8 << 20,
            webhook_bodies: 8,
        }
    }
}
