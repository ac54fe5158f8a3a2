//! Tokens that GitHub gives for an installation of an App.

use http::header::ACCEPT;
use http::{Method, StatusCode};
use serde_json::Value;
use tidegate_web::{GithubApp, Refused};

use super::answer::Asked;
use super::{Outcome, headers};
use crate::credentials::{Access, Issuer};
use crate::hidden::Hidden;
use crate::remote::{Fetched, Link, Network, Problem};

const TYPE: &str = "application/vnd.github+json";
/// Where the API of an Enterprise server is, which people leave out.
const ELSEWHERE: &str = "check githubAppEnterpriseBaseUrl: that of an Enterprise server is such as https://git.example.com/api/v3";
const UNKNOWN: &str = "check githubAppID and githubAppPrivateKey, and the clock of this machine";

impl Network {
    /// Asks for a token of an installation, which is found by an owner of repositories where it is not written down.
    pub(super) fn github_token(
        &self,
        (app, owner): (&GithubApp, Option<&str>),
        issuer: &Issuer,
        access: &Access,
        now: u64,
    ) -> Outcome {
        let who = format!("the GitHub App of Secret {}", issuer.secret);
        let signed = app.proof(now).map_err(|error| Problem::new(format!("{who} has no token: {error}")))?;
        let asked = Asked { server: format!("GitHub at {}", app.base()), who, proof: &signed, now };
        let link = self.to_issuer(app.base(), issuer, access, Hidden(signed.clone()));
        let link = link.map_err(|problem| asked.unreached(problem))?;
        let talk = Talk { link: &link, base: app.base(), asked: &asked };
        let installation = match (app.installation(), owner) {
            (Some(known), _) => known,
            (None, owner) => talk.installation(owner.unwrap_or_default())?,
        };
        talk.token(installation)
    }
}

/// An answer as JSON; nothing where it is something else.
fn read(answer: &Fetched) -> Value {
    serde_json::from_slice(&answer.content).unwrap_or_default()
}

struct Talk<'t> {
    link: &'t Link,
    base: &'t str,
    asked: &'t Asked<'t>,
}

impl Talk<'_> {
    fn ask(&self, method: Method, path: &str) -> Result<Fetched, Problem> {
        let url = format!("{}{path}", self.base);
        let answer = self.link.exchange(method, &url, &headers(&[(ACCEPT, TYPE)]), Vec::new());
        answer.map_err(|problem| self.asked.unreached(problem))
    }

    fn refused(&self, answer: &Fetched, missing: &'static str) -> Refused<Problem> {
        let hint = match answer.status {
            StatusCode::UNAUTHORIZED => UNKNOWN,
            StatusCode::NOT_FOUND => missing,
            StatusCode::FORBIDDEN => "check whether the installation is suspended, and what the App may do",
            status if status.is_redirection() || status.is_success() => ELSEWHERE,
            _ => "",
        };
        self.asked.judge(answer, hint)
    }

    /// The installation at an organisation, or else at a user.
    fn installation(&self, owner: &str) -> Result<u64, Refused<Problem>> {
        const MISSING: &str =
            "install the App at the owner of the repository, or check githubAppEnterpriseBaseUrl";
        let mut last = None;
        for path in GithubApp::installation_paths(owner).into_iter().flatten() {
            let answer = self.ask(Method::GET, &path)?;
            match answer.status {
                StatusCode::OK => {
                    return GithubApp::installation_of(&read(&answer)).ok_or_else(|| {
                        self.asked.wrong("answers with what is no installation").hint(ELSEWHERE).into()
                    });
                }
                StatusCode::NOT_FOUND => last = Some(answer),
                _ => return Err(self.refused(&answer, MISSING)),
            }
        }
        let what = format!("knows no installation of it at {owner}");
        Err(match last {
            Some(_) => self.asked.wrong(&what).hint(MISSING).into(),
            None => self.asked.wrong("cannot be asked for an owner without a name").into(),
        })
    }

    fn token(&self, installation: u64) -> Outcome {
        let answer = self.ask(Method::POST, &GithubApp::token_path(installation))?;
        if !matches!(answer.status, StatusCode::OK | StatusCode::CREATED) {
            return Err(self.refused(&answer, "check githubAppInstallationID, and githubAppID beside it"));
        }
        GithubApp::token_of(&read(&answer))
            .ok_or_else(|| self.asked.wrong("answers with what is no token").hint(ELSEWHERE).into())
    }
}
