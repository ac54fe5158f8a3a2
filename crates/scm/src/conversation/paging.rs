//! Lists spread over several pages.
//!
//! Only the query of the next page's URL is used; the rest comes from the first page's URL. The server may
//! not be reachable under the URL it reports, and credentials must never go to another host.

use http::HeaderMap;
use http::header::LINK;
use serde::de::DeserializeOwned;

use super::Conversation;
use crate::problem::Problem;

impl Conversation<'_> {
    /// Returns all entries of a list, for servers that link to the next page in the `Link` header.
    pub async fn get_linked_pages<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &str,
    ) -> Result<Vec<T>, Problem> {
        let (mut all, mut query) = (Vec::new(), query.to_owned());
        for _ in 0..self.web.limits.pages {
            let page = self.get_page::<Vec<T>>(path, &query).await?;
            all.extend(page.content);
            match next_page_query(&page.headers) {
                None => return Ok(all),
                Some(same) if same == query => return Err(self.repeated_page_problem(path)),
                Some(next) => query = next,
            }
        }
        Err(self.too_many_pages(path))
    }

    /// Returns all entries of a list. `next` splits a page into its entries and the query of the next page.
    pub async fn get_pages<P: DeserializeOwned, T>(
        &self,
        path: &str,
        query: &str,
        next: impl Fn(P) -> (Vec<T>, Option<String>),
    ) -> Result<Vec<T>, Problem> {
        let (mut all, mut query) = (Vec::new(), query.to_owned());
        for _ in 0..self.web.limits.pages {
            let (entries, following) = next(self.get::<P>(path, &query).await?);
            all.extend(entries);
            match following {
                None => return Ok(all),
                Some(same) if same == query => return Err(self.repeated_page_problem(path)),
                Some(next) => query = next,
            }
        }
        Err(self.too_many_pages(path))
    }

    pub(super) fn repeated_page_problem(&self, path: &str) -> Problem {
        self.problem(format!("returned the same page of {path} again as the next page"))
    }

    pub fn too_many_pages(&self, path: &str) -> Problem {
        let most = self.web.limits.pages;
        self.problem(format!("has more than {most} pages of {path}; narrow the filters"))
    }
}

/// Returns the query of the next page from the `Link` header.
fn next_page_query(headers: &HeaderMap) -> Option<String> {
    let links = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    let mut next = links.flat_map(|links| links.split(',')).filter_map(|link| {
        let (address, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters.split(';').any(|one| {
            let (name, value) = one.trim().split_once('=').unwrap_or_default();
            name.eq_ignore_ascii_case("rel") && value.trim_matches('"').split(' ').any(|rel| rel == "next")
        });
        if is_next { query_of(address) } else { None }
    });
    next.next()
}

/// Returns the query of a URL, or `None` if it is empty.
pub(crate) fn query_of(address: &str) -> Option<String> {
    let (_, query) = address.split_once('?')?;
    let query = query.split_once('#').map_or(query, |(query, _)| query);
    (!query.is_empty()).then(|| query.to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_next_page_follows_the_link_header() {
        for (link, expected) in [
            (
                r#"<https://api.github.com/organizations/1/repos?page=1>; rel="prev", <https://api.github.com/organizations/1/repos?per_page=100&page=3>; rel="next""#,
                Some("per_page=100&page=3"),
            ),
            (r#"<https://a/x?page=2>; rel=next"#, Some("page=2")),
            (r#"<https://a/x?page=2>; rel="last next""#, Some("page=2")),
            (r#"<https://a/x?page=1>; rel="prev""#, None),
            (r#"<https://a/x>; rel="next""#, None),
            ("nonsense", None),
        ] {
            let headers = HeaderMap::from_iter([(LINK, HeaderValue::from_static(link))]);
            assert_eq!(next_page_query(&headers).as_deref(), expected, "{link}");
        }
    }
}
