//! Sign-in with an OpenID provider for the web page, using the authorization code flow with PKCE.
//!
//! ```text
//! page ──GET /api/v1/session/oidc──▶ start_login ──302──▶ the provider, where the user signs in
//!                                                           │ code, state
//! page ◀──session── finish_login ◀──GET …/oidc/callback─────┘
//!                     │ code, verifier
//!                     └──▶ Provider: token endpoint, keys, userinfo
//! ```
//!
//! `settings` holds the provider and the roles, and `pending_logins` the logins in progress. `provider` sends
//! requests, `id_token` validates the responses, and `identity` derives the user name. Signing in opens the
//! same kind of session as a token does. A provider's credentials give no other access to the API.

mod id_token;
mod identity;
mod pending_logins;
mod provider;
mod settings;
mod sign_in_error;

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::access::{Caller, Person};
use crate::error::ServerError;
use crate::limits::Limits;
use crate::loopback::is_loopback_host;
use crate::page::is_view;
pub(crate) use identity::MARK;
pub(crate) use pending_logins::LOGIN_TIMEOUT;
use pending_logins::{PendingLogin, PendingLogins};
use provider::{CodeExchange, Provider, plain_word};
use settings::OidcSettings;
pub(crate) use sign_in_error::SignInError;

/// Path that the provider redirects users to.
pub(crate) const CALLBACK: &str = "/api/v1/session/oidc/callback";
/// Maximum number of concurrent requests to the provider.
const CONCURRENT_REQUESTS_MAX: usize = 16;
/// View shown after signing in if the requested view doesn't exist.
const DEFAULT_VIEW: &str = "/";

/// Sign-in with an OpenID provider.
pub(crate) struct Oidc {
    settings: OidcSettings,
    provider: Provider,
    pending_logins: PendingLogins,
    request_permits: Semaphore,
}

/// Redirect to the provider, and the cookie for the login in progress.
pub(crate) struct LoginRedirect {
    pub location: String,
    pub browser_secret: String,
    pub is_secure: bool,
}

/// Query parameters of the provider's redirect.
#[derive(Debug, Default)]
pub(crate) struct CallbackParameters {
    pub code: Option<String>,
    pub state: Option<String>,
    pub error: Option<String>,
    pub issuer: Option<String>,
}

/// A successful sign-in.
#[derive(Debug)]
pub(crate) struct CompletedLogin {
    pub person: Person,
    /// View to show after signing in.
    pub next: String,
    pub is_secure: bool,
}

impl Oidc {
    /// Reads the settings. `is_here` is true if the service only listens on this machine.
    pub fn load(path: &Path, is_here: bool, limits: &Limits) -> Result<Self, ServerError> {
        let settings = OidcSettings::read(path, is_here)?;
        let provider = Provider::new(&settings, limits)
            .map_err(|why| ServerError::InvalidOidc { path: path.to_owned(), why })?;
        Ok(Self {
            settings,
            provider,
            pending_logins: PendingLogins::default(),
            request_permits: Semaphore::new(CONCURRENT_REQUESTS_MAX),
        })
    }

    /// Returns the display name of the provider.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Returns the digest of the settings file.
    pub fn settings_digest(&self) -> [u8; 32] {
        self.settings.digest
    }

    /// Returns the maximum lifetime of a session.
    pub fn session_lifetime(&self) -> Duration {
        self.settings.session_lifetime
    }

    /// Logs a warning if the provider can't be reached with these settings.
    pub async fn check_provider(&self) {
        if let Err(fault) = self.provider.endpoints(&self.settings).await {
            let Self { settings, .. } = self;
            tracing::warn!(
                issuer = settings.issuer,
                "sign-in with {} is not available: {fault}",
                settings.name
            );
        }
    }

