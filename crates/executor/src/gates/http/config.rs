//! What an endpoint is asked, as people write it.

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

use super::template::fill;
use crate::gates::asked::Asked;

/// How long an answer may take, if nobody says.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for an answer: a gate that hangs is to be seen as one.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// When the endpoint is asked again, if nobody says.
const INTERVAL: Duration = Duration::from_secs(30);
/// Shortest and longest time between two questions.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// A longer token than anybody's.
const SECRET_BYTES_MAX: u64 = 64 << 10;
/// Headers that belong to the connection, or are set by us.
const RESERVED: [&str; 6] =
    ["connection", "content-length", "content-type", "host", "te", "transfer-encoding"];

/// An endpoint that says whether a wave may begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpGate {
    /// Where it is: `http` or `https`. `${application}` and such stand for what is asked about.
    pub url: String,
    /// How it is asked; POST if not said.
    #[serde(default)]
    pub method: HttpMethod,
    /// Headers that are sent with the question.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, HeaderSource>,
    /// The body of a POST: JSON whose texts may have `${application}` and such; if not said, all there is to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// How long an answer may take, such as `5s`; 10 s if not said, at most a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// When it is asked again, such as `1m`; 30 s if not said, between a second and an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
}

/// How an endpoint is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// `GET`, without a body.
    Get,
    /// `POST`, with the question as its body.
    #[default]
    Post,
}

/// Where the value of a header comes from. Values never show: not in messages, facts or traces.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderSource {
    /// The value itself; it is kept with the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The environment variable that has it, of the process that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// The file that has it, read anew for each question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What stands before the value, such as `Bearer `.
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

/// A question, ready to be sent any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub method: Method,
    pub url: Uri,
    /// How the endpoint is named to people: without path and query, which may hold what nobody is to see.
    pub endpoint: String,
    pub headers: Vec<(HeaderName, HeaderSource)>,
    pub body: Bytes,
    pub timeout: Duration,
    pub interval: Duration,
}

impl HttpGate {
    /// All that is wrong with it.
    pub(crate) fn check(&self) -> Vec<String> {
        let sample = |name: &str| known(name).then(|| "x".to_owned());
        let headers = self.headers.iter().map(|(name, source)| {
            header_name(name)
                .and_then(|_| source.check())
                .map_err(|problem| format!("headers.{name}: {problem}"))
        });
        let problems = [
            self.endpoint(&sample).map(drop),
            self.body(&sample).map(drop),
            self.timeout().map(drop),
            self.interval().map(drop),
        ];
        problems.into_iter().chain(headers).filter_map(Result::err).collect()
    }

    /// The question about a wave.
    pub(crate) fn question(&self, asked: &Asked) -> Result<Question, String> {
        let values = |name: &str| value(asked, name);
        let (url, endpoint) = self.endpoint(&values)?;
        let named = |(name, source): (&String, &HeaderSource)| Ok((header_name(name)?, source.clone()));
        Ok(Question {
            method: match self.method {
                HttpMethod::Get => Method::GET,
                HttpMethod::Post => Method::POST,
            },
            url,
            endpoint,
            headers: self.headers.iter().map(named).collect::<Result<_, String>>()?,
            body: self.body(&values)?,
            timeout: self.timeout()?,
            interval: self.interval()?,
        })
    }

