use super::*;

/// Tags that the tests select versions from.
const TAGS: [&str; 13] = [
    "v0.1.0",
    "v0.1.5",
    "v0.2.0",
    "v1.0.0",
    "1.1.0",
    "v1.2",
    "v1.2.3",
    "v1.3.0-rc.1",
    "v2.0.0-beta.2",
    "v2.0.0-beta.11",
    "latest",
    "v2.1.0+build",
    "release-9.0.0",
];

#[test]
fn the_newest_allowed_version() {
    for (constraint, expected) in [
        // Constraints with open components.
        ("*", Some("v2.1.0+build")),
        ("x", Some("v2.1.0+build")),
        ("1.*", Some("v1.2.3")),
        ("v1.*", Some("v1.2.3")),
        ("1.x", Some("v1.2.3")),
        ("1.X.x", Some("v1.2.3")),
        ("1.2.x", Some("v1.2.3")),
        ("1.1.*", Some("1.1.0")),
        ("0.1.*", Some("v0.1.5")),
        ("=1.2", Some("v1.2.3")),
        ("3.*", None),
        // Constraints with comparisons.
        (">=1.0.0 <2", Some("v1.2.3")),
        (">=1.0.0, <2", Some("v1.2.3")),
        (">=1.0.0,<1.2.0", Some("1.1.0")),
        ("> 1.1.0 < 1.2.3", Some("v1.2")),
        (">1", Some("v2.1.0+build")),
        (">2", None),
        (">1.1 <2", Some("v1.2.3")),
        (">1.2 <2", None),
        ("<=1.1", Some("1.1.0")),
        ("<=1", Some("v1.2.3")),
        ("=<1.1.0", Some("1.1.0")),
        ("=>2.0.0", Some("v2.1.0+build")),
        ("<1.2.3", Some("v1.2")),
        ("!=2.1.0", Some("v1.2.3")),
        ("!=2.x", Some("v1.2.3")),
        ("!=1.2.x <2", Some("1.1.0")),
        ("1.0.0 - 1.2.0", Some("v1.2")),
        ("0.1 - 0.2", Some("v0.2.0")),
        // Constraints for versions compatible with a given version.
        ("~1.2.0", Some("v1.2.3")),
        ("~1.1", Some("1.1.0")),
        ("~1", Some("v1.2.3")),
        ("~>1", Some("v1.2.3")),
        ("~1.2.4", None),
        ("^1", Some("v1.2.3")),
        ("^1.1", Some("v1.2.3")),
        ("^0.1", Some("v0.1.5")),
        ("^0.1.2", Some("v0.1.5")),
        ("^0.0", None),
        ("^0", Some("v0.2.0")),
        ("^2", Some("v2.1.0+build")),
        // Constraints with alternatives.
        ("^0.1 || ^1.0", Some("v1.2.3")),
        ("3.x||0.2.x", Some("v0.2.0")),
        // Prereleases match only if the constraint contains a prerelease.
        ("~1.3", None),
        ("~1.3-0", Some("v1.3.0-rc.1")),
        (">=1.3.0-0 <2", Some("v2.0.0-beta.11")),
        (">=2.0.0-beta <2.0.0", Some("v2.0.0-beta.11")),
        ("<2.0.0-beta.11 >1.5", Some("v2.0.0-beta.2")),
        // These strings are names rather than constraints.
        ("1.2", None),
        ("v1.2.3", None),
        ("1", None),
        ("main", None),
        ("HEAD", None),
        ("latest", None),
        ("release-1", None),
        ("", None),
        ("||", None),
        (">=", None),
        ("1.*.3.4", None),
        ("1.x2", None),
        (">=1.0.0<2", None),
        ("99999999999999999999.*", None),
    ] {
        assert_eq!(newest_version(constraint, TAGS), expected, "{constraint:?}");
    }
}

#[test]
fn too_long_constraints() {
    assert_eq!(newest_version(&vec!["1.*"; COMPARISONS_MAX].join("||"), TAGS), Some("v1.2.3"));
    assert_eq!(newest_version(&vec!["1.*"; COMPARISONS_MAX + 1].join("||"), TAGS), None);
    assert_eq!(newest_version(&"1.*||".repeat(100_000), TAGS), None);
}

#[test]
fn versions_in_order() {
    let versions = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
    ];
    let parsed: Vec<_> = versions.iter().filter_map(|text| Version::parse(text)).collect();
    assert_eq!(parsed.len(), versions.len());
    assert!(parsed.windows(2).all(|pair| matches!(pair, [a, b] if a.compare(b) == Ordering::Less)));
    for bad in ["1.0.0-01", "1.0.0-", "1.0.0-a..b", "1..0", "v", "vv1", "1.0.0 ", "1.0.0+", "a1", "1.0.0.0"] {
        assert_eq!(Version::parse(bad), None, "{bad}");
    }
}
