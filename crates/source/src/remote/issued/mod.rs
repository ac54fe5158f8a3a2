//! Passwords that are good for a while: tokens that GitHub gives an App, and Google an account.
//!
//! ```text
//! Network::asking ─ Leases: one is kept? ─▶ the work, with it as password ─ 401? ─▶ given up, and once more with another
//!                      └── no ──▶ github, google: proof that is signed here ─▶ token, until shortly before it ends
//! ```

mod answer;
mod github;
mod google;

use std::collections::BTreeSet;
use std::sync::Arc;

use http::HeaderMap;
use tidegate_web::{Lease, Leased, Leases, Refused};

use super::{Link, Network, Problem};
use crate::credentials::{Access, Issuer, IssuerKind};
use crate::hidden::Hidden;

/// More bytes than all answers have that bring a token.
const ANSWERS_MAX: u64 = 256 << 10;

/// The tokens that are kept, by whom they are from.
pub(crate) type Tokens = Leases<Issuer, Problem>;

type Outcome = Result<Lease, Refused<Problem>>;

impl From<Problem> for Refused<Problem> {
    fn from(error: Problem) -> Self {
        Self { error, until: None }
    }
}

impl Network {
    /// Does what needs to be shown a password, with one that is good now. Where a server does not accept one that was kept, it
    /// is done once more with another.
    pub fn asking<T>(
        &self,
        access: &Access,
        work: impl Fn(&Access) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let Some(issuer) = &access.issuer else { return work(access) };
        let attempt = |leased: Leased| {
            let outcome = work(&access.with_token(issuer, &leased.token));
            if outcome.as_ref().is_err_and(|problem| problem.is_refused) {
                self.tokens.give_up(issuer, &leased.token);
            }
            outcome.map_err(|problem| if problem.is_refused { problem.hint(advice(issuer)) } else { problem })
        };
        let leased = self.token(issuer, access)?;
        let may_be_taken_back = leased.is_kept;
        match attempt(leased) {
            Err(problem) if problem.is_refused && may_be_taken_back => attempt(self.token(issuer, access)?),
            outcome => outcome,
        }
    }

    fn token(&self, issuer: &Issuer, access: &Access) -> Result<Leased, Problem> {
        let now = self.clock.seconds();
        self.tokens.take(issuer, now, || match &issuer.kind {
            IssuerKind::Github { app, owner } => {
                self.github_token((app, owner.as_deref()), issuer, access, now)
            }
            IssuerKind::Google(account) => self.google_token(account, issuer, access, now),
        })
    }

    /// The way to whom tokens are from, which alone is shown the proof of who asks.
    fn to_issuer(&self, issuer: &Issuer, access: &Access, proof: Hidden) -> Result<Arc<Link>, Problem> {
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
        Link::to(issuer.kind.address(), &asker, self, attempt, ANSWERS_MAX)
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
    }
}

/// The headers of a question.
fn headers(given: &[(http::HeaderName, &'static str)]) -> HeaderMap {
    given.iter().map(|(name, value)| (name.clone(), http::HeaderValue::from_static(value))).collect()
}
