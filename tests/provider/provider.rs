//! A small OpenID provider on this machine, with its own signing keys and configurable misbehavior.
//!
//! It is written from the specifications and doesn't share code with the service: it signs with a different library
//! than the service uses for verification. It checks the verifier, the redirect URI, the client, and that a code is
//! used once.

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
pub const ACCESS_TOKEN: &str = "an-access-token";
pub const CONFIGURATION: &str = "/.well-known/openid-configuration";

/// Misbehavior of an endpoint.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "not all tests simulate failures")]
pub enum EndpointFault {
    /// Responds with this status and body.
    Status(u16, &'static str),
    /// Responds with JSON, but as a page.
    Page,
    /// Redirects to another address, which behaves correctly.
    Elsewhere,
    /// Sends an endless response.
    Endless,
    /// Sends no response.
    Silence,
}

/// Behavior of a provider.
#[derive(Clone)]
pub struct ProviderBehavior {
    /// Claims about the user.
    pub person: Value,
    /// Response of the userinfo endpoint, or `None` if the endpoint doesn't exist.
    pub userinfo: Option<Value>,
    /// Secret of the client, if it has one.
    pub secret: Option<&'static str>,
    /// Authentication methods of a client.
    pub ways: &'static [&'static str],
    /// Type of the access token.
    pub token_type: &'static str,
    pub signs: Signs,
    /// Key id in a token.
    pub kid: Option<&'static str>,
    /// Keys in the key set.
    pub keys: &'static [&'static str],
    /// Changes a token before it is signed.
    pub twist: fn(&mut Map<String, Value>),
    /// Changes the provider's configuration document.
    pub configuration: fn(&mut Value),
    pub instead: BTreeMap<&'static str, EndpointFault>,
    /// True to show a page with a button before the login.
    pub shows_page: bool,
    /// Error that all logins return.
    pub refuses: Option<&'static str>,
}

impl Default for ProviderBehavior {
    fn default() -> Self {
        Self {
            person: json!({"preferred_username": "ann", "groups": ["platform"]}),
            userinfo: None,
            secret: Some(SECRET),
            ways: &["client_secret_basic"],
            token_type: "bearer",
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

/// Login that a code was issued for.
struct Grant {
    challenge: String,
    nonce: String,
    redirect_uri: String,
}

struct ProviderState {
    issuer: String,
    behavior: Mutex<ProviderBehavior>,
    codes: Mutex<HashMap<String, Grant>>,
    /// Requested paths.
    request: Mutex<Vec<String>>,
}

/// A provider, which stops when the test ends.
pub struct Provider {
    pub issuer: String,
    /// Address of the provider.
    #[allow(dead_code, reason = "not all tests use it directly")]
    pub address: String,
    shared: Arc<ProviderState>,
}

/// A request.
struct ReceivedRequest {
    path: String,
    query: HashMap<String, String>,
    headers: HashMap<String, String>,
    form: HashMap<String, String>,
}

impl Provider {
    /// Starts a provider at an address of this machine.
    #[allow(dead_code, reason = "the page refers to another site")]
    pub fn new(behavior: ProviderBehavior) -> Self {
        Self::at("127.0.0.1", behavior)
    }

    /// Starts a provider under a host name of this machine.
    pub fn at(name: &str, behavior: ProviderBehavior) -> Self {
        Self::start(|port| format!("http://{name}:{port}"), behavior)
    }

    /// Starts a provider behind a TLS proxy.
    #[allow(dead_code, reason = "not all tests use TLS")]
    pub fn behind(issuer: String, behavior: ProviderBehavior) -> Self {
        Self::start(|_| issuer, behavior)
    }

    fn start(issuer: impl FnOnce(u16) -> String, behavior: ProviderBehavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let issuer = issuer(address.port());
        let shared = Arc::new(ProviderState {
            issuer: issuer.clone(),
            behavior: Mutex::new(behavior),
            codes: Mutex::default(),
            request: Mutex::default(),
        });
        let service = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let service = Arc::clone(&service);
                thread::spawn(move || service.attend(stream));
            }
        });
        Self { issuer, address: address.to_string(), shared }
    }

