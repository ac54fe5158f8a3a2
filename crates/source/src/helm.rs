//! Helm charts: arguments for `helm template`, and processing of its output.

mod capabilities;
mod dependencies;
mod private_values;
mod schema;
mod values;

use std::ffi::OsString;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use tidegate_model::argo::{ApplicationSource, HelmSource};

use crate::SourceError;
use crate::file_access::FileAccess;
use crate::render_inputs::RenderInputs;
use crate::render_target::Variables;
use crate::repository::File;
use crate::tools::{RunError, Tool, ToolCall, WorkingFolder, file_paths, run_tool};
use crate::tree::CommitReader;
use capabilities::capability_arguments;
use dependencies::Dependencies;
use values::ValuesFile;

/// Maximum length of a release name. Helm imposes it, because the name becomes part of object names.
const RELEASE_MAX: usize = 53;
/// Start of the comment that Helm prints before each manifest. The name of the template follows.
const SOURCE_COMMENT: &str = "# Source: ";

/// Inputs of `helm template`, except for the chart itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HelmPlan {
    tool: Tool,
    /// Name of the chart or the path of its folder, for messages.
    chart: String,
    release: String,
    arguments: Vec<String>,
    /// Values files, in the order of Helm's arguments.
    values: Vec<ValuesFile>,
    /// File parameters: their names and files.
    files: Vec<(String, ValuesFile)>,
    /// True if the chart has a schema for Helm to validate the values against.
    has_schema: bool,
    /// The source's values, to keep out of error messages.
    private_values: private_values::PrivateValues,
    /// Missing dependencies.
    dependencies: Dependencies,
    /// True if credentials may be sent to other servers named in a repository's index.
    passes_credentials: bool,
}

impl HelmPlan {
    /// Creates the plan for rendering a chart. `folder` is the chart's folder within `files`.
    pub fn new(
        source: &ApplicationSource,
        folder: &str,
        files: &dyn FileAccess,
        making: &RenderInputs,
        variables: &Variables,
    ) -> Result<Self, SourceError> {
        let chart = if source.chart.is_empty() { source.path.clone() } else { source.chart.clone() };
        let tool = making.tools.helm(&chart)?;
        let helm = source.helm.clone().unwrap_or_default();
        let wrong = |reason: String| SourceError::Helm { chart: chart.clone(), reason };
        if !["", "v3", "3"].contains(&helm.version.as_str()) {
            return Err(wrong(format!(
                "source.helm.version is {:?}, but only v3 is supported",
                helm.version
            )));
        }
        let release = if helm.release_name.is_empty() { &making.purpose.name } else { &helm.release_name };
        check_release(release).map_err(wrong)?;
        let search = values::ValuesFileSearch { folder, source_files: files, inputs: making, variables };
        let mut values = search.value_files(&helm)?;
        values.extend(inline_values(&helm));
        let mut arguments = Vec::new();
        let namespace = if helm.namespace.is_empty() { &making.purpose.namespace } else { &helm.namespace };
        if !namespace.is_empty() {
            arguments.push(format!("--namespace={namespace}"));
        }
        arguments.extend(capability_arguments(&helm, &making.purpose.cluster).map_err(wrong)?);
        for (is_asked, argument) in [
            (!helm.skip_crds, "--include-crds"),
            (helm.skip_tests, "--skip-tests"),
            (helm.skip_schema_validation, "--skip-schema-validation"),
        ] {
            arguments.extend(is_asked.then(|| argument.to_owned()));
        }
        arguments.extend(parameter_arguments(&helm, variables));
        // Helm splits this argument at commas, so a comma in the name would start another parameter.
        if let Some(one) = helm.file_parameters.iter().find(|one| one.name.contains([',', '='])) {
            return Err(wrong(format!(
                "the name {:?} in source.helm.fileParameters contains a comma or an equals sign; use the name of a single value, such as a.b",
                one.name
            )));
        }
        let files =
            helm.file_parameters.iter().map(|one| Ok((one.name.clone(), search.required_file(&one.path)?)));
        let files = files.collect::<Result<_, SourceError>>()?;
        let own = private_values::PrivateValues::new(&helm, variables);
        let (release, passes_credentials) = (release.clone(), helm.pass_credentials);
        let has_schema = !helm.skip_schema_validation;
        let dependencies = Dependencies::find_missing(folder, search.source_files, &chart)?;
        Ok(Self {
            tool,
            chart,
            release,
            arguments,
            values,
            files,
            has_schema,
            private_values: own,
            dependencies,
            passes_credentials,
        })
    }

    /// Fetches missing dependencies. They may be in the source repository itself, so the caller must not hold
    /// it open for reading.
    pub fn fetch(&mut self, making: &RenderInputs) -> Result<(), SourceError> {
        self.dependencies.fetch(&self.chart, self.passes_credentials, making)
    }

    /// Copies dependencies from the same commit into the chart's dependencies folder.
    pub fn copy_local_dependencies(
        &self,
        reader: &CommitReader<'_>,
        folder: &str,
        workshop: &WorkingFolder,
    ) -> Result<(), SourceError> {
        self.dependencies.copy_local(reader, folder, workshop)
    }

    /// Adds the inputs of `helm template` to a digest.
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

