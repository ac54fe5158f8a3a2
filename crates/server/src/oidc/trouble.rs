//! What somebody is told who could not sign in: a page of text, as it is a browser that was sent here.

use axum::body::Body;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

use super::person::{Nameless, is_seen};
use super::provider::Fault;

/// It shows our own styles and pictures, and does nothing else.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
/// So many groups are named.
const GROUPS_MAX: usize = 20;

/// Why somebody is not signed in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    /// They did not come from the page.
    #[error("This was begun by another page.")]
    Foreign,
    /// They came by another name of the service.
    #[error("People sign in at {0}, and you have come by another address.")]
    Elsewhere(String),
    /// They came by a name that nobody has said is one of the service.
    #[error("You have come by an address that the service does not know as its own.")]
    Unnamed,
    /// They are not on their way, or no longer.
    #[error("This sign-in is over: each counts once, for ten minutes, in the browser in which it began.")]
    Over,
    /// What they brought is not from the provider.
    #[error("What came back is not an answer of {name}.")]
    Mistaken { name: String },
    /// The provider says no.
    #[error("{name} did not let you in ({why}).")]
    Denied { name: String, why: String },
    /// The provider does not say who they are.
    #[error("{name} could not be asked who you are: {fault}.")]
    Fault { name: String, fault: Fault },
    /// They have no name that can be recorded.
    #[error("{name} says who you are, but {why}.")]
    Nameless { name: String, why: Nameless },
    /// They may nothing here.
    #[error(
        "{name} says that you are {who}, and neither you nor any of your groups has a role here. {}",
        told(groups)
    )]
    NoRole { name: String, who: String, groups: Vec<String> },
    /// Too many do that at once.
    #[error("Too many people sign in at this moment.")]
    Busy,
}

fn told(groups: &[String]) -> String {
    let shown = |group: &String| group.chars().map(|c| if is_seen(c) { c } else { '?' }).collect::<String>();
    let mut named: Vec<String> = groups.iter().take(GROUPS_MAX).map(shown).collect();
    if groups.len() > GROUPS_MAX {
        named.push("others".to_owned());
    }
    match named.is_empty() {
        true => "It names no group of yours.".to_owned(),
        false => format!("It names these groups of yours: {}.", named.join(", ")),
    }
}

impl Trouble {
    fn status(&self) -> StatusCode {
        match self {
            Self::Elsewhere(_) | Self::Unnamed | Self::Over | Self::Mistaken { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::Foreign | Self::Denied { .. } | Self::Nameless { .. } | Self::NoRole { .. } => {
                StatusCode::FORBIDDEN
            }
            Self::Fault { .. } => StatusCode::BAD_GATEWAY,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What to do about it.
    fn next(&self) -> &'static str {
        match self {
            Self::Foreign | Self::Over | Self::Mistaken { .. } => "Open the page, and sign in there.",
            Self::Elsewhere(_) => "Open the page at that address.",
            Self::Unnamed => {
                "Whoever runs the service can name its address as url in the settings of --oidc."
            }
            Self::Denied { .. } => "Sign in again, or ask whoever runs it.",
            Self::Fault { .. } => "Try again in a moment; whoever runs the service finds this in its log.",
            Self::Nameless { .. } => "Whoever runs the service can choose another claim for names.",
            Self::NoRole { .. } => "Ask whoever runs the service to give one of your groups a role.",
            Self::Busy => "Try again in a moment.",
        }
    }

    /// As a page. Every text of others goes into it as text.
    pub fn answer(&self) -> Response<Body> {
        let [words, next] = [self.to_string(), self.next().to_owned()].map(|text| escaped(&text));
        let page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><title>Not signed in – Tidegate</title>\
             <link rel=\"icon\" href=\"/page/icon.svg\" type=\"image/svg+xml\">\
             <link rel=\"stylesheet\" href=\"/page/style.css\"></head>\
             <body><main id=\"main\"><section class=\"panel narrow\"><h1>You are not signed in</h1>\
             <p class=\"problem\" role=\"alert\">{words}</p><p>{next}</p>\
             <p><a href=\"/\">To the page</a></p></section></main></body></html>\n"
        );
        let mut answer = Response::new(Body::from(page));
        *answer.status_mut() = self.status();
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CONTENT_SECURITY_POLICY, POLICY);
        answer
    }
}

/// Text as it is written in a page.
fn escaped(text: &str) -> String {
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
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn texts_of_others_are_texts() {
        let hostile = "<script>alert('x')</script>\"&\u{202e}";
        let trouble = Trouble::NoRole {
            name: hostile.to_owned(),
            who: hostile.to_owned(),
            groups: vec![hostile.to_owned(); GROUPS_MAX + 1],
        };
        let answer = trouble.answer();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        let policy = answer.headers().get(CONTENT_SECURITY_POLICY).unwrap().to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("script-src"), "{policy}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let text = std::str::from_utf8(&body).unwrap();
        assert!(!text.contains("<script") && !text.contains("'x'"), "{text}");
        assert!(text.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;?"), "{text}");
        assert!(text.contains(", others.") && text.contains("has a role here"), "{text}");
    }
}
