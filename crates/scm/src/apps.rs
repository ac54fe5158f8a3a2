//! GitHub Apps: tokens in place of one that is written down.

use serde_json::{Value, json};
use tidegate_web::{GITHUB_APP_FIELDS, GithubApp, Lease, Leases, Refused, is_same_server};

use crate::address::Base;
use crate::conversation::Conversation;
use crate::problem::Problem;
use crate::proof::{Proof, Scheme};
use crate::secrets::{Asking, Token};
use crate::web::Trusted;

/// The tokens that are kept, by what they are for.
pub(crate) type Tokens = Leases<Installed, Problem>;

/// What a token is for: an App at an address, and whose repositories, where nothing else says which installation is meant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Installed {
    base: String,
    app: GithubApp,
    owner: Option<String>,
}

/// A token that is kept for others as well.
pub(crate) struct Held {
    pub installed: Installed,
    pub token: String,
    /// It was there already: it may have been taken back since.
    pub is_kept: bool,
}

/// A GitHub App of a repository Secret.
pub(crate) struct App<'n> {
    secret: &'n str,
    app: GithubApp,
}

impl<'n> App<'n> {
    /// The App of a Secret.
    pub fn of(asking: Asking<'_>, secret: &'n str) -> Result<Self, Problem> {
        let found = asking.secrets.app_secret(secret, &GITHUB_APP_FIELDS).map_err(Problem::new)?;
        let app = GithubApp::new(|field| found.get(field).map(Token::text).unwrap_or_default());
        let app = app.map_err(|wrong| Problem::new(format!("appSecretName: Secret {secret} {wrong}")))?;
        Ok(Self { secret, app })
    }

    /// Where the API is: at the `api` of a generator, or else where the Secret says, or else in its public place. The App is no
    /// other server's, whatever a generator says: what it signs would do for that one.
    pub fn base(&self, asking: Asking<'_>, api: &str) -> Result<Base, Problem> {
        let base = asking.api(api, self.app.base())?;
        let own = Base::new("githubAppEnterpriseBaseUrl", self.app.base())?;
        if is_same_server(own.uri(), base.uri()) {
            return Ok(base);
        }
        let (api, secret) = (base.text(), self.secret);
        Err(Problem::new(match self.app.named_base() {
            Some(_) => format!(
                "api {api} is another server than githubAppEnterpriseBaseUrl of Secret {secret}; leave api away, or correct one of them"
            ),
            None => format!(
                "api {api} is another server than {}, the one that the GitHub App of Secret {secret} is for; write githubAppEnterpriseBaseUrl into the Secret",
                own.text()
            ),
        }))
    }

    /// What proves who asks: a token of the App's installation, at an owner where the Secret does not say which.
    pub fn proof(&self, asking: Asking<'_>, base: &Base, owner: &str) -> Result<Proof, Problem> {
        let now = asking.web.clock.seconds();
        let owner = self.app.installation().is_none().then(|| owner.to_ascii_lowercase());
        let installed = Installed { base: base.text().to_owned(), app: self.app.clone(), owner };
        let ask = || {
            let asked = self.ask(asking, base, installed.owner.as_deref(), now);
            let words = |error: &Problem| {
                format!("the GitHub App of Secret {} has no token: {}", self.secret, error.words)
            };
            // That there is no such App does not mean that there is no such repository.
            asked.map_err(|error| Refused {
                error: Problem { status: None, words: words(&error), ..error },
                until: None,
            })
        };
        let leased = asking.web.tokens.take(&installed, now, ask)?;
        let origin = format!("the token of the GitHub App of Secret {}", self.secret);
        let proof = Proof::from_token(&Token::new(&leased.token), origin, &Scheme::Bearer)?;
        let held = Held { installed, token: leased.token, is_kept: leased.is_kept };
        Ok(Proof { who: Some(self.who()), held: Some(held), ..proof })
    }

    /// By what GitHub counts how often it is asked.
    fn who(&self) -> String {
        format!("App {} {:?}", self.app.id(), self.app.installation())
    }

    fn ask(&self, asking: Asking<'_>, base: &Base, owner: Option<&str>, now: u64) -> Result<Lease, Problem> {
        let origin = format!("githubAppPrivateKey of Secret {}", self.secret);
        let signed = self.app.proof(now).map_err(|error| Problem::new(format!("{origin}: {error}")))?;
        let proof = Proof::from_token(&Token::new(signed), origin, &Scheme::Bearer)?;
        let proof = Proof { who: Some(self.who()), ..proof };
        let talk = Conversation::new(asking.web, "GitHub", base.clone(), Some(proof), &Trusted::System)?;
        asking.web.run(async {
            let installation = match (self.app.installation(), owner) {
                (Some(known), _) => known,
                (None, owner) => self.installation(&talk, owner.unwrap_or_default()).await?,
            };
            let answer: Value = talk.post(&GithubApp::token_path(installation), &json!({})).await?;
            GithubApp::token_of(&answer)
                .ok_or_else(|| talk.wrong("answers with what is no token; check the address"))
        })
    }

    async fn installation(&self, talk: &Conversation<'_>, owner: &str) -> Result<u64, Problem> {
        for path in GithubApp::installation_paths(owner).into_iter().flatten() {
            if let Some(found) = talk.find::<Value>(&path, "").await? {
                return GithubApp::installation_of(&found)
                    .ok_or_else(|| talk.wrong("answers with what is no installation; check the address"));
            }
        }
        Err(talk.wrong(format!("knows no installation of it at {owner}; install it there")))
    }
}

/// Asks, and once more where the token was taken back that was kept for it.
pub(crate) fn twice<T>(ask: impl Fn() -> Result<T, Problem>) -> Result<T, Problem> {
    match ask() {
        Err(problem) if problem.is_stale => ask(),
        answer => answer,
    }
}
