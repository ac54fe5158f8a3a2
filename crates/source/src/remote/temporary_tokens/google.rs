//! Access tokens for Google service accounts: <https://developers.google.com/identity/protocols/oauth2/service-account>.

use serde::Deserialize;
use tidegate_web::{ExpiringToken, RsaKey, is_token};

use super::Outcome;
use super::form::{self, Hints};
use super::token_response::TokenRequest;
use crate::credentials::{AccessSettings, GoogleAccount, Issuer};
use crate::error::to_line;
use crate::remote::{Network, Problem};
use crate::secret_text::SecretText;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Maximum time to cache a token, in seconds, however long the server says it is valid.
pub(super) const TOKEN_SECONDS_MAX: u64 = 24 * 60 * 60;

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl Network {
    /// Requests a token for a service account.
    pub(super) fn google_token(
        &self,
        account: &GoogleAccount,
        issuer: &Issuer,
        access: &AccessSettings,
        now: u64,
    ) -> Outcome {
        let who = format!("the account {} in Secret {}", to_line(&account.email), issuer.secret);
        let claims = [("iss", account.email.as_str()), ("scope", SCOPE), ("aud", &account.token_uri)];
        let claims = claims.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let key_id = Some(account.key_id.as_str()).filter(|id| !id.is_empty());
        let signed = RsaKey::from_pem(&account.key.0).and_then(|key| key.jwt(key_id, claims, now));
        let signed =
            signed.map_err(|error| Problem::new(format!("cannot get a token for {who}: {error}")))?;
        let asked =
            TokenRequest { server: format!("Google at {}", account.token_uri), who, assertion: &signed, now };
        let hints = Hints {
            rejected: "check gcpServiceAccountKey, which may have been deleted, and the clock of this machine",
            other: "check token_uri in gcpServiceAccountKey",
        };
        // The assertion is in the body, so the headers need no credentials.
        let link = self.link_to_issuer(&account.token_uri, issuer, access, SecretText::default());
        let link = link.map_err(|problem| asked.connection_error(problem))?;
        let fields = [("grant_type", GRANT_TYPE), ("assertion", signed.as_str())];
        let given: TokenResponse = form::send_form(&link, &account.token_uri, &fields, &asked, &hints)?;
        if !is_token(&given.access_token) {
            return Err(asked.error("returned a response without a token").with_hint(hints.other).into());
        }
        let ends = given.expires_in.map(|seconds| now.saturating_add(seconds.min(TOKEN_SECONDS_MAX)));
        Ok(ExpiringToken { token: given.access_token, expires_at: ends })
    }
}
