//! Access tokens for the installations of GitHub Apps.

use http::header::ACCEPT;
use http::{Method, StatusCode};
use serde_json::Value;
use tidegate_web::{GithubApp, TokenFailure};

use super::token_response::TokenRequest;
use super::{Outcome, create_headers};
use crate::credentials::{AccessSettings, Issuer};
use crate::remote::{CompleteResponse, Link, Network, Problem};
use crate::secret_text::SecretText;

const MEDIA_TYPE: &str = "application/vnd.github+json";
/// Advice about the API path of a GitHub Enterprise server, which users often omit.
const API_PATH_HINT: &str = "check githubAppEnterpriseBaseUrl: for an Enterprise server, use a URL such as https://git.example.com/api/v3";
const REJECTED_HINT: &str = "check githubAppID and githubAppPrivateKey, and the clock of this machine";

impl Network {
    /// Requests a token for an installation of the App. If the Secret has no installation ID, looks up the
    /// installation by the repository's owner.
    pub(super) fn github_token(
        &self,
        app: &GithubApp,
        owner: Option<&str>,
        issuer: &Issuer,
        access: &AccessSettings,
        now: u64,
    ) -> Outcome {
        let who = format!("the GitHub App in Secret {}", issuer.secret);
        let signed = app
            .signed_assertion(now)
            .map_err(|error| Problem::new(format!("cannot get a token for {who}: {error}")))?;
        let asked =
            TokenRequest { server: format!("GitHub at {}", app.base()), who, assertion: &signed, now };
        let link = self.link_to_issuer(app.base(), issuer, access, SecretText(signed.clone()));
        let link = link.map_err(|problem| asked.connection_error(problem))?;
        let talk = GithubApi { link: &link, base: app.base(), request: &asked };
        let installation = match (app.installation(), owner) {
            (Some(known), _) => known,
            (None, owner) => talk.installation(owner.unwrap_or_default())?,
        };
        talk.token(installation)
    }
}

/// Parses a response as JSON, or returns null if it isn't valid.
fn parse_response(answer: &CompleteResponse) -> Value {
    serde_json::from_slice(&answer.content).unwrap_or_default()
}

struct GithubApi<'t> {
    link: &'t Link,
    base: &'t str,
    request: &'t TokenRequest<'t>,
}

impl GithubApi<'_> {
    fn send(&self, method: Method, path: &str) -> Result<CompleteResponse, Problem> {
        let url = format!("{}{path}", self.base);
        let answer = self.link.send_once(method, &url, &create_headers(&[(ACCEPT, MEDIA_TYPE)]), Vec::new());
        answer.map_err(|problem| self.request.connection_error(problem))
    }

    fn failure(&self, answer: &CompleteResponse, missing: &'static str) -> TokenFailure<Problem> {
        let hint = match answer.status {
            StatusCode::UNAUTHORIZED => REJECTED_HINT,
            StatusCode::NOT_FOUND => missing,
            StatusCode::FORBIDDEN => "check the App's permissions, and whether its installation is suspended",
            status if status.is_redirection() || status.is_success() => API_PATH_HINT,
            _ => "",
        };
        self.request.interpret_response(answer, hint)
    }

    /// Looks up the installation of the organization or, failing that, of the user with this name.
    fn installation(&self, owner: &str) -> Result<u64, TokenFailure<Problem>> {
        const MISSING: &str =
            "install the App for the owner of the repository, or check githubAppEnterpriseBaseUrl";
        let mut last = None;
        for path in GithubApp::installation_paths(owner).into_iter().flatten() {
            let answer = self.send(Method::GET, &path)?;
            match answer.status {
                StatusCode::OK => {
                    return GithubApp::parse_installation(&parse_response(&answer)).ok_or_else(|| {
                        self.request
                            .error("returned a response that contains no installation of the GitHub App")
                            .with_hint(API_PATH_HINT)
                            .into()
                    });
                }
                StatusCode::NOT_FOUND => last = Some(answer),
                _ => return Err(self.failure(&answer, MISSING)),
            }
        }
        let what = format!("has no installation of the GitHub App for {owner}");
        Err(match last {
            Some(_) => self.request.error(&what).with_hint(MISSING).into(),
            None => {
                let text = "cannot look up the GitHub App installation: the repository's owner is unknown";
                self.request.error(text).into()
            }
        })
    }

    fn token(&self, installation: u64) -> Outcome {
        let answer = self.send(Method::POST, &GithubApp::token_path(installation))?;
        if !matches!(answer.status, StatusCode::OK | StatusCode::CREATED) {
            return Err(self.failure(&answer, "check githubAppInstallationID and githubAppID"));
        }
        GithubApp::parse_token(&parse_response(&answer)).ok_or_else(|| {
            self.request.error("returned a response without a token").with_hint(API_PATH_HINT).into()
        })
    }
}
