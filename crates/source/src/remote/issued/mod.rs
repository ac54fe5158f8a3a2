//! Passwords that are good for a while: tokens that GitHub gives an App, Google an account, and Azure an identity.
//!
//! ```text
//! Network::asking ─ Leases: one is kept? ─▶ the work, with it as password ─ 401, and it may have been taken back? ─▶ given up,
//!                      └── no ──▶ github, google, azure: proof that is signed or kept here            and once more with another
//!                                   └──▶ token, until shortly before it ends
//! ```

mod answer;
mod azure;
mod form;
mod github;
mod google;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use tidegate_web::{Lease, Leased, Leases, Refused};

use super::{Link, Network, Problem};
use crate::credentials::{Access, Issuer, IssuerKind};
use crate::hidden::Hidden;

/// More bytes than all answers have that bring a token.
const ANSWERS_MAX: u64 = 256 << 10;

/// The tokens that are kept, by whom they are from.
#[derive(Default)]
pub(crate) struct Tokens {
    leases: Leases<Issuer, Problem>,
    /// By repository, the one that it does not accept though it was new: that it goes on so is no sign that it was taken back.
    useless: Mutex<BTreeMap<String, (Issuer, Hidden)>>,
}

impl Tokens {
    /// Whether a repository may accept another one in the place of this, which it does not accept.
    fn may_be_taken_back(&self, repository: &str, leased: &Leased) -> bool {
        let useless = self.useless.lock().unwrap_or_else(PoisonError::into_inner);
        leased.is_kept && useless.get(repository).is_none_or(|(_, token)| token.0 != leased.token)
    }

    /// Keeps in mind whether a repository accepts a token.
    fn learn(&self, repository: &str, issuer: &Issuer, token: &str, is_accepted: bool) {
        let mut useless = self.useless.lock().unwrap_or_else(PoisonError::into_inner);
        if is_accepted {
            useless.remove(repository);
            return;
        }
        // Another has taken the place of what was there before.
        useless.retain(|_, (other, before)| other != issuer || before.0 == token);
        useless.insert(repository.to_owned(), (issuer.clone(), Hidden(token.to_owned())));
    }

    fn retain(&self, is_kept: impl Fn(&Issuer) -> bool) {
        self.leases.retain(&is_kept);
        let mut useless = self.useless.lock().unwrap_or_else(PoisonError::into_inner);
        useless.retain(|_, (issuer, _)| is_kept(issuer));
    }
}

type Outcome = Result<Lease, Refused<Problem>>;

impl From<Problem> for Refused<Problem> {
    fn from(error: Problem) -> Self {
        Self { error, until: None }
    }
}

impl Network {
    /// Does what needs to be shown a password, with one that is good now. Where a server does not accept one that was kept, and
    /// not because it never has, it is done once more with another. One that is new may do for others, and stays.
    pub fn asking<T>(
        &self,
        access: &Access,
        work: impl Fn(&Access) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let Some(issuer) = &access.issuer else { return work(access) };
        let (repository, is_refused) = (access.repository.as_str(), |problem: &Problem| problem.is_refused);
        let mut leased = self.token(issuer, access)?;
        let mut outcome = work(&access.with_token(issuer, &leased.token));
        if outcome.as_ref().is_err_and(is_refused) && self.tokens.may_be_taken_back(repository, &leased) {
            self.tokens.leases.give_up(issuer, &leased.token);
            leased = self.token(issuer, access)?;
            outcome = work(&access.with_token(issuer, &leased.token));
        }
        match &outcome {
            Ok(_) => self.tokens.learn(repository, issuer, &leased.token, true),
            Err(problem) if problem.is_refused => {
                self.tokens.learn(repository, issuer, &leased.token, false);
            }
            Err(_) => {}
        }
        outcome.map_err(|problem| if problem.is_refused { problem.hint(advice(issuer)) } else { problem })
    }

    fn token(&self, issuer: &Issuer, access: &Access) -> Result<Leased, Problem> {
        let now = self.clock.seconds();
        self.tokens.leases.take(issuer, now, || match &issuer.kind {
            IssuerKind::Github { app, owner } => {
                self.github_token((app, owner.as_deref()), issuer, access, now)
            }
            IssuerKind::Google(account) => self.google_token(account, issuer, access, now),
            IssuerKind::Azure(identity) => self.azure_token(identity, issuer, access, now),
        })
    }

    /// The way to whom tokens are from, which alone is shown the proof of who asks.
    fn to_issuer(
        &self,
        address: &str,
        issuer: &Issuer,
        access: &Access,
        proof: Hidden,
    ) -> Result<Arc<Link>, Problem> {
        let asker = Access {
            secret: Some(issuer.secret.clone()),
            bearer: proof,
            insecure: access.insecure,
            client: access.client.clone(),
            proxy: access.proxy.clone(),
            no_proxy: access.no_proxy.clone(),
            certificates: access.issuer_certificates.clone(),
            // Whoever has written the Secret has said where that is, be it on this machine.
            ..Access::default()
        };
        let attempt = self.attempts.begin(self.limits.look);
        Link::to(address, &asker, self, attempt, ANSWERS_MAX)
    }

    /// Keeps no token of a Secret that has changed.
    pub fn keep_tokens_of(&self, secrets: &BTreeSet<String>) {
        self.tokens.retain(|issuer| secrets.contains(&issuer.secret));
    }
}

/// What to do where a server accepts no token.
fn advice(issuer: &Issuer) -> &'static str {
    match issuer.kind {
        IssuerKind::Github { .. } => {
            "check that githubAppEnterpriseBaseUrl is of the same server, and that the GitHub App may read the repository's contents"
        }
        IssuerKind::Google(_) => "check that the account of gcpServiceAccountKey may read the repository",
        IssuerKind::Azure(_) => "check that the identity of Azure may read the repository",
    }
}

/// The headers of a question.
fn headers(given: &[(http::HeaderName, &'static str)]) -> HeaderMap {
    given.iter().map(|(name, value)| (name.clone(), http::HeaderValue::from_static(value))).collect()
}
