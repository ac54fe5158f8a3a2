//! Requests to a Git server.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Capabilities of the server.
    Capabilities,
    /// List of refs.
    Refs,
    /// Objects.
    Objects,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: String,
    /// Path with the query.
    pub path: String,
    /// `Authorization` header.
    pub authorization: Option<String>,
    /// Purpose.
    pub kind: RequestKind,
    /// Body as text.
    pub body: String,
}

/// Request with its headers and body.
type ParsedRequest = (Request, BTreeMap<String, String>, Vec<u8>);

/// Reads a request. Returns `None` if the client sent nothing.
pub(super) fn read_request(stream: &mut dyn super::Duplex) -> io::Result<Option<ParsedRequest>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let text = String::from_utf8_lossy(&body).into_owned();
    let kind = match (method.as_str(), text.contains("command=ls-refs")) {
        ("GET", _) => RequestKind::Capabilities,
        (_, true) => RequestKind::Refs,
        _ => RequestKind::Objects,
    };
    let authorization = headers.get("authorization").cloned();
    Ok(Some((Request { method, path, authorization, kind, body: text }, headers, body)))
}
