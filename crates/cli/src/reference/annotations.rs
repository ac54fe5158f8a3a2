//! Reference page for annotations, generated from the table behind the warnings about unknown annotations.

use tidegate_model::annotations::TIDEGATE_PREFIX;
use tidegate_model::annotations::known_keys::{Annotation, AnnotationSubject, KNOWN_KEYS};
use tidegate_model::argo::support::Support;

use super::markdown::{cell, code, table};

const INTRO: &str = "\
# Annotations

Tidegate recognizes these annotations. For an unknown key with the prefix `argocd.argoproj.io/`, `helm.sh/`, `meta.helm.sh/` or
`tidegate.dev/`, it prints a warning that suggests the nearest known key.

- **supported**: the annotation has the effect described here.
- **ignored**: Tidegate preserves the annotation but doesn't act on it. The table describes its effect in other programs.
";

/// A section of the page.
struct Section {
    title: &'static str,
    intro: &'static str,
    selects: fn(&Annotation) -> bool,
}

const SECTIONS: [Section; 6] = [
    Section {
        title: "Argo CD annotations",
        intro: "These annotations apply to the objects of an application, unless the table specifies another kind.",
        selects: |one| one.key.starts_with("argocd.argoproj.io/"),
    },
    Section {
        title: "Helm annotations",
        intro: "These annotations apply to the objects of an application.",
        selects: |one| one.key.contains("helm.sh/"),
    },
    Section {
        title: "Objects of an application",
        intro: "These annotations apply to the objects of an application.",
        selects: |one| is_own(one, AnnotationSubject::Object),
    },
    Section {
        title: "Applications",
        intro: "These annotations apply to Applications. They have no effect on other kinds of objects.",
        selects: |one| is_own(one, AnnotationSubject::Application),
    },
    Section {
        title: "ApplicationSets",
        intro: "These annotations apply to ApplicationSets. They have no effect on other kinds of objects.",
        selects: |one| is_own(one, AnnotationSubject::ApplicationSet),
    },
    Section {
        title: "Annotations that Tidegate writes",
        intro: "Do not set these annotations in manifests.",
        selects: |one| one.subject == AnnotationSubject::Internal,
    },
];

fn is_own(one: &Annotation, subject: AnnotationSubject) -> bool {
    one.key.starts_with(TIDEGATE_PREFIX) && one.subject == subject
}

pub(super) fn page() -> String {
    let mut text = INTRO.to_owned();
    for Section { title, intro, selects } in SECTIONS {
        let rows = KNOWN_KEYS.iter().filter(|one| selects(one));
        let rows = rows.map(|one| vec![code(one.key), one.support.name().to_owned(), cell(one.meaning)]);
        let table = table(&["annotation", "support", "meaning"], &rows.collect::<Vec<_>>());
        text.push_str(&format!("\n## {title}\n\n{intro}\n\n{table}"));
    }
    text
}

#[test]
fn each_annotation_is_in_one_section() {
    for one in KNOWN_KEYS {
        assert_eq!(SECTIONS.iter().filter(|section| (section.selects)(&one)).count(), 1, "{}", one.key);
        assert_ne!(one.support, Support::Refused, "{}", one.key);
    }
}
