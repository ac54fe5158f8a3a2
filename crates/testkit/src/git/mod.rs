//! A Git server on loopback: Git's own program for smart HTTP, behind a server that writes down what it is asked and that
//! can behave badly.

mod requests;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

pub use requests::{Asked, Request};

/// How a server behaves. It does as it should where nothing is said.
#[derive(Clone, Debug, Default)]
pub struct Manners {
    /// The only `Authorization` that is accepted.
    pub authorization: Option<String>,
    /// Requests whose path begins so are sent on to the same below this address.
    pub redirect: Option<(String, String)>,
    /// What is asked so is not answered; the connection stays.
    pub hang: Option<Asked>,
    /// What is asked so is answered without an end.
    pub endless: Option<Asked>,
    /// What is asked so is answered with half of the answer.
    pub half: Option<Asked>,
    /// Every request is answered with this status.
    pub status: Option<u16>,
    /// Only the first version of Git's protocol is spoken.
    pub old: bool,
}

struct Shared {
    root: PathBuf,
    manners: Mutex<Manners>,
    requests: Mutex<Vec<Request>>,
    ended: AtomicBool,
    tls: Option<Arc<ServerConfig>>,
    /// Connections that are kept without an answer.
    hanging: Mutex<Vec<TcpStream>>,
    heard: Condvar,
}

/// A Git server. It ends when it is dropped.
pub struct GitServer {
    shared: Arc<Shared>,
    port: u16,
    listening: Option<JoinHandle<()>>,
    authority: Option<String>,
}

/// Whether a Git server can be had here: it needs a `git` program that has `http-backend`.
pub fn is_there() -> bool {
    let found = Command::new("git").arg("--exec-path").output();
    let there = found.is_ok_and(|found| {
        let folder = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        found.status.success() && Path::new(&folder).join("git-http-backend").exists()
    });
    if !there {
        eprintln!("skipped: there is no git program with http-backend here");
    }
    there
}

impl GitServer {
    /// Serves the repositories in a folder.
    pub fn start(root: &Path) -> Self {
        Self::begin(root, None, None)
    }

    /// Serves them by HTTPS, with a certificate of an authority of its own ([`Self::authority`]).
    pub fn start_tls(root: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        Self::begin(root, Some(Arc::new(config)), Some(authority.pem()))
    }

    fn begin(root: &Path, tls: Option<Arc<ServerConfig>>, authority: Option<String>) -> Self {
        let shared = Arc::new(Shared {
            root: root.to_path_buf(),
            manners: Mutex::default(),
            requests: Mutex::default(),
            ended: AtomicBool::new(false),
            tls,
            hanging: Mutex::default(),
            heard: Condvar::new(),
        });
        let mut server = Self { shared, port: 0, listening: None, authority };
        server.come_back();
        server
    }

    /// The certificate of its authority, in PEM.
    pub fn authority(&self) -> &str {
        self.authority.as_deref().unwrap()
    }

    /// The address of a repository.
    pub fn url(&self, repository: &str) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}/{repository}", self.port)
    }

    /// Has it behave so from now on.
    pub fn behave(&self, manners: Manners) {
        *self.shared.manners.lock().unwrap() = manners;
    }

    /// What it was asked since this was asked last.
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.shared.requests.lock().unwrap())
    }

    /// What kinds of things it was asked since this was asked last, in order; how they are begun is left out.
    pub fn asked(&self) -> Vec<Asked> {
        let asked = self.requests().into_iter().map(|request| request.asked);
        asked.filter(|asked| *asked != Asked::Greeting).collect()
    }

    /// Waits until it was asked something since [`Self::requests`] was asked last.
    pub fn await_request(&self) {
        let requests = self.shared.requests.lock().unwrap();
        drop(self.shared.heard.wait_while(requests, |requests| requests.is_empty()).unwrap());
    }

    /// Nobody listens any more.
    pub fn go_away(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(listening) = self.listening.take() {
            listening.join().unwrap();
            // A program that another thread begins at this moment has the socket open until it is itself.
            while TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                thread::yield_now();
            }
        }
        self.shared.hanging.lock().unwrap().clear();
    }

    /// It listens again, where it did before.
    pub fn come_back(&mut self) {
        self.shared.ended.store(false, Ordering::SeqCst);
        let listener = TcpListener::bind(("127.0.0.1", self.port)).unwrap();
        self.port = listener.local_addr().unwrap().port();
        let shared = Arc::clone(&self.shared);
        self.listening = Some(thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.ended.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&shared)) else { continue };
                thread::spawn(move || drop(serve(&shared, stream)));
            }
        }));
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.go_away();
    }
}

trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

/// One connection, with one request.
fn serve(shared: &Shared, socket: TcpStream) -> io::Result<()> {
    let kept = socket.try_clone()?;
    let mut stream: Box<dyn Duplex> = match &shared.tls {
        Some(config) => {
            let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
            Box::new(StreamOwned::new(connection, socket))
        }
        None => Box::new(socket),
    };
    let Some((request, headers, body)) = requests::read(stream.as_mut())? else { return Ok(()) };
    let asked = request.asked;
    let manners = shared.manners.lock().unwrap().clone();
    shared.requests.lock().unwrap().push(request.clone());
    shared.heard.notify_all();
    if manners.hang == Some(asked) {
        shared.hanging.lock().unwrap().push(kept);
        // It is held until the server goes.
        std::mem::forget(stream);
        return Ok(());
    }
    if let Some(status) = manners.status {
        return refuse(stream.as_mut(), status, "");
    }
    if let Some((path, to)) = &manners.redirect
        && let Some(rest) = request.path.strip_prefix(path.as_str())
    {
        return refuse(stream.as_mut(), 302, &format!("Location: {to}{rest}\r\n"));
    }
    if manners.authorization.is_some() && manners.authorization != request.authorization {
        return refuse(stream.as_mut(), 401, "WWW-Authenticate: Basic realm=\"git\"\r\n");
    }
    let (status, head, answer) = backend(shared, &request, &headers, &body, manners.old)?;
    if manners.endless == Some(asked) {
        write!(stream, "HTTP/1.1 {status} -\r\n{head}Connection: close\r\n\r\n")?;
        // A line that says how long the next one is, for ever.
        let line = format!("{:04x}{}", 1004, "x".repeat(1000));
        loop {
            stream.write_all(line.as_bytes())?;
        }
    }
    let sent = if manners.half == Some(asked) { &answer[..answer.len() / 2] } else { &answer };
    write!(
        stream,
        "HTTP/1.1 {status} -\r\n{head}Content-Length: {}\r\nConnection: close\r\n\r\n",
        answer.len()
    )?;
    stream.write_all(sent)?;
    stream.flush()
}

fn refuse(stream: &mut dyn Duplex, status: u16, head: &str) -> io::Result<()> {
    write!(stream, "HTTP/1.1 {status} -\r\n{head}Content-Length: 0\r\nConnection: close\r\n\r\n")?;
    stream.flush()
}

/// Asks Git's own program. Returns status, other headers and body.
fn backend(
    shared: &Shared,
    request: &Request,
    headers: &BTreeMap<String, String>,
    body: &[u8],
    old: bool,
) -> io::Result<(u16, String, Vec<u8>)> {
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let mut command = Command::new("git");
    command.arg("http-backend").env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", &shared.root).env("GIT_CONFIG_NOSYSTEM", "1");
    command.env("GIT_PROJECT_ROOT", &shared.root).env("GIT_HTTP_EXPORT_ALL", "1");
    command.env("PATH_INFO", path).env("QUERY_STRING", query).env("REQUEST_METHOD", &request.method);
    command.env("CONTENT_TYPE", header("content-type")).env("CONTENT_LENGTH", body.len().to_string());
    command.env("REMOTE_ADDR", "127.0.0.1");
    if !old {
        command.env("GIT_PROTOCOL", header("git-protocol"));
    }
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = piped.spawn()?;
    child.stdin.take().unwrap().write_all(body)?;
    let output = child.wait_with_output()?.stdout;
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(output.len() - 4);
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: "));
    let status = status.and_then(|status| status.get(..3)?.parse().ok()).unwrap_or(200);
    let others: String =
        head.lines().filter(|line| !line.starts_with("Status:")).map(|line| format!("{line}\r\n")).collect();
    Ok((status, others, output[end + 4..].to_vec()))
}
