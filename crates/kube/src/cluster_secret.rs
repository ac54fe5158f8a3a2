//! Clusters declared as in Argo CD, by Secrets with the label `argocd.argoproj.io/secret-type: cluster`.
//! Secret values never appear in output.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use tidegate_model::Object;

use crate::ClusterConnection;
use crate::exec_plugin::{API_VERSIONS, ExecPlugin, ExecProvider};

/// Maximum length of a credential program's path.
const COMMAND_MAX: usize = 4_096;
/// Maximum length of a displayed installation hint.
const HINT_MAX: usize = 300;
/// Label of the Secrets that declare a cluster.
const LABEL: (&str, &str) = ("argocd.argoproj.io/secret-type", "cluster");
/// Annotation for kubectl's last applied manifest. On a Secret, it holds all of the Secret's values.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A cluster declared by a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSecret {
    /// Namespace and name of the Secret, such as `argocd/staging`.
    pub secret_name: String,
    /// Connection settings from the Secret.
    pub connection: ClusterConnection,
    /// Project that may use the cluster. Empty for all projects.
    pub project: String,
    /// Labels of the Secret.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Secret, except for kubectl's last-applied annotation.
    pub annotations: BTreeMap<String, String>,
    /// Reason why the Secret is invalid, or `None` if it is valid.
    pub problem: Option<String>,
}

impl ClusterSecret {
    /// Reads a cluster from a Secret. Returns `None` if the Secret doesn't declare one.
    pub fn from_object(object: &Object) -> Option<Self> {
        parse_secret(object)
    }
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let compact: String = text.split_ascii_whitespace().collect();
    STANDARD.decode(compact).ok()
}

fn parse_secret(object: &Object) -> Option<ClusterSecret> {
    let (label, cluster) = LABEL;
    let is_one =
        object.group().is_empty() && object.kind() == "Secret" && object.label(label) == Some(cluster);
    if !is_one {
        return None;
    }
    let mut declaration = ClusterSecret {
        secret_name: format!("{}/{}", object.namespace(), object.name()).trim_start_matches('/').to_owned(),
        labels: read_metadata(object, "/metadata/labels"),
        annotations: read_metadata(object, "/metadata/annotations"),
        ..ClusterSecret::default()
    };
    declaration.problem = decode_data(object).and_then(|fields| fill_secret(&mut declaration, fields)).err();
    if declaration.problem.is_some() {
        declaration.connection.exec = None;
    }
    Some(declaration)
}

