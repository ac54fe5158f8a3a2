//! What a Git server is asked.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// What the server can do.
    Greeting,
    /// The names.
    Names,
    /// Objects.
    Objects,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: String,
    /// With the query.
    pub path: String,
    /// Whose authority was shown.
    pub authorization: Option<String>,
    /// What it is for.
    pub asked: Asked,
    /// What was asked, as text.
    pub body: String,
}

/// A request, its headers and its body.
type Message = (Request, BTreeMap<String, String>, Vec<u8>);

/// Reads a request; nothing if there is none.
pub(super) fn read(stream: &mut dyn super::Duplex) -> io::Result<Option<Message>> {
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
    let asked = match (method.as_str(), text.contains("command=ls-refs")) {
        ("GET", _) => Asked::Greeting,
        (_, true) => Asked::Names,
        _ => Asked::Objects,
    };
    let authorization = headers.get("authorization").cloned();
    Ok(Some((Request { method, path, authorization, asked, body: text }, headers, body)))
}
