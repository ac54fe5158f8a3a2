//! Canonical form of the server in a URL: user, host and port.
//!
//! All URL comparisons go through this module, so two spellings of a server never count as two servers. Hosts
//! are parsed as the C library does when it connects: `127.1`, `0177.0.0.1`, `0x7f.1` and `2130706433` all
//! mean `127.0.0.1`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;

/// Returns the default port of a scheme.
pub fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "https" | "oci" => Some(443),
        "http" => Some(80),
        "ssh" => Some(22),
        _ => None,
    }
}

/// Parses a URL's port. Leading zeros are ignored, and signs are rejected.
pub fn parse_port(text: &str) -> Option<u16> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match text.trim_start_matches('0') {
        "" => Some(0),
        digits => digits.parse().ok(),
    }
}

/// Unmodified parts of `user@host:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// Text before the last `@`.
    pub user: Option<&'a str>,
    /// Host. An IPv6 address keeps its brackets.
    pub host: &'a str,
    /// Text after the colon that follows the host. May be empty.
    pub port: Option<&'a str>,
}

impl<'a> Authority<'a> {
    /// Splits the part of a URL between `://` and the path.
    pub fn split(text: &'a str) -> Self {
        let (user, server) = text.rsplit_once('@').map_or((None, text), |(user, rest)| (Some(user), rest));
        let (host, port) = match server.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (server, None),
        };
        Self { user, host, port }
    }
}

/// Host in canonical form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// IP address. An IPv4-mapped IPv6 address becomes the IPv4 address.
    Ip(IpAddr),
    /// Host name in lower case, without a trailing dot.
    Name(String),
}

impl Host {
    /// Parses a host in any spelling: upper-case, percent-encoded, with a trailing dot, or as an IP address
    /// in any notation.
    pub fn parse(text: &str) -> Self {
        let text = percent_decode(text).to_lowercase();
        let name = text.trim_end_matches('.');
        let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        // The part after `%` is an IPv6 zone, which only selects a local network interface.
        let address = bare.split_once('%').map_or(bare, |(address, _)| address);
        if let Ok(six) = address.parse::<Ipv6Addr>() {
            return Self::Ip(six.to_ipv4_mapped().map_or(IpAddr::V6(six), IpAddr::V4));
        }
        match parse_ipv4(name) {
            Some(four) => Self::Ip(IpAddr::V4(four)),
            None => Self::Name(name.to_owned()),
        }
    }

    /// Returns the IP address, or `None` if the host is a name.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Name(_) => None,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(six)) => write!(f, "[{six}]"),
            Self::Ip(IpAddr::V4(four)) => write!(f, "{four}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Parses an IPv4 address like `inet_aton`: one to four numbers, decimal, octal (`0…`) or hex (`0x…`), with
/// the last one filling the remaining bytes.
fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u32> = text.split('.').map(parse_ipv4_part).collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    if first.len() > 3 || first.iter().any(|part| *part > 255) {
        return None;
    }
    let left = 32_u32.checked_sub(8 * u32::try_from(first.len()).ok()?)?;
    if left < 32 && *last >= 1_u32.checked_shl(left)? {
        return None;
    }
    let high = first.iter().zip([24_u32, 16, 8]).fold(0_u32, |all, (part, shift)| all | part << shift);
    Some(Ipv4Addr::from(high | last))
}

fn parse_ipv4_part(part: &str) -> Option<u32> {
    let (digits, radix) = match part.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if part.len() > 1 && part.starts_with('0') => (part, 8),
        None => (part, 10),
    };
    if !digits.chars().all(|digit| digit.is_digit(radix)) || part.is_empty() {
        return None;
    }
    // Leading zeros don't make a number too long.
    match digits.trim_start_matches('0') {
        "" => Some(0),
        digits => u32::from_str_radix(digits, radix).ok(),
    }
}

/// Returns a server as `scheme://host[:port]/path`, with scheme and host in canonical form, without the user,
/// the default port or trailing slashes. Without a scheme, only trailing slashes are removed.
pub fn canonical_server(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let scheme = scheme.to_lowercase();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let authority = Authority::split(authority);
    let port = match authority.port {
        None | Some("") => String::new(),
        Some(text) => match parse_port(text) {
            port if port.is_some() && port == default_port(&scheme) => String::new(),
            Some(port) => format!(":{port}"),
            None => format!(":{text}"),
        },
    };
    format!("{scheme}://{}{port}{path}", Host::parse(authority.host))
}

