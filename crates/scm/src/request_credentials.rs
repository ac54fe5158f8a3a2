//! Credentials as HTTP headers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use tidegate_model::argo::{BasicAuth, BearerToken, SecretKey};

use crate::problem::Problem;
use crate::secrets::{RequestContext, Token};
use crate::token_cache::CachedToken;

/// Credentials as a request header.
pub(crate) struct RequestCredentials {
    pub name: HeaderName,
    pub value: HeaderValue,
    /// Description of the origin for messages, such as `key token of Secret github`.
    pub origin: String,
    /// Secret strings to keep out of messages.
    pub secrets: Vec<String>,
    /// Identity that the server's rate limit applies to. `None` if the header value identifies the client.
    pub identity: Option<String>,
    /// Cache entry of the token, if it is temporary.
    pub cached_token: Option<CachedToken>,
}

/// Authentication scheme.
pub(crate) enum Scheme<'u> {
    Bearer,
    /// `Authorization: token …` header.
    Token,
    /// `PRIVATE-TOKEN: …` header.
    Private,
    /// HTTP basic authentication with this user and the token as the password.
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
        Self::from_token(&token, format!("key {} in Secret {}", key.key, key.secret_name), scheme)
    }

    /// Reads an optional token from a Secret.
    pub fn from_optional(
        asking: RequestContext<'_>,
        key: Option<&SecretKey>,
        scheme: &Scheme<'_>,
    ) -> Result<Option<Self>, Problem> {
        key.map(|key| Self::from_secret(asking, key, scheme)).transpose()
    }

    /// Reads a password or a token from a Secret. Fails if the generator specifies both.
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
                Err(Problem::new("both basicAuth and bearerToken are set; remove one of them"))
            }
        }
    }

    /// Returns the identity that the server's rate limit applies to.
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
            Problem::new(format!("{origin} contains a character that is not allowed in an HTTP header"))
        })?;
        value.set_sensitive(true);
        Ok(Self { name, value, origin, secrets: hidden, identity: None, cached_token: None })
    }
}
