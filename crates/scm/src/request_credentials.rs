//! Credentials, in the form that each server expects.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use tidegate_model::argo::{BasicAuth, BearerToken, SecretKey};

use crate::problem::Problem;
use crate::secrets::{RequestContext, Token};
use crate::token_cache::CachedToken;

/// Credentials in the form of one request header.
pub(crate) struct RequestCredentials {
    pub name: HeaderName,
    pub value: HeaderValue,
    /// Origin of the credentials, such as `key token of Secret github`.
    pub origin: String,
    /// Parts that must not appear in messages.
    pub secrets: Vec<String>,
    /// Identity to which the server applies its rate limit. Set if the header value changes with each token.
    pub identity: Option<String>,
    /// Cache entry of a temporary token.
    pub cached_token: Option<CachedToken>,
}

/// Authentication scheme.
pub(crate) enum Scheme<'u> {
    Bearer,
    /// The header `Authorization: token …`.
    Token,
    /// The header `PRIVATE-TOKEN: …`.
    Private,
    /// HTTP basic authentication with the token as the password.
    Basic(&'u str),
}

impl RequestCredentials {
    /// Reads a token from a Secret.
    pub fn from_secret(
        asking: RequestContext<'_>,
        key: &SecretKey,
        scheme: &Scheme<'_>,
    ) -> Result<Self, Problem> {
        let token = asking.secrets.secret(&key.secret_name, &key.key).map_err(Problem::new)?;
        Self::from_token(&token, format!("key {} of Secret {}", key.key, key.secret_name), scheme)
    }

    /// Reads an optional token from a Secret.
    pub fn from_optional(
        asking: RequestContext<'_>,
        key: Option<&SecretKey>,
        scheme: &Scheme<'_>,
    ) -> Result<Option<Self>, Problem> {
        key.map(|key| Self::from_secret(asking, key, scheme)).transpose()
    }

    /// Reads either a user with a password or a token.
    pub fn basic_or_bearer(
        asking: RequestContext<'_>,
        basic: Option<&BasicAuth>,
        bearer: Option<&BearerToken>,
    ) -> Result<Option<Self>, Problem> {
        match (basic, bearer) {
            (None, None) => Ok(None),
            (Some(basic), None) => {
                Self::from_secret(asking, &basic.password_ref, &Scheme::Basic(&basic.username)).map(Some)
            }
            (None, Some(bearer)) => Self::from_secret(asking, &bearer.token_ref, &Scheme::Bearer).map(Some),
            (Some(_), Some(_)) => {
                Err(Problem::new("it has both basicAuth and bearerToken; remove one of them"))
            }
        }
    }

    /// Returns the identity to which the server applies its rate limit.
    pub fn rate_limit_identity(&self) -> &[u8] {
        self.identity.as_ref().map_or(self.value.as_bytes(), |who| who.as_bytes())
    }

    pub fn from_token(token: &Token, origin: String, scheme: &Scheme<'_>) -> Result<Self, Problem> {
        let text = token.text();
        if text.is_empty() {
            return Err(Problem::new(format!("{origin} is empty")));
        }
        let mut hidden = vec![text.to_owned()];
        let (name, value) = match scheme {
            Scheme::Bearer => (AUTHORIZATION, format!("Bearer {text}")),
            Scheme::Token => (AUTHORIZATION, format!("token {text}")),
            Scheme::Private => (HeaderName::from_static("private-token"), text.to_owned()),
            Scheme::Basic(user) => {
                let encoded = STANDARD.encode(format!("{user}:{text}"));
                hidden.push(encoded.clone());
                (AUTHORIZATION, format!("Basic {encoded}"))
            }
        };
        let mut value = HeaderValue::from_str(&value).map_err(|_| {
            Problem::new(format!("{origin} has a character that an HTTP header does not allow"))
        })?;
        value.set_sensitive(true);
        Ok(Self { name, value, origin, secrets: hidden, identity: None, cached_token: None })
    }
}
