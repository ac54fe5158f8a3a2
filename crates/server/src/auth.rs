//! Authentication of callers. A caller presents a token, has a session opened with a token or through a
//! provider, or runs on this machine.
//!
//! Browsers send cookies with every request, even if a foreign page triggers it. State-changing requests with
//! a cookie must therefore come from Tidegate's own page. They need two proofs: the origin reported by the
//! browser, and a CSRF token, which only a page that can read the server's responses has.

use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use tokio::time::Instant;

use crate::access::{Caller, Person};
use crate::headers::single_header;
use crate::loopback::is_loopback_host;
use crate::oidc::{self, Oidc};
use crate::problem::{Code, Problem};
use crate::sessions::{LIFETIME_MAX, OpenSession, Principal, Sessions};
use crate::tokens::{AuthContext, Tokens, is_same};

/// Header for the CSRF token, which proves that the sending page can read the server's responses.
pub(crate) const CSRF_HEADER: HeaderName = HeaderName::from_static("x-tidegate-csrf");
/// Header in which browsers report the origin of a request.
pub(crate) const FETCH_SITE_HEADER: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Name of the session cookie over TLS. Browsers accept this prefix only over TLS, and only for this host.
const SECURE_SESSION_COOKIE: &str = "__Host-tidegate-session";
/// Name of the cookie for a pending login over TLS.
const SECURE_LOGIN_COOKIE: &str = "__Host-tidegate-signing-in";

/// Authenticates requests.
pub(crate) struct Authenticator {
    /// Access tokens. `None` if callers on this machine may read without a token.
    tokens: Option<Arc<Tokens>>,
    /// OpenID provider for sign-in.
    oidc: Option<Arc<Oidc>>,
    sessions: Arc<Sessions>,
    /// Name of the session cookie over plain HTTP. It includes the port, because the ports of a host share
    /// cookies.
    session_cookie: String,
    login_cookie: String,
    /// True if the service itself terminates TLS, so that cookies for plain HTTP are ignored.
    is_tls: bool,
}

impl Authenticator {
    pub fn new(tokens: Option<Tokens>, oidc: Option<Arc<Oidc>>, port: u16, is_tls: bool) -> Self {
        let (session_cookie, login_cookie) =
            (format!("tidegate-session-{port}"), format!("tidegate-signing-in-{port}"));
        Self {
            tokens: tokens.map(Arc::new),
            oidc,
            sessions: Arc::default(),
            session_cookie,
            login_cookie,
            is_tls,
        }
    }

    /// Uses these sessions instead of new ones.
    pub fn with_sessions(self, sessions: Arc<Sessions>) -> Self {
        Self { sessions, ..self }
    }

    pub fn needs_authentication(&self) -> bool {
        self.tokens.is_some() || self.oidc.is_some()
    }

    /// Returns true if tokens are accepted.
    pub fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    pub fn oidc(&self) -> Option<&Arc<Oidc>> {
        self.oidc.as_ref()
    }

    /// Returns true if the service itself terminates TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Authenticates a request. A token takes precedence over any cookie.
    pub fn authenticate(
        &self,
        method: &Method,
        headers: &HeaderMap,
        now: Instant,
    ) -> Result<(Caller, AuthContext), Problem> {
        if !self.needs_authentication() {
            check_local_host(headers)?;
            return Ok((Caller::anonymous(), AuthContext::anonymous()));
        }
        let Some(given) = single_header(headers, &header::AUTHORIZATION)? else {
            return self.authenticate_session(method, headers, now);
        };
        let token = given
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        let known =
            token.zip(self.tokens.as_ref()).and_then(|(token, tokens)| tokens.authenticate(token, now));
        known.ok_or_else(|| self.unauthorized_problem("invalid token"))
    }

    /// Returns the problem for an unauthenticated request, with advice on signing in.
    fn unauthorized_problem(&self, message: &str) -> Problem {
        let problem = Problem::new(Code::Unauthorized, message);
        match (&self.tokens, &self.oidc) {
            (None, Some(oidc)) => {
                let next = format!(
                    "open the page and sign in with {}; programs need a token from the --tokens file",
                    oidc.name()
                );
                Problem { next, ..problem }
            }
            _ => problem,
        }
    }

