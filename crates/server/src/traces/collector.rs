//! Destination for traces, from a flag or OpenTelemetry's environment variables.

use http::Uri;
use http::header::{HeaderName, HeaderValue};

/// Path for traces, relative to a collector's URL.
const TRACES: &str = "v1/traces";
const DEFAULT_SERVICE_NAME: &str = "tidegate";

/// A trace collector. Its headers and path are never displayed, because both may grant access.
pub struct Collector {
    pub(super) url: Uri,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// Resource attributes that describe this process.
    pub(super) resource: Vec<(String, String)>,
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").field("at", &self.name()).finish_non_exhaustive()
    }
}

/// Error in a collector's settings.
#[derive(Debug, thiserror::Error)]
#[error("{named}: {why}")]
pub struct CollectorError {
    /// Flag or environment variable with the error.
    named: &'static str,
    why: String,
}

/// Function that returns an environment variable's value, treating empty variables as unset.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

const FLAG: &str = "--otlp";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";

impl Collector {
    /// Returns the collector from the flag or, if that isn't set, from the environment variables, if any.
    ///
    /// # Errors
    ///
    /// Returns an error if a URL, a header or an attribute is invalid. The message does not quote the invalid
    /// value.
    pub fn find(
        named: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, CollectorError> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let is =
            |name: &str, word: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
        let found = match named {
            Some(base) => Some((FLAG, traces_url(base))),
            None if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") => None,
            None => variable(TRACES_ENDPOINT)
                .map(|url| (TRACES_ENDPOINT, url))
                .or_else(|| variable(ENDPOINT).map(|base| (ENDPOINT, traces_url(&base)))),
        };
        let Some((from, url)) = found else { return Ok(None) };
        if let Some(protocol) = PROTOCOLS.into_iter().find(|name| variable(name).is_some()) {
            check_protocol(protocol, &variable)?;
        }
        let url = parse_url(&url).map_err(|why| CollectorError { named: from, why })?;
        Ok(Some(Self { url, headers: read_headers(&variable)?, resource: read_resource(&variable)? }))
    }

    /// Returns the collector's name for use in messages.
    pub(super) fn name(&self) -> String {
        let scheme = self.url.scheme_str().unwrap_or_default();
        let authority = self.url.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        format!("{scheme}://{authority}")
    }
}

/// Appends the path for traces to a collector's URL, unless the URL already ends with it.
fn traces_url(base: &str) -> String {
    let base = base.trim().trim_end_matches('/');
    if base.ends_with(&format!("/{TRACES}")) { base.to_owned() } else { format!("{base}/{TRACES}") }
}

fn check_protocol(named: &'static str, variable: Variables<'_>) -> Result<(), CollectorError> {
    match variable(named).as_deref() {
        // A collector that supports either protocol supports both at the same URL.
        Some("http/json" | "http/protobuf") | None => Ok(()),
        Some(_) => Err(CollectorError {
            named,
            why: "unsupported protocol: use http/json with the collector's HTTP address, such as http://collector:4318"
                .to_owned(),
        }),
    }
}

fn parse_url(text: &str) -> Result<Uri, String> {
    let url: Uri = text.trim().parse().map_err(|_| "invalid collector URL".to_owned())?;
    if !matches!(url.scheme_str(), Some("http" | "https")) || url.host().is_none_or(str::is_empty) {
        return Err("invalid URL: it must start with http:// or https:// and contain a host".to_owned());
    }
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(format!(
            "invalid URL: it must not contain a user or password; put credentials in {}",
            HEADERS[0]
        ));
    }
    Ok(url)
}

/// Reads the headers. Trace headers override those for all signals.
fn read_headers(variable: Variables<'_>) -> Result<Vec<(HeaderName, HeaderValue)>, CollectorError> {
    let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
    for named in HEADERS {
        for (name, value) in parse_pairs(named, variable)? {
            let wrong = |what: &str| CollectorError { named, why: format!("invalid HTTP header {what}") };
            let name = HeaderName::try_from(name).map_err(|_| wrong("name"))?;
            let mut value = HeaderValue::try_from(value).map_err(|_| wrong("value"))?;
            value.set_sensitive(true);
            headers.retain(|(other, _)| *other != name);
            headers.push((name, value));
        }
    }
    Ok(headers)
}

