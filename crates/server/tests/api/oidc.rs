//! Tests of signing in with a provider, over real connections.

mod access;
mod provider;
mod tokens;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_server::{Limits, Rate, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{TestServer, serve_with_settings};
use crate::provider::{Provider, ProviderBehavior, SECRET};

const BEGIN: &str = "/api/v1/session/oidc";
const WITH_SECRET: &str = "name: The Provider\nclientSecretFile: client-secret\n";

/// Change to the behavior of a well-behaved provider.
type ProviderChange = fn(&mut ProviderBehavior);

/// Returns high limits, because tests sign in more often than unauthenticated callers may.
fn limits() -> Limits {
    let unauthenticated_rate = Rate { per_second: 1000.0, burst: 100_000.0 };
    Limits { unauthenticated_rate, provider_keys_interval: Duration::ZERO, ..Limits::default() }
}

/// Writes a file in a folder. Other users cannot read the file.
fn write_file(dir: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

/// Starts a service that accepts sign-ins from this provider.
async fn serve(provider: &Provider, more: &str, limits: Limits) -> TestServer {
    serve_with_provider_settings(&provider.settings(more), limits).await
}

async fn serve_with_provider_settings(text: &str, limits: Limits) -> TestServer {
    let dir = tempfile::tempdir().unwrap();
    write_file(&dir, "client-secret", &format!("{SECRET}\n"));
    let mut settings = Settings::new("127.0.0.1:0".parse().unwrap());
    settings.oidc = Some(write_file(&dir, "oidc.yaml", text));
    settings.limits = limits;
    serve_with_settings(&settings, dir).await.unwrap()
}

/// A raw response.
#[derive(Debug)]
struct RawResponse {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl RawResponse {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn location(&self) -> &str {
        self.header("location").unwrap_or_else(|| panic!("{self:?}"))
    }

    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let headers = lines.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        Self { status, headers, body: body.to_owned() }
    }
}

/// Sends a request to an address of this machine, and reads until the server closes the connection.
async fn send_raw(address: &str, target: &str, headers: &str) -> RawResponse {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    RawResponse::parse(&answer)
}

/// A browser with cookies.
struct Browser<'s> {
    server: &'s TestServer,
    cookies: BTreeMap<String, String>,
}

impl<'s> Browser<'s> {
    fn new(server: &'s TestServer) -> Self {
        Self { server, cookies: BTreeMap::new() }
    }

    fn cookie_header(&self) -> String {
        let pairs: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("cookie: {}", pairs.join("; "))
    }

    async fn get(&mut self, target: &str, more: &str) -> RawResponse {
        let address = self.server.address.to_string();
        let response = send_raw(&address, target, &format!("{}\r\n{more}", self.cookie_header())).await;
        for (_, value) in response.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let (name, rest) = value.split_once('=').unwrap();
            match rest.contains("; Max-Age=0;") {
                true => self.cookies.remove(name),
                false => self.cookies.insert(name.to_owned(), rest.split(';').next().unwrap().to_owned()),
            };
        }
        response
    }

    /// Starts a login with the provider, and returns the redirect URL.
    async fn start_login(&mut self, next: &str) -> String {
        let started = self.get(&format!("{BEGIN}{next}"), "sec-fetch-site: same-origin\r\n").await;
        assert_eq!(started.status, 303, "{started:?}");
        let (address, target) = split_url(started.location());
        let sent = send_raw(&address, &target, "").await;
        assert_eq!(sent.status, 302, "{sent:?}");
        let (own, back) = split_url(sent.location());
        assert_eq!(own, self.server.address.to_string());
        back
    }

    async fn sign_in(&mut self, next: &str) -> RawResponse {
        let back = self.start_login(next).await;
        self.get(&back, "sec-fetch-site: cross-site\r\n").await
    }

    async fn session(&mut self) -> Value {
        serde_json::from_str(&self.get("/api/v1/session", "").await.body).unwrap()
    }
}

fn split_url(url: &str) -> (String, String) {
    let (authority, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    (authority.to_owned(), format!("/{path}"))
}