    /// Starts a login for a client at this host name. `next` is the view to show afterward.
    pub async fn start_login(
        &self,
        host: &str,
        is_tls: bool,
        next: Option<&str>,
        now: Instant,
    ) -> Result<LoginRedirect, SignInError> {
        let origin = self.page_origin(host, is_tls)?;
        let _place = self.request_permits.try_acquire().map_err(|_| SignInError::Busy)?;
        let fault = |fault| SignInError::Provider { name: self.name().to_owned(), fault };
        let endpoints = self.provider.endpoints(&self.settings).await.map_err(fault)?;
        let is_secure = origin.starts_with("https:");
        let to = format!("{origin}{CALLBACK}");
        let next = next.filter(|next| is_view(next)).unwrap_or(DEFAULT_VIEW).to_owned();
        let departure = self.pending_logins.start(to.clone(), next, now).ok_or(SignInError::Busy)?;
        let parameters = [
            ("redirect_uri", to.as_str()),
            ("state", &departure.state),
            ("nonce", &departure.nonce),
            ("code_challenge", &departure.challenge),
        ];
        let location = Provider::authorization_url(&self.settings, &endpoints, &parameters);
        Ok(LoginRedirect { location, browser_secret: departure.browser_secret, is_secure })
    }

    /// Returns the page's origin for a client at this host name. Rejects an unknown host, which could be an
    /// attacker's.
    fn page_origin(&self, host: &str, is_tls: bool) -> Result<String, SignInError> {
        if let Some(url) = &self.settings.url {
            let (scheme, authority) = (url.scheme_str().unwrap_or("https"), url.authority());
            let authority = authority.map(|authority| authority.as_str()).unwrap_or_default();
            let origin = format!("{scheme}://{authority}");
            return match authority.eq_ignore_ascii_case(host) {
                true => Ok(origin),
                false => Err(SignInError::WrongAddress(origin)),
            };
        }
        let authority: Option<http::uri::Authority> = host.parse().ok().filter(|_| !host.contains('@'));
        let is_home = authority.is_some_and(|found| is_loopback_host(found.host().trim_matches(['[', ']'])));
        let scheme = if is_tls { "https" } else { "http" };
        if is_home { Ok(format!("{scheme}://{host}")) } else { Err(SignInError::UnknownAddress) }
    }

    /// Completes a login that was started in the same browser, if the user has a role.
    pub async fn finish_login(
        &self,
        came: &CallbackParameters,
        browser: Option<&str>,
        now: Instant,
    ) -> Result<CompletedLogin, SignInError> {
        let _place = self.request_permits.try_acquire().map_err(|_| SignInError::Busy)?;
        let known = came.state.as_deref().zip(browser);
        let traveller = known.and_then(|(state, browser)| self.pending_logins.complete(state, browser, now));
        let traveller = traveller.ok_or(SignInError::Expired)?;
        let name = || self.name().to_owned();
        let fault = |fault| SignInError::Provider { name: name(), fault };
        let endpoints = self.provider.endpoints(&self.settings).await.map_err(fault)?;
        match &came.issuer {
            Some(issuer) if *issuer == self.settings.issuer => {}
            None if !endpoints.has_issuer_parameter => {}
            _ => return Err(SignInError::InvalidResponse { name: name() }),
        }
        if let Some(error) = &came.error {
            let why = plain_word(error).unwrap_or("no reason given").to_owned();
            return Err(SignInError::Denied { name: name(), why });
        }
        let code = came.code.as_deref().ok_or(SignInError::InvalidResponse { name: name() })?;
        let PendingLogin { verifier, nonce, redirect_uri, next, .. } = traveller;
        let returned = CodeExchange { code, verifier: &verifier, nonce: &nonce, redirect_uri: &redirect_uri };
        let claims = self.provider.fetch_claims(&self.settings, &returned).await.map_err(fault)?;
        let person = self.resolve_person(&claims)?;
        Ok(CompletedLogin { person, next, is_secure: redirect_uri.starts_with("https:") })
    }

    fn resolve_person(&self, claims: &identity::Claims) -> Result<Person, SignInError> {
        let (naming, name) = (&self.settings.claim_names, self.name().to_owned());
        let who = naming.name(claims).map_err(|why| SignInError::NoName { name: name.clone(), why })?;
        let groups = naming.groups(claims);
        let role = self.settings.roles.find_role(&who, &groups);
        let role = role.ok_or_else(|| SignInError::NoRole { name, who: who.clone(), groups })?;
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Person {
            caller: Caller { name: format!("{MARK}{who}"), role },
            subject,
            settings: self.settings.digest,
        })
    }
}