fn read_resource(variable: Variables<'_>) -> Result<Vec<(String, String)>, CollectorError> {
    let mut resource = vec![
        ("service.name".to_owned(), DEFAULT_SERVICE_NAME.to_owned()),
        ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let service = variable(SERVICE_NAME).map(|name| ("service.name".to_owned(), name.trim().to_owned()));
    for (name, value) in parse_pairs(RESOURCE, variable)?.into_iter().chain(service) {
        resource.retain(|(other, _)| *other != name);
        resource.push((name, value));
    }
    Ok(resource)
}

/// Parses `NAME=VALUE,NAME=VALUE`, with percent-encoded bytes.
fn parse_pairs(
    named: &'static str,
    variable: Variables<'_>,
) -> Result<Vec<(String, String)>, CollectorError> {
    let text = variable(named).unwrap_or_default();
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let (name, value) = (percent_decode(name.trim())?, percent_decode(value.trim())?);
        (!name.is_empty()).then_some((name, value))
    };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let pairs: Option<Vec<_>> = parts.map(pair).collect();
    pairs.ok_or_else(|| {
        let reason = "invalid list: use NAME=VALUE,NAME=VALUE in UTF-8, with %2C for a comma and %25 for a %";
        CollectorError { named, why: reason.to_owned() }
    })
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, others) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = others;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    fn find_collector(named: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<Collector>, String> {
        let of = |name: &str| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        };
        Collector::find(named, of).map_err(|error| error.to_string())
    }

    #[test]
    fn the_flag_takes_precedence_over_the_variables() {
        let (base, own) = (("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318"), "http://b/own");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", own);
        for (flag, variables, expected) in [
            (Some("http://c:4318"), vec![base, traces], Some("http://c:4318/v1/traces")),
            (Some("https://c/otlp/"), vec![], Some("https://c/otlp/v1/traces")),
            (Some("https://c/otlp/v1/traces"), vec![], Some("https://c/otlp/v1/traces")),
            (None, vec![base], Some("http://a:4318/v1/traces")),
            // The URL for traces is used unchanged.
            (None, vec![base, traces], Some(own)),
            (None, vec![("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], None),
            (None, vec![], None),
            (None, vec![base, ("OTEL_SDK_DISABLED", "true")], None),
            (None, vec![base, ("OTEL_TRACES_EXPORTER", "none")], None),
            (None, vec![base, ("OTEL_TRACES_EXPORTER", "otlp")], Some("http://a:4318/v1/traces")),
            (
                None,
                vec![base, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")],
                Some("http://a:4318/v1/traces"),
            ),
        ] {
            let found = find_collector(flag, &variables).unwrap();
            assert_eq!(
                found.map(|found| found.url.to_string()).as_deref(),
                expected,
                "{flag:?} {variables:?}"
            );
        }
    }

    #[test]
    fn headers_and_attributes_come_from_the_variables() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20a+b=%2C, x-tenant = ops ,"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "X-Tenant=traces"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment=caf%C3%A9"),
            ("OTEL_SERVICE_NAME", "gate"),
        ];
        let found = find_collector(Some("http://c"), &variables).unwrap().unwrap();
        let headers: Vec<(&str, &str)> =
            found.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(headers, [("authorization", "Bearer a+b=,"), ("x-tenant", "traces")]);
        let resource: Vec<(&str, &str)> =
            found.resource.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            resource,
            [("service.version", version), ("deployment.environment", "café"), ("service.name", "gate")]
        );
        assert!(!format!("{found:?}").contains("Bearer"));
        let usual = find_collector(Some("http://c"), &[]).unwrap().unwrap();
        assert_eq!(usual.resource.first().unwrap(), &("service.name".to_owned(), "tidegate".to_owned()));
    }

    #[test]
    fn errors_name_the_mistake_but_no_secret() {
        for (flag, variables, part) in [
            ("secret", vec![], "--otlp: invalid collector URL"),
            ("ftp://secret", vec![], "http:// or https://"),
            ("http://me:secret@c", vec![], "user or password"),
            (
                "http://c",
                vec![("OTEL_EXPORTER_OTLP_HEADERS", "secret")],
                "OTEL_EXPORTER_OTLP_HEADERS: invalid list",
            ),
            ("http://c", vec![("OTEL_EXPORTER_OTLP_HEADERS", "a=%sec")], "NAME=VALUE"),
            ("http://c", vec![("OTEL_EXPORTER_OTLP_HEADERS", "a=secret%0A")], "invalid HTTP header value"),
            ("http://c", vec![("OTEL_EXPORTER_OTLP_HEADERS", "a b=secret")], "invalid HTTP header name"),
            ("http://c", vec![("OTEL_RESOURCE_ATTRIBUTES", "a=%FFsecret")], "OTEL_RESOURCE_ATTRIBUTES"),
            ("http://c", vec![("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "use http/json"),
        ] {
            let problem = find_collector(Some(flag), &variables).unwrap_err();
            assert!(problem.contains(part) && !problem.contains("sec"), "{problem}");
        }
    }
}
