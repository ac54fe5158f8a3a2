//! Charts: what `helm template` is told, and what it prints.

mod capabilities;
mod dependencies;
mod own;
mod schema;
mod values;

use std::ffi::OsString;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use tidegate_model::argo::{ApplicationSource, HelmSource};

use crate::SourceError;
use crate::files::Files;
use crate::making::Making;
use crate::purpose::Variables;
use crate::repository::File;
use crate::tools::{Call, RunError, Tool, Workshop, file_paths, run};
use crate::tree::Reader;
use capabilities::capabilities;
use dependencies::Dependencies;
use values::Given;

/// Longest name of a release, which Helm writes into names of objects.
const RELEASE_MAX: usize = 53;
/// What Helm writes before each manifest: from which template it is.
const FROM: &str = "# Source: ";

/// All that Helm is told, but the chart itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    tool: Tool,
    /// For people: which chart.
    chart: String,
    /// The name of the release, and all that comes after the chart but files.
    release: String,
    arguments: Vec<String>,
    /// Files of values, in their order.
    values: Vec<Given>,
    /// Values that are contents of files, by their names.
    files: Vec<(String, Given)>,
    /// Whether values are held against the schema of the chart.
    has_schema: bool,
    /// What of them must not be told.
    own: own::Own,
    /// Charts that it needs and does not have.
    dependencies: Dependencies,
    /// Whether credentials are shown to servers that an index names.
    passes_credentials: bool,
}

impl Plan {
    /// What a source says of a chart. `folder` is where the chart is among the files that may be named.
    pub fn new(
        source: &ApplicationSource,
        (folder, files): (&str, &dyn Files),
        (making, variables): (&Making, &Variables),
    ) -> Result<Self, SourceError> {
        let chart = if source.chart.is_empty() { source.path.clone() } else { source.chart.clone() };
        let tool = making.tools.helm(&chart)?;
        let helm = source.helm.clone().unwrap_or_default();
        let wrong = |reason: String| SourceError::Helm { chart: chart.clone(), reason };
        if !["", "v3", "3"].contains(&helm.version.as_str()) {
            return Err(wrong(format!("source.helm.version is {:?}, and only v3 is known", helm.version)));
        }
        let release = if helm.release_name.is_empty() { &making.purpose.name } else { &helm.release_name };
        check_release(release).map_err(wrong)?;
        let search = values::Search { folder, own: files, making, variables };
        let mut values = search.value_files(&helm)?;
        values.extend(own_values(&helm));
        let mut arguments = Vec::new();
        let namespace = if helm.namespace.is_empty() { &making.purpose.namespace } else { &helm.namespace };
        if !namespace.is_empty() {
            arguments.push(format!("--namespace={namespace}"));
        }
        arguments.extend(capabilities(&helm, &making.purpose.cluster).map_err(wrong)?);
        for (is_asked, argument) in [
            (!helm.skip_crds, "--include-crds"),
            (helm.skip_tests, "--skip-tests"),
            (helm.skip_schema_validation, "--skip-schema-validation"),
        ] {
            arguments.extend(is_asked.then(|| argument.to_owned()));
        }
        arguments.extend(parameters(&helm, variables));
        // Helm would take the rest for a file of its own choice.
        if let Some(one) = helm.file_parameters.iter().find(|one| one.name.contains([',', '='])) {
            return Err(wrong(format!(
                "the name {:?} in source.helm.fileParameters has a comma or an equals sign; name one value, such as a.b",
                one.name
            )));
        }
        let files = helm.file_parameters.iter().map(|one| Ok((one.name.clone(), search.file(&one.path)?)));
        let files = files.collect::<Result<_, SourceError>>()?;
        let own = own::Own::new(&helm, variables);
        let (release, passes_credentials) = (release.clone(), helm.pass_credentials);
        let has_schema = !helm.skip_schema_validation;
        let dependencies = Dependencies::of((folder, search.own), &chart)?;
        Ok(Self {
            tool,
            chart,
            release,
            arguments,
            values,
            files,
            has_schema,
            own,
            dependencies,
            passes_credentials,
        })
    }

