//! Git over HTTP, based on the shared HTTP client.
//!
//! `gix-transport` implements Git's protocol on top of any implementation of `GET` and `POST`.
//! `HttpTransport` is an implementation for a single attempt. A `GET` request is sent immediately, and
//! redirects are followed. A `POST` request is sent only when its response is read, because its body must be
//! complete.

mod connector;
mod exchange;
mod fetch;
mod lfs_requests;
mod link;
mod trust;

use std::sync::Arc;

use gix_transport::Protocol;
use gix_transport::client::blocking_io::http::Transport;

use super::Problem;
use crate::Address;
pub(crate) use connector::{check_name, connector_for, proxy_for};
use exchange::HttpTransport;
pub(crate) use fetch::CompleteResponse;
pub(crate) use link::Link;

/// Creates a transport for Git's protocol that sends its requests over a link.
pub(crate) fn create_transport(
    address: &Address,
    link: &Arc<Link>,
) -> Result<Transport<HttpTransport>, Problem> {
    let url = gix::url::parse(address.to_string().as_str());
    let url = url.map_err(|_| Problem::new("the URL cannot be parsed"))?;
    Ok(Transport::new_http(HttpTransport::new(link), url, Protocol::V2, false))
}
