//! Services that own an operation log together: its leader, or the owners of its shards.

use std::collections::BTreeMap;

use http::Uri;
use tidegate_oplog::Shard;
use tokio::sync::watch;

/// Service that owns an operation log, or a shard of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This service, which handles requests itself. Also a service without a shared log.
    This,
    /// Another service.
    Other {
        /// Name for messages.
        name: String,
        /// URL of its API, if it advertises one.
        address: Option<Uri>,
    },
    /// Unknown, because this service is starting or taking over.
    Changing,
}

impl Owner {
    /// Returns another service as the owner. `address` is the URL of its API. An invalid URL counts as none.
    pub fn other(name: impl Into<String>, address: Option<&str>) -> Self {
        let address = address.and_then(|address| address.parse().ok());
        Self::Other { name: name.into(), address }
    }

    /// Returns true for another service that advertises an address.
    pub(crate) fn has_address(&self) -> bool {
        matches!(self, Self::Other { address: Some(_), .. })
    }
}

/// Owners of the shards of a log. The owner of any other shard is changing.
pub type ShardOwners = BTreeMap<Shard, Owner>;

/// Watch of the service that must handle a request.
#[derive(Clone)]
pub(crate) enum OwnerWatch {
    /// Leader of the log.
    Leader(watch::Receiver<Owner>),
    /// Owner of a shard.
    Shard {
        /// Owners of all shards.
        owners: watch::Receiver<ShardOwners>,
        /// Shard of the request.
        shard: Shard,
    },
}

impl OwnerWatch {
    /// Returns the current owner.
    pub fn current(&mut self) -> Owner {
        match self {
            Self::Leader(leader) => leader.borrow_and_update().clone(),
            Self::Shard { owners, shard } => {
                owners.borrow_and_update().get(shard).cloned().unwrap_or(Owner::Changing)
            }
        }
    }

    /// Waits for a change since the last call of [`Self::current`].
    pub async fn changed(&mut self) {
        let is_open = match self {
            Self::Leader(leader) => leader.changed().await.is_ok(),
            Self::Shard { owners, .. } => owners.changed().await.is_ok(),
        };
        if !is_open {
            std::future::pending().await
        }
    }

    /// Waits until the owner is unknown or another service than `current`.
    pub async fn wait_for_other(&mut self, current: &Owner) {
        while self.current() == *current {
            self.changed().await;
        }
    }

    /// Returns the role of the owner, for messages.
    pub fn role(&self) -> &'static str {
        match self {
            Self::Leader(_) => "leader",
            Self::Shard { .. } => "owner",
        }
    }
}

/// Parses a URL that consists only of a scheme, a host and an optional port, and removes a trailing slash.
pub fn parse_service_url(text: &str) -> Result<String, String> {
    let expected = || "use http://HOST:PORT or https://HOST:PORT".to_owned();
    let uri: Uri = text.parse().map_err(|_| expected())?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let has_host = uri
        .authority()
        .is_some_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'));
    let is_base = uri.path() == "/" && uri.query().is_none();
    (is_http && has_host && is_base).then(|| text.trim_end_matches('/').to_owned()).ok_or_else(expected)
}
