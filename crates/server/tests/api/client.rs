//! A server, and what is said to it byte by byte.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_server::{Limits, Server, ServerError, Settings, Site};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// No answer takes this long unless something hangs.
const PATIENCE: Duration = Duration::from_secs(600);

pub const OPERATOR: &str = "operators-may-have-things-done";
pub const READER: &str = "readers-may-look-and-no-more";

/// A server, and the folder of its files.
pub struct Served {
    pub address: SocketAddr,
    pub server: Server,
    _dir: TempDir,
}

/// Runs a test with real time and real connections.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.unwrap() });
    runtime.shutdown_background();
}

/// Settings with tokens, in a folder.
pub fn settings(limits: Limits) -> (Settings, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let tokens = dir.path().join("tokens");
    fs::write(&tokens, format!("ann operator {OPERATOR}\nben read-only {READER}\n")).unwrap();
    fs::set_permissions(&tokens, Permissions::from_mode(0o600)).unwrap();
    let mut settings = Settings::new("127.0.0.1:0".parse().unwrap());
    (settings.tokens, settings.limits) = (Some(tokens), limits);
    (settings, dir)
}

/// A server with tokens.
pub async fn serve(limits: Limits) -> Served {
    let (settings, dir) = settings(limits);
    serve_as(&settings, dir).await.unwrap()
}

pub async fn serve_as(settings: &Settings, dir: TempDir) -> Result<Served, ServerError> {
    let site = Arc::new(Site::default());
    let server = Server::listen(settings, &site).await?;
    Ok(Served { address: server.address(), server, _dir: dir })
}

/// What was answered.
#[derive(Debug)]
pub struct Answered {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answered {
    /// The first answer of what came over a connection.
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

    /// The code of a problem; what is to be done about it is said as well.
    #[track_caller]
    pub fn code(&self) -> String {
        let problem = self.json();
        assert!(
            !problem["message"].as_str().unwrap().is_empty() && !problem["next"].as_str().unwrap().is_empty()
        );
        problem["code"].as_str().unwrap().to_owned()
    }
}

impl Served {
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes, and reads until the other side ends.
    pub async fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().await;
        // It may be closed to us before all is written.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answer
    }

    /// A request in a connection of its own.
    pub async fn ask(&self, method: &str, target: &str, headers: &[&str], body: &str) -> Answered {
        let mut head =
            format!("{method} {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        headers.iter().for_each(|line| head.push_str(&format!("{line}\r\n")));
        if !body.is_empty() || method == "POST" {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        Answered::parse(&self.raw(format!("{head}\r\n{body}").as_bytes()).await)
    }

    pub async fn get(&self, target: &str) -> Answered {
        self.ask("GET", target, &[&format!("authorization: Bearer {READER}")], "").await
    }
}
