//! Temporary passwords: tokens for GitHub Apps, Google accounts and Azure identities.
//!
//! ```text
//! with_token ─ cached token? ─▶ work, with the token as its password ─ 401? ─▶ once more, with a new token
//!                 └── no ──▶ github, google, azure: send a signed or stored assertion
//!                               └──▶ token, cached until shortly before it expires
//! ```

mod azure;
mod form;
mod github;
mod google;
mod token_response;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use tidegate_web::{ExpiringToken, ObtainedToken, TokenCache, TokenFailure};

use super::{Link, Network, Problem};
use crate::credentials::{AccessSettings, Issuer, IssuerKind};
use crate::secret_text::SecretText;

/// Maximum size of a token response, in bytes.
const RESPONSE_BYTES_MAX: u64 = 256 << 10;

/// Cached tokens, by issuer.
#[derive(Default)]
pub(crate) struct Tokens {
    cache: TokenCache<Issuer, Problem>,
    /// New token last rejected by each repository. If the same token is rejected again, no other one is
    /// requested. It stays cached, because other repositories may accept it.
    rejected: Mutex<BTreeMap<String, (Issuer, SecretText)>>,
}

impl Tokens {
    /// Returns true if the rejected token came from the cache, so that a new one might be accepted.
    fn can_be_replaced(&self, repository: &str, leased: &ObtainedToken) -> bool {
        let useless = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        leased.is_from_cache && useless.get(repository).is_none_or(|(_, token)| token.0 != leased.token)
    }

    /// Records whether a repository accepts or rejects a token.
    fn record_result(&self, repository: &str, issuer: &Issuer, token: &str, is_accepted: bool) {
        let mut useless = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        if is_accepted {
            useless.remove(repository);
            return;
        }
        // Drop entries for older tokens of the same issuer.
        useless.retain(|_, (other, before)| other != issuer || before.0 == token);
        useless.insert(repository.to_owned(), (issuer.clone(), SecretText(token.to_owned())));
    }

    fn retain(&self, is_kept: impl Fn(&Issuer) -> bool) {
        self.cache.retain(&is_kept);
        let mut useless = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        useless.retain(|_, (issuer, _)| is_kept(issuer));
    }
}

type Outcome = Result<ExpiringToken, TokenFailure<Problem>>;

impl From<Problem> for TokenFailure<Problem> {
    fn from(error: Problem) -> Self {
        Self { error, retry_at: None }
    }
}

impl Network {
    /// Calls `work` with a valid temporary password, and again with a new one if the server rejects a cached
    /// one. A new password stays cached even if it is rejected, because other repositories may accept it.
    pub fn with_token<T>(
        &self,
        access: &AccessSettings,
        work: impl Fn(&AccessSettings) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let Some(issuer) = &access.issuer else { return work(access) };
        let (repository, is_refused) = (access.repository.as_str(), |problem: &Problem| problem.is_refused);
        let mut leased = self.obtain_token(issuer, access)?;
        let mut outcome = work(&access.with_token(issuer, &leased.token));
        if outcome.as_ref().is_err_and(is_refused) && self.tokens.can_be_replaced(repository, &leased) {
            self.tokens.cache.discard(issuer, &leased.token);
            leased = self.obtain_token(issuer, access)?;
            outcome = work(&access.with_token(issuer, &leased.token));
        }
        match &outcome {
            Ok(_) => self.tokens.record_result(repository, issuer, &leased.token, true),
            Err(problem) if problem.is_refused => {
                self.tokens.record_result(repository, issuer, &leased.token, false);
            }
            Err(_) => {}
        }
        outcome.map_err(|problem| {
            if problem.is_refused { problem.with_hint(rejected_token_hint(issuer)) } else { problem }
        })
    }

    fn obtain_token(&self, issuer: &Issuer, access: &AccessSettings) -> Result<ObtainedToken, Problem> {
        let now = self.clock.seconds();
        self.tokens.cache.get_or_request(issuer, now, || match &issuer.kind {
            IssuerKind::Github { app, owner } => {
                self.github_token(app, owner.as_deref(), issuer, access, now)
            }
            IssuerKind::Google(account) => self.google_token(account, issuer, access, now),
            IssuerKind::Azure(identity) => self.azure_token(identity, issuer, access, now),
        })
    }

    /// Creates a link to the issuer, the only server to receive the assertion.
    fn link_to_issuer(
        &self,
        address: &str,
        issuer: &Issuer,
        access: &AccessSettings,
        proof: SecretText,
    ) -> Result<Arc<Link>, Problem> {
        let asker = AccessSettings {
            secret: Some(issuer.secret.clone()),
            bearer: proof,
            is_insecure: access.is_insecure,
            client: access.client.clone(),
            proxy: access.proxy.clone(),
            no_proxy: access.no_proxy.clone(),
            certificates: access.issuer_certificates.clone(),
            // The issuer may be on this machine, since the author of the Secret chose it.
            ..AccessSettings::default()
        };
        let attempt = self.attempts.start(self.limits.list_refs);
        Link::for_address(address, &asker, self, attempt, RESPONSE_BYTES_MAX)
    }

    /// Drops the cached tokens of all Secrets not in `secrets`.
    pub fn retain_tokens_of(&self, secrets: &BTreeSet<String>) {
        self.tokens.retain(|issuer| secrets.contains(&issuer.secret));
    }
}

/// Returns advice for when the server rejects even a new token.
fn rejected_token_hint(issuer: &Issuer) -> &'static str {
    match issuer.kind {
        IssuerKind::Github { .. } => {
            "check that githubAppEnterpriseBaseUrl is on the same server as the repository, and that the GitHub App may read the repository's contents"
        }
        IssuerKind::Google(_) => {
            "check that the service account in gcpServiceAccountKey may read the repository"
        }
        IssuerKind::Azure(_) => "check that the Azure identity may read the repository",
    }
}

/// Creates headers for a request.
fn create_headers(given: &[(http::HeaderName, &'static str)]) -> HeaderMap {
    given.iter().map(|(name, value)| (name.clone(), http::HeaderValue::from_static(value))).collect()
}
