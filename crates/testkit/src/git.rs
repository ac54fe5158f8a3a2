//! Git server on the loopback interface: Git's own smart HTTP program behind a server that records requests
//! and can misbehave.

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

pub use requests::{Request, RequestKind};

/// Behavior of a server. The default is well-behaved.
#[derive(Clone, Debug, Default)]
pub struct ServerBehavior {
    /// The only accepted `Authorization` header, or `None` for no authentication.
    pub authorization: Option<String>,
    /// Path prefix and URL. Requests with the prefix are redirected to the same path below the URL.
    pub redirect: Option<(String, String)>,
    /// Requests without a response. Their connections stay open.
    pub unanswered: Option<RequestKind>,
    /// Requests with an endless response.
    pub endless: Option<RequestKind>,
    /// Requests with only half a response.
    pub truncated: Option<RequestKind>,
    /// Status code of all responses.
    pub status: Option<u16>,
    /// True if the server supports only the first version of Git's protocol.
    pub is_legacy_protocol: bool,
}

struct ServerState {
    root: PathBuf,
    behavior: Mutex<ServerBehavior>,
    requests: Mutex<Vec<Request>>,
    has_ended: AtomicBool,
    tls: Option<Arc<ServerConfig>>,
    /// Connections that remain open without a response.
    open_connections: Mutex<Vec<TcpStream>>,
    request_received: Condvar,
}

/// Git server. Stops when dropped.
pub struct GitServer {
    state: Arc<ServerState>,
    port: u16,
    listener_thread: Option<JoinHandle<()>>,
    authority: Option<String>,
}

/// Returns true if a Git server can be started. Requires a `git` program with `http-backend`.
pub fn is_available() -> bool {
    let found = Command::new("git").arg("--exec-path").output();
    let there = found.is_ok_and(|found| {
        let folder = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        found.status.success() && Path::new(&folder).join("git-http-backend").exists()
    });
    if !there {
        eprintln!("skipped: a git program with http-backend is missing");
    }
    there
}

impl GitServer {
    /// Starts a server for the repositories in a folder.
    pub fn start(root: &Path) -> Self {
        Self::start_with(root, None, None)
    }

    /// Starts an HTTPS server for the repositories in a folder, with a certificate from its own authority
    /// ([`Self::authority`]).
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
        Self::start_with(root, Some(Arc::new(config)), Some(authority.pem()))
    }

    fn start_with(root: &Path, tls: Option<Arc<ServerConfig>>, authority: Option<String>) -> Self {
        let state = Arc::new(ServerState {
            root: root.to_path_buf(),
            behavior: Mutex::default(),
            requests: Mutex::default(),
            has_ended: AtomicBool::new(false),
            tls,
            open_connections: Mutex::default(),
            request_received: Condvar::new(),
        });
        let mut server = Self { state, port: 0, listener_thread: None, authority };
        server.resume_listening();
        server
    }

    /// Returns the certificate of the server's authority in PEM format.
    pub fn authority(&self) -> &str {
        self.authority.as_deref().unwrap()
    }

    /// Returns the URL of a repository.
    pub fn url(&self, repository: &str) -> String {
        let scheme = if self.state.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}/{repository}", self.port)
    }

    /// Changes the server's behavior.
    pub fn set_behavior(&self, manners: ServerBehavior) {
        *self.state.behavior.lock().unwrap() = manners;
    }

    /// Returns the requests since the last call.
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.requests.lock().unwrap())
    }

    /// Returns the kinds of requests since the last call, in order, without the initial capability requests.
    pub fn request_kinds(&self) -> Vec<RequestKind> {
        let kinds = self.requests().into_iter().map(|request| request.kind);
        kinds.filter(|kind| *kind != RequestKind::Capabilities).collect()
    }

    /// Waits for a request after the last call of [`Self::requests`].
    pub fn wait_for_request(&self) {
        let requests = self.state.requests.lock().unwrap();
        drop(self.state.request_received.wait_while(requests, |requests| requests.is_empty()).unwrap());
    }

    /// Stops listening.
    pub fn stop_listening(&mut self) {
        self.state.has_ended.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(listening) = self.listener_thread.take() {
            listening.join().unwrap();
            // A program that another thread is starting keeps the socket open until its `exec`.
            while TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                thread::yield_now();
            }
        }
        self.state.open_connections.lock().unwrap().clear();
    }

    /// Listens again on the same port.
    pub fn resume_listening(&mut self) {
        self.state.has_ended.store(false, Ordering::SeqCst);
        let listener = TcpListener::bind(("127.0.0.1", self.port)).unwrap();
        self.port = listener.local_addr().unwrap().port();
        let shared = Arc::clone(&self.state);
        self.listener_thread = Some(thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&shared)) else { continue };
                thread::spawn(move || drop(serve_connection(&shared, stream)));
            }
        }));
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.stop_listening();
    }
}

trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

/// Serves one connection with one request.
fn serve_connection(shared: &ServerState, socket: TcpStream) -> io::Result<()> {
    let kept = socket.try_clone()?;
    let mut stream: Box<dyn Duplex> = match &shared.tls {
        Some(config) => {
            let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
            Box::new(StreamOwned::new(connection, socket))
        }
        None => Box::new(socket),
    };
    let Some((request, headers, body)) = requests::read_request(stream.as_mut())? else { return Ok(()) };
    let kind = request.kind;
    let manners = shared.behavior.lock().unwrap().clone();
    shared.requests.lock().unwrap().push(request.clone());
    shared.request_received.notify_all();
    if manners.unanswered == Some(kind) {
        shared.open_connections.lock().unwrap().push(kept);
        // Keep the connection open until the test process exits.
        std::mem::forget(stream);
        return Ok(());
    }
    if let Some(status) = manners.status {
        return write_refusal(stream.as_mut(), status, "");
    }
    if let Some((path, to)) = &manners.redirect
        && let Some(rest) = request.path.strip_prefix(path.as_str())
    {
        return write_refusal(stream.as_mut(), 302, &format!("Location: {to}{rest}\r\n"));
    }
    if manners.authorization.is_some() && manners.authorization != request.authorization {
        return write_refusal(stream.as_mut(), 401, "WWW-Authenticate: Basic realm=\"git\"\r\n");
    }
    let (status, head, answer) = run_backend(shared, &request, &headers, &body, manners.is_legacy_protocol)?;
    if manners.endless == Some(kind) {
        write!(stream, "HTTP/1.1 {status} -\r\n{head}Connection: close\r\n\r\n")?;
        // An endless sequence of packet lines of valid length.
        let line = format!("{:04x}{}", 1004, "x".repeat(1000));
        loop {
            stream.write_all(line.as_bytes())?;
        }
    }
    let sent = if manners.truncated == Some(kind) { &answer[..answer.len() / 2] } else { &answer };
    write!(
        stream,
        "HTTP/1.1 {status} -\r\n{head}Content-Length: {}\r\nConnection: close\r\n\r\n",
        answer.len()
    )?;
    stream.write_all(sent)?;
    stream.flush()
}

fn write_refusal(stream: &mut dyn Duplex, status: u16, head: &str) -> io::Result<()> {
    write!(stream, "HTTP/1.1 {status} -\r\n{head}Content-Length: 0\r\nConnection: close\r\n\r\n")?;
    stream.flush()
}

/// Runs Git's own HTTP program. Returns the status, the remaining headers and the body.
fn run_backend(
    shared: &ServerState,
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
