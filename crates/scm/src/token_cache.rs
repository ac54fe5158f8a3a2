//! Cache of access tokens for the installations of GitHub Apps.

use tidegate_web::{GithubApp, TokenCache};

use crate::problem::Problem;

/// Cache of access tokens, by installation.
pub(crate) type Tokens = TokenCache<Installation, Problem>;

/// Cache key. Includes the owner of the repositories if the Secret doesn't specify the App's installation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Installation {
    pub base: String,
    pub app: GithubApp,
    pub owner: Option<String>,
}

/// An access token in the cache.
pub(crate) struct CachedToken {
    pub installation: Installation,
    pub token: String,
    /// True if the token was cached before this request, and thus may have been revoked.
    pub is_from_cache: bool,
}