    /// Renders a chart in a folder of the working folder.
    pub fn render(
        &self,
        workshop: &WorkingFolder,
        folder: &str,
        making: &RenderInputs,
    ) -> Result<Vec<File>, SourceError> {
        self.dependencies.write_packed(&self.chart, folder, workshop)?;
        let chart = workshop.source().join(folder);
        if self.has_schema {
            schema::check_schemas(&chart)
                .map_err(|reason| SourceError::Helm { chart: self.chart.clone(), reason })?;
        }
        let mut arguments: Vec<OsString> =
            vec!["template".into(), self.release.clone().into(), chart.clone().into()];
        arguments.extend(self.arguments.iter().map(Into::into));
        let mut names = Vec::new();
        // Helm splits paths at commas, and the absolute path may contain one, so pass relative paths.
        let mut give = |option: String, file: String, given: &ValuesFile| -> Result<(), SourceError> {
            workshop.write_file(&file, &given.content)?;
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
        let made = run_tool(
            &making.tools,
            ToolCall { tool: &self.tool, arguments, workshop, application: &making.purpose.instance },
        );
        match made {
            Ok(text) => Ok(split_output(&self.chart, &text)),
            Err(RunError::Failed(words)) => {
                let named = names.iter().fold(words, |words, (path, name)| words.replace(path, name));
                Err(self.failure(&named, &chart))
            }
            Err(error) => Err(SourceError::Tool {
                call: "helm template",
                path: self.chart.clone(),
                reason: error.to_string(),
                is_refusal: false,
            }),
        }
    }

    fn failure(&self, text: &str, folder: &Path) -> SourceError {
        let chart = self.chart.clone();
        if let Some((_, missing)) = text.split_once("missing in charts/ directory:") {
            let missing = missing.lines().next().unwrap_or_default().trim().to_owned();
            return SourceError::Dependencies { chart, missing, why: "" };
        }
        let lines = text.lines().map(|line| line.trim().trim_start_matches("Error: "));
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("Use --debug"));
        let mut values = self.private_values.to_mask_values();
        // Helm has read these files and may quote them, so mask their content.
        for given in self.values.iter().chain(self.files.iter().map(|(_, given)| given)) {
            values.add_file(&String::from_utf8_lossy(&given.content));
        }
        private_values::add_defaults(&mut values, folder);
        values.exclude(&self.release);
        values.exclude_path(&self.chart);
        file_paths(folder).iter().for_each(|path| values.exclude_path(path));
        let reason = values.mask(&lines.collect::<Vec<_>>().join("; "));
        let reason = crate::error::to_line_keeping_ends(&reason);
        SourceError::Tool { call: "helm template", path: chart, reason, is_refusal: true }
    }
}

/// Returns an error if Helm would reject the release name.
fn check_release(name: &str) -> Result<(), String> {
    let is_sign = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_sign) && part.ends_with(is_sign) && part.chars().all(|c| is_sign(c) || c == '-')
    };
    if name.len() > RELEASE_MAX {
        return Err(format!(
            "release name {name} is longer than {RELEASE_MAX} characters; set a shorter name in \
             source.helm.releaseName"
        ));
    }
    match name.split('.').all(is_part) {
        true => Ok(()),
        false => Err(format!(
            "invalid release name {name:?}: use lowercase letters, digits, dashes and dots in source.helm.releaseName"
        )),
    }
}

/// Returns the inline values of the source. `valuesObject` takes precedence over `values`.
fn inline_values(helm: &HelmSource) -> Option<ValuesFile> {
    let (name, content) = match &helm.values_object {
        Some(object) if !object.is_null() => ("source.helm.valuesObject", object.to_string()),
        _ if helm.values.is_empty() => return None,
        _ => ("source.helm.values", helm.values.clone()),
    };
    Some(ValuesFile { name: name.to_owned(), content: content.into_bytes() })
}

/// Returns the arguments for the parameters. The last parameter with a given name and type wins.
fn parameter_arguments(helm: &HelmSource, variables: &Variables) -> Vec<String> {
    let mut counted: Vec<(&str, bool, String)> = Vec::new();
    for one in &helm.parameters {
        let value = escape_value(&variables.replace(&one.value));
        counted.retain(|(name, is_text, _)| (*name, *is_text) != (one.name.as_str(), one.force_string));
        counted.push((&one.name, one.force_string, value));
    }
    let argument = |(name, is_text, value): (&str, bool, String)| {
        format!("{}={name}={value}", if is_text { "--set-string" } else { "--set" })
    };
    counted.into_iter().map(argument).collect()
}

/// Escapes commas for `--set`. Outside a list, an unescaped comma starts the next value.
fn escape_value(value: &str) -> String {
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

/// Splits Helm's output into one file per template.
fn split_output(chart: &str, text: &[u8]) -> Vec<File> {
    let mut files: Vec<File> = Vec::new();
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let from = lines.peek().and_then(|next| next.strip_prefix(SOURCE_COMMENT.as_bytes()));
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
    fn release_names() {
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
    fn parameter_values() {
        for (value, expected) in
            [("a", "a"), ("a,b", "a\\,b"), ("a\\,b", "a\\,b"), ("{a,b}", "{a,b}"), (",", "\\,"), ("", "")]
        {
            assert_eq!(escape_value(value), expected);
        }
    }

    #[test]
    fn manifests_are_split_by_template() {
        let text = b"---\n# Source: web/templates/a.yaml\nkind: A\n---\n# Source: web/templates/a.yaml\nkind: B\n---\n# Source: web/b.yaml\nkind: C\ntext: |\n  ---\n";
        let files = split_output("app", text);
        let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["web/templates/a.yaml", "web/b.yaml"]);
        assert_eq!(files.iter().map(|file| file.content.len()).sum::<usize>(), text.len());
        assert_eq!(split_output("app", b"kind: A\n").first().map(|file| file.path.as_str()), Some("app"));
        assert_eq!(split_output("app", b""), []);
    }
}