    fn authenticate_session(
        &self,
        method: &Method,
        headers: &HeaderMap,
        now: Instant,
    ) -> Result<(Caller, AuthContext), Problem> {
        let Some(secret) = self.session_secret(headers) else {
            let needs = if self.tokens.is_some() {
                "authentication required: no token in the request"
            } else {
                "authentication required: not signed in"
            };
            return Err(self.unauthorized_problem(needs));
        };
        let over = || Problem {
            next: "sign in again".to_owned(),
            ..Problem::new(Code::Unauthorized, "the session has expired")
        };
        let session = self.sessions.get(secret, now).ok_or_else(over)?;
        let (caller, pass) = match (session.principal().clone(), &self.tokens) {
            (Principal::Person(person), _) => {
                // The session of an earlier process ends if the settings have changed.
                let current = self.oidc.as_ref().map(|oidc| oidc.settings_digest());
                let caller = Some(person.caller.clone()).filter(|_| current == Some(person.settings));
                (caller, AuthContext::for_person(session.clone()))
            }
            (Principal::Token(digest), Some(tokens)) => (
                tokens.find_caller(&digest, now),
                AuthContext::for_token_session(tokens, digest, session.clone()),
            ),
            (Principal::Token(_), None) => return Err(over()),
        };
        let Some(caller) = caller else {
            session.end();
            return Err(over());
        };
        if !method.is_safe() {
            check_origin(headers)?;
            let header_value = single_header(headers, &CSRF_HEADER)?.unwrap_or_default();
            if !is_same(&header_value, session.csrf()) {
                return Err(Problem {
                    next: "send the value of `csrf` from /api/v1/session in the X-Tidegate-CSRF header"
                        .to_owned(),
                    ..Problem::new(
                        Code::Forbidden,
                        "missing or wrong CSRF token: requests with a cookie need a valid CSRF token",
                    )
                });
            }
        }
        Ok((caller, pass))
    }

    fn session_secret<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        self.find_cookie(headers, SECURE_SESSION_COOKIE, &self.session_cookie)
    }

    /// Returns the secret in a cookie. The TLS cookie takes precedence, because other hosts in the same
    /// domain can't set it. If the service terminates TLS, no other cookie is accepted.
    fn find_cookie<'h>(&self, headers: &'h HeaderMap, tls_name: &str, plain_name: &str) -> Option<&'h str> {
        let named = |wanted: &str| {
            let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
            let mut pairs =
                all.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
            pairs.find(|(name, _)| *name == wanted).map(|(_, secret)| secret)
        };
        named(tls_name).or_else(|| named(plain_name).filter(|_| !self.is_tls))
    }

    /// Opens a session with a token, for Tidegate's own page.
    pub fn sign_in_with_token(
        &self,
        token: &str,
        visit: &RequestOrigin,
        now: Instant,
    ) -> Result<NewSession, Problem> {
        let Some(tokens) = &self.tokens else {
            return Err(Problem::bad_request(match &self.oidc {
                None => {
                    "the service runs without tokens: users of this machine have read-only access".to_owned()
                }
                Some(oidc) => format!("the service does not accept tokens; sign in with {}", oidc.name()),
            }));
        };
        let is_secure = visit.own_page.clone()?;
        let wrong = || Problem {
            next: "use a token from the --tokens file, or open the URL that `tidegate serve` printed"
                .to_owned(),
            ..Problem::new(Code::Unauthorized, "invalid token")
        };
        let (caller, pass) = tokens.authenticate(token.trim(), now).ok_or_else(wrong)?;
        let digest = pass.digest().ok_or_else(wrong)?;
        self.open_session(caller, Principal::Token(digest), LIFETIME_MAX, is_secure, now)
    }

    /// Opens a session for a user authenticated by a provider.
    pub fn sign_in_person(
        &self,
        person: Person,
        lifetime: Duration,
        is_secure: bool,
        now: Instant,
    ) -> Result<NewSession, Problem> {
        let caller = person.caller.clone();
        self.open_session(caller, Principal::Person(Arc::new(person)), lifetime, is_secure, now)
    }

    fn open_session(
        &self,
        caller: Caller,
        principal: Principal,
        lifetime: Duration,
        is_secure: bool,
        now: Instant,
    ) -> Result<NewSession, Problem> {
        let none = || Problem::new(Code::Internal, "the system cannot provide random numbers");
        let (session, secret) = self.sessions.open(principal, lifetime, now).ok_or_else(none)?;
        let cookie = self.session_cookie(is_secure, &secret, session.remaining_lifetime(now).as_secs());
        Ok(NewSession { caller, session, cookie })
    }

    /// Returns headers that delete both session cookies.
    pub fn expired_session_cookies(&self) -> [Option<HeaderValue>; 2] {
        [true, false].map(|is_secure| self.session_cookie(is_secure, "", 0))
    }

    fn session_cookie(&self, is_secure: bool, secret: &str, seconds: u64) -> Option<HeaderValue> {
        let name = if is_secure { SECURE_SESSION_COOKIE } else { self.session_cookie.as_str() };
        format_cookie(name, secret, seconds, "Strict", is_secure)
    }

    /// Returns the cookie for a pending login. The browser must also send it when the provider, another site,
    /// redirects back.
    pub fn login_cookie(&self, is_secure: bool, secret: &str) -> Option<HeaderValue> {
        let name = if is_secure { SECURE_LOGIN_COOKIE } else { self.login_cookie.as_str() };
        format_cookie(name, secret, oidc::LOGIN_TIMEOUT.as_secs(), "Lax", is_secure)
    }

    /// Returns headers that delete both login cookies.
    pub fn expired_login_cookies(&self) -> [Option<HeaderValue>; 2] {
        [(SECURE_LOGIN_COOKIE, true), (self.login_cookie.as_str(), false)]
            .map(|(name, is_secure)| format_cookie(name, "", 0, "Lax", is_secure))
    }
}

