//! Whom to ask where objects are, and the ways to the servers that have them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Uri};
use tidegate_web::{is_same_or_safer, is_this_machine};

use super::batch::{self, Action, Authenticated, MEDIA_TYPE, Refusal};
use super::lookup::Missing;
use super::pointer::Oid;
use crate::Address;
use crate::address::{Place, Site};
use crate::credentials::Access;
use crate::remote::{Attempt, Link, Network, Problem, ssh};

/// Bytes of one answer that says where objects are: more than any server says of so many.
const ANSWER_MAX: u64 = 4 << 20;

/// Whom to ask where objects are.
pub(super) struct Endpoint {
    pub base: Uri,
    /// What proves who asks, if the server itself has said so.
    headers: HeaderMap,
}

/// One attempt at the servers of a repository's objects.
pub(super) struct Ways<'w> {
    pub address: &'w Address,
    pub network: &'w Network,
    pub access: &'w Access,
    pub attempt: Arc<Attempt>,
    /// Bytes of all objects together.
    pub bytes: u64,
    links: RefCell<BTreeMap<(String, bool), Arc<Link>>>,
}

/// The address of a repository that is asked by HTTP.
pub(super) fn origin(address: &Address) -> Option<Uri> {
    match address.place() {
        Place::Http(_) => address.to_string().parse().ok(),
        _ => None,
    }
}

impl<'w> Ways<'w> {
    pub fn new(address: &'w Address, network: &'w Network, access: &'w Access, bytes: u64) -> Self {
        let attempt = network.attempts.begin(network.limits.fetch);
        Self { address, network, access, attempt, bytes, links: RefCell::default() }
    }

    /// Whom to ask: the server that the repository names, or its own.
    pub fn endpoint(&self, named: Option<&Uri>) -> Result<Endpoint, Problem> {
        if let Some(base) = named {
            return Ok(Endpoint { base: base.clone(), headers: HeaderMap::new() });
        }
        match self.address.place() {
            Place::Http(_) => {
                let url = self.address.to_string();
                let url = url.strip_suffix(".git").unwrap_or(&url);
                let base = format!("{url}.git/info/lfs").parse();
                let base = base.map_err(|_| Problem::new("its address cannot be read"))?;
                Ok(Endpoint { base, headers: HeaderMap::new() })
            }
            Place::Ssh(site) => self.endpoint_by_ssh(site),
            _ => Err(Problem::new("it is no repository of a server")),
        }
    }

    fn endpoint_by_ssh(&self, site: &Site) -> Result<Endpoint, Problem> {
        let advice = "name the repository by https://, with a Secret of its own";
        let command = format!("git-lfs-authenticate {} download", ssh::quoted(&site.path_there()));
        let said = ssh::ask((site, &command), self.access, self.network, &self.attempt)?;
        let bad =
            |what: &str| Problem::new(format!("what git-lfs-authenticate says there {what}")).hint(advice);
        let said: Authenticated = serde_json::from_slice(&said).map_err(|_| bad("is no JSON of Git LFS"))?;
        let base: Option<Uri> = said.href.trim_end_matches('/').parse().ok();
        let is_safe = |uri: &Uri| match (uri.scheme_str(), uri.authority()) {
            (Some(scheme), Some(authority)) => {
                let is_open = scheme == "http" && is_this_machine(authority.host());
                (scheme == "https" || is_open) && !authority.as_str().contains('@') && uri.query().is_none()
            }
            _ => false,
        };
        let base = base.filter(is_safe).ok_or_else(|| bad("names no server by https://"))?;
        let headers = batch::headers(said.header.unwrap_or_default()).map_err(Problem::new)?;
        Ok(Endpoint { base, headers })
    }

    /// Where some objects are.
    pub fn ask(
        &self,
        endpoint: &Endpoint,
        missing: &[&Missing],
    ) -> Result<BTreeMap<Oid, Result<Action, Refusal>>, Problem> {
        let url = format!("{}/objects/batch", endpoint.base.to_string().trim_end_matches('/'));
        let mut headers = endpoint.headers.clone();
        let media_type = HeaderValue::from_static(MEDIA_TYPE);
        headers.insert(ACCEPT, media_type.clone());
        headers.insert(CONTENT_TYPE, media_type);
        let question = batch::question(missing.iter().map(|one| &one.pointer));
        let link = self.link(&endpoint.base, true, ANSWER_MAX)?;
        let answer = link.question(&url, &headers, question)?;
        batch::answer(&answer).map_err(Problem::new)
    }

    /// The way to the server of an object, which is shown who asks if it is the repository's own, and `shows`.
    pub fn to(&self, uri: &Uri, shows: bool) -> Result<Arc<Link>, Problem> {
        let server = format!("{:?} {:?}", uri.scheme(), uri.authority());
        let mut links = self.links.borrow_mut();
        if let Some(link) = links.get(&(server.clone(), shows)) {
            return Ok(Arc::clone(link));
        }
        // The last piece may be longer than what should come.
        let link = self.link(uri, shows, self.bytes.saturating_add(ANSWER_MAX))?;
        links.insert((server, shows), Arc::clone(&link));
        Ok(link)
    }

    /// How another server is reached. Whoever writes to a repository may choose it, so only one of this machine names others of it.
    fn elsewhere(&self, host: &str) -> Access {
        let is_here = match self.address.place() {
            Place::Http(site) | Place::Ssh(site) => is_this_machine(&site.host),
            _ => false,
        };
        let access = self.network.elsewhere(self.access, host);
        Access { bars_loopback: access.bars_loopback || !is_here, ..access }
    }

    fn link(&self, to: &Uri, shows: bool, bytes: u64) -> Result<Arc<Link>, Problem> {
        let is_own = origin(self.address).is_some_and(|own| is_same_or_safer(&own, to));
        let access = match (is_own, shows) {
            (true, true) => self.access.clone(),
            (true, false) => self.access.nameless(),
            (false, _) => self.elsewhere(to.host().unwrap_or_default()),
        };
        Link::to(&to.to_string(), &access, self.network, Arc::clone(&self.attempt), bytes)
    }
}
