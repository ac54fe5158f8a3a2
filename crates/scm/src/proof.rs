//! What proves who asks, in the form that a server wants.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use tidegate_model::argo::{BasicAuth, BearerToken, SecretKey};

use crate::apps::Held;
use crate::problem::Problem;
use crate::secrets::{Asking, Token};

/// What proves who asks: one header.
pub(crate) struct Proof {
    pub name: HeaderName,
    pub value: HeaderValue,
    /// Where it is from: `key token of Secret github`.
    pub origin: String,
    /// What of it must not show.
    pub hidden: Vec<String>,
    /// By what the server knows who asks, where what is shown is another one each time.
    pub who: Option<String>,
    /// Where it is kept, if it is given for a while.
    pub held: Option<Held>,
}

/// How a token is shown to a server.
pub(crate) enum Scheme<'u> {
    Bearer,
    /// `Authorization: token …`.
    Token,
    /// `PRIVATE-TOKEN: …`.
    Private,
    /// As the password of a user.
    Basic(&'u str),
}

impl Proof {
    /// A token of a Secret.
    pub fn of(asking: Asking<'_>, key: &SecretKey, scheme: &Scheme<'_>) -> Result<Self, Problem> {
        let token = asking.secrets.secret(&key.secret_name, &key.key).map_err(Problem::new)?;
        Self::from_token(&token, format!("key {} of Secret {}", key.key, key.secret_name), scheme)
    }

    /// The same, where there may be none.
    pub fn maybe(
        asking: Asking<'_>,
        key: Option<&SecretKey>,
        scheme: &Scheme<'_>,
    ) -> Result<Option<Self>, Problem> {
        key.map(|key| Self::of(asking, key, scheme)).transpose()
    }

    /// User and password, or a token; at most one of the two.
    pub fn either(
        asking: Asking<'_>,
        basic: Option<&BasicAuth>,
        bearer: Option<&BearerToken>,
    ) -> Result<Option<Self>, Problem> {
        match (basic, bearer) {
            (None, None) => Ok(None),
            (Some(basic), None) => {
                Self::of(asking, &basic.password_ref, &Scheme::Basic(&basic.username)).map(Some)
            }
            (None, Some(bearer)) => Self::of(asking, &bearer.token_ref, &Scheme::Bearer).map(Some),
            (Some(_), Some(_)) => {
                Err(Problem::new("it has both basicAuth and bearerToken; take one of them away"))
            }
        }
    }

    /// By what the server knows who asks.
    pub fn known_by(&self) -> &[u8] {
        self.who.as_ref().map_or(self.value.as_bytes(), |who| who.as_bytes())
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
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| Problem::new(format!("{origin} has a character that cannot be sent")))?;
        value.set_sensitive(true);
        Ok(Self { name, value, origin, hidden, who: None, held: None })
    }
}
