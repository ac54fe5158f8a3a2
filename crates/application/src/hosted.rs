//! What servers of repositories tell beside pushes: ApplicationSets are generated of repositories, branches and pull requests.

use crate::repository_names::place;

/// Whose servers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// GitHub, in public or in a company.
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

impl Service {
    /// The server that is meant where nobody names one.
    fn public(self) -> Option<&'static str> {
        match self {
            Self::GitHub => Some("github.com"),
            Self::GitLab => Some("gitlab.com"),
            Self::Bitbucket => Some("bitbucket.org"),
            Self::AzureDevOps => Some("dev.azure.com"),
            Self::Gitea | Self::BitbucketServer => None,
        }
    }
}

/// What has changed of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// It, or its branches.
    Repository,
    /// Its pull requests.
    PullRequests,
}

/// Something of a repository has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    service: Service,
    /// What has changed.
    pub about: About,
    /// The server, where it says that.
    server: Option<String>,
    /// Who has the repository, and its name, in small letters.
    path: Vec<String>,
    /// Its number, where it says that.
    number: Option<u64>,
}

impl News {
    /// Of the repository that has this address.
    pub fn at(service: Service, about: About, address: &str) -> Self {
        let place = place(address);
        let (server, path) = place.split_once('/').unwrap_or((place.as_str(), ""));
        let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let path = match service {
            // Groups are in each other.
            Service::GitLab => path,
            Service::AzureDevOps => return Self::on_azure(about, server, &path),
            // What comes before is where the server has its root.
            _ => path.get(path.len().saturating_sub(2)..).unwrap_or_default().to_vec(),
        };
        let server = Some(server.to_owned());
        Self { server, ..Self::named(service, about, path) }
    }

    /// Of the repository of this name; nobody says on which server.
    pub fn named<'a>(service: Service, about: About, path: impl IntoIterator<Item = &'a str>) -> Self {
        let path = path.into_iter().map(str::to_lowercase).collect();
        Self { service, about, server: None, path, number: None }
    }

    /// `organisation/project/_git/name`, with the organisation in the name of the server at older ones, and without a project
    /// that is called like the repository.
    fn on_azure(about: About, server: &str, path: &[&str]) -> Self {
        let of = |path: [&str; 3]| {
            let server = Some(server.to_owned());
            Self { server, ..Self::named(Service::AzureDevOps, about, path) }
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

    /// The same, on the server of this address.
    #[must_use]
    pub fn on_server_of(self, address: &str) -> Self {
        let place = place(&format!("{address}/"));
        let server = place.split('/').next().map(str::to_owned);
        Self { server, ..self }
    }

    /// The same, of the repository with this number.
    #[must_use]
    pub fn with_number(self, number: Option<u64>) -> Self {
        Self { number, ..self }
    }

    /// Whether a server is meant by the address of its API, or, where that is empty, as the public one. The address under
    /// which the API is asked need not be the one by which a server knows itself.
    pub fn is_on(&self, service: Service, api: &str) -> bool {
        let is_public = || {
            let server = self.server.as_deref();
            server.is_none() || service.public().is_none_or(|public| server == Some(public))
        };
        self.service == service && (!api.is_empty() || is_public())
    }

    /// Whether the repository is meant by these parts of its name: who has it first. A part that is a template may be any.
    pub fn is_of(&self, name: &[&str]) -> bool {
        self.path.len() == name.len() && self.begins_with(name)
    }

    /// Whether the name of the repository begins with these parts.
    pub fn begins_with(&self, name: &[&str]) -> bool {
        let is_same =
            |(part, wanted): (&String, &&str)| wanted.contains("{{") || *part == wanted.to_lowercase();
        self.path.len() >= name.len() && self.path.iter().zip(name).all(is_same)
    }

    /// Whether its parts are more than this many.
    pub fn is_deeper_than(&self, parts: usize) -> bool {
        self.path.len() > parts
    }

    /// Whether the repository has this number; `None` where nobody knows.
    pub fn has_number(&self, number: u64) -> bool {
        self.number.is_none_or(|own| own == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_known_by_its_address() {
        for (service, address, name) in [
            (Service::GitHub, "https://github.com/Org/Shop", vec!["org", "shop"]),
            (Service::GitHub, "git@github.com:org/shop.git", vec!["org", "shop"]),
            (Service::Gitea, "https://example.com/git/org/shop", vec!["org", "shop"]),
            (Service::GitLab, "https://gitlab.com/org/team/shop", vec!["org", "team", "shop"]),
            (Service::BitbucketServer, "https://example.com/scm/org/shop.git", vec!["org", "shop"]),
            (
                Service::AzureDevOps,
                "https://me@dev.azure.com/org/team/_git/shop",
                vec!["org", "team", "shop"],
            ),
            (Service::AzureDevOps, "https://dev.azure.com/org/_git/shop", vec!["org", "shop", "shop"]),
            (
                Service::AzureDevOps,
                "https://org.visualstudio.com/team/_git/shop",
                vec!["org", "team", "shop"],
            ),
            (
                Service::AzureDevOps,
                "https://org.visualstudio.com/DefaultCollection/team/_git/shop",
                vec!["org", "team", "shop"],
            ),
            (Service::AzureDevOps, "https://example.com/tfs/org/team/_git/shop", vec!["org", "team", "shop"]),
        ] {
            let news = News::at(service, About::Repository, address);
            assert!(news.is_of(&name), "{address}: {news:?}");
            assert!(!news.is_of(&name[1..]) && news.begins_with(&name[..1]), "{address}: {news:?}");
            let any: Vec<&str> = name.iter().map(|_| "{{ .x }}").collect();
            assert!(news.is_of(&any), "{address}: what is not filled in may be any");
        }
        for odd in ["", "/", "https://", "https://dev.azure.com/_git/", "_git"] {
            let news = News::at(Service::AzureDevOps, About::Repository, odd);
            assert!(!news.is_of(&["org", "team", "shop"]), "{odd}");
        }
    }

    #[test]
    fn a_server_without_a_name_is_the_public_one() {
        for (service, address, api, expected) in [
            (Service::GitHub, "https://github.com/org/shop", "", true),
            (Service::GitHub, "https://example.com/org/shop", "", false),
            (Service::GitHub, "https://example.com/org/shop", "https://example.com/api/v3", true),
            // It is asked by another name than its own.
            (Service::Gitea, "https://example.com/org/shop", "http://gitea.gitea.svc:3000", true),
            (Service::AzureDevOps, "https://org.visualstudio.com/team/_git/shop", "", true),
            (Service::GitLab, "https://gitlab.com/org/shop", "", true),
            (Service::GitLab, "https://example.com/org/shop", "", false),
        ] {
            let news = News::at(service, About::PullRequests, address);
            assert_eq!(news.is_on(service, api), expected, "{address} {api}");
            let other = if service == Service::GitHub { Service::Gitea } else { Service::GitHub };
            assert!(!news.is_on(other, api), "{address} {api}");
        }
        let unknown = || News::named(Service::GitLab, About::Repository, ["a", "b"]);
        assert!(unknown().is_on(Service::GitLab, ""));
        for (address, expected) in [
            ("https://gitlab.com", true),
            ("https://gitlab.com/a/b", true),
            ("git@gitlab.com:a/b.git", true),
            ("https://example.com", false),
        ] {
            assert_eq!(unknown().on_server_of(address).is_on(Service::GitLab, ""), expected, "{address}");
        }
    }
}
