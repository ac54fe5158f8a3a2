//! Token server that acts like GitHub's and Google's, and can be told to misbehave. It verifies signatures
//! with a different library than the client signs with.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use rsa::RsaPrivateKey;
use rsa::pkcs1::{EncodeRsaPrivateKey as _, EncodeRsaPublicKey as _};
use rsa::pkcs8::EncodePrivateKey as _;
use rsa::rand_core::OsRng;
use serde_json::{Value, json};
use tidegate_model::Timestamp;
use tidegate_source::Clock;

/// Prefix of every token. No error may contain it.
pub const TOKEN: &str = "hunter2";

/// Key of an App or a service account: in GitHub's format, in Google's format, and for verification.
pub struct Key {
    pub pkcs1: String,
    pub pkcs8: String,
    public: Vec<u8>,
}

/// Returns the key that all tests share. Creating a key takes some time.
pub fn key(number: usize) -> &'static Key {
    static KEYS: OnceLock<[Key; 2]> = OnceLock::new();
    &KEYS.get_or_init(|| {
        [0, 1].map(|_| {
            let key = RsaPrivateKey::new(&mut OsRng, 2048).unwrap();
            Key {
                pkcs1: pem("RSA PRIVATE KEY", key.to_pkcs1_der().unwrap().as_bytes()),
                pkcs8: pem("PRIVATE KEY", key.to_pkcs8_der().unwrap().as_bytes()),
                public: key.to_public_key().to_pkcs1_der().unwrap().as_bytes().to_vec(),
            }
        })
    })[number]
}

pub fn pem(what: &str, der: &[u8]) -> String {
    let lines: Vec<String> = BASE64_STANDARD
        .encode(der)
        .as_bytes()
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", lines.join("\n"))
}

/// Returns the header and the claims of a signed token, or `None` if another key signed it.
pub fn verify_jwt(jwt: &str, key: &Key) -> Option<(Value, Value)> {
    let (said, signature) = jwt.rsplit_once('.')?;
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &key.public);
    public.verify(said.as_bytes(), &signature).ok()?;
    let part = |text: &str| serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(text).ok()?).ok();
    let (header, claims) = said.split_once('.')?;
    Some((part(header)?, part(claims)?))
}

/// A clock that the test sets, in seconds since 1970.
#[derive(Clone)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    pub fn new() -> Self {
        Self(Arc::new(AtomicI64::new(1_795_348_800)))
    }

    pub fn now(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    pub fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    pub fn clock(&self) -> Clock {
        let told = self.clone();
        Clock::new(move || told.now().try_into().unwrap())
    }
}

#[derive(Clone, Debug)]
pub struct Request {
    /// Method and target, such as `GET /path?query`.
    pub line: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Request {
    /// Returns the bearer token in the request.
    pub fn bearer(&self) -> &str {
        self.headers.get("authorization").and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default()
    }
}

/// A response of the server.
#[derive(Clone, Debug)]
pub enum ServerResponse {
    Complete(u16, Vec<String>, String),
    /// Data without an end.
    Endless,
    /// No response at all.
    None,
    /// Part of a response.
    Incomplete,
}

pub fn json(status: u16, body: &Value) -> ServerResponse {
    ServerResponse::Complete(status, Vec::new(), body.to_string())
}

type ResponseFunction = Box<dyn FnMut(&Request) -> ServerResponse + Send>;

pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    answers: Arc<Mutex<ResponseFunction>>,
}

impl Server {
    pub fn start(answers: impl FnMut(&Request) -> ServerResponse + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let answers: ResponseFunction = Box::new(answers);
        let (requests, answers) = (Arc::default(), Arc::new(Mutex::new(answers)));
        let server = Self { address: listener.local_addr().unwrap(), requests, answers };
        let (requests, answers) = (Arc::clone(&server.requests), Arc::clone(&server.answers));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (requests, answers) = (Arc::clone(&requests), Arc::clone(&answers));
                thread::spawn(move || serve(stream, &requests, &answers));
            }
        });
        server
    }

    /// Creates a server that issues tokens to the App with this key. The tokens are named `hunter2-1`,
    /// `hunter2-2` and so on, and are valid for an hour.
    pub fn github(key: &'static Key, told: &TestClock) -> Self {
        let (told, mut given) = (told.clone(), 0);
        Self::start(move |request| {
            if verify_jwt(request.bearer(), key).is_none() {
                return json(401, &json!({"message": "A JSON web token could not be decoded"}));
            }
            match request.line.as_str() {
                "POST /app/installations/7/access_tokens" => {
                    given += 1;
                    let ends = Timestamp::from_millis((told.now() + 3600) * 1000).to_string();
                    json(201, &json!({"token": format!("{TOKEN}-{given}"), "expires_at": ends}))
                }
                "GET /users/acme/installation" => json(200, &json!({"id": 7, "account": {"login": "acme"}})),
                _ => json(404, &json!({"message": "Not Found"})),
            }
        })
    }

    /// Sets the function that returns the responses.
    pub fn set_responses(&self, answers: impl FnMut(&Request) -> ServerResponse + Send + 'static) {
        *self.answers.lock().unwrap() = Box::new(answers);
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests since the previous call.
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn serve(mut stream: TcpStream, requests: &Mutex<Vec<Request>>, answers: &Mutex<ResponseFunction>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    // The client may reuse a connection.
    while let Some(request) = read(&mut reader) {
        requests.lock().unwrap().push(request.clone());
        let answer = (answers.lock().unwrap())(&request);
        let (status, headers, body) = match answer {
            ServerResponse::Complete(status, headers, body) => (status, headers, body),
            ServerResponse::Endless => {
                let _ = stream.write_all(b"HTTP/1.1 200 -\r\nconnection: close\r\n\r\n{\"token\": \"");
                while stream.write_all(&[b'x'; 1024]).is_ok() {}
                return;
            }
            ServerResponse::None => return wait_for_disconnect(reader),
            ServerResponse::Incomplete => {
                let _ = stream.write_all(b"HTTP/1.1 200 -\r\ncontent-length: 100\r\n\r\n{\"token\": \"");
                return wait_for_disconnect(reader);
            }
        };
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let length = body.len();
        let head = format!("HTTP/1.1 {status} -\r\n{headers}content-length: {length}\r\n\r\n");
        if stream.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

/// Keep the connection open until the client closes it.
fn wait_for_disconnect(mut reader: BufReader<TcpStream>) {
    let _ = reader.read(&mut [0]);
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let line = |reader: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        Some(line.trim_end().to_owned())
    };
    let asked = line(reader)?.rsplit_once(' ')?.0.to_owned();
    let mut headers = BTreeMap::new();
    while let Some((name, value)) = line(reader)?.split_once(':') {
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { line: asked, headers, body: String::from_utf8(body).ok()? })
}
