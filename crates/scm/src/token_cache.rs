//! Cache of access tokens for installations of GitHub Apps.

use tidegate_web::{GithubApp, TokenCache};

use crate::problem::Problem;

/// Cache of access tokens, by installation.
pub(crate) type Tokens = TokenCache<Installation, Problem>;

/// Cache key: an App at an API address, and the owner of the repositories if the Secret doesn't specify an
/// installation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Installation {
    pub base: String,
    pub app: GithubApp,
    pub owner: Option<String>,
}

/// Cached access token.
pub(crate) struct CachedToken {
    pub installation: Installation,
    pub token: String,
    /// True if the token was already in the cache, in which case it may have been revoked since then.
    pub is_from_cache: bool,
}