    /// Fetches the charts that it needs and does not have. Nobody may be reading the source meanwhile: what is fetched may be
    /// of the same repository.
    pub fn fetch(&mut self, making: &Making) -> Result<(), SourceError> {
        self.dependencies.fetch(&self.chart, self.passes_credentials, making)
    }

    /// Copies beside the chart in a folder what it needs of the same commit.
    pub fn copy_beside(
        &self,
        reader: &Reader<'_>,
        folder: &str,
        workshop: &Workshop,
    ) -> Result<(), SourceError> {
        self.dependencies.copy(reader, folder, workshop)
    }

    /// Writes all of it into a digest.
    pub fn digest(&self, hasher: &mut Sha256) {
        let mut add = |bytes: &[u8]| {
            hasher.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
            hasher.update(bytes);
        };
        [&self.tool.identity, &self.chart, &self.release].into_iter().for_each(|text| add(text.as_bytes()));
        self.arguments.iter().for_each(|text| add(text.as_bytes()));
        for given in &self.values {
            add(b"values");
            add(&given.content);
        }
        for (name, given) in &self.files {
            add(name.as_bytes());
            add(&given.content);
        }
        self.dependencies.digest(hasher);
    }

    /// Makes the manifests of a chart that is in a workshop, in a folder of the source.
    pub fn make(&self, workshop: &Workshop, folder: &str, making: &Making) -> Result<Vec<File>, SourceError> {
        self.dependencies.put(&self.chart, folder, workshop)?;
        let chart = workshop.source().join(folder);
        if self.has_schema {
            schema::check(&chart)
                .map_err(|reason| SourceError::Helm { chart: self.chart.clone(), reason })?;
        }
        let mut arguments: Vec<OsString> =
            vec!["template".into(), self.release.clone().into(), chart.clone().into()];
        arguments.extend(self.arguments.iter().map(Into::into));
        let mut names = Vec::new();
        // Helm divides such paths at commas, so they are those from its folder on.
        let mut give = |option: String, file: String, given: &Given| -> Result<(), SourceError> {
            workshop.write(&file, &given.content)?;
            let path = format!("../{file}");
            arguments.push(format!("{option}{path}").into());
            names.push((path, given.name.clone()));
            Ok(())
        };
        for (at, given) in self.values.iter().enumerate() {
            give("--values=".to_owned(), format!("values-{at}.yaml"), given)?;
        }
        for (at, (name, given)) in self.files.iter().enumerate() {
            give(format!("--set-file={name}="), format!("file-{at}"), given)?;
        }
        let made = run(
            &making.tools,
            Call { tool: &self.tool, arguments, workshop, whose: &making.purpose.instance },
        );
        match made {
            Ok(text) => Ok(divide(&self.chart, &text)),
            Err(RunError::Failed(words)) => {
                let named = names.iter().fold(words, |words, (path, name)| words.replace(path, name));
                Err(self.failed(&named, &chart))
            }
            Err(error) => Err(SourceError::Tool {
                call: "helm template",
                path: self.chart.clone(),
                reason: error.to_string(),
            }),
        }
    }

    fn failed(&self, words: &str, folder: &Path) -> SourceError {
        let chart = self.chart.clone();
        if let Some((_, missing)) = words.split_once("missing in charts/ directory:") {
            let missing = missing.lines().next().unwrap_or_default().trim().to_owned();
            return SourceError::Dependencies { chart, missing, why: "" };
        }
        let lines = words.lines().map(|line| line.trim().trim_start_matches("Error: "));
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("Use --debug"));
        let mut values = self.own.values();
        // Helm has read them, and says what it has read.
        for given in self.values.iter().chain(self.files.iter().map(|(_, given)| given)) {
            values.add_file(&String::from_utf8_lossy(&given.content));
        }
        own::add_defaults(&mut values, folder);
        values.spare(&self.release);
        values.spare_path(&self.chart);
        file_paths(folder).iter().for_each(|path| values.spare_path(path));
        let reason = values.masked(&lines.collect::<Vec<_>>().join("; "));
        let reason = crate::error::plain_ends(&reason);
        SourceError::Tool { call: "helm template", path: chart, reason }
    }
}

