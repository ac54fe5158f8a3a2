//! Where traces go: by a flag, and by the variables that OpenTelemetry has for it.

use http::Uri;
use http::header::{HeaderName, HeaderValue};

/// Where traces are taken, below the address of a collector.
const TRACES: &str = "v1/traces";
const SERVICE: &str = "tidegate";

/// Who takes traces. Neither headers nor path are ever shown: both may let others in.
pub struct Collector {
    pub(super) url: Uri,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// What is said of this process.
    pub(super) resource: Vec<(String, String)>,
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").field("at", &self.name()).finish_non_exhaustive()
    }
}

/// Why no traces can be sent.
#[derive(Debug, thiserror::Error)]
#[error("{named}: {why}")]
pub struct WrongCollector {
    /// The flag or the variable that is to blame.
    named: &'static str,
    why: String,
}

/// What variables have to say, by their names; nothing of those that are empty.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

const FLAG: &str = "--otlp";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";

impl Collector {
    /// The collector that the flag names, or else the variables; nothing where nobody wants traces.
    ///
    /// # Errors
    ///
    /// An address, a header or an attribute is none; the message does not repeat it.
    pub fn find(
        named: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, WrongCollector> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let is =
            |name: &str, word: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
        let found = match named {
            Some(base) => Some((FLAG, below(base))),
            None if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") => None,
            None => variable(TRACES_ENDPOINT)
                .map(|url| (TRACES_ENDPOINT, url))
                .or_else(|| variable(ENDPOINT).map(|base| (ENDPOINT, below(&base)))),
        };
        let Some((from, url)) = found else { return Ok(None) };
        if let Some(protocol) = PROTOCOLS.into_iter().find(|name| variable(name).is_some()) {
            speaks(protocol, &variable)?;
        }
        let url = address(&url).map_err(|why| WrongCollector { named: from, why })?;
        Ok(Some(Self { url, headers: headers(&variable)?, resource: resource(&variable)? }))
    }

    /// What it is called in messages.
    pub(super) fn name(&self) -> String {
        let scheme = self.url.scheme_str().unwrap_or_default();
        let authority = self.url.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        format!("{scheme}://{authority}")
    }
}

/// Traces have a path of their own below the address of a collector; whoever has named it already means the same.
fn below(base: &str) -> String {
    let base = base.trim().trim_end_matches('/');
    if base.ends_with(&format!("/{TRACES}")) { base.to_owned() } else { format!("{base}/{TRACES}") }
}

fn speaks(named: &'static str, variable: Variables<'_>) -> Result<(), WrongCollector> {
    match variable(named).as_deref() {
        // Whoever takes one of them takes both, at the same address.
        Some("http/json" | "http/protobuf") | None => Ok(()),
        Some(_) => Err(WrongCollector {
            named,
            why: "traces are sent by http/json alone; name that, and the collector's address for HTTP, such as http://collector:4318"
                .to_owned(),
        }),
    }
}

fn address(text: &str) -> Result<Uri, String> {
    let url: Uri = text.trim().parse().map_err(|_| "it is no address of a collector".to_owned())?;
    if !matches!(url.scheme_str(), Some("http" | "https")) || url.host().is_none_or(str::is_empty) {
        return Err("it is to begin with http:// or https://, and a host".to_owned());
    }
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(format!(
            "it is to name no user and no password: what lets traces in goes into {}",
            HEADERS[0]
        ));
    }
    Ok(url)
}

/// Those for traces win over those for everything.
fn headers(variable: Variables<'_>) -> Result<Vec<(HeaderName, HeaderValue)>, WrongCollector> {
    let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
    for named in HEADERS {
        for (name, value) in pairs(named, variable)? {
            let wrong =
                |what: &str| WrongCollector { named, why: format!("one of its {what} is none of HTTP") };
            let name = HeaderName::try_from(name).map_err(|_| wrong("names"))?;
            let mut value = HeaderValue::try_from(value).map_err(|_| wrong("values"))?;
            value.set_sensitive(true);
            headers.retain(|(other, _)| *other != name);
            headers.push((name, value));
        }
    }
    Ok(headers)
}

