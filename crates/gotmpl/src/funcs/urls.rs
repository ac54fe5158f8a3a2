//! Functions for URLs and paths.

use std::collections::BTreeMap;

use super::{Builtin, CallResult, Ty, at, fixed, str_at};
use crate::value::Val;

const STR: &[Ty] = &[Ty::Str];

pub(super) const SPRIG: &[Builtin] = &[
    fixed("base", STR, |_, values| Ok(Val::str(base(str_at(values, 0))))),
    fixed("dir", STR, |_, values| Ok(Val::str(dir(str_at(values, 0))))),
    fixed("clean", STR, |_, values| Ok(Val::str(clean(str_at(values, 0))))),
    fixed("ext", STR, |_, values| Ok(Val::str(ext(str_at(values, 0))))),
    fixed("isAbs", STR, |_, values| Ok(Val::Bool(str_at(values, 0).starts_with('/')))),
    fixed("osBase", STR, |_, values| Ok(Val::str(base(str_at(values, 0))))),
    fixed("osDir", STR, |_, values| Ok(Val::str(dir(str_at(values, 0))))),
    fixed("osClean", STR, |_, values| Ok(Val::str(clean(str_at(values, 0))))),
    fixed("osExt", STR, |_, values| Ok(Val::str(ext(str_at(values, 0))))),
    fixed("osIsAbs", STR, |_, values| Ok(Val::Bool(str_at(values, 0).starts_with('/')))),
    fixed("urlParse", STR, |_, values| url_parts(str_at(values, 0))),
    fixed("urlJoin", &[Ty::Map], |_, values| Ok(Val::str(join_url(at(values, 0))))),
];

fn base(path: &str) -> &str {
    if path.is_empty() {
        return ".";
    }
    match path.trim_end_matches('/') {
        "" => "/",
        path => path.rsplit('/').next().unwrap_or(path),
    }
}

fn dir(path: &str) -> String {
    clean(path.rfind('/').map_or("", |end| path.get(..=end).unwrap_or_default()))
}

fn ext(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rfind('.').map_or("", |dot| name.get(dot..).unwrap_or_default())
}

/// Returns the shortest equivalent path, like Go's `path.Clean`.
fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&"..") | None if !is_absolute => parts.push(".."),
                _ => {
                    parts.pop();
                }
            },
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (is_absolute, joined.as_str()) {
        (true, _) => format!("/{joined}"),
        (false, "") => ".".to_owned(),
        (false, _) => joined,
    }
}

/// Escapes a query value, like `url.QueryEscape`.
pub(super) fn escape_query(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte))
            }
            b' ' => escaped.push('+'),
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let value = digit()?.checked_mul(16)?.checked_add(digit()?)?;
        bytes.push(u8::try_from(value).ok()?);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn url_parts(url: &str) -> CallResult {
    let fail = |reason: &str| {
        Err(format!("unable to parse url: parse {}: {reason}", crate::quote::quote_string(url)))
    };
    if url.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return fail("net/url: invalid control character in URL");
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (scheme, rest) = match rest.split_once(':') {
        Some(("", _)) => return fail("missing protocol scheme"),
        Some((scheme, after)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), after),
        _ => (String::new(), rest),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut parts = BTreeMap::from(
        ["scheme", "host", "hostname", "path", "query", "opaque", "fragment", "userinfo"]
            .map(|key| (key.to_owned(), Val::str(""))),
    );
    let mut put = |key: &str, value: &str| parts.insert(key.to_owned(), Val::str(value));
    put("scheme", &scheme);
    put("query", query);
    let Some(fragment) = unescape(fragment) else { return fail("invalid URL escape") };
    put("fragment", &fragment);
    let path = match rest.strip_prefix("//") {
        Some(after) => {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, path) = after.split_at(end);
            let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
            put("userinfo", user);
            put("host", host);
            put("hostname", hostname(host));
            path
        }
        None if !scheme.is_empty() && !rest.starts_with('/') => {
            put("opaque", rest);
            ""
        }
        None => rest,
    };
    let Some(path) = unescape(path) else { return fail("invalid URL escape") };
    put("path", &path);
    Ok(Val::map(parts))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn hostname(host: &str) -> &str {
    if let Some(end) = host.find(']') {
        return host.get(1..end).unwrap_or_default();
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn join_url(parts: &Val) -> String {
    let get = |key: &str| match parts {
        Val::Map(map) => map.get(key).map(|value| super::text_of(&value)).unwrap_or_default(),
        _ => String::new(),
    };
    let mut url = String::new();
    let (scheme, host, path, query) = (get("scheme"), get("host"), get("path"), get("query"));
    if !scheme.is_empty() {
        url.push_str(&scheme);
        url.push(':');
    }
    let opaque = get("opaque");
    if opaque.is_empty() {
        let user = get("userinfo");
        if !scheme.is_empty() || !host.is_empty() || !user.is_empty() {
            if !host.is_empty() || !path.is_empty() || !user.is_empty() {
                url.push_str("//");
            }
            if !user.is_empty() {
                url.push_str(&user);
                url.push('@');
            }
            url.push_str(&host);
        }
        if !path.is_empty() && !path.starts_with('/') && !host.is_empty() {
            url.push('/');
        }
        url.push_str(&escape_path(&path));
    } else {
        url.push_str(&opaque);
    }
    if !query.is_empty() {
        url.push('?');
        url.push_str(&query);
    }
    let fragment = get("fragment");
    if !fragment.is_empty() {
        url.push('#');
        url.push_str(&escape_path(&fragment));
    }
    url
}

fn escape_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
