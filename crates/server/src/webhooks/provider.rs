//! Whose events there are, and how their heads tell them apart.

use http::HeaderMap;
use http::header::HeaderName;

use crate::front::text;
use crate::problem::Problem;

/// Who sends an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    AzureDevOps,
    /// Gogs, Gitea and Forgejo.
    Gogs,
    GitHub,
    GitLab,
    Bitbucket,
    BitbucketServer,
    /// Whoever writes such an event by themselves.
    Generic,
}

/// The headers that tell them apart. The order counts: Gitea sends those of GitHub as well, and Bitbucket that of its
/// server.
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
    /// Who sends what has this head.
    pub fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let found = HEADERS.iter().find(|(name, _)| headers.contains_key(name));
        let unknown = || Problem::bad("no header says whose event this is, such as X-GitHub-Event");
        found.map(|(_, provider)| *provider).ok_or_else(unknown)
    }

    /// How people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AzureDevOps => "Azure DevOps",
            Self::Gogs => "Gogs or Gitea",
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
            Self::Bitbucket => "Bitbucket",
            Self::BitbucketServer => "Bitbucket Server",
            Self::Generic => "a sender of its own",
        }
    }

    /// What its event is called, where the head says that.
    pub fn event(self, headers: &HeaderMap) -> Result<String, Problem> {
        let name = match self {
            Self::AzureDevOps | Self::Generic => return Ok(String::new()),
            Self::Bitbucket => EVENT_KEY,
            provider => {
                let mut own =
                    HEADERS.iter().filter(|(name, of)| *of == provider && headers.contains_key(name));
                own.next().map_or(EVENT_KEY, |(name, _)| name.clone())
            }
        };
        Ok(text(headers, &name)?.unwrap_or_default())
    }
}
