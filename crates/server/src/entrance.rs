//! Who is let in: by a token, by a session that a token or a provider has opened, or because they are on this machine.
//!
//! A cookie comes with every request of a browser, also with those that a page of somebody else makes it send. So whoever
//! comes by one and wants something done has to come from our own page: by the origin that the browser names, and by a
//! word that only a page which may read our answers knows.

use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use tokio::time::Instant;

use crate::access::Caller;
use crate::front::{is_here, text};
use crate::oidc::{self, Oidc, Person};
use crate::problem::{Code, Problem};
use crate::sessions::{ENDS_AFTER, Holder, Open, Sessions};
use crate::tokens::{Pass, Tokens, is_same};

/// The header by which a page shows that it can read our answers.
pub(crate) const CSRF: HeaderName = HeaderName::from_static("x-tidegate-csrf");
/// What a browser says about where a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The name of the cookie over TLS: browsers take it by no other way, and for this host alone.
const SECURE_COOKIE: &str = "__Host-tidegate-session";
/// The same of who is on their way to a provider and back.
const SECURE_TRAVELLER: &str = "__Host-tidegate-signing-in";

/// Who is let in.
pub(crate) struct Entrance {
    /// `None` where those on this machine may look without.
    tokens: Option<Arc<Tokens>>,
    /// With whom people sign in otherwise.
    oidc: Option<Arc<Oidc>>,
    sessions: Arc<Sessions>,
    /// The names of the cookies without TLS. Cookies know no ports, so several services of a machine need several names.
    cookie: String,
    traveller: String,
    /// The service itself speaks TLS, and not something in front of it: the cookie without it is nobody's.
    is_tls: bool,
}

impl Entrance {
    pub fn new(tokens: Option<Tokens>, oidc: Option<Arc<Oidc>>, port: u16, is_tls: bool) -> Self {
        let (cookie, traveller) = (format!("tidegate-session-{port}"), format!("tidegate-signing-in-{port}"));
        Self { tokens: tokens.map(Arc::new), oidc, sessions: Arc::default(), cookie, traveller, is_tls }
    }

    /// Whether anybody is asked who they are.
    pub fn asks(&self) -> bool {
        self.tokens.is_some() || self.oidc.is_some()
    }

    /// Whether a token lets somebody in.
    pub fn takes_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// With whom people sign in otherwise.
    pub fn oidc(&self) -> Option<&Arc<Oidc>> {
        self.oidc.as_ref()
    }

    /// Whether the service itself speaks TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Who asks. Whoever gives a token is known by it alone.
    pub fn caller(
        &self,
        method: &Method,
        headers: &HeaderMap,
        now: Instant,
    ) -> Result<(Caller, Pass), Problem> {
        if !self.asks() {
            at_home(headers)?;
            return Ok((Caller::unnamed(), Pass::open()));
        }
        let Some(given) = text(headers, &header::AUTHORIZATION)? else {
            return self.by_session(method, headers, now);
        };
        let token = given
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        let known = token.zip(self.tokens.as_ref()).and_then(|(token, tokens)| tokens.caller(token, now));
        known.ok_or_else(|| self.unknown("the token does not count here"))
    }

    /// Somebody is not let in; and by what they would be.
    fn unknown(&self, message: &str) -> Problem {
        let problem = Problem::new(Code::Unauthorized, message);
        match (&self.tokens, &self.oidc) {
            (None, Some(oidc)) => {
                let next = format!(
                    "open the page and sign in with {}; programs need a token, of --tokens FILE",
                    oidc.name()
                );
                Problem { next, ..problem }
            }
            _ => problem,
        }
    }

