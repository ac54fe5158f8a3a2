//! Signing in with an OpenID provider: authorization code with PKCE, for the page.
//!
//! ```text
//! page ──GET /api/v1/session/oidc──▶ begin ──302──▶ the provider, where somebody says who they are
//!                                                      │ code, state
//! page ◀──session── finish ◀──GET …/oidc/callback──────┘
//!                     │ code, verifier                 ▲
//!                     └──▶ Provider: token endpoint, keys, userinfo
//! ```
//!
//! `settings` says with whom and who may what, `pending` who is on their way, `provider` asks, `id_token` judges what it says,
//! and `person` names whom that is. Who comes through has a session as one of a token; the API takes nothing else from a provider.

mod id_token;
mod pending;
mod person;
mod provider;
mod settings;
mod trouble;

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::access::Caller;
use crate::error::ServerError;
use crate::front::is_here;
use crate::limits::Limits;
use crate::page::is_view;
pub(crate) use pending::WITHIN;
use pending::{Pending, Traveller};
pub(crate) use person::MARK;
use provider::{Provider, Returned, word};
use settings::OidcSettings;
pub(crate) use trouble::Trouble;

/// Where the provider sends people back to.
pub(crate) const CALLBACK: &str = "/api/v1/session/oidc/callback";
/// How many may be asked for at once.
const AT_ONCE: usize = 16;
/// What is seen first where somebody wants to see nothing that is there.
const FIRST: &str = "/";

/// With whom people sign in.
pub(crate) struct Oidc {
    settings: OidcSettings,
    provider: Provider,
    pending: Pending,
    places: Semaphore,
}

/// Where somebody is sent, and what their browser is to keep until they are back.
pub(crate) struct Begun {
    pub location: String,
    pub browser: String,
    pub is_secure: bool,
}

/// What somebody comes back with.
#[derive(Debug, Default)]
pub(crate) struct Came {
    pub code: Option<String>,
    pub state: Option<String>,
    pub error: Option<String>,
    pub issuer: Option<String>,
}

/// Somebody who may sign in.
#[derive(Debug)]
pub(crate) struct Welcome {
    pub person: Person,
    /// What they want to see.
    pub next: String,
    pub is_secure: bool,
}

/// Somebody for whom the provider has vouched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    /// Their name, marked as one of a provider, and what they may.
    pub caller: Caller,
    /// What the provider knows them by.
    subject: String,
}

impl Oidc {
    /// Reads the settings. `is_here` says that the service is offered to this machine alone.
    pub fn open(path: &Path, is_here: bool, limits: &Limits) -> Result<Self, ServerError> {
        let settings = OidcSettings::read(path, is_here)?;
        let provider = Provider::new(&settings, limits)
            .map_err(|why| ServerError::Oidc { path: path.to_owned(), why })?;
        Ok(Self { settings, provider, pending: Pending::default(), places: Semaphore::new(AT_ONCE) })
    }

    /// What people call the provider.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// How long a session lasts at most.
    pub fn lasts(&self) -> Duration {
        self.settings.lasts
    }

    /// Tells who runs the service when the provider cannot be asked as the settings have it.
    pub async fn look(&self) {
        if let Err(fault) = self.provider.endpoints(&self.settings).await {
            let Self { settings, .. } = self;
            tracing::warn!(issuer = settings.issuer, "nobody can sign in with {}: {fault}", settings.name);
        }
    }

