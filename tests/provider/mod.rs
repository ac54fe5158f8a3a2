//! A small OpenID provider on this machine, which signs with keys of its own and can be told to misbehave.
//!
//! It is written from the specifications and shares nothing with the service: it signs with another library than the one that
//! the service checks with, and itself checks the verifier, the redirect URI, the client and that a code counts once.

mod keys;

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

pub use keys::Signs;

pub const CLIENT: &str = "tidegate";
pub const SECRET: &str = "only the client and the provider know this: 100%";
pub const CONFIGURATION: &str = "/.well-known/openid-configuration";

/// What an endpoint does instead of what it should.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "not all tests have it misbehave")]
pub enum Instead {
    /// Answers with this.
    Status(u16, &'static str),
    /// Sends on to another address, where everything is as it should be.
    Elsewhere,
    /// Answers without end.
    Endless,
    /// Says nothing.
    Silence,
}

/// How a provider behaves.
#[derive(Clone)]
pub struct Manners {
    /// What it says of who signs in.
    pub person: Value,
    /// What it says of them where it is asked by the access token; nothing where that cannot be done.
    pub userinfo: Option<Value>,
    /// The secret of the client, if it has one.
    pub secret: Option<&'static str>,
    /// How a client proves who it is.
    pub ways: &'static [&'static str],
    pub signs: Signs,
    /// The key that a token names.
    pub kid: Option<&'static str>,
    /// The keys that are in the set.
    pub keys: &'static [&'static str],
    /// What becomes of a token before it is signed.
    pub twist: fn(&mut Map<String, Value>),
    /// What becomes of what it says of itself.
    pub configuration: fn(&mut Value),
    pub instead: BTreeMap<&'static str, Instead>,
    /// It shows a page with a button before it lets somebody in.
    pub shows_page: bool,
    /// Why it lets nobody in.
    pub refuses: Option<&'static str>,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            person: json!({"preferred_username": "ann", "groups": ["platform"]}),
            userinfo: None,
            secret: Some(SECRET),
            ways: &["client_secret_basic"],
            signs: Signs::Rsa,
            kid: Some("rsa"),
            keys: &["rsa", "ec"],
            twist: |_| (),
            configuration: |_| (),
            instead: BTreeMap::new(),
            shows_page: false,
            refuses: None,
        }
    }
}

/// What a code stands for.
struct Grant {
    challenge: String,
    nonce: String,
    redirect_uri: String,
}

struct Shared {
    issuer: String,
    manners: Mutex<Manners>,
    codes: Mutex<HashMap<String, Grant>>,
    /// The paths that were asked for.
    asked: Mutex<Vec<String>>,
}

/// A provider, which ends with the test.
pub struct Provider {
    pub issuer: String,
    /// Where it listens.
    #[allow(dead_code, reason = "not all tests ask it themselves")]
    pub address: String,
    shared: Arc<Shared>,
}

/// A request.
struct Asked {
    path: String,
    query: HashMap<String, String>,
    headers: HashMap<String, String>,
    form: HashMap<String, String>,
}

impl Provider {
    /// At an address of this machine.
    #[allow(dead_code, reason = "browsers are sent to another site")]
    pub fn new(manners: Manners) -> Self {
        Self::at("127.0.0.1", manners)
    }

    /// The same under a name of this machine.
    pub fn at(name: &str, manners: Manners) -> Self {
        Self::start(|port| format!("http://{name}:{port}"), manners)
    }

    /// Behind something that speaks TLS for it.
    #[allow(dead_code, reason = "not all tests have TLS")]
    pub fn behind(issuer: String, manners: Manners) -> Self {
        Self::start(|_| issuer, manners)
    }

