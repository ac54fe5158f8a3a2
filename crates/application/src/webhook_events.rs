//! Webhook events other than pushes. They affect ApplicationSets that generate Applications from
//! repositories, branches and pull requests.

use crate::repository_name::repository_location;

/// Product that a repository server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScmService {
    /// GitHub and GitHub Enterprise.
    GitHub,
    /// GitLab.
    GitLab,
    /// Gitea, Gogs and Forgejo.
    Gitea,
    /// Bitbucket Cloud.
    Bitbucket,
    /// Bitbucket Server and Data Center.
    BitbucketServer,
    /// Azure DevOps.
    AzureDevOps,
}

impl ScmService {
    /// Returns the product's public server, which is the default server.
    fn public_server(self) -> Option<&'static str> {
        match self {
            Self::GitHub => Some("github.com"),
            Self::GitLab => Some("gitlab.com"),
            Self::Bitbucket => Some("bitbucket.org"),
            Self::AzureDevOps => Some("dev.azure.com"),
            Self::Gitea | Self::BitbucketServer => None,
        }
    }
}

/// Part of a repository that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeSubject {
    /// The repository or its branches.
    Repository,
    /// Pull requests.
    PullRequests,
}

/// Notification that something in a repository has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryChange {
    service: ScmService,
    /// Part of the repository that has changed.
    pub subject: ChangeSubject,
    /// The repository's server, if the event has it.
    server: Option<String>,
    /// The repository's owner and name, in lower case.
    path: Vec<String>,
    /// The repository's numeric ID, if the event has it.
    number: Option<u64>,
}

impl RepositoryChange {
    /// Creates an event for the repository with this URL.
    pub fn from_address(service: ScmService, about: ChangeSubject, address: &str) -> Self {
        let place = repository_location(address);
        let (server, path) = place.split_once('/').unwrap_or((place.as_str(), ""));
        let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let path = match service {
            // GitLab groups can be nested.
            ScmService::GitLab => path,
            ScmService::AzureDevOps => return Self::from_azure_path(about, server, &path),
            // Earlier path segments are part of the server's base URL.
            _ => path.get(path.len().saturating_sub(2)..).unwrap_or_default().to_vec(),
        };
        let server = Some(server.to_owned());
        Self { server, ..Self::from_name(service, about, path) }
    }

