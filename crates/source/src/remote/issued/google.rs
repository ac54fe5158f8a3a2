//! Tokens that Google gives an account: <https://developers.google.com/identity/protocols/oauth2/service-account>.

use serde::Deserialize;
use tidegate_web::{Lease, RsaKey, is_token};

use super::Outcome;
use super::answer::Asked;
use super::form::{self, Hints};
use crate::credentials::{Access, GoogleAccount, Issuer};
use crate::error::plain;
use crate::hidden::Hidden;
use crate::remote::{Network, Problem};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// No token is believed to be good for longer, in seconds.
pub(super) const LONGEST: u64 = 24 * 60 * 60;

#[derive(Deserialize)]
struct Given {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl Network {
    /// Asks for a token of an account.
    pub(super) fn google_token(
        &self,
        account: &GoogleAccount,
        issuer: &Issuer,
        access: &Access,
        now: u64,
    ) -> Outcome {
        let who = format!("the account {} of Secret {}", plain(&account.email), issuer.secret);
        let claims = [("iss", account.email.as_str()), ("scope", SCOPE), ("aud", &account.token_uri)];
        let claims = claims.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let key_id = Some(account.key_id.as_str()).filter(|id| !id.is_empty());
        let signed = RsaKey::from_pem(&account.key.0).and_then(|key| key.jwt(key_id, claims, now));
        let signed = signed.map_err(|error| Problem::new(format!("{who} has no token: {error}")))?;
        let asked = Asked { server: format!("Google at {}", account.token_uri), who, proof: &signed, now };
        let hints = Hints {
            unknown: "check gcpServiceAccountKey, which may have been deleted, and the clock of this machine",
            other: "check token_uri in gcpServiceAccountKey",
        };
        // What proves who asks is in the body.
        let link = self.to_issuer(&account.token_uri, issuer, access, Hidden::default());
        let link = link.map_err(|problem| asked.unreached(problem))?;
        let fields = [("grant_type", GRANT), ("assertion", signed.as_str())];
        let given: Given = form::ask(&link, &account.token_uri, &fields, (&asked, &hints))?;
        if !is_token(&given.access_token) {
            return Err(asked.wrong("answers with what is no token").hint(hints.other).into());
        }
        let ends = given.expires_in.map(|seconds| now.saturating_add(seconds.min(LONGEST)));
        Ok(Lease { token: given.access_token, ends })
    }
}
