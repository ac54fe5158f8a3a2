//! Client for the OpenID provider: endpoints, keys and claims.
//!
//! The client doesn't follow redirects, and limits the size and duration of each response. It requires TLS,
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
    BlockedAddresses, Client, LINK_LOCAL_REASON, SystemTrust, TrustedServers, create_client,
    create_connector, direct_transport, link_local_ip, root_cause,
};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::id_token::{ExpectedClaims, KeySet, TokenError, validate_token};
use super::identity::Claims;
use super::settings::{OidcSettings, parse_server_url};
use crate::error::ServerError;
use crate::limits::Limits;

/// Path of the provider's metadata.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// Signature algorithm if the provider's metadata lists none.
const DEFAULT_ALGORITHM: &str = "RS256";
/// Accepted type of access tokens.
const BEARER: &str = "Bearer";
const BASIC: &str = "client_secret_basic";
/// Name of the token endpoint in errors.
const TOKEN_ENDPOINT: &str = "token endpoint";
const POST: &str = "client_secret_post";
/// Lifetime of cached metadata and keys.
const CACHE_LIFETIME: Duration = Duration::from_secs(60 * 60);
/// Maximum length of a provider's word to quote in messages.
const QUOTED_WORD_MAX: usize = 64;

/// Error from a request to the provider. The message never includes a secret or a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProviderError {
    /// The response is invalid.
    #[error("the provider's {what} {why}")]
    InvalidResponse { what: &'static str, why: String },
    /// The provider rejected the request.
    #[error("the provider rejected the sign-in ({0})")]
    Rejected(String),
    /// The ID token is invalid.
    #[error("the provider's ID token {0}")]
    InvalidIdToken(#[from] TokenError),
    /// An internal problem in the service. Only the administrator may see the reason.
    #[error("internal error in this service; see the service's log")]
    Internal,
}

impl From<ServerError> for ProviderError {
    fn from(error: ServerError) -> Self {
        tracing::warn!(%error, "sign-in is not available");
        Self::Internal
    }
}

/// A provider's metadata.
#[derive(Debug, Deserialize)]
struct Metadata {
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

/// A provider's endpoints.
pub(super) struct Endpoints {
    authorization: String,
    token: Uri,
    keys: Uri,
    userinfo: Option<Uri>,
    scopes: Vec<String>,
    auth_methods: Vec<String>,
    algorithms: Vec<String>,
    /// True if the provider puts its issuer in every response.
    pub has_issuer_parameter: bool,
}

/// Cached provider data, with fetch times.
#[derive(Default)]
struct ProviderCache {
    endpoints: Option<(Arc<Endpoints>, Instant)>,
    keys: Option<(Arc<KeySet>, Instant)>,
}

/// Parameters from the provider's redirect, and those of the login itself.
pub(super) struct CodeExchange<'a> {
    pub code: &'a str,
    pub verifier: &'a str,
    pub nonce: &'a str,
    /// URL that the provider redirected the user back to.
    pub redirect_uri: &'a str,
}

/// An OpenID provider.
pub(super) struct Provider {
    client: Client,
    limits: Limits,
    cache: Mutex<ProviderCache>,
}

impl Provider {
    pub fn new(settings: &OidcSettings, limits: &Limits) -> Result<Self, String> {
        let trusted =
            settings.authorities.as_deref().map_or(TrustedServers::System, TrustedServers::Authorities);
        let field = if settings.authorities.is_some() { "caFile: " } else { "" };
        let tls =
            SystemTrust::default().tls_config(trusted, None).map_err(|error| format!("{field}{error}"))?;
        let client = create_client(
            &tls,
            direct_transport(create_connector(limits.provider_timeout, BlockedAddresses::LINK_LOCAL)),
        );
        Ok(Self { client, limits: limits.clone(), cache: Mutex::default() })
    }

    /// Returns the endpoints, refreshing the metadata once an hour. If the provider doesn't respond, keeps
    /// using the cached metadata.
    pub async fn endpoints(&self, settings: &OidcSettings) -> Result<Arc<Endpoints>, ProviderError> {
        let mut known = self.cache.lock().await;
        let now = Instant::now();
        let last = known.endpoints.clone();
        if let Some((endpoints, at)) = &last
            && now.saturating_duration_since(*at) < CACHE_LIFETIME
        {
            return Ok(Arc::clone(endpoints));
        }
        let found = match (self.fetch_metadata(settings).await, last) {
            (Ok(found), _) => Arc::new(found),
            (Err(fault), None) => return Err(fault),
            (Err(fault), Some((endpoints, _))) => {
                tracing::warn!(issuer = settings.issuer, %fault, "failed to refresh the provider's metadata; using the cached metadata");
                endpoints
            }
        };
        known.endpoints = Some((Arc::clone(&found), now));
        Ok(found)
    }

    async fn fetch_metadata(&self, settings: &OidcSettings) -> Result<Endpoints, ProviderError> {
        let what = "configuration";
        let wrong = |why: String| ProviderError::InvalidResponse { what, why };
        let at = format!("{}{DISCOVERY}", settings.issuer.trim_end_matches('/'));
        let at = parse_server_url(&at).map_err(wrong)?;
        let written: Metadata = parse_response(what, self.get(what, &at, None).await?)?;
        if written.issuer != settings.issuer {
            let issuer = plain_word(&written.issuer).unwrap_or("(invalid)");
            return Err(wrong(format!(
                "has the issuer {issuer} instead of {}; set issuer to the provider's exact value",
                settings.issuer
            )));
        }
        let endpoint = |name: &str, text: &str| {
            parse_server_url(text).map_err(|reason| wrong(format!("has an invalid {name}: {reason}")))
        };
        endpoint("authorization_endpoint", &written.authorization_endpoint)?;
        let userinfo = written.userinfo_endpoint.as_deref();
        Ok(Endpoints {
            token: endpoint("token_endpoint", &written.token_endpoint)?,
            keys: endpoint("jwks_uri", &written.jwks_uri)?,
            userinfo: userinfo.map(|text| endpoint("userinfo_endpoint", text)).transpose()?,
            authorization: written.authorization_endpoint,
            scopes: written.scopes_supported,
            auth_methods: written
                .token_endpoint_auth_methods_supported
                .unwrap_or_else(|| vec![BASIC.to_owned()]),
            algorithms: written
                .id_token_signing_alg_values_supported
                .filter(|algorithms| !algorithms.is_empty())
                .unwrap_or_else(|| vec![DEFAULT_ALGORITHM.to_owned()]),
            has_issuer_parameter: written.authorization_response_iss_parameter_supported,
        })
    }

    /// Returns the provider's sign-in URL.
    pub fn authorization_url(
        settings: &OidcSettings,
        endpoints: &Endpoints,
        parameters: &[(&str, &str)],
    ) -> String {
        let mut query = Serializer::new(String::new());
        query.append_pair("response_type", "code");
        query.append_pair("client_id", &settings.client_id);
        query.append_pair("scope", &settings.scopes(&endpoints.scopes));
        query.append_pair("code_challenge_method", "S256");
        query.extend_pairs(parameters);
        let joint = if endpoints.authorization.contains('?') { '&' } else { '?' };
        format!("{}{joint}{}", endpoints.authorization, query.finish())
    }

    /// Exchanges the code from the provider's redirect for claims about the user.
    pub async fn fetch_claims(
        &self,
        settings: &OidcSettings,
        returned: &CodeExchange<'_>,
    ) -> Result<Claims, ProviderError> {
        let endpoints = self.endpoints(settings).await?;
        let tokens = self.exchange_code(settings, &endpoints, returned).await?;
        let mut claims = self.verify_id_token(settings, &endpoints, &tokens, returned.nonce).await?;
        if let (true, Some(userinfo)) = (settings.claim_names.needs_more_claims(&claims), &endpoints.userinfo)
        {
            let what = "userinfo";
            let body = self.get(what, userinfo, Some(&tokens.access_token)).await?;
            let more: Claims = parse_response(what, body)?;
            if more.get("sub") != claims.get("sub") {
                let why = "has a different subject".to_owned();
                return Err(ProviderError::InvalidResponse { what, why });
            }
            // Claims in the signed ID token take precedence.
            for (claim, value) in more {
                claims.entry(claim).or_insert(value);
            }
        }
        Ok(claims)
    }

    async fn exchange_code(
        &self,
        settings: &OidcSettings,
        endpoints: &Endpoints,
        returned: &CodeExchange<'_>,
    ) -> Result<TokenResponse, ProviderError> {
        let what = TOKEN_ENDPOINT;
        let response = self.send(what, token_request(settings, endpoints, returned)?).await?;
        let status = response.status();
        // A rejection has an error code in its body.
        if status.is_client_error() {
            let refusal: ErrorResponse = serde_json::from_slice(response.body()).unwrap_or_default();
            let word = plain_word(&refusal.error).map_or_else(|| status.as_u16().to_string(), str::to_owned);
            return Err(ProviderError::Rejected(word));
        }
        let tokens: TokenResponse = parse_response(what, check_response(what, response)?)?;
        match tokens.token_type.eq_ignore_ascii_case(BEARER) {
            true => Ok(tokens),
            false => {
                let why = "returns an access token of a type other than Bearer".to_owned();
                Err(ProviderError::InvalidResponse { what, why })
            }
        }
    }

    /// Validates an ID token and returns its claims. Fetches the keys again if the token's key is unknown.
    async fn verify_id_token(
        &self,
        settings: &OidcSettings,
        endpoints: &Endpoints,
        tokens: &TokenResponse,
        nonce: &str,
    ) -> Result<Claims, ProviderError> {
        let (issuer, client_id) = (settings.issuer.as_str(), settings.client_id.as_str());
        let (token, access_token) = (tokens.id_token.as_str(), tokens.access_token.as_str());
        let algorithms = &endpoints.algorithms;
        let expected = ExpectedClaims { issuer, client_id, nonce, access_token, algorithms };
        let now_seconds = u64::try_from(SystemClock.now().as_millis() / 1000).unwrap_or_default();
        let keys = self.keys(endpoints, false).await?;
        match validate_token(token, &keys, &expected, now_seconds) {
            Err(TokenError::UnknownKey) => {
                let keys = self.keys(endpoints, true).await?;
                Ok(validate_token(token, &keys, &expected, now_seconds)?)
            }
            checked => Ok(checked?),
        }
    }

    /// Returns the provider's keys, fetched once an hour and, at a limited rate, when a key is missing
    /// (`is_missed`).
    async fn keys(&self, endpoints: &Endpoints, is_missed: bool) -> Result<Arc<KeySet>, ProviderError> {
        let mut known: MutexGuard<'_, ProviderCache> = self.cache.lock().await;
        let now = Instant::now();
        let lifetime = if is_missed { self.limits.provider_keys_interval } else { CACHE_LIFETIME };
        if let Some((keys, at)) = &known.keys
            && now.saturating_duration_since(*at) < lifetime
        {
            return Ok(Arc::clone(keys));
        }
        let what = "key set";
        let body = self.get(what, &endpoints.keys, None).await?;
        let keys = KeySet::parse(&body);
        let keys =
            keys.ok_or_else(|| ProviderError::InvalidResponse { what, why: "is invalid".to_owned() })?;
        let keys = Arc::new(keys);
        known.keys = Some((Arc::clone(&keys), now));
        Ok(keys)
    }

    async fn get(&self, what: &'static str, at: &Uri, access: Option<&str>) -> Result<Bytes, ProviderError> {
        let authorization = access.map(|token| format!("{BEARER} {token}"));
        let request = build_request(Method::GET, at, String::new(), authorization.as_deref())?;
        check_response(what, self.send(what, request).await?)
    }

    /// Sends a request, limiting the response's size and duration.
    async fn send(
        &self,
        what: &'static str,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, ProviderError> {
        let wrong = |why: String| ProviderError::InvalidResponse { what, why };
        let (within, most) = (self.limits.provider_timeout, self.limits.provider_bytes);
        if link_local_ip(request.uri().host().unwrap_or_default()).is_some() {
            return Err(wrong(format!("cannot be used: {LINK_LOCAL_REASON}")));
        }
        let poll = async {
            let answer = self.client.request(request).await;
            let answer =
                answer.map_err(|error| wrong(format!("cannot be reached: {}", root_cause(&error))))?;
            let (head, body) = Response::into_parts(answer);
            let body = Limited::new(body, most).collect().await.map_err(|error| {
                match error.is::<LengthLimitError>() {
                    true => wrong(format!("returns more than {most} bytes")),
                    false => wrong("returns an incomplete response".to_owned()),
                }
            })?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        let answered = tokio::time::timeout(within, poll).await;
        answered.unwrap_or_else(|_| Err(wrong(format!("does not respond within {} s", within.as_secs_f64()))))
    }
}

/// Response of the token endpoint.
#[derive(Deserialize)]
struct TokenResponse {
    id_token: String,
    access_token: String,
    token_type: String,
}

/// Error response from the provider.
#[derive(Default, Deserialize)]
struct ErrorResponse {
    error: String,
}

/// Returns `text` if it is a plain word and therefore safe to quote.
pub(super) fn plain_word(text: &str) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    (!text.is_empty() && text.len() <= QUOTED_WORD_MAX && text.chars().all(is_plain)).then_some(text)
}

/// Builds the request that exchanges a code for tokens, using a client authentication method that the
/// provider supports.
fn token_request(
    settings: &OidcSettings,
    endpoints: &Endpoints,
    returned: &CodeExchange<'_>,
) -> Result<Request<Full<Bytes>>, ProviderError> {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code");
    form.append_pair("code", returned.code);
    form.append_pair("redirect_uri", returned.redirect_uri);
    form.append_pair("code_verifier", returned.verifier);
    let mut authorization = None;
    let takes = |method: &str| endpoints.auth_methods.iter().any(|known| known == method);
    match settings.read_secret()? {
        None => drop(form.append_pair("client_id", &settings.client_id)),
        Some(secret) if takes(BASIC) => {
            authorization = Some(basic_authorization(&settings.client_id, &secret))
        }
        Some(secret) if takes(POST) => {
            form.append_pair("client_id", &settings.client_id).append_pair("client_secret", &secret);
        }
        Some(_) => {
            let why = format!("supports neither {BASIC} nor {POST} for the client secret");
            return Err(ProviderError::InvalidResponse { what: TOKEN_ENDPOINT, why });
        }
    }
    let mut request = build_request(Method::POST, &endpoints.token, form.finish(), authorization.as_deref())?;
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(CONTENT_TYPE, form);
    Ok(request)
}

/// Returns the client authentication header. RFC 6749 requires both parts to be form-encoded first.
fn basic_authorization(client_id: &str, secret: &str) -> String {
    let [client_id, secret] =
        [client_id, secret].map(|text| byte_serialize(text.as_bytes()).collect::<String>());
    format!("Basic {}", BASE64_STANDARD.encode(format!("{client_id}:{secret}")))
}

fn build_request(
    method: Method,
    at: &Uri,
    body: String,
    authorization: Option<&str>,
) -> Result<Request<Full<Bytes>>, ProviderError> {
    let mut request = Request::new(Full::new(Bytes::from(body)));
    (*request.method_mut(), *request.uri_mut()) = (method, at.clone());
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tidegate/", env!("CARGO_PKG_VERSION"))));
    if let Some(authorization) = authorization {
        let mut value = HeaderValue::from_str(authorization).map_err(|_| ProviderError::Internal)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(request)
}

fn check_response(what: &'static str, response: Response<Bytes>) -> Result<Bytes, ProviderError> {
    let why = match response.status() {
        StatusCode::OK if response.headers().get(CONTENT_TYPE).is_none_or(is_json) => {
            return Ok(response.into_body());
        }
        StatusCode::OK => "returns a content type other than application/json".to_owned(),
        status if status.is_redirection() => "returns a redirect, but redirects are not followed".to_owned(),
        status => format!("returns status {}", status.as_u16()),
    };
    Err(ProviderError::InvalidResponse { what, why })
}

/// Returns true for `application/json` and types based on it, such as `application/jwk-set+json`.
fn is_json(content_type: &HeaderValue) -> bool {
    let text = content_type.to_str().unwrap_or_default();
    let name = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    name.strip_prefix("application/").is_some_and(|kind| kind == "json" || kind.ends_with("+json"))
}

fn parse_response<T: DeserializeOwned>(what: &'static str, body: Bytes) -> Result<T, ProviderError> {
    // The parser's message may quote a token.
    let unread = |_| ProviderError::InvalidResponse { what, why: "returns an invalid response".to_owned() };
    serde_json::from_slice(&body).map_err(unread)
}
