//! A single file on a server, as of its latest observation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};

use crate::observations::SharedObservations;
use crate::remote::{CompleteResponse, Link, Network};
use crate::{Address, SourceError};

/// Maximum size of the file, in bytes.
const FILE_MAX: u64 = 16 << 20;

/// Content of the file at its last observation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    bytes: Arc<Vec<u8>>,
    /// ETag of the content, for conditional requests.
    etag: Option<HeaderValue>,
}

type Observation = Result<Content, SourceError>;

/// A file on a server.
pub(crate) struct WebFile {
    address: Address,
    network: Arc<Network>,
    blocks_loopback: AtomicBool,
    observations: SharedObservations<Observation>,
}

impl WebFile {
    pub fn new(address: Address, network: Arc<Network>, bars_loopback: bool) -> Self {
        Self {
            address,
            network,
            blocks_loopback: bars_loopback.into(),
            observations: SharedObservations::default(),
        }
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the content as of the latest observation, making the first one if necessary.
    pub fn content(&self) -> Result<Arc<Vec<u8>>, SourceError> {
        self.observations.last().unwrap_or_else(|| self.observe_shared().1).map(|content| content.bytes)
    }

    fn observe_shared(&self) -> (Option<Observation>, Observation) {
        self.observations.observe(|known| self.fetch(known.and_then(Result::ok)))
    }

    /// Observes the file. Returns true if its content or availability has changed since the last observation.
    pub fn observe_availability(&self) -> bool {
        match self.observe_shared() {
            (Some(Ok(before)), Ok(found)) => before.bytes != found.bytes,
            (Some(Err(before)), Err(found)) => before != found,
            _ => true,
        }
    }

    /// Fetches the file without credentials, because Secrets apply only to repositories.
    fn fetch(&self, known: Option<Content>) -> Observation {
        let wrong = |problem| SourceError::remote(&self.address, "cannot fetch the file", problem);
        let access = self.network.access_to(&self.address, self.blocks_loopback.load(Ordering::Relaxed))?;
        let attempt = self.network.attempts.start(self.network.limits.list_refs);
        let mut headers = HeaderMap::new();
        headers.extend(known.as_ref().and_then(|known| known.etag.clone()).map(|etag| (IF_NONE_MATCH, etag)));
        let url = self.address.to_string();
        let fetched = Link::for_address(&url, &access, &self.network, attempt, FILE_MAX)
            .and_then(|link| link.download(&url, &headers, &[StatusCode::NOT_MODIFIED]));
        let CompleteResponse { status, headers, content } = fetched.map_err(wrong)?;
        match known {
            Some(known) if status == StatusCode::NOT_MODIFIED => Ok(known),
            _ => Ok(Content { bytes: Arc::new(content), etag: headers.get(ETAG).cloned() }),
        }
    }
}
