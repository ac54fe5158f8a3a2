//! Git by HTTP, on the client that the rest of the program uses.
//!
//! `gix-transport` speaks Git's protocol over anything that can `GET` and `POST`; `Courier` is that for one attempt. A `GET` is
//! made at once and may be sent on; a `POST` when its answer is read, because its body is written in between.

mod exchange;
mod fetch;
mod link;
mod object;
mod trust;
mod way;

use std::sync::Arc;

use gix_transport::Protocol;
use gix_transport::client::blocking_io::http::Transport;

use super::Problem;
use crate::Address;
use exchange::Courier;
pub(crate) use fetch::Fetched;
pub(crate) use link::Link;
pub(crate) use way::{check_name, proxy, way};

/// A transport of Git's protocol over a link.
pub(crate) fn transport(address: &Address, link: &Arc<Link>) -> Result<Transport<Courier>, Problem> {
    let url = gix::url::parse(address.to_string().as_str());
    let url = url.map_err(|_| Problem::new("its address cannot be read"))?;
    Ok(Transport::new_http(Courier::new(link), url, Protocol::V2, false))
}