    fn by_session(
        &self,
        method: &Method,
        headers: &HeaderMap,
        now: Instant,
    ) -> Result<(Caller, Pass), Problem> {
        let Some(secret) = self.secret(headers) else {
            let needs = if self.tokens.is_some() {
                "this needs a token"
            } else {
                "this needs somebody who has signed in"
            };
            return Err(self.unknown(needs));
        };
        let over = || Problem {
            next: "sign in again".to_owned(),
            ..Problem::new(Code::Unauthorized, "the session is over")
        };
        let session = self.sessions.of(secret, now).ok_or_else(over)?;
        let (caller, pass) = match (session.holder().clone(), &self.tokens) {
            (Holder::Person(person), _) => (Some(person.caller.clone()), Pass::of_person(session.clone())),
            (Holder::Token(digest), Some(tokens)) => {
                (tokens.of(&digest, now), Pass::of_token(tokens, digest, session.clone()))
            }
            (Holder::Token(_), None) => return Err(over()),
        };
        let Some(caller) = caller else {
            session.end();
            return Err(over());
        };
        if !method.is_safe() {
            from_own_page(headers)?;
            let said = text(headers, &CSRF)?.unwrap_or_default();
            if !is_same(&said, session.csrf()) {
                return Err(Problem {
                    next: "send the `csrf` of /api/v1/session in the header X-Tidegate-CSRF".to_owned(),
                    ..Problem::new(
                        Code::Forbidden,
                        "whoever comes by a cookie has to show that it is our own page",
                    )
                });
            }
        }
        Ok((caller, pass))
    }

    fn secret<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        self.cookie(headers, (SECURE_COOKIE, &self.cookie))
    }

    /// The secret of a cookie; that over TLS counts more, and alone where all is over TLS: another host of the same domain
    /// cannot set it.
    fn cookie<'h>(&self, headers: &'h HeaderMap, (secure, plain): (&str, &str)) -> Option<&'h str> {
        let named = |wanted: &str| {
            let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
            let mut pairs =
                all.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
            pairs.find(|(name, _)| *name == wanted).map(|(_, secret)| secret)
        };
        named(secure).or_else(|| named(plain).filter(|_| !self.is_tls))
    }

    /// Opens a session for whoever has a token, from our own page.
    pub fn sign_in(&self, token: &str, visit: &Visit, now: Instant) -> Result<SignedIn, Problem> {
        let Some(tokens) = &self.tokens else {
            return Err(Problem::bad(match &self.oidc {
                None => "no token is needed here: those on this machine may look".to_owned(),
                Some(oidc) => format!("no token counts here: people sign in with {}", oidc.name()),
            }));
        };
        let is_secure = visit.own_page.clone()?;
        let wrong = || {
            Problem {
            next: "use a token of the file that --tokens names, or the address that `tidegate serve` has printed"
                .to_owned(),
            ..Problem::new(Code::Unauthorized, "the token does not count here")
        }
        };
        let (caller, pass) = tokens.caller(token.trim(), now).ok_or_else(wrong)?;
        let digest = pass.digest().ok_or_else(wrong)?;
        self.open(caller, (Holder::Token(digest), ENDS_AFTER), is_secure, now)
    }

    /// Opens a session for somebody for whom a provider has vouched.
    pub fn admit(
        &self,
        person: Person,
        lasts: Duration,
        is_secure: bool,
        now: Instant,
    ) -> Result<SignedIn, Problem> {
        let caller = person.caller.clone();
        self.open(caller, (Holder::Person(Arc::new(person)), lasts), is_secure, now)
    }

    fn open(
        &self,
        caller: Caller,
        (holder, lasts): (Holder, Duration),
        is_secure: bool,
        now: Instant,
    ) -> Result<SignedIn, Problem> {
        let none = || Problem::new(Code::Internal, "the system gives no random numbers");
        let (session, secret) = self.sessions.open(holder, lasts, now).ok_or_else(none)?;
        let cookie = self.set_cookie(is_secure, &secret, session.lasts(now).as_secs());
        Ok(SignedIn { caller, session, cookie })
    }

    /// What makes a browser forget both cookies.
    pub fn forget(&self) -> [Option<HeaderValue>; 2] {
        [true, false].map(|is_secure| self.set_cookie(is_secure, "", 0))
    }

    fn set_cookie(&self, is_secure: bool, secret: &str, seconds: u64) -> Option<HeaderValue> {
        let name = if is_secure { SECURE_COOKIE } else { self.cookie.as_str() };
        cookie((name, secret), seconds, "Strict", is_secure)
    }

    /// What a browser is to keep while somebody is on their way to a provider and back; they come back from another site.
    pub fn depart(&self, is_secure: bool, secret: &str) -> Option<HeaderValue> {
        let name = if is_secure { SECURE_TRAVELLER } else { self.traveller.as_str() };
        cookie((name, secret), oidc::WITHIN.as_secs(), "Lax", is_secure)
    }

    /// What makes a browser forget that.
    pub fn arrive(&self) -> [Option<HeaderValue>; 2] {
        [(SECURE_TRAVELLER, true), (self.traveller.as_str(), false)]
            .map(|(name, is_secure)| cookie((name, ""), 0, "Lax", is_secure))
    }
}