/// Decodes percent-encoded characters such as `%2f` once. Returns the text unchanged if the result isn't
/// UTF-8.
pub fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match (first, after) {
            (b'%', [high, low, beyond @ ..]) if hex(high).is_some() && hex(low).is_some() => {
                let (high, low) = (hex(high).unwrap_or_default(), hex(low).unwrap_or_default());
                bytes.push(high << 4 | low);
                rest = beyond;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_host_has_one_spelling() {
        for (canonical, spellings) in [
            (
                "127.0.0.1",
                &[
                    "127.0.0.1",
                    "127.1",
                    "127.0.1",
                    "2130706433",
                    "0177.0.0.1",
                    "0177.1",
                    "0x7f.1",
                    "0X7F000001",
                    "017700000001",
                    "00000177.0.0.1",
                    "127.0.0.1.",
                    "%31%32%37.0.0.1",
                    "[::ffff:127.0.0.1]",
                    "[::ffff:7f00:1]",
                    "[0:0:0:0:0:FFFF:7F00:0001]",
                    "::ffff:7f00:1",
                ][..],
            ),
            ("[::1]", &["[::1]", "::1", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[::0.0.0.1]"]),
            ("[fe80::1]", &["[fe80::1]", "[FE80:0::1]", "[fe80::1%25eth0]", "fe80::1%eth0"]),
            ("0.0.0.0", &["0", "0.0", "0x0", "00"]),
            (
                "git.example.com",
                &["git.example.com", "GIT.Example.COM.", "git%2Eexample.com", "%67it.example.com"],
            ),
            // Names that look like IP addresses but aren't.
            ("127.0.0.08", &["127.0.0.08"]),
            ("256.0.0.1", &["256.0.0.1"]),
            ("1.2.3.4.5", &["1.2.3.4.5"]),
            ("4294967296", &["4294967296"]),
            ("127.0.65536", &["127.0.65536"]),
            ("1..1", &["1..1"]),
            ("", &["", "."]),
        ] {
            for spelling in spellings {
                assert_eq!(Host::parse(spelling).to_string(), canonical, "{spelling}");
            }
        }
    }

    #[test]
    fn ports_and_servers() {
        for (text, expected) in [
            ("443", Some(443)),
            ("0443", Some(443)),
            ("000000000000443", Some(443)),
            ("0", Some(0)),
            ("65536", None),
            ("+80", None),
            ("-1", None),
            ("", None),
            ("8o", None),
        ] {
            assert_eq!(parse_port(text), expected, "{text}");
        }
        for (canonical, spellings) in [
            (
                "https://prod.example.org",
                &[
                    "https://prod.example.org",
                    "HTTPS://PROD.example.org./",
                    "https://prod.example.org:443",
                    "https://prod.example.org:0443/",
                    "https://prod.example.org:",
                    "https://me@prod.example.org",
                ][..],
            ),
            (
                "https://10.0.0.1:6443",
                &["https://10.0.0.1:06443", "https://10.1:6443/", "https://[::ffff:a00:1]:6443"],
            ),
            ("https://[fd00::1]:6443/k8s/c", &["https://[FD00:0:0::1]:6443/k8s/c/"]),
            ("*", &["*"]),
        ] {
            for spelling in spellings {
                assert_eq!(canonical_server(spelling), canonical, "{spelling}");
            }
        }
    }

    proptest! {
        /// An IPv4 address in any notation accepted by the C library.
        #[test]
        fn an_ipv4_address_is_read_in_every_notation(address: u32, radix in 0..3_u8, parts in 1..5_u32) {
            let four = Ipv4Addr::from(address);
            let number = |number: u32| match radix {
                0 => number.to_string(),
                1 => format!("0{number:o}"),
                _ => format!("0x{number:X}"),
            };
            let octets = four.octets();
            let first: Vec<u32> = octets.iter().take(usize::try_from(parts - 1).unwrap()).map(|one| u32::from(*one)).collect();
            let rest = if parts == 1 { address } else { address & (u32::MAX >> (8 * (parts - 1))) };
            let text: Vec<String> = first.into_iter().chain([rest]).map(number).collect();
            prop_assert_eq!(Host::parse(&text.join(".")), Host::Ip(IpAddr::V4(four)));
            let six = four.to_ipv6_mapped();
            prop_assert_eq!(Host::parse(&format!("[{six}]")), Host::Ip(IpAddr::V4(four)));
        }

        /// Canonicalization is idempotent.
        #[test]
        fn a_canonical_host_stays_as_it_is(text in "[a-zA-Z0-9.:%\\[\\]-]{0,20}") {
            let host = Host::parse(&text).to_string();
            if !host.contains('%') {
                prop_assert_eq!(Host::parse(&host).to_string(), host);
            }
        }
    }
}