    /// Creates an event for a repository by name, with an unknown server.
    pub fn from_name<'a>(
        service: ScmService,
        about: ChangeSubject,
        path: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let path = path.into_iter().map(str::to_lowercase).collect();
        Self { service, subject: about, server: None, path, number: None }
    }

    /// Parses `organization/project/_git/name`. On older servers, the organization is the first label of the
    /// host name. The project may be omitted if it has the same name as the repository.
    fn from_azure_path(about: ChangeSubject, server: &str, path: &[&str]) -> Self {
        let of = |path: [&str; 3]| {
            let server = Some(server.to_owned());
            Self { server, ..Self::from_name(ScmService::AzureDevOps, about, path) }
        };
        let Some(at) = path.iter().position(|part| *part == "_git") else { return of([""; 3]) };
        let (before, name) =
            (path.get(..at).unwrap_or_default(), path.get(at + 1).copied().unwrap_or_default());
        let older = server.strip_suffix(".visualstudio.com");
        match (older, before) {
            (Some(organisation), [.., project]) => Self { server: None, ..of([organisation, project, name]) },
            (None, [.., organisation, project]) => of([organisation, project, name]),
            (None, [organisation]) => of([organisation, name, name]),
            _ => of([""; 3]),
        }
    }

    /// Returns the event with the server of this URL.
    #[must_use]
    pub fn with_server_of(self, address: &str) -> Self {
        let place = repository_location(&format!("{address}/"));
        let server = place.split('/').next().map(str::to_owned);
        Self { server, ..self }
    }

    /// Returns the event with the repository's numeric ID.
    #[must_use]
    pub fn with_number(self, number: Option<u64>) -> Self {
        Self { number, ..self }
    }

    /// Returns true if the event can come from a server that runs this product. `api` is the URL of the
    /// server's API, or empty for the public server. A self-hosted server's URL isn't compared, because
    /// events may use a different one.
    pub fn can_be_from(&self, service: ScmService, api: &str) -> bool {
        let is_public = || {
            let server = self.server.as_deref();
            server.is_none() || service.public_server().is_none_or(|public| server == Some(public))
        };
        self.service == service && (!api.is_empty() || is_public())
    }

    /// Returns true if the repository has this name: path segments with the owner first. A segment with a
    /// template matches any name.
    pub fn has_name(&self, name: &[&str]) -> bool {
        self.path.len() == name.len() && self.name_starts_with(name)
    }

    /// Returns true if the repository's name starts with these segments.
    pub fn name_starts_with(&self, name: &[&str]) -> bool {
        let is_same =
            |(part, wanted): (&String, &&str)| wanted.contains("{{") || *part == wanted.to_lowercase();
        self.path.len() >= name.len() && self.path.iter().zip(name).all(is_same)
    }

    /// Returns true if the repository's name has more than `parts` segments.
    pub fn is_deeper_than(&self, parts: usize) -> bool {
        self.path.len() > parts
    }

    /// Returns true if the repository has this numeric ID, or if its ID is unknown.
    pub fn can_have_number(&self, number: u64) -> bool {
        self.number.is_none_or(|own| own == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_identified_by_its_address() {
        for (service, address, name) in [
            (ScmService::GitHub, "https://github.com/Org/Shop", vec!["org", "shop"]),
            (ScmService::GitHub, "git@github.com:org/shop.git", vec!["org", "shop"]),
            (ScmService::Gitea, "https://example.com/git/org/shop", vec!["org", "shop"]),
            (ScmService::GitLab, "https://gitlab.com/org/team/shop", vec!["org", "team", "shop"]),
            (ScmService::BitbucketServer, "https://example.com/scm/org/shop.git", vec!["org", "shop"]),
            (
                ScmService::AzureDevOps,
                "https://me@dev.azure.com/org/team/_git/shop",
                vec!["org", "team", "shop"],
            ),
            (ScmService::AzureDevOps, "https://dev.azure.com/org/_git/shop", vec!["org", "shop", "shop"]),
            (
                ScmService::AzureDevOps,
                "https://org.visualstudio.com/team/_git/shop",
                vec!["org", "team", "shop"],
            ),
            (
                ScmService::AzureDevOps,
                "https://org.visualstudio.com/DefaultCollection/team/_git/shop",
                vec!["org", "team", "shop"],
            ),
            (
                ScmService::AzureDevOps,
                "https://example.com/tfs/org/team/_git/shop",
                vec!["org", "team", "shop"],
            ),
        ] {
            let news = RepositoryChange::from_address(service, ChangeSubject::Repository, address);
            assert!(news.has_name(&name), "{address}: {news:?}");
            assert!(!news.has_name(&name[1..]) && news.name_starts_with(&name[..1]), "{address}: {news:?}");
            let any: Vec<&str> = name.iter().map(|_| "{{ .x }}").collect();
            assert!(news.has_name(&any), "{address}: what is not filled in may be any");
        }
        for odd in ["", "/", "https://", "https://dev.azure.com/_git/", "_git"] {
            let news =
                RepositoryChange::from_address(ScmService::AzureDevOps, ChangeSubject::Repository, odd);
            assert!(!news.has_name(&["org", "team", "shop"]), "{odd}");
        }
    }

    #[test]
    fn a_server_without_a_name_is_the_public_one() {
        for (service, address, api, expected) in [
            (ScmService::GitHub, "https://github.com/org/shop", "", true),
            (ScmService::GitHub, "https://example.com/org/shop", "", false),
            (ScmService::GitHub, "https://example.com/org/shop", "https://example.com/api/v3", true),
            // API requests use a different host name than the event.
            (ScmService::Gitea, "https://example.com/org/shop", "http://gitea.gitea.svc:3000", true),
            (ScmService::AzureDevOps, "https://org.visualstudio.com/team/_git/shop", "", true),
            (ScmService::GitLab, "https://gitlab.com/org/shop", "", true),
            (ScmService::GitLab, "https://example.com/org/shop", "", false),
        ] {
            let news = RepositoryChange::from_address(service, ChangeSubject::PullRequests, address);
            assert_eq!(news.can_be_from(service, api), expected, "{address} {api}");
            let other = if service == ScmService::GitHub { ScmService::Gitea } else { ScmService::GitHub };
            assert!(!news.can_be_from(other, api), "{address} {api}");
        }
        let unknown =
            || RepositoryChange::from_name(ScmService::GitLab, ChangeSubject::Repository, ["a", "b"]);
        assert!(unknown().can_be_from(ScmService::GitLab, ""));
        for (address, expected) in [
            ("https://gitlab.com", true),
            ("https://gitlab.com/a/b", true),
            ("git@gitlab.com:a/b.git", true),
            ("https://example.com", false),
        ] {
            assert_eq!(
                unknown().with_server_of(address).can_be_from(ScmService::GitLab, ""),
                expected,
                "{address}"
            );
        }
    }
}
