//! Part of HTTP that a browser driver uses.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Time limit of a response. Only a hang exceeds it.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A response.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub body: String,
}

/// Sends a request on a separate connection.
pub fn send_request(
    address: &str,
    method: &str,
    target: &str,
    headers: &[&str],
    body: Option<&Value>,
) -> HttpResponse {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let body = body.map(ToString::to_string).unwrap_or_default();
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), None);
    loop {
        let mut line = String::new();
        assert!(
            reader.read_line(&mut line).unwrap() > 0,
            "{method} {target}: the response ends in its header: {head}"
        );
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = Some(value.trim().parse::<usize>().unwrap());
        }
        head.push_str(&line.to_lowercase());
    }
    let mut body = Vec::new();
    match length {
        Some(length) => {
            body.resize(length, 0);
            reader.read_exact(&mut body).unwrap();
        }
        None => drop(reader.read_to_end(&mut body).unwrap()),
    }
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    HttpResponse { status, body: String::from_utf8(body).unwrap() }
}