/// A name that Helm takes, and takes for a name.
fn check_release(name: &str) -> Result<(), String> {
    let is_sign = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_sign) && part.ends_with(is_sign) && part.chars().all(|c| is_sign(c) || c == '-')
    };
    if name.len() > RELEASE_MAX {
        return Err(format!(
            "the name of the release, {name}, has more than {RELEASE_MAX} characters; give it a shorter one in source.helm.releaseName"
        ));
    }
    match name.split('.').all(is_part) {
        true => Ok(()),
        false => Err(format!(
            "{name:?} cannot be the name of a release: small letters, digits, dashes and dots; set source.helm.releaseName"
        )),
    }
}

/// The values that the source itself has; those of the object win over those of the text.
fn own_values(helm: &HelmSource) -> Option<Given> {
    let (name, content) = match &helm.values_object {
        Some(object) if !object.is_null() => ("source.helm.valuesObject", object.to_string()),
        _ if helm.values.is_empty() => return None,
        _ => ("source.helm.values", helm.values.clone()),
    };
    Some(Given { name: name.to_owned(), content: content.into_bytes() })
}

/// Of several values for one name the last counts.
fn parameters(helm: &HelmSource, variables: &Variables) -> Vec<String> {
    let mut counted: Vec<(&str, bool, String)> = Vec::new();
    for one in &helm.parameters {
        let value = escaped(&variables.replace(&one.value));
        counted.retain(|(name, is_text, _)| (*name, *is_text) != (one.name.as_str(), one.force_string));
        counted.push((&one.name, one.force_string, value));
    }
    let argument = |(name, is_text, value): (&str, bool, String)| {
        format!("{}={name}={value}", if is_text { "--set-string" } else { "--set" })
    };
    counted.into_iter().map(argument).collect()
}

/// A value as `--set` takes it for one: commas would begin another, except in a list.
fn escaped(value: &str) -> String {
    if value.starts_with('{') && value.ends_with('}') {
        return value.to_owned();
    }
    let (mut escaped, mut before) = (String::new(), ' ');
    for sign in value.chars() {
        if sign == ',' && before != '\\' {
            escaped.push('\\');
        }
        escaped.push(sign);
        before = sign;
    }
    escaped
}

/// What Helm has printed, by the templates it is from.
fn divide(chart: &str, text: &[u8]) -> Vec<File> {
    let mut files: Vec<File> = Vec::new();
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let from = lines.peek().and_then(|next| next.strip_prefix(FROM.as_bytes()));
        if let Some(from) = from.filter(|_| line.trim_ascii_end() == b"---") {
            let path = String::from_utf8_lossy(from.trim_ascii_end()).into_owned();
            if files.last().is_none_or(|last| last.path != path) {
                files.push(File { path, content: Vec::new() });
            }
        }
        if files.is_empty() {
            files.push(File { path: chart.to_owned(), content: Vec::new() });
        }
        if let Some(last) = files.last_mut() {
            last.content.extend_from_slice(line);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_releases() {
        for name in ["web", "web-1", "a.b", "0"] {
            assert_eq!(check_release(name), Ok(()), "{name}");
        }
        let long = "a".repeat(54);
        for name in ["", "-web", "web-", "Web", "a_b", "a..b", "--post-renderer=x", "{{ x }}", long.as_str()]
        {
            assert!(check_release(name).is_err(), "{name}");
        }
    }

    #[test]
    fn values_of_parameters() {
        for (value, expected) in
            [("a", "a"), ("a,b", "a\\,b"), ("a\\,b", "a\\,b"), ("{a,b}", "{a,b}"), (",", "\\,"), ("", "")]
        {
            assert_eq!(escaped(value), expected);
        }
    }

    #[test]
    fn manifests_by_their_templates() {
        let text = b"---\n# Source: web/templates/a.yaml\nkind: A\n---\n# Source: web/templates/a.yaml\nkind: B\n---\n# Source: web/b.yaml\nkind: C\ntext: |\n  ---\n";
        let files = divide("app", text);
        let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["web/templates/a.yaml", "web/b.yaml"]);
        assert_eq!(files.iter().map(|file| file.content.len()).sum::<usize>(), text.len());
        assert_eq!(divide("app", b"kind: A\n").first().map(|file| file.path.as_str()), Some("app"));
        assert_eq!(divide("app", b""), []);
    }
}
