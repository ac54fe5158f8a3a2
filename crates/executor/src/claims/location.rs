//! Location of an application's claim.

use sha2::{Digest as _, Sha256};
use tidegate_model::{ClaimLocation, ClaimRequest, SyncRequest};

/// Namespace for the claims of operations that create their own namespace. Every cluster has it.
const FALLBACK_NAMESPACE: &str = "default";
/// Maximum length of an object name.
const NAME_MAX: usize = 253;
/// Number of hexadecimal digits that tell shortened names apart.
const DIGEST_DIGITS: usize = 10;

/// Possible locations of an operation's claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimLocations {
    /// Location in the request's namespace, or else in the destination's.
    pub home: ClaimLocation,
    /// Location for a missing home namespace. All other operations check it too, because the namespace may
    /// have been created in the meantime.
    pub fallback: Option<ClaimLocation>,
}

impl ClaimLocations {
    pub fn for_request(request: &SyncRequest, claim: &ClaimRequest) -> Self {
        let application = &request.application;
        let plain = lease_name(application, None);
        let place = |namespace: &str, name| ClaimLocation { namespace: namespace.to_owned(), name };
        if let Some(namespace) = &claim.namespace {
            return Self { home: place(namespace, plain), fallback: None };
        }
        let destination = &request.namespace;
        let fallback = (destination != FALLBACK_NAMESPACE)
            .then(|| place(FALLBACK_NAMESPACE, lease_name(application, Some(destination))));
        Self { home: place(destination, plain), fallback }
    }
}

/// Returns `tidegate-<application>`. Adds a digest if that isn't a valid object name, or if the name must
/// include a namespace.
fn lease_name(application: &str, namespace: Option<&str>) -> String {
    let full = format!("tidegate-{application}");
    if namespace.is_none() && is_valid_name(&full) {
        return full;
    }
    let mut digest = Sha256::new();
    digest.update(application);
    digest.update("/");
    digest.update(namespace.unwrap_or_default());
    let digits: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let digits = digits.get(..DIGEST_DIGITS).unwrap_or_default();
    let plain: String = full
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(NAME_MAX - 1 - DIGEST_DIGITS)
        .collect();
    format!("{}-{digits}", plain.trim_end_matches('-'))
}

fn is_valid_name(text: &str) -> bool {
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

    fn locations(application: &str, namespace: &str, claim: Option<&str>) -> ClaimLocations {
        let request = SyncRequest::new(application, namespace, Destination::Simulated);
        let claim = ClaimRequest { namespace: claim.map(str::to_owned), ..ClaimRequest::default() };
        ClaimLocations::for_request(&request, &claim)
    }

    #[test]
    fn the_claim_of_an_application_is_in_its_namespace() {
        let places = locations("web.shop", "team-a", None);
        assert_eq!(places.home.to_string(), "Lease team-a/tidegate-web.shop");
        let aside = places.fallback.unwrap();
        assert_eq!(aside.namespace, "default");
        assert!(aside.name.starts_with("tidegate-web-shop-") && is_valid_name(&aside.name), "{}", aside.name);
    }

    #[test]
    fn a_named_or_permanent_namespace_needs_no_fallback() {
        assert_eq!(locations("web", "default", None).fallback, None);
        let elsewhere = locations("web", "team-a", Some("ops"));
        assert_eq!((elsewhere.home.to_string(), elsewhere.fallback), ("Lease ops/tidegate-web".into(), None));
    }

    #[test]
    fn every_lease_name_is_valid_and_unique() {
        let long = "a".repeat(300);
        let longer = format!("{long}b");
        let mut names = std::collections::BTreeSet::new();
        for application in ["web", "Web", "WEB", "a_b", "a b", "a/b", "ä", "x.", ".x", "x-", &long, &longer]
        {
            for namespace in ["team-a", "team-b"] {
                let places = locations(application, namespace, None);
                let aside = places.fallback.unwrap().name;
                assert!(
                    is_valid_name(&places.home.name) && is_valid_name(&aside),
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