    /// Changes the provider's behavior.
    pub fn change(&self, change: impl FnOnce(&mut ProviderBehavior)) {
        change(&mut self.shared.behavior.lock().unwrap());
    }

    /// Returns the number of requests for a path.
    #[allow(dead_code, reason = "not all tests use it")]
    pub fn count(&self, path: &str) -> usize {
        self.shared.request.lock().unwrap().iter().filter(|request| *request == path).count()
    }

    /// Returns the settings for a service that uses this provider, with additional lines.
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

fn read(stream: &TcpStream) -> Option<ReceivedRequest> {
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
    Some(ReceivedRequest { path: path.to_owned(), query: pairs(query), headers, form })
}

fn write(mut stream: &TcpStream, status: u16, header: &str, body: &str) {
    let head =
        format!("HTTP/1.1 {status} .\r\nconnection: close\r\ncontent-length: {}\r\n{header}\r\n", body.len());
    // The client may have disconnected.
    let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes());
}

impl ProviderState {
    fn attend(&self, stream: TcpStream) {
        let Some(request) = read(&stream) else { return };
        self.request.lock().unwrap().push(request.path.clone());
        let behavior = self.behavior.lock().unwrap().clone();
        let path = request.path.trim_start_matches("/elsewhere");
        let is_elsewhere = path != request.path;
        match behavior.instead.get(path).filter(|_| !is_elsewhere) {
            None => {}
            Some(EndpointFault::Status(status, body)) => {
                return write(&stream, *status, "x-note: wrong", body);
            }
            Some(EndpointFault::Page) => {
                return write(&stream, 200, "content-type: text/html; charset=utf-8", "{}");
            }
            Some(EndpointFault::Elsewhere) => {
                return write(&stream, 307, &format!("location: {}/elsewhere{path}", self.issuer), "");
            }
            Some(EndpointFault::Endless) => {
                let _ = (&stream).write_all(b"HTTP/1.1 200 .\r\nconnection: close\r\n\r\n{\"keys\": \"");
                while (&stream).write_all(&[b'x'; 4096]).is_ok() {}
                return;
            }
            Some(EndpointFault::Silence) => {
                let _ = (&stream).read(&mut [0; 1]);
                return;
            }
        }
        let json = |status, value: Value| {
            let kind = if path == "/keys" { "jwk-set+json" } else { "json;charset=UTF-8" };
            write(&stream, status, &format!("content-type: application/{kind}"), &value.to_string());
        };
        match path {
            CONFIGURATION => json(200, self.configuration(&behavior)),
            "/keys" => json(
                200,
                json!({"keys": behavior.keys.iter().map(|kid| keys::public(kid)).collect::<Vec<_>>()}),
            ),
            "/authorize" => self.authorize(&stream, &behavior, &request),
            "/token" => match self.token(&behavior, &request) {
                Ok(value) => json(200, value),
                Err(error) => {
                    json(400, json!({"error": error, "error_description": "a text of <b>others</b>"}))
                }
            },
            "/userinfo" => {
                match (&behavior.userinfo, request.headers.get("authorization").map(String::as_str)) {
                    (Some(userinfo), Some(value)) if value.strip_prefix("Bearer ") == Some(ACCESS_TOKEN) => {
                        json(200, userinfo.clone())
                    }
                    _ => json(401, json!({"error": "invalid_token"})),
                }
            }
            _ => write(&stream, 404, "x-note: nothing", ""),
        }
    }