fn read_metadata(object: &Object, section: &str) -> BTreeMap<String, String> {
    let entries = object.pointer(section).and_then(Value::as_object);
    let entries = entries.into_iter().flatten().filter(|(name, _)| *name != LAST_APPLIED);
    entries.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn decode_data(object: &Object) -> Result<BTreeMap<String, String>, String> {
    let mut fields = BTreeMap::new();
    for section in ["data", "stringData"] {
        let Some(found) = object.as_value().get(section).filter(|value| !value.is_null()) else { continue };
        let found = found.as_object().ok_or_else(|| format!("{section} is not a map"))?;
        for (field, value) in found {
            let text = value.as_str().ok_or_else(|| format!("{section}.{field} is not a string"))?;
            let text = match section {
                "data" => decode_base64(text)
                    .and_then(|bytes| String::from_utf8(bytes).ok())
                    .ok_or_else(|| format!("data.{field} is not base64-encoded text"))?,
                _ => text.to_owned(),
            };
            fields.insert(field.clone(), text);
        }
    }
    Ok(fields)
}

fn fill_secret(declaration: &mut ClusterSecret, mut fields: BTreeMap<String, String>) -> Result<(), String> {
    let mut take = |field: &str| fields.remove(field).unwrap_or_default();
    let (name, server, config) = (take("name"), take("server"), take("config"));
    let (namespaces, project, wide) = (take("namespaces"), take("project"), take("clusterResources"));
    let server = server.trim().trim_end_matches('/').to_owned();
    declaration.project = project.trim().to_owned();
    declaration.connection.name = if name.is_empty() { server.clone() } else { name };
    declaration.connection.server.clone_from(&server);
    if !(server.starts_with("https://") || server.starts_with("http://"))
        || server.chars().any(|c| c.is_control() || c.is_whitespace())
        || server.contains('@')
    {
        return Err("server is missing or is not an https:// URL".to_owned());
    }
    if namespaces.split(',').any(|namespace| !namespace.trim().is_empty()) {
        return Err(
            "limiting a cluster to some namespaces with the namespaces field is not supported yet".to_owned()
        );
    }
    if !matches!(wide.trim(), "" | "true") {
        return Err("excluding cluster-scoped objects with the clusterResources field is not supported yet"
            .to_owned());
    }
    if config.trim().is_empty() {
        return Ok(());
    }
    // Don't quote the parser's message: it may contain the input.
    let config: Map<String, Value> =
        serde_json::from_str(&config).map_err(|_| "config is not a JSON object".to_owned())?;
    let provider = parse_config(&mut declaration.connection, &config)?;
    let secret = declaration.secret_name.clone();
    declaration.connection.exec =
        provider.map(|provider| ExecPlugin::new(ExecProvider { secret, ..provider }));
    Ok(())
}

fn parse_config(
    declared: &mut ClusterConnection,
    config: &Map<String, Value>,
) -> Result<Option<ExecProvider>, String> {
    if config.get("awsAuthConfig").is_some_and(|value| !value.is_null()) {
        return Err("config contains awsAuthConfig, but AWS identities are not supported; use execProviderConfig or bearerToken"
            .to_owned());
    }
    let none = Map::new();
    let tls = match config.get("tlsClientConfig") {
        None | Some(Value::Null) => &none,
        Some(Value::Object(tls)) => tls,
        Some(_) => return Err("config: tlsClientConfig is not an object".to_owned()),
    };
    for (fields, known) in [
        (
            config,
            &[
                "username",
                "password",
                "bearerToken",
                "tlsClientConfig",
                "awsAuthConfig",
                "execProviderConfig",
                "proxyUrl",
                "disableCompression",
            ][..],
        ),
        (tls, &["insecure", "serverName", "caData", "certData", "keyData"][..]),
    ] {
        if let Some(unknown) = fields.keys().find(|field| !known.contains(&field.as_str())) {
            return Err(format!("config contains the unknown field {unknown:?}"));
        }
    }
    for (fields, field, place) in [
        (config, "bearerToken", &mut declared.token),
        (config, "username", &mut declared.username),
        (config, "password", &mut declared.password),
        (config, "proxyUrl", &mut declared.proxy_url),
        (tls, "serverName", &mut declared.server_name),
        (tls, "caData", &mut declared.ca_data),
        (tls, "certData", &mut declared.cert_data),
        (tls, "keyData", &mut declared.key_data),
    ] {
        *place = match fields.get(field) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(_) => return Err(format!("config: {field} is not a string")),
        };
        if field.ends_with("Data") && decode_base64(place).is_none() {
            return Err(format!("config: {field} is not valid base64"));
        }
    }
    declared.insecure = match tls.get("insecure") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(insecure)) => *insecure,
        Some(_) => return Err("config: insecure must be true or false".to_owned()),
    };
    check_certificates(declared)?;
    let provider = match config.get("execProviderConfig") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(fields)) => parse_provider(fields)?,
        Some(_) => return Err("config: execProviderConfig is not an object".to_owned()),
    };
    let ClusterConnection { token, username, key_data, .. } = declared;
    if [token, username, key_data].iter().any(|given| !given.is_empty()) {
        return Err("config contains both execProviderConfig and other credentials; remove one or the other"
            .to_owned());
    }
    Ok(Some(provider))
}

