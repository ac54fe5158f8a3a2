//! One file of a server. What it holds is what the last look has shown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use http::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};

use crate::looks::Looks;
use crate::remote::{Fetched, Link, Network};
use crate::{Address, SourceError};

/// Most bytes of a file: more than lists of manifests have.
const FILE_MAX: u64 = 16 << 20;

/// What a look has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    bytes: Arc<Vec<u8>>,
    /// By which the server knows it again.
    etag: Option<HeaderValue>,
}

type Seen = Result<Content, SourceError>;

/// A file of a server.
pub(crate) struct WebFile {
    address: Address,
    network: Arc<Network>,
    bars_loopback: AtomicBool,
    looks: Looks<Seen>,
}

impl WebFile {
    pub fn new(address: Address, network: Arc<Network>, bars_loopback: bool) -> Self {
        Self { address, network, bars_loopback: bars_loopback.into(), looks: Looks::default() }
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What it holds.
    pub fn content(&self) -> Result<Arc<Vec<u8>>, SourceError> {
        self.looks.last().unwrap_or_else(|| self.see().1).map(|content| content.bytes)
    }

    fn see(&self) -> (Option<Seen>, Seen) {
        self.looks.look(|known| self.fetch(known.and_then(Result::ok)))
    }

    /// Looks again. Says whether anything has changed for those who use it, be it that it cannot be read.
    pub fn look_again(&self) -> bool {
        match self.see() {
            (Some(Ok(before)), Ok(found)) => before.bytes != found.bytes,
            (Some(Err(before)), Err(found)) => before != found,
            _ => true,
        }
    }

    /// Nobody is told who asks: credentials are for repositories.
    fn fetch(&self, known: Option<Content>) -> Seen {
        let wrong = |problem| SourceError::remote(&self.address, "it cannot be fetched", problem);
        let credentials =
            Arc::clone(&self.network.credentials.read().unwrap_or_else(PoisonError::into_inner));
        let mut access = credentials.access(&self.address)?;
        access.bars_loopback = self.bars_loopback.load(Ordering::Relaxed);
        let attempt = self.network.attempts.begin(self.network.limits.look);
        let mut headers = HeaderMap::new();
        headers.extend(known.as_ref().and_then(|known| known.etag.clone()).map(|etag| (IF_NONE_MATCH, etag)));
        let url = self.address.to_string();
        let fetched = Link::to(&url, &access, &self.network, attempt, FILE_MAX)
            .and_then(|link| link.fetch(&url, &headers, &[StatusCode::NOT_MODIFIED]));
        let Fetched { status, headers, content } = fetched.map_err(wrong)?;
        match known {
            Some(known) if status == StatusCode::NOT_MODIFIED => Ok(known),
            _ => Ok(Content { bytes: Arc::new(content), etag: headers.get(ETAG).cloned() }),
        }
    }
}
