//! The provider: where its endpoints are, what it signs with, and what it says of somebody.
//!
//! Nothing that it answers is followed elsewhere, each answer is bounded in size and time, and all of it goes over TLS
//! unless the provider is on this machine.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use form_urlencoded::{Serializer, byte_serialize};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_web::{
    Barred, Client, LINK_LOCAL, Trust, Trusted, cause, client, connector, direct, link_local,
};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::id_token::{Expected, Keys, Untrue, check};
use super::person::Claims;
use super::settings::{OidcSettings, server};
use crate::error::ServerError;
use crate::limits::Limits;

/// Where every provider says of itself how it is to be asked.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// What a provider signs with that does not say it.
const USUAL_ALGORITHM: &str = "RS256";
const BASIC: &str = "client_secret_basic";
/// What the token endpoint is called in errors.
const TOKEN_ENDPOINT: &str = "token endpoint";
const POST: &str = "client_secret_post";
/// How long what a provider says of itself, and its keys, are not asked for again.
const KNOWN_FOR: Duration = Duration::from_secs(60 * 60);
/// The longest word of a provider that is repeated.
const WORD_MAX: usize = 64;

/// Why a provider has not said who somebody is. Shows nothing of a secret or a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// It does not answer as it should.
    #[error("its {what} {why}")]
    Answer { what: &'static str, why: String },
    /// It refuses.
    #[error("it refuses to say who you are ({0})")]
    Refused(String),
    /// What it says does not count.
    #[error("its ID token {0}")]
    Untrue(#[from] Untrue),
    /// Our own part cannot be done, for a reason that is for those who run the service.
    #[error("this service cannot do its own part; its log says why")]
    Own,
}

impl From<ServerError> for Fault {
    fn from(error: ServerError) -> Self {
        tracing::warn!(%error, "nobody can sign in");
        Self::Own
    }
}

/// What a provider says of itself.
#[derive(Debug, Deserialize)]
struct Written {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    id_token_signing_alg_values_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// How a provider is asked.
pub(super) struct Endpoints {
    authorization: String,
    token: Uri,
    keys: Uri,
    userinfo: Option<Uri>,
    scopes: Vec<String>,
    ways: Vec<String>,
    algorithms: Vec<String>,
    /// It says in each answer whose that is.
    pub names_itself: bool,
}

/// What is known of a provider, and since when.
#[derive(Default)]
struct Known {
    endpoints: Option<(Arc<Endpoints>, Instant)>,
    keys: Option<(Arc<Keys>, Instant)>,
}

/// What somebody has come back with, and what they were sent off with.
pub(super) struct Returned<'a> {
    pub code: &'a str,
    pub verifier: &'a str,
    pub nonce: &'a str,
    /// Where they were to come back to.
    pub to: &'a str,
}

/// A provider.
pub(super) struct Provider {
    client: Client,
    limits: Limits,
    known: Mutex<Known>,
}

impl Provider {
    pub fn new(settings: &OidcSettings, limits: &Limits) -> Result<Self, String> {
        let trusted = settings.authorities.as_deref().map_or(Trusted::System, Trusted::Authorities);
        let field = if settings.authorities.is_some() { "caFile: " } else { "" };
        let tls = Trust::default().config(trusted, None).map_err(|error| format!("{field}{error}"))?;
        let client = client(&tls, direct(connector(limits.provider_within, Barred::LINK_LOCAL)));
        Ok(Self { client, limits: limits.clone(), known: Mutex::default() })
    }

    /// How the provider is asked: it is asked for that once an hour, and what it said last counts where it does not answer.
    pub async fn endpoints(&self, settings: &OidcSettings) -> Result<Arc<Endpoints>, Fault> {
        let mut known = self.known.lock().await;
        let now = Instant::now();
        let last = known.endpoints.clone();
        if let Some((endpoints, at)) = &last
            && now.saturating_duration_since(*at) < KNOWN_FOR
        {
            return Ok(Arc::clone(endpoints));
        }
        let found = match (self.discover(settings).await, last) {
            (Ok(found), _) => Arc::new(found),
            (Err(fault), None) => return Err(fault),
            (Err(fault), Some((endpoints, _))) => {
                tracing::warn!(issuer = settings.issuer, %fault, "the provider is asked as before");
                endpoints
            }
        };
        known.endpoints = Some((Arc::clone(&found), now));
        Ok(found)
    }

    async fn discover(&self, settings: &OidcSettings) -> Result<Endpoints, Fault> {
        let what = "configuration";
        let wrong = |why: String| Fault::Answer { what, why };
        let at = format!("{}{DISCOVERY}", settings.issuer.trim_end_matches('/'));
        let at = server(&at).map_err(wrong)?;
        let written: Written = read(what, self.get(what, &at, None).await?)?;
        if written.issuer != settings.issuer {
            let issuer = word(&written.issuer).unwrap_or("something else");
            return Err(wrong(format!(
                "is of the issuer {issuer}, and not of {}; the settings have to name it to the letter",
                settings.issuer
            )));
        }
        let endpoint = |name: &str, text: &str| {
            server(text).map_err(|why| wrong(format!("has no {name} that is taken: {why}")))
        };
        endpoint("authorization_endpoint", &written.authorization_endpoint)?;
        let userinfo = written.userinfo_endpoint.as_deref();
        Ok(Endpoints {
            token: endpoint("token_endpoint", &written.token_endpoint)?,
            keys: endpoint("jwks_uri", &written.jwks_uri)?,
            userinfo: userinfo.map(|text| endpoint("userinfo_endpoint", text)).transpose()?,
            authorization: written.authorization_endpoint,
            scopes: written.scopes_supported,
            ways: written.token_endpoint_auth_methods_supported.unwrap_or_else(|| vec![BASIC.to_owned()]),
            algorithms: written
                .id_token_signing_alg_values_supported
                .filter(|algorithms| !algorithms.is_empty())
                .unwrap_or_else(|| vec![USUAL_ALGORITHM.to_owned()]),
            names_itself: written.authorization_response_iss_parameter_supported,
        })
    }

    /// Where somebody says to the provider who they are.
    pub fn address(settings: &OidcSettings, endpoints: &Endpoints, asked: &[(&str, &str)]) -> String {
        let mut query = Serializer::new(String::new());
        query.append_pair("response_type", "code");
        query.append_pair("client_id", &settings.client_id);
        query.append_pair("scope", &settings.scopes(&endpoints.scopes));
        query.append_pair("code_challenge_method", "S256");
        query.extend_pairs(asked);
        let joint = if endpoints.authorization.contains('?') { '&' } else { '?' };
        format!("{}{joint}{}", endpoints.authorization, query.finish())
    }

    /// What the provider says of somebody who came back from it.
    pub async fn claims(&self, settings: &OidcSettings, returned: &Returned<'_>) -> Result<Claims, Fault> {
        let endpoints = self.endpoints(settings).await?;
        let tokens = self.exchange(settings, &endpoints, returned).await?;
        let mut claims = self.checked(settings, &endpoints, (&tokens.id_token, returned.nonce)).await?;
        if let (true, Some(userinfo), Some(access)) =
            (settings.naming.lacks(&claims), &endpoints.userinfo, &tokens.access_token)
        {
            let what = "userinfo";
            let more: Claims = read(what, self.get(what, userinfo, Some(access)).await?)?;
            if more.get("sub") != claims.get("sub") {
                return Err(Fault::Answer { what, why: "is about somebody else".to_owned() });
            }
            // What is signed counts more.
            for (claim, value) in more {
                claims.entry(claim).or_insert(value);
            }
        }
        Ok(claims)
    }

    async fn exchange(
        &self,
        settings: &OidcSettings,
        endpoints: &Endpoints,
        returned: &Returned<'_>,
    ) -> Result<Tokens, Fault> {
        let what = TOKEN_ENDPOINT;
        let (status, body) = self.ask(what, redeeming(settings, endpoints, returned)?).await?;
        // Whoever refuses says it in a word.
        if status.is_client_error() {
            let refusal: Refusal = serde_json::from_slice(&body).unwrap_or_default();
            let word = word(&refusal.error).map_or_else(|| status.as_u16().to_string(), str::to_owned);
            return Err(Fault::Refused(word));
        }
        read(what, fine(what, status, body)?)
    }

    /// What the ID token says, if it counts. A key that is not known may be new.
    async fn checked(
        &self,
        settings: &OidcSettings,
        endpoints: &Endpoints,
        (token, nonce): (&str, &str),
    ) -> Result<Claims, Fault> {
        let (issuer, client_id) = (settings.issuer.as_str(), settings.client_id.as_str());
        let expected = Expected { issuer, client_id, nonce, algorithms: &endpoints.algorithms };
        let now_seconds = u64::try_from(SystemClock.now().as_millis() / 1000).unwrap_or_default();
        let keys = self.keys(endpoints, false).await?;
        match check(token, &keys, &expected, now_seconds) {
            Err(Untrue::Key) => {
                let keys = self.keys(endpoints, true).await?;
                Ok(check(token, &keys, &expected, now_seconds)?)
            }
            checked => Ok(checked?),
        }
    }

    /// The keys of the provider. They are fetched once an hour, and where one is not among them, again, but not too often.
    async fn keys(&self, endpoints: &Endpoints, is_missed: bool) -> Result<Arc<Keys>, Fault> {
        let mut known: MutexGuard<'_, Known> = self.known.lock().await;
        let now = Instant::now();
        let lasts = if is_missed { self.limits.provider_keys_again } else { KNOWN_FOR };
        if let Some((keys, at)) = &known.keys
            && now.saturating_duration_since(*at) < lasts
        {
            return Ok(Arc::clone(keys));
        }
        let what = "key set";
        let body = self.get(what, &endpoints.keys, None).await?;
        let keys = Keys::read(&body);
        let keys = keys.ok_or_else(|| Fault::Answer { what, why: "is none".to_owned() })?;
        let keys = Arc::new(keys);
        known.keys = Some((Arc::clone(&keys), now));
        Ok(keys)
    }

    async fn get(&self, what: &'static str, at: &Uri, access: Option<&str>) -> Result<Bytes, Fault> {
        let authorization = access.map(|token| format!("Bearer {token}"));
        let request = asking(Method::GET, at, String::new(), authorization.as_deref())?;
        let (status, body) = self.ask(what, request).await?;
        fine(what, status, body)
    }

    /// Asks, within size and time.
    async fn ask(
        &self,
        what: &'static str,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), Fault> {
        let wrong = |why: String| Fault::Answer { what, why };
        let (within, most) = (self.limits.provider_within, self.limits.provider_bytes);
        if link_local(request.uri().host().unwrap_or_default()).is_some() {
            return Err(wrong(format!("cannot be asked: {LINK_LOCAL}")));
        }
        let asking = async {
            let answer = self.client.request(request).await;
            let answer = answer.map_err(|error| wrong(format!("cannot be reached: {}", cause(&error))))?;
            let (head, body) = Response::into_parts(answer);
            let body = Limited::new(body, most).collect().await.map_err(|error| {
                match error.is::<LengthLimitError>() {
                    true => wrong(format!("answers with more than {most} bytes")),
                    false => wrong("breaks off its answer".to_owned()),
                }
            })?;
            Ok((head.status, body.to_bytes()))
        };
        let answered = tokio::time::timeout(within, asking).await;
        answered.unwrap_or_else(|_| Err(wrong(format!("does not answer within {} s", within.as_secs_f64()))))
    }
}

/// What a provider gives for a code.
#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    access_token: Option<String>,
}

