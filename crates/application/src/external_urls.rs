//! URLs of an application's objects outside the cluster.

use std::collections::BTreeSet;

use serde_json::Value;
use tidegate_model::Object;

/// Prefix of link annotations on objects (Argo CD). The value is a URL or `TITLE|URL`.
const LINK_ANNOTATION_PREFIX: &str = "link.argocd.argoproj.io/";
/// Maximum number of URLs per object.
const URLS_MAX: usize = 100;

/// Returns the URLs of a live object, from the rules of an Ingress and from annotations
/// (`link.argocd.argoproj.io/…`). Only `http` and `https` URLs without a `*` in the host are returned.
///
/// ```
/// # use serde_json::json;
/// # use tidegate_model::Object;
/// let ingress = Object::try_from(json!({
///     "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "shop"},
///     "spec": {
///         "tls": [{"hosts": ["shop.example.com"]}],
///         "rules": [{"host": "shop.example.com", "http": {"paths": [{"path": "/cart"}]}}],
///     },
/// }))?;
/// assert_eq!(tidegate_application::external_urls::external_urls(&ingress), ["https://shop.example.com/cart"]);
/// # Ok::<(), tidegate_model::InvalidObject>(())
/// ```
pub fn external_urls(live: &Object) -> Vec<String> {
    let group = live.gvk().group;
    let is_ingress =
        live.kind() == "Ingress" && ["networking.k8s.io", "extensions"].contains(&group.as_str());
    let served = if is_ingress { ingress_urls(live) } else { BTreeSet::new() };
    let annotations = live.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    let links = annotations
        .filter(|(name, _)| name.starts_with(LINK_ANNOTATION_PREFIX))
        .filter_map(|(_, link)| link.as_str());
    let said = links.map(|link| link.rsplit_once('|').map_or(link, |(_, url)| url).to_owned());
    let all: BTreeSet<String> = served.into_iter().chain(said).filter(|url| is_url(url)).collect();
    all.into_iter().take(URLS_MAX).collect()
}

fn is_url(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_plain = !text.chars().any(|c| c.is_control() || c.is_whitespace());
    is_plain && host.is_some_and(|host| !host.is_empty() && !host.starts_with(['/', '*']))
}

fn ingress_urls(ingress: &Object) -> BTreeSet<String> {
    let list = |pointer: &str| ingress.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    // A rule without a host applies to all addresses of the load balancer.
    let leads = |one: &Value| text(one, "hostname").or_else(|| text(one, "ip"));
    let everywhere: Vec<String> = list("/status/loadBalancer/ingress").filter_map(leads).collect();
    let mut urls = BTreeSet::new();
    for rule in list("/spec/rules") {
        let host = text(rule, "host").filter(|host| !host.is_empty());
        let hosts = host.map_or_else(|| everywhere.clone(), |host| vec![host]);
        let paths = rule.pointer("/http/paths").and_then(Value::as_array);
        let paths: Vec<String> = match paths {
            Some(paths) => paths.iter().map(|one| text(one, "path").unwrap_or_default()).collect(),
            None => vec![String::new()],
        };
        for host in &hosts {
            let scheme =
                if list("/spec/tls").any(|tls| tls_applies_to(tls, host)) { "https" } else { "http" };
            urls.extend(paths.iter().map(|path| format!("{scheme}://{host}{}", path.trim_end_matches('*'))));
        }
    }
    urls
}

/// Returns true if a TLS entry of an Ingress covers a host. An entry without hosts covers all of them.
fn tls_applies_to(tls: &Value, host: &str) -> bool {
    let hosts = tls.get("hosts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    hosts.is_empty() || hosts.iter().any(|one| one == host)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ingress_urls_follow_rules_and_load_balancer() {
        let path = |path: &str| json!({"path": path});
        let table = [
            (json!({}), vec![]),
            (json!({"rules": [{"host": "a.example.com"}]}), vec!["http://a.example.com"]),
            (json!({"rules": [{"host": "*.example.com"}]}), vec![]),
            (
                json!({"rules": [{"host": "a.example.com", "http": {"paths": [path("/"), path("/b/*"), {}]}}]}),
                vec!["http://a.example.com", "http://a.example.com/", "http://a.example.com/b/"],
            ),
            (
                json!({"tls": [{"secretName": "all"}], "rules": [{"http": {"paths": [path("/b")]}}]}),
                vec!["https://192.0.2.7/b", "https://lb.example.com/b"],
            ),
            (
                json!({"tls": [{"hosts": ["b.example.com"]}], "rules": [{"host": "a.example.com"}, {"host": "b.example.com"}]}),
                vec!["http://a.example.com", "https://b.example.com"],
            ),
            (json!({"tls": 7, "rules": {"host": "a"}}), vec![]),
            (
                json!({"rules": [{"host": "a b"}, {"host": "a\nb"}, {"host": ""}, "x"]}),
                vec!["http://192.0.2.7", "http://lb.example.com"],
            ),
        ];
        for (spec, expected) in table {
            let ingress = Object::try_from(json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i"}, "spec": spec,
                "status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com", "ip": "192.0.2.1"}, {"ip": "192.0.2.7"}]}},
            }))
            .unwrap();
            assert_eq!(external_urls(&ingress), expected, "{spec}");
        }
    }

    #[test]
    fn annotations_link_to_the_web_and_to_nothing_else() {
        let map = Object::try_from(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "m", "annotations": {
                "link.argocd.argoproj.io/docs": "https://example.com/docs",
                "link.argocd.argoproj.io/run-book": "Run book|http://example.com/run",
                "link.argocd.argoproj.io/evil": "javascript:alert(1)",
                "link.argocd.argoproj.io/worse": "Title|data:text/html,x",
                "link.argocd.argoproj.io/empty": "https://",
                "example.com/link": "https://example.com/other",
            }},
            "spec": {"rules": [{"host": "no-ingress.example.com"}]},
        }))
        .unwrap();
        assert_eq!(external_urls(&map), ["http://example.com/run", "https://example.com/docs"]);
    }
}
