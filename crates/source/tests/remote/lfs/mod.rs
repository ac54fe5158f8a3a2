//! Files whose content Git LFS keeps: a server of objects that answers in the place of the repository's own, and another one.

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
use tidegate_source::{File, Reach, Repository, SourceError};
use tidegate_testkit::git::GitServer;

use super::bench::{Bench, credentials, read};
use super::issued::server::{Answer, Request, Server, json as answer};

/// `me:hunter2`.
const ME: &str = "Basic bWU6aHVudGVyMg==";
const BATCH: &str = "POST /repo.git/info/lfs/objects/batch";
pub const CONTENT: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: from-lfs}}";

/// What a content is known by.
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

/// Answers what a server with these contents would. `download` says where an object is.
pub fn has(
    contents: &[&str],
    download: impl Fn(&str) -> Value + Send + 'static,
) -> impl FnMut(&Request) -> Answer + Send + 'static {
    let contents: BTreeMap<_, _> = contents.iter().map(|one| (oid(one), (*one).to_owned())).collect();
    move |request| {
        let oid = request.asked.rsplit('/').next().unwrap().split('?').next().unwrap();
        if let Some(content) = contents.get(oid) {
            return Answer::Whole(200, Vec::new(), content.clone());
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

struct Stage {
    bench: Bench,
    /// The objects of the repository, at its own address.
    objects: Server,
    /// A server of another address.
    elsewhere: Server,
    front: SocketAddr,
}

impl Stage {
    fn new() -> Option<Self> {
        Self::with(|_| {})
    }

    fn with(set: impl FnOnce(&mut Reach)) -> Option<Self> {
        let bench = Bench::with(GitServer::start, set)?;
        let [objects, elsewhere] = [0, 1].map(|_| Server::start(|_| answer(404, &json!({}))));
        let git = bench.server.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
        let front = front(git, objects.url().trim_start_matches("http://").to_owned());
        let stage = Self { bench, objects, elsewhere, front };
        stage.give(&[("enableLfs", "true")]);
        Some(stage)
    }

    fn url(&self) -> String {
        format!("http://{}/repo", self.front)
    }

    fn give(&self, more: &[(&str, &str)]) {
        let url = self.url();
        let me = [("url", url.as_str()), ("username", "me"), ("password", "hunter2")];
        self.bench.repositories.set_credentials(credentials("repository", &[&me, more].concat()));
    }

    fn open(&self) -> Arc<Repository> {
        self.bench.repositories.open(&self.url(), Path::new("/")).unwrap()
    }

    fn read(&self) -> Result<Vec<File>, SourceError> {
        self.open().look()?;
        read(&self.open(), &self.open().resolve("main")?)
    }

    /// The content of the only file there is.
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

    /// Where objects are at the repository's own address.
    fn own(&self) -> impl Fn(&str) -> Value + Send + 'static {
        let front = self.front;
        move |oid| json!({"href": format!("http://{front}/objects/{oid}")})
    }

    /// Where they are elsewhere.
    fn other(&self) -> impl Fn(&str) -> Value + Send + 'static {
        let url = self.elsewhere.url();
        move |oid| json!({"href": format!("{url}/objects/{oid}?token=hunter2")})
    }

    /// The names of what is kept beside the mirrors.
    fn kept(&self) -> Vec<String> {
        let folders = self.bench.mirrors().into_iter().filter(|path| path.extension().is_some());
        let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// What was asked, and with which `Authorization`.
pub fn asked(server: &Server) -> Vec<(String, Option<String>)> {
    let requests = server.requests().into_iter();
    requests.map(|request| (request.asked, request.headers.get("authorization").cloned())).collect()
}

/// One address before two servers: each connection is of one of them.
fn front(git: String, objects: String) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (git, objects) = (git.clone(), objects.clone());
            thread::spawn(move || lead(stream, &git, &objects));
        }
    });
    address
}

fn lead(mut stream: TcpStream, git: &str, objects: &str) {
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
