//! Signing in with a provider, over real connections.

mod door;
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

use crate::client::{Served, serve_as};
use crate::provider::{Manners, Provider, SECRET};

const BEGIN: &str = "/api/v1/session/oidc";
const WITH_SECRET: &str = "name: The Provider\nclientSecretFile: client-secret\n";

/// What is changed of a good provider.
type Change = fn(&mut Manners);

/// Tests sign in more often than strangers may.
fn limits() -> Limits {
    let strangers = Rate { per_second: 1000.0, burst: 100_000.0 };
    Limits { strangers, provider_keys_again: Duration::ZERO, ..Limits::default() }
}

/// A file in a folder, closed to others.
fn write(dir: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

/// A service that has people sign in there.
async fn serve(provider: &Provider, more: &str, limits: Limits) -> Served {
    serve_with(&provider.settings(more), limits).await
}

async fn serve_with(text: &str, limits: Limits) -> Served {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "client-secret", &format!("{SECRET}\n"));
    let mut settings = Settings::new("127.0.0.1:0".parse().unwrap());
    settings.oidc = Some(write(&dir, "oidc.yaml", text));
    settings.limits = limits;
    serve_as(&settings, dir).await.unwrap()
}

/// An answer as it came.
#[derive(Debug)]
struct Told {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Told {
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

/// Asks an address of this machine, and reads until the other side ends.
async fn raw(address: &str, target: &str, headers: &str) -> Told {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    Told::parse(&answer)
}

/// Somebody with a browser that keeps cookies.
struct Visitor<'s> {
    served: &'s Served,
    cookies: BTreeMap<String, String>,
}

impl<'s> Visitor<'s> {
    fn new(served: &'s Served) -> Self {
        Self { served, cookies: BTreeMap::new() }
    }

    fn cookie(&self) -> String {
        let pairs: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("cookie: {}", pairs.join("; "))
    }

    async fn get(&mut self, target: &str, more: &str) -> Told {
        let address = self.served.address.to_string();
        let told = raw(&address, target, &format!("{}\r\n{more}", self.cookie())).await;
        for (_, value) in told.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let (name, rest) = value.split_once('=').unwrap();
            match rest.contains("; Max-Age=0;") {
                true => self.cookies.remove(name),
                false => self.cookies.insert(name.to_owned(), rest.split(';').next().unwrap().to_owned()),
            };
        }
        told
    }

    /// Goes to the provider, and returns what address that sends them back to.
    async fn leave(&mut self, next: &str) -> String {
        let begun = self.get(&format!("{BEGIN}{next}"), "sec-fetch-site: same-origin\r\n").await;
        assert_eq!(begun.status, 303, "{begun:?}");
        let (address, target) = split(begun.location());
        let sent = raw(&address, &target, "").await;
        assert_eq!(sent.status, 302, "{sent:?}");
        let (own, back) = split(sent.location());
        assert_eq!(own, self.served.address.to_string());
        back
    }

    async fn sign_in(&mut self, next: &str) -> Told {
        let back = self.leave(next).await;
        self.get(&back, "sec-fetch-site: cross-site\r\n").await
    }

    async fn who(&mut self) -> Value {
        serde_json::from_str(&self.get("/api/v1/session", "").await.body).unwrap()
    }
}

fn split(url: &str) -> (String, String) {
    let (authority, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    (authority.to_owned(), format!("/{path}"))
}
