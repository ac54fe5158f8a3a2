//! LFS servers, and connections to them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Uri};
use tidegate_web::{is_local_host, is_same_or_safer};

use super::batch::{self, Action, AuthenticationResponse, LfsObjectError, MEDIA_TYPE};
use super::lookup::Missing;
use super::pointer::Oid;
use crate::Address;
use crate::address::{AddressKind, RemoteLocation};
use crate::credentials::AccessSettings;
use crate::remote::{Attempt, Link, Network, Problem, ssh};

/// Maximum size of the response to a batch request, in bytes.
const RESPONSE_BYTES_MAX: u64 = 4 << 20;

/// An LFS server.
pub(super) struct Endpoint {
    pub base: Uri,
    /// Headers with credentials provided by the server itself.
    headers: HeaderMap,
}

/// Connections for one fetch.
pub(super) struct LfsConnections<'w> {
    pub address: &'w Address,
    pub network: &'w Network,
    pub access: &'w AccessSettings,
    pub attempt: Arc<Attempt>,
    /// Maximum total size of the fetched objects, in bytes.
    pub bytes: u64,
    links: RefCell<BTreeMap<(String, bool), Arc<Link>>>,
}

/// Returns the URL of a repository, or `None` if it doesn't use HTTP.
pub(super) fn http_address(address: &Address) -> Option<Uri> {
    match address.kind() {
        AddressKind::Http(_) => address.to_string().parse().ok(),
        _ => None,
    }
}

impl<'w> LfsConnections<'w> {
    pub fn new(address: &'w Address, network: &'w Network, access: &'w AccessSettings, bytes: u64) -> Self {
        let attempt = network.attempts.start(network.limits.fetch);
        Self { address, network, access, attempt, bytes, links: RefCell::default() }
    }

    /// Returns the LFS server named in `.lfsconfig`, or else the repository's default server.
    pub fn endpoint(&self, named: Option<&Uri>) -> Result<Endpoint, Problem> {
        if let Some(base) = named {
            return Ok(Endpoint { base: base.clone(), headers: HeaderMap::new() });
        }
        match self.address.kind() {
            AddressKind::Http(_) => {
                let url = self.address.to_string();
                let url = url.strip_suffix(".git").unwrap_or(&url);
                let base = format!("{url}.git/info/lfs").parse();
                let base = base.map_err(|_| Problem::new("the URL cannot be parsed"))?;
                Ok(Endpoint { base, headers: HeaderMap::new() })
            }
            AddressKind::Ssh(site) => self.ssh_endpoint(site),
            _ => Err(Problem::new("the repository is not remote")),
        }
    }

    fn ssh_endpoint(&self, site: &RemoteLocation) -> Result<Endpoint, Problem> {
        let advice = "use the repository's https:// URL, and add a Secret for this URL";
        let command = format!("git-lfs-authenticate {} download", ssh::quote_for_shell(&site.server_path()));
        let said = ssh::run_command(site, &command, self.access, self.network, &self.attempt)?;
        let bad = |what: &str| {
            Problem::new(format!("the server's response to git-lfs-authenticate {what}")).with_hint(advice)
        };
        let said: AuthenticationResponse =
            serde_json::from_slice(&said).map_err(|_| bad("is not Git LFS JSON"))?;
        let base: Option<Uri> = said.href.trim_end_matches('/').parse().ok();
        let is_safe = |uri: &Uri| match (uri.scheme_str(), uri.authority()) {
            (Some(scheme), Some(authority)) => {
                let is_open = scheme == "http" && is_local_host(authority.host());
                (scheme == "https" || is_open) && !authority.as_str().contains('@') && uri.query().is_none()
            }
            _ => false,
        };
        let base = base.filter(is_safe).ok_or_else(|| bad("does not contain an https:// URL"))?;
        let headers = batch::parse_headers(said.header.unwrap_or_default()).map_err(Problem::new)?;
        Ok(Endpoint { base, headers })
    }

    /// Sends a batch request and returns the result for each object.
    pub fn request_batch(
        &self,
        endpoint: &Endpoint,
        missing: &[&Missing],
    ) -> Result<BTreeMap<Oid, Result<Action, LfsObjectError>>, Problem> {
        let url = format!("{}/objects/batch", endpoint.base.to_string().trim_end_matches('/'));
        let mut headers = endpoint.headers.clone();
        let media_type = HeaderValue::from_static(MEDIA_TYPE);
        headers.insert(ACCEPT, media_type.clone());
        headers.insert(CONTENT_TYPE, media_type);
        let question = batch::batch_request(missing.iter().map(|one| &one.pointer));
        let link = self.create_link(&endpoint.base, true, RESPONSE_BYTES_MAX)?;
        let answer = link.post_document(&url, &headers, question)?;
        batch::parse_batch_response(&answer).map_err(Problem::new)
    }

    /// Returns a connection to the server that stores an object. `shows` allows sending credentials, but only
    /// to the repository's own server.
    pub fn link_to(&self, uri: &Uri, shows: bool) -> Result<Arc<Link>, Problem> {
        let server = format!("{:?} {:?}", uri.scheme(), uri.authority());
        let mut links = self.links.borrow_mut();
        if let Some(link) = links.get(&(server.clone(), shows)) {
            return Ok(Arc::clone(link));
        }
        // The last chunk of a response may exceed the expected size.
        let link = self.create_link(uri, shows, self.bytes.saturating_add(RESPONSE_BYTES_MAX))?;
        links.insert((server, shows), Arc::clone(&link));
        Ok(link)
    }

    /// Returns the access settings for another server. Anyone who can commit to the repository chooses it, so
    /// loopback addresses are allowed only if the repository is on this machine, too.
    fn access_to_other_host(&self, host: &str) -> AccessSettings {
        let is_here = match self.address.kind() {
            AddressKind::Http(site) | AddressKind::Ssh(site) => is_local_host(&site.host),
            _ => false,
        };
        let access = self.network.access_to_other_host(self.access, host);
        AccessSettings { blocks_loopback: access.blocks_loopback || !is_here, ..access }
    }

    fn create_link(&self, to: &Uri, shows: bool, bytes: u64) -> Result<Arc<Link>, Problem> {
        let is_own = http_address(self.address).is_some_and(|own| is_same_or_safer(&own, to));
        let access = match (is_own, shows) {
            (true, true) => self.access.clone(),
            (true, false) => self.access.without_credentials(),
            (false, _) => self.access_to_other_host(to.host().unwrap_or_default()),
        };
        Link::for_address(&to.to_string(), &access, self.network, Arc::clone(&self.attempt), bytes)
    }
}
