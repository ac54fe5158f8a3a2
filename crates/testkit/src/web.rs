//! Web server on the loopback interface that serves fixed pages and records its requests.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Response to requests for a path.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Status code [default: 200].
    pub status: u16,
    /// Headers, such as `Location: /elsewhere`.
    pub headers: Vec<String>,
    /// Body of the response.
    pub body: Vec<u8>,
    /// Required `Authorization` header, and the challenge. Requests without it get status 401.
    pub authorization: Option<(String, String)>,
    /// ETag. Requests with it get status 304.
    pub etag: Option<String>,
    /// True if the body never ends.
    pub is_endless: bool,
}

impl Page {
    /// Creates a page with a body.
    pub fn with_body(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    /// Creates a redirect.
    pub fn redirect_to(address: &str) -> Self {
        Self { status: 302, headers: vec![format!("Location: {address}")], ..Self::default() }
    }

    /// Sets the required `Authorization` header, and the challenge.
    pub fn require_authorization(self, authorization: &str, challenge: &str) -> Self {
        Self { authorization: Some((authorization.to_owned(), challenge.to_owned())), ..self }
    }
}

/// Recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// Requested path.
    pub path: String,
    /// `Authorization` header of the request.
    pub authorization: Option<String>,
}

#[derive(Default)]
struct ServerState {
    pages: Mutex<BTreeMap<String, Page>>,
    requests: Mutex<Vec<RecordedRequest>>,
    has_ended: AtomicBool,
}

/// Web server. Stops when dropped.
pub struct WebServer {
    state: Arc<ServerState>,
    port: u16,
    listener_thread: Option<JoinHandle<()>>,
}

impl WebServer {
    /// Starts a server without pages.
    pub fn start() -> Self {
        let (state, listener) = (Arc::<ServerState>::default(), TcpListener::bind("127.0.0.1:0").unwrap());
        let port = listener.local_addr().unwrap().port();
        let serving = Arc::clone(&state);
        let listening = thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&serving)) else { continue };
                thread::spawn(move || drop(serve_connection(&shared, stream)));
            }
        });
        Self { state, port, listener_thread: Some(listening) }
    }

    /// Returns the server's host and port.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host())
    }

    /// Adds or replaces a page.
    pub fn add_page(&self, path: &str, page: Page) {
        self.state.pages.lock().unwrap().insert(path.to_owned(), page);
    }

    /// Returns the requests since the last call.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        std::mem::take(&mut self.state.requests.lock().unwrap())
    }

    /// Returns the paths of the requests since the last call.
    pub fn requested_paths(&self) -> Vec<String> {
        self.requests().into_iter().map(|visit| visit.path).collect()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(listening) = self.listener_thread.take() {
            listening.join().unwrap();
        }
    }
}

fn serve_connection(shared: &ServerState, mut stream: TcpStream) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let authorization = headers.get("authorization").cloned();
    shared
        .requests
        .lock()
        .unwrap()
        .push(RecordedRequest { path: path.clone(), authorization: authorization.clone() });
    let page = shared.pages.lock().unwrap().get(&path).cloned();
    let mut page = page.unwrap_or_else(|| Page { status: 404, ..Page::default() });
    if let Some((wanted, challenge)) = &page.authorization
        && authorization.as_ref() != Some(wanted)
    {
        page =
            Page { status: 401, headers: vec![format!("WWW-Authenticate: {challenge}")], ..Page::default() };
    } else if page.etag.is_some() && page.etag.as_ref() == headers.get("if-none-match") {
        page = Page { status: 304, ..Page::default() };
    }
    let status = if page.status == 0 { 200 } else { page.status };
    let mut head = format!("HTTP/1.1 {status} -\r\nConnection: close\r\n");
    page.headers.iter().for_each(|line| head.push_str(&format!("{line}\r\n")));
    page.etag.iter().for_each(|etag| head.push_str(&format!("ETag: {etag}\r\n")));
    if !page.is_endless {
        head.push_str(&format!("Content-Length: {}\r\n", page.body.len()));
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    stream.write_all(&page.body)?;
    if !page.is_endless {
        return stream.flush();
    }
    loop {
        stream.write_all(&[b'#'; 4096])?;
    }
}