    fn start(issuer: impl FnOnce(u16) -> String, manners: Manners) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let issuer = issuer(address.port());
        let shared = Arc::new(Shared {
            issuer: issuer.clone(),
            manners: Mutex::new(manners),
            codes: Mutex::default(),
            asked: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let serving = Arc::clone(&serving);
                thread::spawn(move || serving.attend(stream));
            }
        });
        Self { issuer, address: address.to_string(), shared }
    }

    /// Changes how it behaves from now on.
    pub fn change(&self, change: impl FnOnce(&mut Manners)) {
        change(&mut self.shared.manners.lock().unwrap());
    }

    /// How often a path was asked for.
    #[allow(dead_code, reason = "not all tests ask that")]
    pub fn count(&self, path: &str) -> usize {
        self.shared.asked.lock().unwrap().iter().filter(|asked| *asked == path).count()
    }

    /// Settings of a service that has people sign in here, with more lines.
    pub fn settings(&self, more: &str) -> String {
        format!(
            "issuer: {}\nclientId: {CLIENT}\n{more}roles: {{groups: {{platform: operator, developers: read-only}}}}\n",
            self.issuer
        )
    }
}

fn pairs(text: &str) -> HashMap<String, String> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let target = line.split(' ').nth(1)?.to_owned();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let form = pairs(&String::from_utf8(body).unwrap());
    Some(Asked { path: path.to_owned(), query: pairs(query), headers, form })
}

fn write(mut stream: &TcpStream, status: u16, header: &str, body: &str) {
    let head =
        format!("HTTP/1.1 {status} .\r\nconnection: close\r\ncontent-length: {}\r\n{header}\r\n", body.len());
    // Whoever asked may have gone.
    let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes());
}

impl Shared {
    fn attend(&self, stream: TcpStream) {
        let Some(asked) = read(&stream) else { return };
        self.asked.lock().unwrap().push(asked.path.clone());
        let manners = self.manners.lock().unwrap().clone();
        let path = asked.path.trim_start_matches("/elsewhere");
        let is_elsewhere = path != asked.path;
        match manners.instead.get(path).filter(|_| !is_elsewhere) {
            None => {}
            Some(Instead::Status(status, body)) => return write(&stream, *status, "x-note: wrong", body),
            Some(Instead::Elsewhere) => {
                return write(&stream, 307, &format!("location: {}/elsewhere{path}", self.issuer), "");
            }
            Some(Instead::Endless) => {
                let _ = (&stream).write_all(b"HTTP/1.1 200 .\r\nconnection: close\r\n\r\n{\"keys\": \"");
                while (&stream).write_all(&[b'x'; 4096]).is_ok() {}
                return;
            }
            Some(Instead::Silence) => {
                let _ = (&stream).read(&mut [0; 1]);
                return;
            }
        }
        let json = |status, value: Value| {
            write(&stream, status, "content-type: application/json", &value.to_string());
        };
        match path {
            CONFIGURATION => json(200, self.configuration(&manners)),
            "/keys" => json(
                200,
                json!({"keys": manners.keys.iter().map(|kid| keys::public(kid)).collect::<Vec<_>>()}),
            ),
            "/authorize" => self.authorize(&stream, &manners, &asked),
            "/token" => match self.token(&manners, &asked) {
                Ok(value) => json(200, value),
                Err(error) => {
                    json(400, json!({"error": error, "error_description": "a text of <b>others</b>"}))
                }
            },
            "/userinfo" => {
                match (&manners.userinfo, asked.headers.get("authorization").map(String::as_str)) {
                    (Some(userinfo), Some("Bearer an-access-token")) => json(200, userinfo.clone()),
                    _ => json(401, json!({"error": "invalid_token"})),
                }
            }
            _ => write(&stream, 404, "x-note: nothing", ""),
        }
    }