/// A cookie for all paths of this host, and for no script.
fn cookie((name, secret): (&str, &str), seconds: u64, site: &str, is_secure: bool) -> Option<HeaderValue> {
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={site}{secure}");
    let mut value = HeaderValue::from_str(&cookie).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Somebody has signed in.
pub(crate) struct SignedIn {
    pub caller: Caller,
    pub session: Open,
    /// What the browser is to keep.
    pub cookie: Option<HeaderValue>,
}

/// How a request came, for those routes that are about it.
pub(crate) struct Visit {
    pub entrance: Arc<Entrance>,
    /// Who asks is let in; otherwise they are told no more than that.
    pub is_let_in: bool,
    /// Whether it is our own page that asks, over TLS or not; or why not.
    own_page: Result<bool, Problem>,
    /// The host that was asked.
    pub host: String,
    /// Another page has sent them.
    pub is_sent: bool,
    /// The secret of who is on their way to a provider and back.
    pub traveller: Option<String>,
}

impl Visit {
    pub fn new(entrance: &Arc<Entrance>, headers: &HeaderMap, is_let_in: bool) -> Self {
        let read = |name| text(headers, name).ok().flatten();
        let traveller = entrance.cookie(headers, (SECURE_TRAVELLER, &entrance.traveller)).map(str::to_owned);
        Self {
            entrance: Arc::clone(entrance),
            is_let_in,
            own_page: from_own_page(headers),
            host: read(&header::HOST).unwrap_or_default(),
            is_sent: read(&FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none"),
            traveller,
        }
    }
}

/// Whether a request comes from our own page; and whether that page came over TLS.
fn from_own_page(headers: &HeaderMap) -> Result<bool, Problem> {
    let foreign = |what: String| {
        Problem {
        next: "use the page that this service shows; something in front of it has to pass on Host and Origin as they come"
            .to_owned(),
        ..Problem::new(Code::Forbidden, what)
    }
    };
    if let Some(site) = text(headers, &FETCH_SITE)?
        && site != "same-origin"
    {
        return Err(foreign(format!("the browser says that this comes from another page ({site:?})")));
    }
    let origin = text(headers, &header::ORIGIN)?.ok_or_else(|| foreign("this has no Origin".to_owned()))?;
    let host = text(headers, &header::HOST)?.unwrap_or_default();
    let wrong = || foreign(format!("the origin {origin:?} is not this service at {host:?}"));
    let (scheme, authority) = origin.split_once("://").ok_or_else(wrong)?;
    let is_plain = authority.parse::<Uri>().is_ok() && !authority.contains(['/', '@', '?', '#']);
    let is_same = is_plain && !host.is_empty() && authority.eq_ignore_ascii_case(&host);
    match scheme {
        "https" if is_same => Ok(true),
        "http" if is_same => Ok(false),
        _ => Err(wrong()),
    }
}

/// Without tokens, only those are answered who know where they are: a page of elsewhere whose name was made to lead here
/// names itself as the host.
fn at_home(headers: &HeaderMap) -> Result<(), Problem> {
    let host = text(headers, &header::HOST)?.unwrap_or_default();
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name),
    };
    if is_here(name) {
        return Ok(());
    }
    Err(Problem {
        next: "ask at 127.0.0.1 or localhost, or start `tidegate serve` with --tokens FILE".to_owned(),
        ..Problem::new(Code::Forbidden, format!("the host {host:?} is not this machine"))
    })
}

#[cfg(test)]
mod tests;
