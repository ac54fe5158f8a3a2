//! Configuration of `http` gates.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use http::{HeaderName, HeaderValue, Method, Uri};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_model::parse_duration;

use super::template::render;
use crate::gates::gate_subject::GateSubject;

/// Default timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum timeout, kept low so that a hanging endpoint is noticed.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// Default interval.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum and maximum interval.
const INTERVAL_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// Maximum size of a token file in bytes.
const SECRET_BYTES_MAX: u64 = 64 << 10;
/// Headers that control the connection, or that the client sets itself.
const RESERVED_HEADERS: [&str; 6] =
    ["connection", "content-length", "content-type", "host", "te", "transfer-encoding"];

/// An endpoint that decides whether a wave may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpGate {
    /// URL with the scheme `http` or `https`. Variables such as `${application}` are replaced.
    pub url: String,
    /// Method. [default: POST]
    #[serde(default)]
    pub method: HttpMethod,
    /// Request headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, HeaderSource>,
    /// Body of a POST request: JSON whose strings may contain variables such as `${application}`. [default:
    /// all variables]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Maximum time to wait for a response, such as `5s`, at most a minute. [default: 10 s]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Interval between requests, such as `1m`, between one second and one hour. [default: 30 s]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
}

/// Request method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// `GET`, without a body.
    Get,
    /// `POST`, with a body.
    #[default]
    Post,
}

/// Source of a header value. Values never appear in messages, records or traces.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderSource {
    /// The value itself, stored with the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Environment variable of the process that sends the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// File that contains the value, reread for each request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Prefix of the value, such as `Bearer `.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
}

impl fmt::Debug for HeaderSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.as_ref().map(|_| "…");
        let mut shown = f.debug_struct("HeaderSource");
        shown.field("value", &value).field("env", &self.env).field("file", &self.file).finish_non_exhaustive()
    }
}

/// Prepared request that the client can send repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct EndpointRequest {
    pub method: Method,
    pub url: Uri,
    /// Name of the endpoint in messages, without the path and query, which may contain secrets.
    pub endpoint: String,
    pub headers: Vec<(HeaderName, HeaderSource)>,
    pub body: Bytes,
    pub timeout: Duration,
    pub interval: Duration,
}

impl HttpGate {
    /// Returns all problems with the configuration.
    pub(crate) fn check(&self) -> Vec<String> {
        let sample = |name: &str| is_variable(name).then(|| "x".to_owned());
        let headers = self.headers.iter().map(|(name, source)| {
            parse_header_name(name)
                .and_then(|_| source.check())
                .map_err(|problem| format!("headers.{name}: {problem}"))
        });
        let problems = [
            self.parse_url(&sample).map(drop),
            self.render_body(&sample).map(drop),
            self.parse_timeout().map(drop),
            self.parse_interval().map(drop),
        ];
        problems.into_iter().chain(headers).filter_map(Result::err).collect()
    }

    /// Returns the request for a wave.
    pub(crate) fn build_request(&self, subject: &GateSubject) -> Result<EndpointRequest, String> {
        let values = |name: &str| variable_value(subject, name);
        let (url, endpoint) = self.parse_url(&values)?;
        let named = |(name, source): (&String, &HeaderSource)| Ok((parse_header_name(name)?, source.clone()));
        Ok(EndpointRequest {
            method: match self.method {
                HttpMethod::Get => Method::GET,
                HttpMethod::Post => Method::POST,
            },
            url,
            endpoint,
            headers: self.headers.iter().map(named).collect::<Result<_, String>>()?,
            body: self.render_body(&values)?,
            timeout: self.parse_timeout()?,
            interval: self.parse_interval()?,
        })
    }

