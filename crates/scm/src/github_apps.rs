//! GitHub Apps and their access tokens.

use serde_json::{Value, json};
use tidegate_web::{ExpiringToken, GITHUB_APP_FIELDS, GithubApp, TokenFailure, is_same_server};

use crate::api_address::Base;
use crate::conversation::Conversation;
use crate::http_client::Authorities;
use crate::problem::Problem;
use crate::request_credentials::{RequestCredentials, Scheme};
use crate::secrets::{RequestContext, Token};
use crate::token_cache::{CachedToken, Installation};

/// A GitHub App configured in a repository Secret.
pub(crate) struct App<'n> {
    secret: &'n str,
    app: GithubApp,
}

impl<'n> App<'n> {
    /// Reads the App from a Secret.
    pub fn from_secret(asking: RequestContext<'_>, secret: &'n str) -> Result<Self, Problem> {
        let found = asking.secrets.app_secret(secret, &GITHUB_APP_FIELDS).map_err(Problem::new)?;
        let app = GithubApp::new(|field| found.get(field).map(Token::text).unwrap_or_default());
        let app = app.map_err(|wrong| Problem::new(format!("appSecretName: Secret {secret} {wrong}")))?;
        Ok(Self { secret, app })
    }

    /// Returns the generator's API URL, or else the App's. Fails if the generator names a different server,
    /// which could then use the App's signature.
    pub fn base(&self, asking: RequestContext<'_>, api: &str) -> Result<Base, Problem> {
        let base = asking.api_address(api, self.app.base())?;
        let own = Base::new("githubAppEnterpriseBaseUrl", self.app.base())?;
        if is_same_server(own.uri(), base.uri()) {
            return Ok(base);
        }
        let (api, secret) = (base.text(), self.secret);
        Err(Problem::new(match self.app.configured_base() {
            Some(_) => format!(
                "api {api} differs from githubAppEnterpriseBaseUrl in Secret {secret}; remove api, or \
                 correct one of them"
            ),
            None => format!(
                "api {api} differs from {}, the server of the GitHub App in Secret {secret}; set \
                 githubAppEnterpriseBaseUrl in the Secret",
                own.text()
            ),
        }))
    }

    /// Returns an access token for an installation of the App: that in the Secret, or else the installation
    /// of `owner`.
    pub fn proof(
        &self,
        asking: RequestContext<'_>,
        base: &Base,
        owner: &str,
    ) -> Result<RequestCredentials, Problem> {
        let now = asking.web.clock.seconds();
        let owner = self.app.installation().is_none().then(|| owner.to_ascii_lowercase());
        let installed = Installation { base: base.text().to_owned(), app: self.app.clone(), owner };
        let ask = || {
            let asked = self.request_token(asking, base, installed.owner.as_deref(), now);
            let text = |error: &Problem| {
                format!("cannot get a token for the GitHub App in Secret {}: {}", self.secret, error.message)
            };
            // Otherwise, a missing App would look like a missing repository.
            asked.map_err(|error| TokenFailure {
                error: Problem { status: None, message: text(&error), ..error },
                retry_at: None,
            })
        };
        let leased = asking.web.tokens.get_or_request(&installed, now, ask)?;
        let origin = format!("the token of the GitHub App in Secret {}", self.secret);
        let proof = RequestCredentials::from_token(&Token::new(&leased.token), origin, &Scheme::Bearer)?;
        let held =
            CachedToken { installation: installed, token: leased.token, is_from_cache: leased.is_from_cache };
        Ok(RequestCredentials {
            identity: Some(self.rate_limit_identity()),
            cached_token: Some(held),
            ..proof
        })
    }

    /// Returns the identity that GitHub's rate limit applies to.
    fn rate_limit_identity(&self) -> String {
        format!("App {} {:?}", self.app.id(), self.app.installation())
    }

    fn request_token(
        &self,
        asking: RequestContext<'_>,
        base: &Base,
        owner: Option<&str>,
        now: u64,
    ) -> Result<ExpiringToken, Problem> {
        let origin = format!("githubAppPrivateKey in Secret {}", self.secret);
        let signed =
            self.app.signed_assertion(now).map_err(|error| Problem::new(format!("{origin}: {error}")))?;
        let proof = RequestCredentials::from_token(&Token::new(signed), origin, &Scheme::Bearer)?;
        let proof = RequestCredentials { identity: Some(self.rate_limit_identity()), ..proof };
        let talk = Conversation::new(asking.web, "GitHub", base.clone(), Some(proof), &Authorities::System)?;
        asking.web.run(async {
            let installation = match (self.app.installation(), owner) {
                (Some(known), _) => known,
                (None, owner) => self.find_installation(&talk, owner.unwrap_or_default()).await?,
            };
            let answer: Value = talk.post(&GithubApp::token_path(installation), &json!({})).await?;
            GithubApp::parse_token(&answer)
                .ok_or_else(|| talk.problem("returned a response without a token; check the address"))
        })
    }

    async fn find_installation(&self, talk: &Conversation<'_>, owner: &str) -> Result<u64, Problem> {
        for path in GithubApp::installation_paths(owner).into_iter().flatten() {
            if let Some(found) = talk.find::<Value>(&path, "").await? {
                return GithubApp::parse_installation(&found).ok_or_else(|| {
                    talk.problem("returned a response that contains no installation of the GitHub App; check the address")
                });
            }
        }
        Err(talk.problem(format!(
            "has no installation of the GitHub App for {owner}; install the App for that owner"
        )))
    }
}

/// Runs a request and retries with a new token if the server rejected a cached one.
pub(crate) fn retry_stale_token<T>(ask: impl Fn() -> Result<T, Problem>) -> Result<T, Problem> {
    match ask() {
        Err(problem) if problem.is_stale => ask(),
        answer => answer,
    }
}
