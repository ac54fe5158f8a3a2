//! Tests for Git LFS, with one LFS server at the repository's URL and one elsewhere.

mod hostile;
mod reading;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};
use tidegate_source::{File, RemoteAccess, Repository, SourceError};
use tidegate_testkit::git::GitServer;

use super::fixture::{RemoteFixture, credentials, read};
use super::temporary_tokens::server::{Request, Server, ServerResponse, json as answer};

/// `Authorization` header for the credentials `me:hunter2`.
const ME: &str = "Basic bWU6aHVudGVyMg==";
const BATCH: &str = "POST /repo.git/info/lfs/objects/batch";
pub const CONTENT: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: from-lfs}}";

/// Returns the ID of an object with this content.
fn oid(content: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, content.as_bytes());
    digest.as_ref().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

pub fn pointer(content: &str) -> String {
    pointer_to(&oid(content), content.len())
}

fn pointer_to(oid: &str, size: usize) -> String {
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n")
}

/// Returns the responses of a server that has objects with this content. `download` returns the URL of an
/// object.
pub fn respond_with(
    contents: &[&str],
    download: impl Fn(&str) -> Value + Send + 'static,
) -> impl FnMut(&Request) -> ServerResponse + Send + 'static {
    let contents: BTreeMap<_, _> = contents.iter().map(|one| (oid(one), (*one).to_owned())).collect();
    move |request| {
        let oid = request.line.rsplit('/').next().unwrap().split('?').next().unwrap();
        if let Some(content) = contents.get(oid) {
            return ServerResponse::Complete(200, Vec::new(), content.clone());
        }
        let Ok(asked) = serde_json::from_str::<Value>(&request.body) else { return answer(404, &json!({})) };
        let objects = asked["objects"].as_array().unwrap().iter().map(|object| {
            let oid = object["oid"].as_str().unwrap();
            match contents.contains_key(oid) {
                true => json!({"oid": oid, "size": object["size"], "actions": {"download": download(oid)}}),
                false => json!({"oid": oid, "error": {"code": 404, "message": "Object does not exist"}}),
            }
        });
        answer(200, &json!({"transfer": "basic", "objects": objects.collect::<Vec<_>>()}))
    }
}

struct LfsFixture {
    bench: RemoteFixture,
    /// LFS server at the repository's URL.
    objects: Server,
    /// LFS server at a different URL.
    elsewhere: Server,
    front_address: SocketAddr,
}

impl LfsFixture {
    fn new() -> Option<Self> {
        Self::with(|_| {})
    }

    fn with(set: impl FnOnce(&mut RemoteAccess)) -> Option<Self> {
        let bench = RemoteFixture::with(GitServer::start, set)?;
        let [objects, elsewhere] = [0, 1].map(|_| Server::start(|_| answer(404, &json!({}))));
        let git = bench.server.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
        let front = combine_servers(git, objects.url().trim_start_matches("http://").to_owned());
        let stage = Self { bench, objects, elsewhere, front_address: front };
        stage.set_credentials(&[("enableLfs", "true")]);
        Some(stage)
    }

    fn url(&self) -> String {
        format!("http://{}/repo", self.front_address)
    }

    fn set_credentials(&self, more: &[(&str, &str)]) {
        let url = self.url();
        let me = [("url", url.as_str()), ("username", "me"), ("password", "hunter2")];
        self.bench.repositories.set_credentials(credentials("repository", &[&me, more].concat()));
    }

    fn open(&self) -> Arc<Repository> {
        self.bench.repositories.open(&self.url(), Path::new("/")).unwrap()
    }

    fn read(&self) -> Result<Vec<File>, SourceError> {
        self.open().observe()?;
        read(&self.open(), &self.open().resolve("main")?)
    }

    /// Reads the only file and returns its content.
    fn content(&self) -> String {
        let files = self.read().unwrap();
        let [file] = files.as_slice() else { panic!("{files:?}") };
        String::from_utf8(file.content.clone()).unwrap()
    }

    fn error(&self) -> String {
        let error = self.read().unwrap_err().to_string();
        assert!(!error.contains("hunter2") && !error.contains("bWU6"), "{error}");
        error
    }

    /// Returns URLs for downloads from the server of the repository.
    fn own_downloads(&self) -> impl Fn(&str) -> Value + Send + 'static {
        let front = self.front_address;
        move |oid| json!({"href": format!("http://{front}/objects/{oid}")})
    }

    /// Returns URLs for downloads from the other server.
    fn other_downloads(&self) -> impl Fn(&str) -> Value + Send + 'static {
        let url = self.elsewhere.url();
        move |oid| json!({"href": format!("{url}/objects/{oid}?token=hunter2")})
    }

    /// Returns the file names of the objects stored next to the mirrors.
    fn cached_objects(&self) -> Vec<String> {
        let folders = self.bench.mirrors().into_iter().filter(|path| path.extension().is_some());
        let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// Returns the requests that a server received, with their `Authorization` headers.
pub fn authorized_requests(server: &Server) -> Vec<(String, Option<String>)> {
    let requests = server.requests().into_iter();
    requests.map(|request| (request.line, request.headers.get("authorization").cloned())).collect()
}

/// Combines two servers at one address. Forwards each connection to one of them.
fn combine_servers(git: String, objects: String) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (git, objects) = (git.clone(), objects.clone());
            thread::spawn(move || forward_connection(stream, &git, &objects));
        }
    });
    address
}

fn forward_connection(mut stream: TcpStream, git: &str, objects: &str) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n") {
        if stream.read_exact(&mut byte).is_err() {
            return;
        }
        head.extend(byte);
    }
    let line = String::from_utf8_lossy(&head).into_owned();
    let is_of_objects = line.contains("/info/lfs/") || line.contains(" /objects/");
    let mut server = TcpStream::connect(if is_of_objects { objects } else { git }).unwrap();
    server.write_all(&head).unwrap();
    let (mut from_client, mut to_server) = (stream.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || drop(std::io::copy(&mut from_client, &mut to_server)));
    drop(std::io::copy(&mut server, &mut stream));
    drop(stream.shutdown(std::net::Shutdown::Both));
}