/// What it says instead.
#[derive(Default, Deserialize)]
struct Refusal {
    error: String,
}

/// A word of somebody else, if it is one: it may be repeated.
pub(super) fn word(text: &str) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    (!text.is_empty() && text.len() <= WORD_MAX && text.chars().all(is_plain)).then_some(text)
}

/// The request that exchanges a code for tokens, with what proves who we are as the provider takes it.
fn redeeming(
    settings: &OidcSettings,
    endpoints: &Endpoints,
    returned: &Returned<'_>,
) -> Result<Request<Full<Bytes>>, Fault> {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code");
    form.append_pair("code", returned.code);
    form.append_pair("redirect_uri", returned.to);
    form.append_pair("code_verifier", returned.verifier);
    let mut authorization = None;
    let takes = |way: &str| endpoints.ways.iter().any(|known| known == way);
    match settings.secret()? {
        None => drop(form.append_pair("client_id", &settings.client_id)),
        Some(secret) if takes(BASIC) => authorization = Some(basic(&settings.client_id, &secret)),
        Some(secret) if takes(POST) => {
            form.append_pair("client_id", &settings.client_id).append_pair("client_secret", &secret);
        }
        Some(_) => {
            let why = format!("takes a secret of a client neither by {BASIC} nor by {POST}");
            return Err(Fault::Answer { what: TOKEN_ENDPOINT, why });
        }
    }
    let mut request = asking(Method::POST, &endpoints.token, form.finish(), authorization.as_deref())?;
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(CONTENT_TYPE, form);
    Ok(request)
}