    fn endpoint(&self, values: &dyn Fn(&str) -> Option<String>) -> Result<(Uri, String), String> {
        let wrong = |problem: &str| format!("url: {problem}; write such as https://host/path");
        let encoded = |name: &str| Some(percent_encoded(&values(name)?));
        let url: Uri = fill(&self.url, &encoded)
            .map_err(|problem| format!("url: {problem}"))?
            .parse()
            .map_err(|_| wrong("it is none"))?;
        let scheme = url.scheme().filter(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
        let scheme = scheme.ok_or_else(|| wrong("it is neither http nor https"))?;
        let authority = url.authority().ok_or_else(|| wrong("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("a password does not belong there, but in a header"));
        }
        let is_fixed = self.url.get(scheme.as_str().len()..).and_then(|rest| rest.strip_prefix("://"));
        if !is_fixed.is_some_and(|rest| rest.starts_with(authority.as_str())) {
            return Err(wrong("the host is the same for all questions"));
        }
        let endpoint = format!("{scheme}://{authority}");
        Ok((url, endpoint))
    }

    fn body(&self, values: &dyn Fn(&str) -> Option<String>) -> Result<Bytes, String> {
        let mut body = match (&self.body, self.method) {
            (None, HttpMethod::Get) => return Ok(Bytes::new()),
            (Some(_), HttpMethod::Get) => return Err("body: a GET has none; write method: POST".to_owned()),
            (Some(body), HttpMethod::Post) => body.clone(),
            (None, HttpMethod::Post) => {
                NAMES.iter().map(|name| ((*name).to_owned(), Value::from(format!("${{{name}}}")))).collect()
            }
        };
        fill_all(&mut body, values).map_err(|problem| format!("body: {problem}"))?;
        Ok(body.to_string().into())
    }

    fn timeout(&self) -> Result<Duration, String> {
        let Some(text) = &self.timeout else { return Ok(TIMEOUT) };
        let timeout = parse_duration(text).map_err(|error| format!("timeout: {error}"))?;
        let is_good = !timeout.is_zero() && timeout <= TIMEOUT_MAX;
        is_good
            .then_some(timeout)
            .ok_or_else(|| "timeout: write one of at most a minute, such as 5s".to_owned())
    }

    fn interval(&self) -> Result<Duration, String> {
        let Some(text) = &self.interval else { return Ok(INTERVAL) };
        let interval = parse_duration(text).map_err(|error| format!("interval: {error}"))?;
        let is_good = (INTERVALS.0..=INTERVALS.1).contains(&interval);
        is_good.then_some(interval).ok_or_else(|| "interval: write one between 1s and 1h".to_owned())
    }
}

impl HeaderSource {
    fn check(&self) -> Result<(), String> {
        match (&self.value, &self.env, &self.file) {
            (Some(value), None, None) => self.header(value).map(drop),
            (None, Some(name), None) if !name.is_empty() && !name.contains(['=', '\0']) => Ok(()),
            (None, Some(_), None) => Err("env: write the name of a variable".to_owned()),
            (None, None, Some(path)) if Path::new(path).is_absolute() => Ok(()),
            (None, None, Some(_)) => Err("file: write the whole path, from / on".to_owned()),
            _ => Err("write one of value, env and file".to_owned()),
        }
    }

    /// The value as it is now, and the part of it that must not show. The error does not quote it.
    pub(crate) fn read(&self) -> Result<(HeaderValue, String), String> {
        let secret = match (&self.value, &self.env, &self.file) {
            (Some(value), ..) => value.clone(),
            (None, Some(name), _) => std::env::var(name)
                .map_err(|_| format!("the environment variable {name} is not set, or is no text"))?,
            (None, None, Some(path)) => read(Path::new(path))?,
            (None, None, None) => return Err("it has no value".to_owned()),
        };
        let secret = secret.trim().to_owned();
        Ok((self.header(&secret)?, secret))
    }

    fn header(&self, secret: &str) -> Result<HeaderValue, String> {
        let mut value = HeaderValue::try_from(format!("{}{secret}", self.prefix))
            .map_err(|_| "its value has characters that no header may have".to_owned())?;
        value.set_sensitive(true);
        Ok(value)
    }
}

fn read(path: &Path) -> Result<String, String> {
    let unreadable = |problem: String| format!("file {} cannot be read: {problem}", path.display());
    let size = path.metadata().map_err(|error| unreadable(error.to_string()))?.len();
    if size > SECRET_BYTES_MAX {
        return Err(unreadable(format!("it has {size} bytes, {SECRET_BYTES_MAX} at most are a value")));
    }
    std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))
}

fn header_name(name: &str) -> Result<HeaderName, String> {
    let parsed: HeaderName = name.parse().map_err(|_| "that is no name of a header".to_owned())?;
    if RESERVED.contains(&parsed.as_str()) {
        return Err("this header is not yours to set".to_owned());
    }
    Ok(parsed)
}

/// What a question may speak of.
const NAMES: [&str; 5] = ["operation", "application", "revision", "phase", "wave"];

fn known(name: &str) -> bool {
    NAMES.contains(&name)
}

fn value(asked: &Asked, name: &str) -> Option<String> {
    match name {
        "operation" => Some(asked.operation.to_string()),
        "application" => Some(asked.application.clone()),
        "revision" => Some(asked.revision.clone()),
        "phase" => Some(asked.phase.to_string()),
        "wave" => Some(asked.wave.to_string()),
        _ => None,
    }
}

/// Fills the texts of a body; its keys stay.
fn fill_all(body: &mut Value, values: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    match body {
        Value::String(text) => *text = fill(text, values)?,
        Value::Array(entries) => entries.iter_mut().try_for_each(|entry| fill_all(entry, values))?,
        Value::Object(fields) => fields.values_mut().try_for_each(|field| fill_all(field, values))?,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