    fn parse_url(&self, values: &dyn Fn(&str) -> Option<String>) -> Result<(Uri, String), String> {
        let wrong = |problem: &str| format!("url: {problem}; use a URL such as https://host/path");
        let encoded = |name: &str| Some(percent_encode(&values(name)?));
        let url: Uri = render(&self.url, &encoded)
            .map_err(|problem| format!("url: {problem}"))?
            .parse()
            .map_err(|_| wrong("the URL is invalid"))?;
        let scheme = url.scheme().filter(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
        let scheme = scheme.ok_or_else(|| wrong("the scheme must be http or https"))?;
        let authority = url.authority().ok_or_else(|| wrong("the URL has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("the URL must not contain credentials (put them in a header)"));
        }
        let is_fixed = self.url.get(scheme.as_str().len()..).and_then(|rest| rest.strip_prefix("://"));
        if !is_fixed.is_some_and(|rest| rest.starts_with(authority.as_str())) {
            return Err(wrong("the host cannot contain variables"));
        }
        let endpoint = format!("{scheme}://{authority}");
        Ok((url, endpoint))
    }

    fn render_body(&self, values: &dyn Fn(&str) -> Option<String>) -> Result<Bytes, String> {
        let mut body = match (&self.body, self.method) {
            (None, HttpMethod::Get) => return Ok(Bytes::new()),
            (Some(_), HttpMethod::Get) => {
                return Err("body: a GET request cannot have a body; set method: POST".to_owned());
            }
            (Some(body), HttpMethod::Post) => body.clone(),
            (None, HttpMethod::Post) => VARIABLES
                .iter()
                .map(|name| ((*name).to_owned(), Value::from(format!("${{{name}}}"))))
                .collect(),
        };
        render_strings(&mut body, values).map_err(|problem| format!("body: {problem}"))?;
        Ok(body.to_string().into())
    }

    fn parse_timeout(&self) -> Result<Duration, String> {
        let Some(text) = &self.timeout else { return Ok(DEFAULT_TIMEOUT) };
        let timeout = parse_duration(text).map_err(|error| format!("timeout: {error}"))?;
        let is_good = !timeout.is_zero() && timeout <= TIMEOUT_MAX;
        is_good.then_some(timeout).ok_or_else(|| "timeout: use a duration up to 1m, such as 5s".to_owned())
    }

    fn parse_interval(&self) -> Result<Duration, String> {
        let Some(text) = &self.interval else { return Ok(DEFAULT_INTERVAL) };
        let interval = parse_duration(text).map_err(|error| format!("interval: {error}"))?;
        let is_good = (INTERVAL_RANGE.0..=INTERVAL_RANGE.1).contains(&interval);
        is_good.then_some(interval).ok_or_else(|| "interval: use a duration between 1s and 1h".to_owned())
    }
}

impl HeaderSource {
    fn check(&self) -> Result<(), String> {
        match (&self.value, &self.env, &self.file) {
            (Some(value), None, None) => self.parse_header_value(value).map(drop),
            (None, Some(name), None) if !name.is_empty() && !name.contains(['=', '\0']) => Ok(()),
            (None, Some(_), None) => Err("env: use the name of an environment variable".to_owned()),
            (None, None, Some(path)) if Path::new(path).is_absolute() => Ok(()),
            (None, None, Some(_)) => Err("file: use an absolute path".to_owned()),
            _ => Err("set exactly one of value, env and file".to_owned()),
        }
    }

    /// Returns the current value and its secret part. Error messages never contain them.
    pub(crate) fn read(&self) -> Result<(HeaderValue, String), String> {
        let secret = match (&self.value, &self.env, &self.file) {
            (Some(value), ..) => value.clone(),
            (None, Some(name), _) => std::env::var(name)
                .map_err(|_| format!("environment variable {name} is not set or is not valid UTF-8"))?,
            (None, None, Some(path)) => read_secret_file(Path::new(path))?,
            (None, None, None) => return Err("the header has no value".to_owned()),
        };
        let secret = secret.trim().to_owned();
        Ok((self.parse_header_value(&secret)?, secret))
    }

    fn parse_header_value(&self, secret: &str) -> Result<HeaderValue, String> {
        let mut value = HeaderValue::try_from(format!("{}{secret}", self.prefix))
            .map_err(|_| "the value contains characters that are not allowed in a header".to_owned())?;
        value.set_sensitive(true);
        Ok(value)
    }
}

fn read_secret_file(path: &Path) -> Result<String, String> {
    let unreadable = |problem: String| format!("file {} cannot be read: {problem}", path.display());
    let size = path.metadata().map_err(|error| unreadable(error.to_string()))?.len();
    if size > SECRET_BYTES_MAX {
        return Err(unreadable(format!("the file is too large: {size} bytes (maximum: {SECRET_BYTES_MAX})")));
    }
    std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))
}

fn parse_header_name(name: &str) -> Result<HeaderName, String> {
    let parsed: HeaderName = name.parse().map_err(|_| "invalid header name".to_owned())?;
    if RESERVED_HEADERS.contains(&parsed.as_str()) {
        return Err("this header cannot be set".to_owned());
    }
    Ok(parsed)
}

/// Variables available to a request.
const VARIABLES: [&str; 5] = ["operation", "application", "revision", "phase", "wave"];

fn is_variable(name: &str) -> bool {
    VARIABLES.contains(&name)
}

fn variable_value(subject: &GateSubject, name: &str) -> Option<String> {
    match name {
        "operation" => Some(subject.operation.to_string()),
        "application" => Some(subject.application.clone()),
        "revision" => Some(subject.revision.clone()),
        "phase" => Some(subject.phase.to_string()),
        "wave" => Some(subject.wave.to_string()),
        _ => None,
    }
}

/// Replaces variables in the strings of a body. Keys remain unchanged.
fn render_strings(body: &mut Value, values: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    match body {
        Value::String(text) => *text = render(text, values)?,
        Value::Array(entries) => entries.iter_mut().try_for_each(|entry| render_strings(entry, values))?,
        Value::Object(fields) => fields.values_mut().try_for_each(|field| render_strings(field, values))?,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

fn percent_encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