    fn configuration(&self, behavior: &ProviderBehavior) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer);
        let mut configuration = json!({
            "issuer": self.issuer,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "jwks_uri": at("/keys"),
            "userinfo_endpoint": at("/userinfo"),
            "scopes_supported": ["openid", "profile", "email", "groups"],
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": behavior.ways,
            "id_token_signing_alg_values_supported": ["RS256", "ES256", "EdDSA", "HS256", "none"],
        });
        (behavior.configuration)(&mut configuration);
        configuration
    }

    /// Handles the login. Errors are shown on the provider's own page, without a redirect.
    fn authorize(&self, stream: &TcpStream, behavior: &ProviderBehavior, request: &ReceivedRequest) {
        let of = |name: &str| request.query.get(name).map_or("", String::as_str);
        let expected = [("response_type", "code"), ("client_id", CLIENT), ("code_challenge_method", "S256")];
        let redirect_uri = of("redirect_uri");
        let is_asked_well = expected.iter().all(|(name, value)| of(name) == *value)
            && of("scope").split(' ').any(|scope| scope == "openid")
            && redirect_uri.ends_with("/api/v1/session/oidc/callback")
            && of("code_challenge").len() == 43
            && of("state").len() >= 32
            && of("nonce").len() >= 32;
        if !is_asked_well {
            return write(stream, 400, "x-note: wrong", &format!("{:?}", request.query));
        }
        if behavior.shows_page && of("agreed") != "yes" {
            let fields: String = request
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
        match behavior.refuses {
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
        // Some providers add a parameter that wasn't requested.
        back.append_pair("session_state", "x");
        write(stream, 302, &format!("location: {redirect_uri}?{}", back.finish()), "");
    }

    /// Exchanges a code. This works only once, and only for the code's client, which knows the verifier.
    fn token(&self, behavior: &ProviderBehavior, request: &ReceivedRequest) -> Result<Value, &'static str> {
        let of = |name: &str| request.form.get(name).map_or("", String::as_str);
        let is_form = request
            .headers
            .get("content-type")
            .is_some_and(|kind| kind == "application/x-www-form-urlencoded");
        if !is_form || of("grant_type") != "authorization_code" {
            return Err("unsupported_grant_type");
        }
        let basic = request.headers.get("authorization").and_then(|value| value.strip_prefix("Basic "));
        let given = match (behavior.secret, basic) {
            (Some(_), Some(basic)) if behavior.ways.contains(&"client_secret_basic") => {
                let text = String::from_utf8(BASE64_STANDARD.decode(basic).unwrap()).unwrap();
                let (client, secret) = text.split_once(':').unwrap();
                let decoded = |text: &str| pairs(&format!("x={text}")).remove("x").unwrap();
                (decoded(client), Some(decoded(secret)))
            }
            (Some(_), None) if behavior.ways.contains(&"client_secret_post") => {
                (of("client_id").to_owned(), request.form.get("client_secret").cloned())
            }
            (None, None) => (of("client_id").to_owned(), None),
            _ => return Err("invalid_client"),
        };
        if given != (CLIENT.to_owned(), behavior.secret.map(str::to_owned)) {
            return Err("invalid_client");
        }
        let grant = self.codes.lock().unwrap().remove(of("code")).ok_or("invalid_grant")?;
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier").as_bytes()));
        if challenge != grant.challenge || of("redirect_uri") != grant.redirect_uri {
            return Err("invalid_grant");
        }
        Ok(json!({
            "access_token": ACCESS_TOKEN,
            "token_type": behavior.token_type,
            "expires_in": 300,
            "id_token": self.id_token(behavior, &grant),
        }))
    }

    fn id_token(&self, behavior: &ProviderBehavior, grant: &Grant) -> String {
        let now = now();
        let mut claims = json!({
            "iss": self.issuer, "aud": CLIENT, "sub": "0001", "nonce": grant.nonce, "iat": now, "exp": now + 300,
        });
        let claims = claims.as_object_mut().unwrap();
        claims.extend(behavior.person.as_object().unwrap().clone());
        (behavior.twist)(claims);
        behavior.signs.token(behavior.kid, &Value::Object(claims.clone()))
    }
}

/// Returns the seconds since 1970.
#[allow(clippy::disallowed_methods, reason = "the provider uses its own clock")]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}