/// Returns a cookie for all paths of this host, inaccessible to scripts.
fn format_cookie(name: &str, secret: &str, seconds: u64, site: &str, is_secure: bool) -> Option<HeaderValue> {
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={site}{secure}");
    let mut value = HeaderValue::from_str(&cookie).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A newly opened session.
pub(crate) struct NewSession {
    pub caller: Caller,
    pub session: OpenSession,
    /// Session cookie for the browser.
    pub cookie: Option<HeaderValue>,
}

/// Origin of a request, for routes that depend on it.
pub(crate) struct RequestOrigin {
    pub authenticator: Arc<Authenticator>,
    /// True if the caller is authenticated. Otherwise, the response must not reveal anything else.
    pub is_authenticated: bool,
    /// `Ok` if Tidegate's own page sent the request: true over TLS, false over plain HTTP. `Err` if another
    /// page did.
    own_page: Result<bool, Problem>,
    /// Host of the request.
    pub host: String,
    /// True if another page sent the request.
    pub is_cross_site: bool,
    /// Secret of the pending login.
    pub login_secret: Option<String>,
}

impl RequestOrigin {
    pub fn new(entrance: &Arc<Authenticator>, headers: &HeaderMap, is_authenticated: bool) -> Self {
        let read = |name| single_header(headers, name).ok().flatten();
        let login_secret =
            entrance.find_cookie(headers, SECURE_LOGIN_COOKIE, &entrance.login_cookie).map(str::to_owned);
        Self {
            authenticator: Arc::clone(entrance),
            is_authenticated,
            own_page: check_origin(headers),
            host: read(&header::HOST).unwrap_or_default(),
            is_cross_site: read(&FETCH_SITE_HEADER)
                .is_some_and(|site| site != "same-origin" && site != "none"),
            login_secret,
        }
    }
}

/// Checks that a request comes from Tidegate's own page, and returns true if the page was loaded over TLS.
fn check_origin(headers: &HeaderMap) -> Result<bool, Problem> {
    let foreign = |what: String| Problem {
        next: "use this service's page; a proxy in front of the service must forward Host and Origin \
               unchanged"
            .to_owned(),
        ..Problem::new(Code::Forbidden, what)
    };
    if let Some(site) = single_header(headers, &FETCH_SITE_HEADER)?
        && site != "same-origin"
    {
        return Err(foreign(format!("cross-site request rejected (Sec-Fetch-Site is {site:?})")));
    }
    let origin = single_header(headers, &header::ORIGIN)?
        .ok_or_else(|| foreign("the Origin header is missing".to_owned()))?;
    let host = single_header(headers, &header::HOST)?.unwrap_or_default();
    let wrong = || foreign(format!("the origin {origin:?} does not match the host {host:?}"));
    let (scheme, authority) = origin.split_once("://").ok_or_else(wrong)?;
    let is_plain = authority.parse::<Uri>().is_ok() && !authority.contains(['/', '@', '?', '#']);
    let is_same = is_plain && !host.is_empty() && authority.eq_ignore_ascii_case(&host);
    match scheme {
        "https" if is_same => Ok(true),
        "http" if is_same => Ok(false),
        _ => Err(wrong()),
    }
}

/// Checks the host of a request to a server without tokens, to prevent DNS rebinding: a foreign page's host
/// name may resolve to this machine.
fn check_local_host(headers: &HeaderMap) -> Result<(), Problem> {
    let host = single_header(headers, &header::HOST)?.unwrap_or_default();
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name),
    };
    if is_loopback_host(name) {
        return Ok(());
    }
    Err(Problem {
        next: "use 127.0.0.1 or localhost, or start `tidegate serve` with --tokens FILE".to_owned(),
        ..Problem::new(Code::Forbidden, format!("the host {host:?} is not local"))
    })
}

#[cfg(test)]
mod tests;
