//! Tokens that Google gives an account: <https://developers.google.com/identity/protocols/oauth2/service-account>.

use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use serde::Deserialize;
use tidegate_web::{Lease, RsaKey, is_token};

use super::answer::Asked;
use super::{Outcome, headers};
use crate::credentials::{Access, GoogleAccount, Issuer};
use crate::error::plain;
use crate::hidden::Hidden;
use crate::remote::{Network, Problem};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const FORM: &str = "application/x-www-form-urlencoded";
/// No token is believed to be good for longer, in seconds.
const LONGEST: u64 = 24 * 60 * 60;

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
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", GRANT)
            .append_pair("assertion", &signed)
            .finish();
        // What proves who asks is in the body.
        let link = self.to_issuer(issuer, access, Hidden::default());
        let answer = link.and_then(|link| {
            let headers = headers(&[(CONTENT_TYPE, FORM)]);
            link.exchange(Method::POST, &account.token_uri, &headers, body.into_bytes())
        });
        let answer = answer.map_err(|problem| asked.unreached(problem))?;
        if answer.status != StatusCode::OK {
            let is_unknown = [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED].contains(&answer.status);
            let hint =
                "check gcpServiceAccountKey, which may have been deleted, and the clock of this machine";
            return Err(asked.judge(&answer, if is_unknown { hint } else { "" }));
        }
        let given = serde_json::from_slice::<Given>(&answer.content).ok();
        let given = given.filter(|given| is_token(&given.access_token)).ok_or_else(|| {
            asked.wrong("answers with what is no token").hint("check token_uri in gcpServiceAccountKey")
        })?;
        let ends = given.expires_in.map(|seconds| now.saturating_add(seconds.min(LONGEST)));
        Ok(Lease { token: given.access_token, ends })
    }
}