/// Who we are, as RFC 6749 has it: both parts are written as in a form first.
fn basic(client_id: &str, secret: &str) -> String {
    let [client_id, secret] =
        [client_id, secret].map(|text| byte_serialize(text.as_bytes()).collect::<String>());
    format!("Basic {}", BASE64_STANDARD.encode(format!("{client_id}:{secret}")))
}

fn asking(
    method: Method,
    at: &Uri,
    body: String,
    authorization: Option<&str>,
) -> Result<Request<Full<Bytes>>, Fault> {
    let mut request = Request::new(Full::new(Bytes::from(body)));
    (*request.method_mut(), *request.uri_mut()) = (method, at.clone());
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tidegate/", env!("CARGO_PKG_VERSION"))));
    if let Some(authorization) = authorization {
        let mut value = HeaderValue::from_str(authorization).map_err(|_| Fault::Own)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(request)
}

fn fine(what: &'static str, status: StatusCode, body: Bytes) -> Result<Bytes, Fault> {
    match status {
        StatusCode::OK => Ok(body),
        status if status.is_redirection() => {
            Err(Fault::Answer { what, why: "sends us on to another address, where nobody goes".to_owned() })
        }
        status => Err(Fault::Answer { what, why: format!("answers with {}", status.as_u16()) }),
    }
}

fn read<T: DeserializeOwned>(what: &'static str, body: Bytes) -> Result<T, Fault> {
    // What a parser says may repeat a token.
    let unread = |_| Fault::Answer { what, why: "answers with something else than it has to".to_owned() };
    serde_json::from_slice(&body).map_err(unread)
}