    fn configuration(&self, manners: &Manners) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer);
        let mut configuration = json!({
            "issuer": self.issuer,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "jwks_uri": at("/keys"),
            "userinfo_endpoint": at("/userinfo"),
            "scopes_supported": ["openid", "profile", "email", "groups"],
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": manners.ways,
            "id_token_signing_alg_values_supported": ["RS256", "ES256", "HS256", "none"],
        });
        (manners.configuration)(&mut configuration);
        configuration
    }

    /// Where somebody says who they are. What is wrong is said here, and sends nobody back.
    fn authorize(&self, stream: &TcpStream, manners: &Manners, asked: &Asked) {
        let of = |name: &str| asked.query.get(name).map_or("", String::as_str);
        let expected = [("response_type", "code"), ("client_id", CLIENT), ("code_challenge_method", "S256")];
        let redirect_uri = of("redirect_uri");
        let is_asked_well = expected.iter().all(|(name, value)| of(name) == *value)
            && of("scope").split(' ').any(|scope| scope == "openid")
            && redirect_uri.ends_with("/api/v1/session/oidc/callback")
            && of("code_challenge").len() == 43
            && of("state").len() >= 32
            && of("nonce").len() >= 32;
        if !is_asked_well {
            return write(stream, 400, "x-note: wrong", &format!("{:?}", asked.query));
        }
        if manners.shows_page && of("agreed") != "yes" {
            let fields: String = asked
                .query
                .iter()
                .map(|(name, value)| format!("<input type=hidden name=\"{name}\" value=\"{value}\">"))
                .collect();
            let page = format!(
                "<!doctype html><html lang=en><title>A small provider</title><link rel=icon href=\"data:,\"><h1>Who are you?</h1>\
                 <form>{fields}<button id=agree name=agreed value=yes>I am ann</button></form>"
            );
            return write(stream, 200, "content-type: text/html; charset=utf-8", &page);
        }
        let mut back = form_urlencoded::Serializer::new(String::new());
        back.append_pair("state", of("state"));
        match manners.refuses {
            Some(error) => back.append_pair("error", error),
            None => {
                let code = keys::random();
                let grant = Grant {
                    challenge: of("code_challenge").to_owned(),
                    nonce: of("nonce").to_owned(),
                    redirect_uri: redirect_uri.to_owned(),
                };
                self.codes.lock().unwrap().insert(code.clone(), grant);
                back.append_pair("code", &code)
            }
        };
        // As some have it: one more that nobody asked for.
        back.append_pair("session_state", "x");
        write(stream, 302, &format!("location: {redirect_uri}?{}", back.finish()), "");
    }

    /// What a code is exchanged for: once, by its client, which knows the verifier.
    fn token(&self, manners: &Manners, asked: &Asked) -> Result<Value, &'static str> {
        let of = |name: &str| asked.form.get(name).map_or("", String::as_str);
        let is_form =
            asked.headers.get("content-type").is_some_and(|kind| kind == "application/x-www-form-urlencoded");
        if !is_form || of("grant_type") != "authorization_code" {
            return Err("unsupported_grant_type");
        }
        let basic = asked.headers.get("authorization").and_then(|value| value.strip_prefix("Basic "));
        let given = match (manners.secret, basic) {
            (Some(_), Some(basic)) if manners.ways.contains(&"client_secret_basic") => {
                let text = String::from_utf8(BASE64_STANDARD.decode(basic).unwrap()).unwrap();
                let (client, secret) = text.split_once(':').unwrap();
                let decoded = |text: &str| pairs(&format!("x={text}")).remove("x").unwrap();
                (decoded(client), Some(decoded(secret)))
            }
            (Some(_), None) if manners.ways.contains(&"client_secret_post") => {
                (of("client_id").to_owned(), asked.form.get("client_secret").cloned())
            }
            (None, None) => (of("client_id").to_owned(), None),
            _ => return Err("invalid_client"),
        };
        if given != (CLIENT.to_owned(), manners.secret.map(str::to_owned)) {
            return Err("invalid_client");
        }
        let grant = self.codes.lock().unwrap().remove(of("code")).ok_or("invalid_grant")?;
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier").as_bytes()));
        if challenge != grant.challenge || of("redirect_uri") != grant.redirect_uri {
            return Err("invalid_grant");
        }
        Ok(json!({
            "access_token": "an-access-token",
            "token_type": "Bearer",
            "expires_in": 300,
            "id_token": self.id_token(manners, &grant),
        }))
    }

    fn id_token(&self, manners: &Manners, grant: &Grant) -> String {
        let now = now();
        let mut claims = json!({
            "iss": self.issuer, "aud": CLIENT, "sub": "0001", "nonce": grant.nonce, "iat": now, "exp": now + 300,
        });
        let claims = claims.as_object_mut().unwrap();
        claims.extend(manners.person.as_object().unwrap().clone());
        (manners.twist)(claims);
        manners.signs.token(manners.kid, &Value::Object(claims.clone()))
    }
}

/// Seconds since 1970.
#[allow(clippy::disallowed_methods, reason = "a provider has a clock of its own")]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}
