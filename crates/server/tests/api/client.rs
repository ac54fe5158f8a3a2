//! A server under test, and a client that sends raw bytes.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_server::{Limits, Server, ServerError, ServerState, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Timeout for a response. Only a hanging server takes this long.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(600);

pub const OPERATOR: &str = "operators-may-have-things-done";
pub const READER: &str = "readers-may-look-and-no-more";

/// A server, and the folder with its files.
pub struct TestServer {
    pub address: SocketAddr,
    pub server: Server,
    _dir: TempDir,
}

/// Runs a test with real time and real connections.
pub fn run_test(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(RESPONSE_TIMEOUT, test).await.unwrap() });
    runtime.shutdown_background();
}

/// Returns settings with tokens, and the folder with their files.
pub fn settings(limits: Limits) -> (Settings, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let tokens = dir.path().join("tokens");
    fs::write(&tokens, format!("ann operator {OPERATOR}\nben read-only {READER}\n")).unwrap();
    fs::set_permissions(&tokens, Permissions::from_mode(0o600)).unwrap();
    let mut settings = Settings::new("127.0.0.1:0".parse().unwrap());
    (settings.tokens, settings.limits) = (Some(tokens), limits);
    (settings, dir)
}

/// Starts a server with tokens.
pub async fn serve(limits: Limits) -> TestServer {
    let (settings, dir) = settings(limits);
    serve_with_settings(&settings, dir).await.unwrap()
}

pub async fn serve_with_settings(settings: &Settings, dir: TempDir) -> Result<TestServer, ServerError> {
    let state = Arc::new(ServerState::default());
    let server = Server::listen(settings, &state).await?;
    Ok(TestServer::new(server, dir))
}

#[derive(Debug)]
pub struct TestResponse {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl TestResponse {
    /// Parses the first response in the received bytes.
    #[track_caller]
    pub fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer in {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the code of a problem, and checks that the problem includes advice.
    #[track_caller]
    pub fn problem_code(&self) -> String {
        let problem = self.json();
        assert!(
            !problem["message"].as_str().unwrap().is_empty() && !problem["hint"].as_str().unwrap().is_empty()
        );
        problem["code"].as_str().unwrap().to_owned()
    }
}

impl TestServer {
    pub fn new(server: Server, dir: TempDir) -> Self {
        Self { address: server.address(), server, _dir: dir }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes on a new connection, and reads until the server closes it.
    pub async fn send_raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().await;
        // The server may close the connection before everything is written.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answer
    }

    /// Sends a request on a new connection.
    pub async fn request(&self, method: &str, target: &str, headers: &[&str], body: &str) -> TestResponse {
        let mut head =
            format!("{method} {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        headers.iter().for_each(|line| head.push_str(&format!("{line}\r\n")));
        if !body.is_empty() || method == "POST" {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        TestResponse::parse(&self.send_raw(format!("{head}\r\n{body}").as_bytes()).await)
    }

    pub async fn get(&self, target: &str) -> TestResponse {
        self.request("GET", target, &[&format!("authorization: Bearer {READER}")], "").await
    }
}
