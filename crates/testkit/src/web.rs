//! A web server on loopback that has what it is given, and writes down what it is asked.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// What is answered to a path.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// 200 if not said.
    pub status: u16,
    /// Lines such as `Location: /elsewhere`.
    pub headers: Vec<String>,
    /// What it holds.
    pub body: Vec<u8>,
    /// The only `Authorization` that is accepted; others are answered with 401 and the challenge.
    pub authorization: Option<(String, String)>,
    /// By which it is known again: whoever has it is answered with 304.
    pub etag: Option<String>,
    /// It has no end.
    pub is_endless: bool,
}

impl Page {
    /// One that holds this.
    pub fn of(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    /// One that sends on.
    pub fn to(address: &str) -> Self {
        Self { status: 302, headers: vec![format!("Location: {address}")], ..Self::default() }
    }

    /// For those alone who show this.
    pub fn only_for(self, authorization: &str, challenge: &str) -> Self {
        Self { authorization: Some((authorization.to_owned(), challenge.to_owned())), ..self }
    }
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Of which path.
    pub path: String,
    /// By whom.
    pub authorization: Option<String>,
}

#[derive(Default)]
struct Shared {
    pages: Mutex<BTreeMap<String, Page>>,
    visits: Mutex<Vec<Visit>>,
    ended: AtomicBool,
}

/// A web server. It ends when it is dropped.
pub struct WebServer {
    shared: Arc<Shared>,
    port: u16,
    listening: Option<JoinHandle<()>>,
}

impl WebServer {
    /// Without any page.
    pub fn start() -> Self {
        let (shared, listener) = (Arc::<Shared>::default(), TcpListener::bind("127.0.0.1:0").unwrap());
        let port = listener.local_addr().unwrap().port();
        let serving = Arc::clone(&shared);
        let listening = thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.ended.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&serving)) else { continue };
                thread::spawn(move || drop(serve(&shared, stream)));
            }
        });
        Self { shared, port, listening: Some(listening) }
    }

    /// Where it listens.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host())
    }

    /// Has a page there from now on.
    pub fn put(&self, path: &str, page: Page) {
        self.shared.pages.lock().unwrap().insert(path.to_owned(), page);
    }

    /// What was asked since this was asked last.
    pub fn visits(&self) -> Vec<Visit> {
        std::mem::take(&mut self.shared.visits.lock().unwrap())
    }

    /// Of which paths, since this was asked last.
    pub fn paths(&self) -> Vec<String> {
        self.visits().into_iter().map(|visit| visit.path).collect()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(listening) = self.listening.take() {
            listening.join().unwrap();
        }
    }
}

fn serve(shared: &Shared, mut stream: TcpStream) -> io::Result<()> {
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
    shared.visits.lock().unwrap().push(Visit { path: path.clone(), authorization: authorization.clone() });
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