    /// Sends somebody to the provider who asks at this host, and wants to see this when they are back.
    pub async fn begin(
        &self,
        (host, is_tls): (&str, bool),
        next: Option<&str>,
        now: Instant,
    ) -> Result<Begun, Trouble> {
        let origin = self.origin(host, is_tls)?;
        let _place = self.places.try_acquire().map_err(|_| Trouble::Busy)?;
        let fault = |fault| Trouble::Fault { name: self.name().to_owned(), fault };
        let endpoints = self.provider.endpoints(&self.settings).await.map_err(fault)?;
        let is_secure = origin.starts_with("https:");
        let to = format!("{origin}{CALLBACK}");
        let next = next.filter(|next| is_view(next)).unwrap_or(FIRST).to_owned();
        let departure = self.pending.depart(to.clone(), next, now).ok_or(Trouble::Busy)?;
        let asked = [
            ("redirect_uri", to.as_str()),
            ("state", &departure.state),
            ("nonce", &departure.nonce),
            ("code_challenge", &departure.challenge),
        ];
        let location = Provider::address(&self.settings, &endpoints, &asked);
        Ok(Begun { location, browser: departure.browser, is_secure })
    }

    /// Where the page is, for whoever asks at this host. A host that is not known is whoever's.
    fn origin(&self, host: &str, is_tls: bool) -> Result<String, Trouble> {
        if let Some(url) = &self.settings.url {
            let (scheme, authority) = (url.scheme_str().unwrap_or("https"), url.authority());
            let authority = authority.map(|authority| authority.as_str()).unwrap_or_default();
            let origin = format!("{scheme}://{authority}");
            return match authority.eq_ignore_ascii_case(host) {
                true => Ok(origin),
                false => Err(Trouble::Elsewhere(origin)),
            };
        }
        let authority: Option<http::uri::Authority> = host.parse().ok().filter(|_| !host.contains('@'));
        let is_home = authority.is_some_and(|found| is_here(found.host().trim_matches(['[', ']'])));
        let scheme = if is_tls { "https" } else { "http" };
        if is_home { Ok(format!("{scheme}://{host}")) } else { Err(Trouble::Unnamed) }
    }

    /// Takes in somebody who comes back, if they are who they were, and may anything here.
    pub async fn finish(&self, came: &Came, browser: Option<&str>, now: Instant) -> Result<Welcome, Trouble> {
        let _place = self.places.try_acquire().map_err(|_| Trouble::Busy)?;
        let known = came.state.as_deref().zip(browser);
        let traveller = known.and_then(|(state, browser)| self.pending.arrive(state, browser, now));
        let traveller = traveller.ok_or(Trouble::Over)?;
        let name = || self.name().to_owned();
        let fault = |fault| Trouble::Fault { name: name(), fault };
        let endpoints = self.provider.endpoints(&self.settings).await.map_err(fault)?;
        match &came.issuer {
            Some(issuer) if *issuer == self.settings.issuer => {}
            None if !endpoints.names_itself => {}
            _ => return Err(Trouble::Mistaken { name: name() }),
        }
        if let Some(error) = &came.error {
            let why = word(error).unwrap_or("without a word why").to_owned();
            return Err(Trouble::Denied { name: name(), why });
        }
        let code = came.code.as_deref().ok_or(Trouble::Mistaken { name: name() })?;
        let Traveller { verifier, nonce, to, next, .. } = traveller;
        let returned = Returned { code, verifier: &verifier, nonce: &nonce, to: &to };
        let claims = self.provider.claims(&self.settings, &returned).await.map_err(fault)?;
        let person = self.person(&claims)?;
        Ok(Welcome { person, next, is_secure: to.starts_with("https:") })
    }

    fn person(&self, claims: &person::Claims) -> Result<Person, Trouble> {
        let (naming, name) = (&self.settings.naming, self.name().to_owned());
        let who = naming.name(claims).map_err(|why| Trouble::Nameless { name: name.clone(), why })?;
        let groups = naming.groups(claims);
        let role = self.settings.roles.of(&who, &groups);
        let role = role.ok_or_else(|| Trouble::NoRole { name, who: who.clone(), groups })?;
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Person { caller: Caller { name: format!("{MARK}{who}"), role }, subject })
    }
}

#[cfg(test)]
impl Person {
    /// Somebody, for tests.
    pub fn new(name: &str, role: crate::access::Role) -> Self {
        Self { caller: Caller { name: format!("{MARK}{name}"), role }, subject: name.to_owned() }
    }
}