fn resource(variable: Variables<'_>) -> Result<Vec<(String, String)>, WrongCollector> {
    let mut resource = vec![
        ("service.name".to_owned(), SERVICE.to_owned()),
        ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let service = variable(SERVICE_NAME).map(|name| ("service.name".to_owned(), name.trim().to_owned()));
    for (name, value) in pairs(RESOURCE, variable)?.into_iter().chain(service) {
        resource.retain(|(other, _)| *other != name);
        resource.push((name, value));
    }
    Ok(resource)
}

/// `NAME=VALUE,NAME=VALUE`, where `%` and two digits stand for a byte.
fn pairs(named: &'static str, variable: Variables<'_>) -> Result<Vec<(String, String)>, WrongCollector> {
    let text = variable(named).unwrap_or_default();
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let (name, value) = (decoded(name.trim())?, decoded(value.trim())?);
        (!name.is_empty()).then_some((name, value))
    };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let pairs: Option<Vec<_>> = parts.map(pair).collect();
    pairs.ok_or_else(|| {
        let why = "it is to be NAME=VALUE,NAME=VALUE, in UTF-8, where %2C stands for a comma and %25 for a %";
        WrongCollector { named, why: why.to_owned() }
    })
}

fn decoded(text: &str) -> Option<String> {
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
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    fn find(named: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<Collector>, String> {
        let of = |name: &str| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        };
        Collector::find(named, of).map_err(|error| error.to_string())
    }

    #[test]
    fn the_address_is_that_of_the_flag_or_else_of_the_variables() {
        let (base, own) = (("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318"), "http://b/own");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", own);
        for (flag, variables, expected) in [
            (Some("http://c:4318"), vec![base, traces], Some("http://c:4318/v1/traces")),
            (Some("https://c/otlp/"), vec![], Some("https://c/otlp/v1/traces")),
            (Some("https://c/otlp/v1/traces"), vec![], Some("https://c/otlp/v1/traces")),
            (None, vec![base], Some("http://a:4318/v1/traces")),
            // That for traces is taken as it is.
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
            let found = find(flag, &variables).unwrap();
            assert_eq!(
                found.map(|found| found.url.to_string()).as_deref(),
                expected,
                "{flag:?} {variables:?}"
            );
        }
    }

    #[test]
    fn headers_and_attributes_are_those_of_the_variables() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20a+b=%2C, x-tenant = ops ,"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "X-Tenant=traces"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment=caf%C3%A9"),
            ("OTEL_SERVICE_NAME", "gate"),
        ];
        let found = find(Some("http://c"), &variables).unwrap().unwrap();
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
        let usual = find(Some("http://c"), &[]).unwrap().unwrap();
        assert_eq!(usual.resource.first().unwrap(), &("service.name".to_owned(), "tidegate".to_owned()));
    }

    #[test]
    fn mistakes_are_named_and_what_may_be_secret_is_not() {
        for (flag, variables, part) in [
            ("secret", vec![], "--otlp: it is no address of a collector"),
            ("ftp://secret", vec![], "http:// or https://"),
            ("http://me:secret@c", vec![], "no password"),
            (
                "http://c",
                vec![("OTEL_EXPORTER_OTLP_HEADERS", "secret")],
                "OTEL_EXPORTER_OTLP_HEADERS: it is to be",
            ),
            ("http://c", vec![("OTEL_EXPORTER_OTLP_HEADERS", "a=%sec")], "NAME=VALUE"),
            ("http://c", vec![("OTEL_EXPORTER_OTLP_HEADERS", "a=secret%0A")], "values is none"),
            ("http://c", vec![("OTEL_EXPORTER_OTLP_HEADERS", "a b=secret")], "names is none"),
            ("http://c", vec![("OTEL_RESOURCE_ATTRIBUTES", "a=%FFsecret")], "OTEL_RESOURCE_ATTRIBUTES"),
            ("http://c", vec![("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "http/json alone"),
        ] {
            let problem = find(Some(flag), &variables).unwrap_err();
            assert!(problem.contains(part) && !problem.contains("sec"), "{problem}");
        }
    }
}