/// Checks that the certificates are valid and consistent.
fn check_certificates(declared: &ClusterConnection) -> Result<(), String> {
    if declared.cert_data.is_empty() != declared.key_data.is_empty() {
        return Err("config contains only one of certData and keyData; set both".to_owned());
    }
    if declared.insecure && !declared.ca_data.is_empty() {
        return Err("config contains both insecure and caData; remove one of them".to_owned());
    }
    if !declared.ca_data.is_empty() && !has_certificate(&declared.ca_data) {
        return Err("config: caData contains no PEM certificate".to_owned());
    }
    Ok(())
}

/// Returns true if base64-encoded PEM contains a certificate. Without one, the client would trust no server,
/// and the error would blame the server.
fn has_certificate(encoded: &str) -> bool {
    let Some(text) = decode_base64(encoded).and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return false;
    };
    let mut blocks = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    // The DER encoding of a certificate starts with a sequence.
    let is_one = |body: &str| decode_base64(body).is_some_and(|der| der.first() == Some(&0x30));
    blocks.any(|block| block.split_once("-----END CERTIFICATE-----").is_some_and(|(body, _)| is_one(body)))
}

/// Reads the settings of a credential program, except the name of the Secret, which the caller sets.
fn parse_provider(fields: &Map<String, Value>) -> Result<ExecProvider, String> {
    let known = ["command", "args", "env", "apiVersion", "installHint"];
    if let Some(unknown) = fields.keys().find(|field| !known.contains(&field.as_str())) {
        return Err(format!("config contains the unknown field execProviderConfig.{unknown:?}"));
    }
    let wrong = |field: &str, what: &str| format!("config: execProviderConfig.{field} {what}");
    let text = |field: &str| match fields.get(field) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) if !text.contains('\0') => Ok(text.clone()),
        Some(_) => Err(wrong(field, "is not a string")),
    };
    let plain = |value: &Value| value.as_str().filter(|text| !text.contains('\0')).map(str::to_owned);
    let args = match fields.get("args") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(args)) => args
            .iter()
            .map(plain)
            .collect::<Option<_>>()
            .ok_or_else(|| wrong("args", "is not a list of strings"))?,
        Some(_) => return Err(wrong("args", "is not a list of strings")),
    };
    let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    let env = match fields.get("env") {
        None | Some(Value::Null) => BTreeMap::new(),
        Some(Value::Object(env)) => {
            let each = env.iter().map(|(name, value)| Some((name.clone(), plain(value)?)));
            let each = each.map(|one| one.filter(|(name, _)| is_name(name)));
            each.collect::<Option<_>>().ok_or_else(|| wrong("env", "is not a map of strings"))?
        }
        Some(_) => return Err(wrong("env", "is not a map of strings")),
    };
    // Variables of the dynamic loader could make a permitted program run other code.
    if let Some(name) = env.keys().find(|name: &&String| name.starts_with("LD_")) {
        return Err(wrong("env", &format!("contains {name:?}, which is not allowed")));
    }
    let hint = text("installHint")?.replace(char::is_control, " ");
    let provider = ExecProvider {
        secret: String::new(),
        command: text("command")?,
        args,
        env,
        api_version: text("apiVersion")?,
        install_hint: hint.chars().take(HINT_MAX).collect(),
    };
    match provider.command.len() {
        0 => return Err(wrong("command", "is missing")),
        1..=COMMAND_MAX => {}
        _ => return Err(wrong("command", "is too long")),
    }
    if !API_VERSIONS.contains(&provider.api_version.as_str()) {
        return Err(wrong("apiVersion", &format!("must be one of {}", API_VERSIONS.join(", "))));
    }
    Ok(provider)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret_object(fields: &Value) -> Object {
        Object::try_from(json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": fields,
            "metadata": {"name": "staging", "namespace": "argocd", "labels": {LABEL.0: LABEL.1}},
        }))
        .unwrap()
    }

    fn parse_with_config(config: &Value) -> ClusterSecret {
        ClusterSecret::from_object(&secret_object(
            &json!({"name": "s", "server": "https://10.0.0.2:6443/", "config": config.to_string()}),
        ))
        .unwrap()
    }

    /// Returns the body as a PEM certificate, encoded as in a Secret.
    fn encode_pem(body: &str) -> String {
        STANDARD.encode(format!("# ours\n-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"))
    }

    #[test]
    fn a_cluster_secret_of_argo_cd_is_read() {
        let authority = encode_pem("MAA=");
        let found = parse_with_config(&json!({
            "bearerToken": "hunter2", "proxyUrl": "http://proxy:3128", "awsAuthConfig": null,
            "tlsClientConfig": {"insecure": false, "serverName": "a", "caData": authority, "certData": "YQ==", "keyData": "Yg=="},
        }));
        assert_eq!(found.problem, None);
        let ClusterConnection { name, server, token, ca_data, key_data, server_name, proxy_url, .. } =
            found.connection.clone();
        let all = [name, server, token, ca_data, key_data, server_name, proxy_url];
        let expected =
            ["s", "https://10.0.0.2:6443", "hunter2", authority.as_str(), "Yg==", "a", "http://proxy:3128"];
        assert_eq!(all, expected);
        assert!(!format!("{found:?}").contains("hunter2"));
        // The values are encoded as in a cluster's Secret.
        let encoded = |text: &str| STANDARD.encode(text);
        let mut object = secret_object(&json!(null));
        object.fields_mut().insert("data".to_owned(), json!({
            "name": encoded("s"), "server": encoded("https://a"), "project": encoded("shop"), "config": encoded("{}"),
        }));
        let found = ClusterSecret::from_object(&object).unwrap();
        assert_eq!(
            (found.problem, found.project.as_str(), found.secret_name.as_str()),
            (None, "shop", "argocd/staging")
        );
        // The setting has no effect if all namespaces are permitted.
        let mut object =
            secret_object(&json!({"name": "s", "server": "https://a", "clusterResources": "true"}));
        object.set_label("env", "prod");
        object.set_annotation("team", "shop");
        object.set_annotation(LAST_APPLIED, "{\"stringData\":{\"config\":\"hunter2\"}}");
        let found = ClusterSecret::from_object(&object).unwrap();
        assert_eq!(found.problem, None);
        assert_eq!(found.labels.get("env").map(String::as_str), Some("prod"));
        assert_eq!(found.annotations, BTreeMap::from([("team".to_owned(), "shop".to_owned())]));
        assert!(!format!("{found:?}").contains("hunter2"));
        let mut other = secret_object(&json!({}));
        other.set_label(LABEL.0, "repository");
        assert_eq!(ClusterSecret::from_object(&other), None);
    }

    /// Returns the configuration of a program, after applying a change.
    fn exec_config(change: Value) -> Value {
        let mut provider = json!({
            "command": "login", "args": ["--for", "hunter2"], "env": {"KEY": "hunter2"},
            "apiVersion": API_VERSIONS[0], "installHint": "ask Ann",
        });
        provider.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        json!({"execProviderConfig": provider})
    }

    #[test]
    fn a_credential_program_is_read() {
        let found = parse_with_config(&exec_config(json!({})));
        assert_eq!(found.problem, None);
        assert!(!format!("{found:?}").contains("hunter2"));
        let ExecProvider { secret, command, args, env, install_hint, .. } =
            found.connection.exec.clone().unwrap().provider().clone();
        assert_eq!([secret, command, install_hint], ["argocd/staging", "login", "ask Ann"]);
        assert_eq!((args.len(), env.get("KEY").map(String::as_str)), (2, Some("hunter2")));
        // Reading the same Secret again yields an equal cluster.
        assert_eq!(found, parse_with_config(&exec_config(json!({}))));
        assert_ne!(found, parse_with_config(&exec_config(json!({"args": []}))));
    }

    #[test]
    fn invalid_fields_are_named_without_their_values() {
        let mut both = exec_config(json!({}));
        both["bearerToken"] = json!("hunter2");
        for (given, expected) in [
            (json!({"execProviderConfig": "hunter2"}), "execProviderConfig is not an object"),
            (
                json!({"execProviderConfig": {"command": "hunter2"}}),
                "execProviderConfig.apiVersion must be one of",
            ),
            (exec_config(json!({"command": ""})), "execProviderConfig.command is missing"),
            (exec_config(json!({"command": ["hunter2"]})), "execProviderConfig.command is not a string"),
            (exec_config(json!({"args": "hunter2"})), "execProviderConfig.args is not a list of strings"),
            (exec_config(json!({"args": [7]})), "execProviderConfig.args is not a list of strings"),
            (
                exec_config(json!({"env": {"A": ["hunter2"]}})),
                "execProviderConfig.env is not a map of strings",
            ),
            (
                exec_config(json!({"env": {"A=B": "hunter2"}})),
                "execProviderConfig.env is not a map of strings",
            ),
            (
                exec_config(json!({"env": [{"name": "A", "value": "hunter2"}]})),
                "execProviderConfig.env is not a map of strings",
            ),
            (
                exec_config(json!({"env": {"LD_PRELOAD": "hunter2"}})),
                "env contains \"LD_PRELOAD\", which is not allowed",
            ),
            (exec_config(json!({"command": "a".repeat(4097)})), "execProviderConfig.command is too long"),
            (exec_config(json!({"token": "hunter2"})), "unknown field execProviderConfig.\"token\""),
            (
                exec_config(json!({"apiVersion": "client.authentication.k8s.io/v1alpha1"})),
                "apiVersion must be one of",
            ),
            (both, "and other credentials"),
            (json!({"awsAuthConfig": {"clusterName": "hunter2"}}), "awsAuthConfig, but AWS identities"),
            (json!({"bearerToken": ["hunter2"]}), "bearerToken is not a string"),
            (json!({"token": "hunter2"}), "unknown field \"token\""),
            (json!({"tlsClientConfig": {"keyData": "hunter2!"}}), "keyData is not valid base64"),
            (json!({"tlsClientConfig": {"keyData": "aHVudGVyMg=="}}), "only one of certData and keyData"),
            (json!({"tlsClientConfig": {"insecure": "hunter2"}}), "must be true or false"),
            (
                json!({"tlsClientConfig": {"insecure": true, "caData": "aHVudGVyMg=="}}),
                "both insecure and caData",
            ),
            (json!({"tlsClientConfig": {"caData": "aHVudGVyMg=="}}), "caData contains no PEM certificate"),
            (
                json!({"tlsClientConfig": {"caData": encode_pem("aHVudGVyMg==")}}),
                "caData contains no PEM certificate",
            ),
            (
                json!({"tlsClientConfig": {"caData": encode_pem("hunter2!")}}),
                "caData contains no PEM certificate",
            ),
            (json!({"tlsClientConfig": "hunter2"}), "tlsClientConfig is not an object"),
            (json!("hunter2"), "config is not a JSON object"),
        ] {
            let problem = parse_with_config(&given).problem.unwrap_or_default();
            assert!(problem.contains(expected) && !problem.contains("hunter2"), "{given}: {problem}");
        }
        for (fields, expected) in [
            (json!({"name": "s"}), "server is missing"),
            (json!({"server": "https://me:hunter2@a"}), "not an https:// URL"),
            (
                json!({"server": "https://a", "namespaces": "web, shop"}),
                "limiting a cluster to some namespaces",
            ),
            (
                json!({"server": "https://a", "clusterResources": "false"}),
                "excluding cluster-scoped objects with the clusterResources field",
            ),
            (json!({"server": "https://a", "config": 7}), "stringData.config is not a string"),
        ] {
            let problem =
                ClusterSecret::from_object(&secret_object(&fields)).unwrap().problem.unwrap_or_default();
            assert!(problem.contains(expected) && !problem.contains("hunter2"), "{fields}: {problem}");
        }
    }
}
