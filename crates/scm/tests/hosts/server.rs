//! Local HTTP server that returns fixed responses and records requests.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

/// A fixed response.
#[derive(Clone, Debug)]
pub struct Page {
    pub status: u16,
    pub headers: Vec<String>,
    pub body: Vec<u8>,
    /// True if the server never responds.
    pub hangs: bool,
}

impl Page {
    pub fn of(body: Value) -> Self {
        Self { status: 200, headers: Vec::new(), body: body.to_string().into_bytes(), hangs: false }
    }

    pub fn status(status: u16, body: Value) -> Self {
        Self { status, ..Self::of(body) }
    }

    pub fn with(mut self, header: impl Into<String>) -> Self {
        self.headers.push(header.into());
        self
    }

    pub fn to(address: &str) -> Self {
        Self::status(302, Value::Null).with(format!("Location: {address}"))
    }
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Method and target, such as `GET /path?query`.
    pub asked: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

#[derive(Default)]
struct ServerState {
    pages: Mutex<BTreeMap<String, Page>>,
    visits: Mutex<Vec<Visit>>,
    ended: AtomicBool,
    tls: Option<Arc<ServerConfig>>,
}

/// HTTP server that runs until it is dropped.
pub struct Server {
    shared: Arc<ServerState>,
    port: u16,
    listening: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start() -> Self {
        Self::with(None)
    }

    pub fn with(tls: Option<Arc<ServerConfig>>) -> Self {
        let shared = Arc::new(ServerState { tls, ..ServerState::default() });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = Arc::clone(&shared);
        let listening = thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.ended.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&serving)) else { continue };
                thread::spawn(move || drop(accept(&shared, stream)));
            }
        });
        Self { shared, port, listening: Some(listening) }
    }

    pub fn url(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// Sets the response to `GET path?query`.
    pub fn put(&self, path: &str, page: Page) {
        self.at(&format!("GET {path}"), page);
    }

    /// Sets the response to `POST path`.
    pub fn at(&self, asked: &str, page: Page) {
        self.shared.pages.lock().unwrap().insert(asked.to_owned(), page);
    }

    /// Returns the requests since the previous call.
    pub fn visits(&self) -> Vec<Visit> {
        std::mem::take(&mut self.shared.visits.lock().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(listening) = self.listening.take() {
            listening.join().unwrap();
        }
    }
}

fn accept(shared: &ServerState, stream: TcpStream) -> io::Result<()> {
    match &shared.tls {
        None => serve(shared, stream),
        Some(config) => {
            let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
            serve(shared, StreamOwned::new(connection, stream))
        }
    }
}

fn serve(shared: &ServerState, stream: impl Read + Write) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let asked = line.rsplit_once(' ').map(|(asked, _)| asked.to_owned()).unwrap_or_default();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).unwrap();
    shared.visits.lock().unwrap().push(Visit { asked: asked.clone(), headers, body });
    let page = shared.pages.lock().unwrap().get(&asked).cloned();
    let page = page.unwrap_or_else(|| Page::status(404, serde_json::json!({"message": "Not Found"})));
    let stream = reader.get_mut();
    if page.hangs {
        // Keep the connection open until the client closes it.
        let mut rest = [0];
        while stream.read(&mut rest)? > 0 {}
        return Ok(());
    }
    let mut head = format!("HTTP/1.1 {} -\r\nConnection: close\r\n", page.status);
    page.headers.iter().for_each(|header| head.push_str(&format!("{header}\r\n")));
    head.push_str(&format!("Content-Length: {}\r\n\r\n", page.body.len()));
    stream.write_all(head.as_bytes())?;
    stream.write_all(&page.body)?;
    stream.flush()
}
