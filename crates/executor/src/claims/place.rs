//! Where the claim of an application is kept.

use sha2::{Digest as _, Sha256};
use tidegate_model::{ClaimPlace, ClaimRequest, SyncRequest};

/// A namespace that every cluster has, for operations whose own comes with them.
const ALWAYS_THERE: &str = "default";
/// The longest name of an object.
const NAME_MAX: usize = 253;
/// So many hexadecimal digits tell shortened names apart.
const DIGITS: usize = 10;

/// Where an operation keeps its claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// In the namespace that the request names, or else in that of the destination.
    pub home: ClaimPlace,
    /// Where it is kept by an operation that finds no such namespace. Everybody else looks there as well, for the
    /// namespace may have come meanwhile.
    pub aside: Option<ClaimPlace>,
}

impl Places {
    pub fn of(request: &SyncRequest, claim: &ClaimRequest) -> Self {
        let application = &request.application;
        let plain = name(application, None);
        let place = |namespace: &str, name| ClaimPlace { namespace: namespace.to_owned(), name };
        if let Some(namespace) = &claim.namespace {
            return Self { home: place(namespace, plain), aside: None };
        }
        let destination = &request.namespace;
        let aside =
            (destination != ALWAYS_THERE).then(|| place(ALWAYS_THERE, name(application, Some(destination))));
        Self { home: place(destination, plain), aside }
    }
}

/// `tidegate-<application>`; with a digest where that is no name, or has to name a namespace as well.
fn name(application: &str, namespace: Option<&str>) -> String {
    let full = format!("tidegate-{application}");
    if namespace.is_none() && is_name(&full) {
        return full;
    }
    let mut digest = Sha256::new();
    digest.update(application);
    digest.update("/");
    digest.update(namespace.unwrap_or_default());
    let digits: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let digits = digits.get(..DIGITS).unwrap_or_default();
    let plain: String = full
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(NAME_MAX - 1 - DIGITS)
        .collect();
    format!("{}-{digits}", plain.trim_end_matches('-'))
}

/// Whether a text can be the name of an object.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let plain =
            label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        plain && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= NAME_MAX && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use tidegate_model::Destination;

    use super::*;

    fn places(application: &str, namespace: &str, claim: Option<&str>) -> Places {
        let request = SyncRequest::new(application, namespace, Destination::Simulated);
        let claim = ClaimRequest { namespace: claim.map(str::to_owned), ..ClaimRequest::default() };
        Places::of(&request, &claim)
    }

    #[test]
    fn the_claim_of_an_application_is_in_its_namespace() {
        let places = places("web.shop", "team-a", None);
        assert_eq!(places.home.to_string(), "Lease team-a/tidegate-web.shop");
        let aside = places.aside.unwrap();
        assert_eq!(aside.namespace, "default");
        assert!(aside.name.starts_with("tidegate-web-shop-") && is_name(&aside.name), "{}", aside.name);
    }

    #[test]
    fn a_namespace_that_is_named_or_always_there_needs_no_other() {
        assert_eq!(places("web", "default", None).aside, None);
        let elsewhere = places("web", "team-a", Some("ops"));
        assert_eq!((elsewhere.home.to_string(), elsewhere.aside), ("Lease ops/tidegate-web".into(), None));
    }

    #[test]
    fn every_name_is_a_name_and_no_two_are_the_same() {
        let long = "a".repeat(300);
        let longer = format!("{long}b");
        let mut names = std::collections::BTreeSet::new();
        for application in ["web", "Web", "WEB", "a_b", "a b", "a/b", "ä", "x.", ".x", "x-", &long, &longer]
        {
            for namespace in ["team-a", "team-b"] {
                let places = places(application, namespace, None);
                let aside = places.aside.unwrap().name;
                assert!(
                    is_name(&places.home.name) && is_name(&aside),
                    "{application}: {} {aside}",
                    places.home.name
                );
                assert!(names.insert(aside), "{application} in {namespace}");
                names.insert(places.home.name);
            }
        }
        assert_eq!(names.len(), 12 * 3);
    }
}
