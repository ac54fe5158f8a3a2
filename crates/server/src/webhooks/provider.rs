//! Providers of webhook events, identified by their headers.

use http::HeaderMap;
use http::header::HeaderName;

use crate::headers::single_header;
use crate::problem::Problem;

/// Provider that sent an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    AzureDevOps,
    /// Gogs, Gitea and Forgejo.
    Gogs,
    GitHub,
    GitLab,
    Bitbucket,
    BitbucketServer,
    /// Custom programs that use the generic format.
    Generic,
}

/// Headers that identify the providers. The order matters, because Gitea also sends GitHub's header, and
/// Bitbucket also sends Bitbucket Server's.
static HEADERS: [(HeaderName, Provider); 8] = [
    (HeaderName::from_static("x-vss-activityid"), Provider::AzureDevOps),
    (HeaderName::from_static("x-gitea-event"), Provider::Gogs),
    (HeaderName::from_static("x-gogs-event"), Provider::Gogs),
    (HeaderName::from_static("x-github-event"), Provider::GitHub),
    (HeaderName::from_static("x-gitlab-event"), Provider::GitLab),
    (HeaderName::from_static("x-hook-uuid"), Provider::Bitbucket),
    (HeaderName::from_static("x-event-key"), Provider::BitbucketServer),
    (HeaderName::from_static("x-tidegate-signature"), Provider::Generic),
];
const EVENT_KEY: HeaderName = HeaderName::from_static("x-event-key");

impl Provider {
    /// Returns the provider that sends these headers.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, Problem> {
        let found = HEADERS.iter().find(|(name, _)| headers.contains_key(name));
        let unknown =
            || Problem::bad_request("unknown sender: the request has no event header such as X-GitHub-Event");
        found.map(|(_, provider)| *provider).ok_or_else(unknown)
    }

    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::AzureDevOps => "Azure DevOps",
            Self::Gogs => "Gogs or Gitea",
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
            Self::Bitbucket => "Bitbucket",
            Self::BitbucketServer => "Bitbucket Server",
            Self::Generic => "a generic sender",
        }
    }

    /// Returns the event's name, if it is in the head.
    pub fn event_name(self, headers: &HeaderMap) -> Result<String, Problem> {
        let name = match self {
            Self::AzureDevOps | Self::Generic => return Ok(String::new()),
            Self::Bitbucket => EVENT_KEY,
            provider => {
                let mut own =
                    HEADERS.iter().filter(|(name, of)| *of == provider && headers.contains_key(name));
                own.next().map_or(EVENT_KEY, |(name, _)| name.clone())
            }
        };
        Ok(single_header(headers, &name)?.unwrap_or_default())
    }
}
