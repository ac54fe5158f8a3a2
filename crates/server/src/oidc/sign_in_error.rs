//! Sign-in errors, rendered as HTML because browsers display them.

use axum::body::Body;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

use super::identity::{NameError, is_visible};
use super::provider::ProviderError;

/// Content security policy that allows only Tidegate's own styles and images.
const CSP: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
/// Maximum number of groups to list.
const GROUPS_MAX: usize = 20;

/// Reason why a sign-in failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignInError {
    /// The request did not come from the page.
    #[error("The sign-in was not started from this service's page.")]
    CrossSite,
    /// The user opened the service at a URL other than the configured one.
    #[error("Sign-in is available only at {0}, but you opened a different address.")]
    WrongAddress(String),
    /// The user opened the service at a URL that isn't configured.
    #[error("The address that you opened is not configured as the address of this service.")]
    UnknownAddress,
    /// The login has expired or was already completed.
    #[error(
        "This sign-in has expired or was already used. Each sign-in can be used only once, within ten minutes, in the browser that started it."
    )]
    Expired,
    /// The redirect did not come from the provider.
    #[error("This is not a valid response from {name}.")]
    InvalidResponse { name: String },
    /// The provider rejected the login.
    #[error("{name} rejected the sign-in ({why}).")]
    Denied { name: String, why: String },
    /// The request to the provider failed.
    #[error("The sign-in with {name} failed: {fault}.")]
    Provider { name: String, fault: ProviderError },
    /// The user has no usable name.
    #[error("{name} authenticated you, but {why}.")]
    NoName { name: String, why: NameError },
    /// The user has no role.
    #[error(
        "{name} authenticated you as {who}, but neither you nor any of your groups has a role in this service. {}",
        describe_groups(groups)
    )]
    NoRole { name: String, who: String, groups: Vec<String> },
    /// Too many logins are already in progress.
    #[error("Too many sign-ins are in progress.")]
    Busy,
}

fn describe_groups(groups: &[String]) -> String {
    let shown =
        |group: &String| group.chars().map(|c| if is_visible(c) { c } else { '?' }).collect::<String>();
    let mut named: Vec<String> = groups.iter().take(GROUPS_MAX).map(shown).collect();
    if groups.len() > GROUPS_MAX {
        named.push("others".to_owned());
    }
    match named.is_empty() {
        true => "The provider reports no groups for you.".to_owned(),
        false => format!("The provider reports these groups: {}.", named.join(", ")),
    }
}

impl SignInError {
    fn status(&self) -> StatusCode {
        match self {
            Self::WrongAddress(_) | Self::UnknownAddress | Self::Expired | Self::InvalidResponse { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::CrossSite | Self::Denied { .. } | Self::NoName { .. } | Self::NoRole { .. } => {
                StatusCode::FORBIDDEN
            }
            Self::Provider { .. } => StatusCode::BAD_GATEWAY,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns advice on how to proceed.
    fn advice(&self) -> &'static str {
        match self {
            Self::CrossSite | Self::Expired | Self::InvalidResponse { .. } => {
                "Open the page and sign in again."
            }
            Self::WrongAddress(_) => "Open the page at that address.",
            Self::UnknownAddress => {
                "The administrator can set the address in the `url` field of the --oidc settings file."
            }
            Self::Denied { .. } => "Sign in again, or contact the provider's administrator.",
            Self::Provider { .. } => "Try again in a moment. The service's log contains the details.",
            Self::NoName { .. } => "The administrator can set nameClaim to another claim.",
            Self::NoRole { .. } => "Ask the administrator to give one of your groups a role.",
            Self::Busy => "Try again in a moment.",
        }
    }

    /// Returns the HTML page. Escapes all external text.
    pub fn to_response(&self) -> Response<Body> {
        let [words, next] = [self.to_string(), self.advice().to_owned()].map(|text| escape_html(&text));
        let page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><title>Not signed in – Tidegate</title>\
             <link rel=\"icon\" href=\"/page/icon.svg\" type=\"image/svg+xml\">\
             <link rel=\"stylesheet\" href=\"/page/style.css\"></head>\
             <body><main id=\"main\"><section class=\"panel narrow\"><h1>You are not signed in</h1>\
             <p class=\"problem\" role=\"alert\">{words}</p><p>{next}</p>\
             <p><a href=\"/\">Open the page</a></p></section></main></body></html>\n"
        );
        let mut answer = Response::new(Body::from(page));
        *answer.status_mut() = self.status();
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CONTENT_SECURITY_POLICY, CSP);
        answer
    }
}

/// Escapes text for HTML.
fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn external_text_is_escaped() {
        let hostile = "<script>alert('x')</script>\"&\u{202e}";
        let trouble = SignInError::NoRole {
            name: hostile.to_owned(),
            who: hostile.to_owned(),
            groups: vec![hostile.to_owned(); GROUPS_MAX + 1],
        };
        let answer = trouble.to_response();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        let policy = answer.headers().get(CONTENT_SECURITY_POLICY).unwrap().to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("script-src"), "{policy}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let text = std::str::from_utf8(&body).unwrap();
        assert!(!text.contains("<script") && !text.contains("'x'"), "{text}");
        assert!(text.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;?"), "{text}");
        assert!(text.contains(", others.") && text.contains("has a role in this service"), "{text}");
    }
}
