//! Git over HTTP, based on the shared HTTP client.
//!
//! `gix-transport` implements Git's protocol on top of any `GET` and `POST`; `HttpTransport` provides these
//! for a single attempt. A `GET` is sent immediately and follows redirects. A `POST` isn't sent until its
//! response is read, because only then is its body complete.

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
pub(crate) use connector::{SingleByteReads, check_name, proxy_connector_for};
use exchange::HttpTransport;
pub(crate) use fetch::CompleteResponse;
pub(crate) use link::Link;

/// Creates a transport for the Git protocol on top of a link.
pub(crate) fn create_transport(
    address: &Address,
    link: &Arc<Link>,
) -> Result<Transport<HttpTransport>, Problem> {
    let url = gix::url::parse(address.to_string().as_str());
    let url = url.map_err(|_| Problem::new("the URL cannot be parsed"))?;
    Ok(Transport::new_http(HttpTransport::new(link), url, Protocol::V2, false))
}
