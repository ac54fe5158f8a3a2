//! Clusters as Argo CD declares them: Secrets labelled `argocd.argoproj.io/secret-type: cluster`. No value of one shows.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use tidegate_model::Object;

use crate::Declared;
use crate::plugin::{ExecProvider, Plugin, VERSIONS};

/// The longest path of a program.
const COMMAND_MAX: usize = 4_096;
/// So much of a hint is told.
const HINT_MAX: usize = 300;
/// What says that a Secret declares a cluster.
const LABEL: (&str, &str) = ("argocd.argoproj.io/secret-type", "cluster");
/// Where kubectl keeps what it wrote last, which is the whole Secret.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A cluster that a Secret declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// The Secret: `argocd/staging`.
    pub secret: String,
    /// How the cluster is reached, as far as the Secret says.
    pub declared: Declared,
    /// The project that it is for; empty for all.
    pub project: String,
    /// Labels of the Secret.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Secret, but for the one in which kubectl keeps all of what it wrote.
    pub annotations: BTreeMap<String, String>,
    /// What of it cannot be used.
    pub problem: Option<String>,
}

impl Declaration {
    /// Reads a Secret. Nothing where it declares no cluster.
    pub fn of(object: &Object) -> Option<Self> {
        read(object)
    }
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let compact: String = text.split_ascii_whitespace().collect();
    STANDARD.decode(compact).ok()
}

fn read(object: &Object) -> Option<Declaration> {
    let (label, cluster) = LABEL;
    let is_one =
        object.group().is_empty() && object.kind() == "Secret" && object.label(label) == Some(cluster);
    if !is_one {
        return None;
    }
    let mut declaration = Declaration {
        secret: format!("{}/{}", object.namespace(), object.name()).trim_start_matches('/').to_owned(),
        labels: said_of(object, "/metadata/labels"),
        annotations: said_of(object, "/metadata/annotations"),
        ..Declaration::default()
    };
    declaration.problem = texts(object).and_then(|fields| fill(&mut declaration, fields)).err();
    if declaration.problem.is_some() {
        declaration.declared.exec = None;
    }
    Some(declaration)
}

/// Labels or annotations.
fn said_of(object: &Object, section: &str) -> BTreeMap<String, String> {
    let entries = object.pointer(section).and_then(Value::as_object);
    let entries = entries.into_iter().flatten().filter(|(name, _)| *name != LAST_APPLIED);
    entries.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn texts(object: &Object) -> Result<BTreeMap<String, String>, String> {
    let mut fields = BTreeMap::new();
    for section in ["data", "stringData"] {
        let Some(found) = object.as_value().get(section).filter(|value| !value.is_null()) else { continue };
        let found = found.as_object().ok_or_else(|| format!("{section} is no map"))?;
        for (field, value) in found {
            let text = value.as_str().ok_or_else(|| format!("{section}.{field} is not text"))?;
            let text = match section {
                "data" => decode_base64(text)
                    .and_then(|bytes| String::from_utf8(bytes).ok())
                    .ok_or_else(|| format!("data.{field} is not text in base64"))?,
                _ => text.to_owned(),
            };
            fields.insert(field.clone(), text);
        }
    }
    Ok(fields)
}

fn fill(declaration: &mut Declaration, mut fields: BTreeMap<String, String>) -> Result<(), String> {
    let mut take = |field: &str| fields.remove(field).unwrap_or_default();
    let (name, server, config) = (take("name"), take("server"), take("config"));
    let (namespaces, project, wide) = (take("namespaces"), take("project"), take("clusterResources"));
    let server = server.trim().trim_end_matches('/').to_owned();
    declaration.project = project.trim().to_owned();
    declaration.declared.name = if name.is_empty() { server.clone() } else { name };
    declaration.declared.server.clone_from(&server);
    if !(server.starts_with("https://") || server.starts_with("http://"))
        || server.chars().any(|c| c.is_control() || c.is_whitespace())
        || server.contains('@')
    {
        return Err("its server is missing, or is no https:// address".to_owned());
    }
    if namespaces.split(',').any(|namespace| !namespace.trim().is_empty()) {
        return Err("it is for some namespaces only (namespaces), which is not supported yet".to_owned());
    }
    if !matches!(wide.trim(), "" | "true") {
        return Err(
            "it is not for objects without a namespace (clusterResources), which is not supported yet"
                .to_owned(),
        );
    }
    if config.trim().is_empty() {
        return Ok(());
    }
    // The words of the parser may hold what it has read.
    let config: Map<String, Value> =
        serde_json::from_str(&config).map_err(|_| "its config is no JSON object".to_owned())?;
    let provider = read_config(&mut declaration.declared, &config)?;
    let secret = declaration.secret.clone();
    declaration.declared.exec = provider.map(|provider| Plugin::new(ExecProvider { secret, ..provider }));
    Ok(())
}

fn read_config(declared: &mut Declared, config: &Map<String, Value>) -> Result<Option<ExecProvider>, String> {
    if config.get("awsAuthConfig").is_some_and(|value| !value.is_null()) {
        return Err("its config has awsAuthConfig: an identity of AWS is not supported; give it an execProviderConfig, or a \
             bearerToken"
            .to_owned());
    }
    let none = Map::new();
    let tls = match config.get("tlsClientConfig") {
        None | Some(Value::Null) => &none,
        Some(Value::Object(tls)) => tls,
        Some(_) => return Err("its config: tlsClientConfig is no object".to_owned()),
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
            return Err(format!("its config has a field {unknown:?} that is not known"));
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
            Some(_) => return Err(format!("its config: {field} is not text")),
        };
        if field.ends_with("Data") && decode_base64(place).is_none() {
            return Err(format!("its config: {field} is not in base64"));
        }
    }
    declared.insecure = match tls.get("insecure") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(insecure)) => *insecure,
        Some(_) => return Err("its config: insecure is neither true nor false".to_owned()),
    };
    check_certificates(declared)?;
    let provider = match config.get("execProviderConfig") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(fields)) => read_provider(fields)?,
        Some(_) => return Err("its config: execProviderConfig is no object".to_owned()),
    };
    let Declared { token, username, key_data, .. } = declared;
    if [token, username, key_data].iter().any(|given| !given.is_empty()) {
        return Err(
            "its config has execProviderConfig beside other credentials; take one of them away".to_owned()
        );
    }
    Ok(Some(provider))
}

/// What of its certificates goes together, and is some.
fn check_certificates(declared: &Declared) -> Result<(), String> {
    if declared.cert_data.is_empty() != declared.key_data.is_empty() {
        return Err("its config has only one of certData and keyData".to_owned());
    }
    if declared.insecure && !declared.ca_data.is_empty() {
        return Err("its config has both insecure and caData; take one of them away".to_owned());
    }
    if !declared.ca_data.is_empty() && !has_certificate(&declared.ca_data) {
        return Err("its config: caData holds no certificate in PEM".to_owned());
    }
    Ok(())
}

/// Whether there is a certificate in what is PEM in base64. Without one nobody is trusted, and the server is blamed for it.
fn has_certificate(encoded: &str) -> bool {
    let Some(text) = decode_base64(encoded).and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return false;
    };
    let mut blocks = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    // What DER of a certificate begins with: a sequence.
    let is_one = |body: &str| decode_base64(body).is_some_and(|der| der.first() == Some(&0x30));
    blocks.any(|block| block.split_once("-----END CERTIFICATE-----").is_some_and(|(body, _)| is_one(body)))
}

/// How a program that gives credentials is called, but for the Secret.
fn read_provider(fields: &Map<String, Value>) -> Result<ExecProvider, String> {
    let known = ["command", "args", "env", "apiVersion", "installHint"];
    if let Some(unknown) = fields.keys().find(|field| !known.contains(&field.as_str())) {
        return Err(format!("its config has a field execProviderConfig.{unknown:?} that is not known"));
    }
    let wrong = |field: &str, what: &str| format!("its config: execProviderConfig.{field} {what}");
    let text = |field: &str| match fields.get(field) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) if !text.contains('\0') => Ok(text.clone()),
        Some(_) => Err(wrong(field, "is not text")),
    };
    let plain = |value: &Value| value.as_str().filter(|text| !text.contains('\0')).map(str::to_owned);
    let args = match fields.get("args") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(args)) => args
            .iter()
            .map(plain)
            .collect::<Option<_>>()
            .ok_or_else(|| wrong("args", "is no list of texts"))?,
        Some(_) => return Err(wrong("args", "is no list of texts")),
    };
    let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    let env = match fields.get("env") {
        None | Some(Value::Null) => BTreeMap::new(),
        Some(Value::Object(env)) => {
            let each = env.iter().map(|(name, value)| Some((name.clone(), plain(value)?)));
            let each = each.map(|one| one.filter(|(name, _)| is_name(name)));
            each.collect::<Option<_>>().ok_or_else(|| wrong("env", "is no map of texts"))?
        }
        Some(_) => return Err(wrong("env", "is no map of texts")),
    };
    // What changes the program itself would make any other of it than the one that may be run.
    if let Some(name) = env.keys().find(|name: &&String| name.starts_with("LD_")) {
        return Err(wrong("env", &format!("has {name:?}, which may not be set")));
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
    if !VERSIONS.contains(&provider.api_version.as_str()) {
        return Err(wrong("apiVersion", &format!("must be one of {}", VERSIONS.join(", "))));
    }
    Ok(provider)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(fields: &Value) -> Object {
        Object::try_from(json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": fields,
            "metadata": {"name": "staging", "namespace": "argocd", "labels": {LABEL.0: LABEL.1}},
        }))
        .unwrap()
    }

    fn config(config: &Value) -> Declaration {
        Declaration::of(&secret(
            &json!({"name": "s", "server": "https://10.0.0.2:6443/", "config": config.to_string()}),
        ))
        .unwrap()
    }

    /// The frame of a certificate, with this in it, as a Secret has it.
    fn pem(body: &str) -> String {
        STANDARD.encode(format!("# ours\n-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"))
    }

    #[test]
    fn a_cluster_as_argo_cd_declares_it() {
        let authority = pem("MAA=");
        let found = config(&json!({
            "bearerToken": "hunter2", "proxyUrl": "http://proxy:3128", "awsAuthConfig": null,
            "tlsClientConfig": {"insecure": false, "serverName": "a", "caData": authority, "certData": "YQ==", "keyData": "Yg=="},
        }));
        assert_eq!(found.problem, None);
        let Declared { name, server, token, ca_data, key_data, server_name, proxy_url, .. } =
            found.declared.clone();
        let all = [name, server, token, ca_data, key_data, server_name, proxy_url];
        let expected =
            ["s", "https://10.0.0.2:6443", "hunter2", authority.as_str(), "Yg==", "a", "http://proxy:3128"];
        assert_eq!(all, expected);
        assert!(!format!("{found:?}").contains("hunter2"));
        // As a cluster has it.
        let encoded = |text: &str| STANDARD.encode(text);
        let mut object = secret(&json!(null));
        object.fields_mut().insert("data".to_owned(), json!({
            "name": encoded("s"), "server": encoded("https://a"), "project": encoded("shop"), "config": encoded("{}"),
        }));
        let found = Declaration::of(&object).unwrap();
        assert_eq!(
            (found.problem, found.project.as_str(), found.secret.as_str()),
            (None, "shop", "argocd/staging")
        );
        // Said of all namespaces, it says nothing.
        let mut object = secret(&json!({"name": "s", "server": "https://a", "clusterResources": "true"}));
        object.set_label("env", "prod");
        object.set_annotation("team", "shop");
        object.set_annotation(LAST_APPLIED, "{\"stringData\":{\"config\":\"hunter2\"}}");
        let found = Declaration::of(&object).unwrap();
        assert_eq!(found.problem, None);
        assert_eq!(found.labels.get("env").map(String::as_str), Some("prod"));
        assert_eq!(found.annotations, BTreeMap::from([("team".to_owned(), "shop".to_owned())]));
        assert!(!format!("{found:?}").contains("hunter2"));
        let mut other = secret(&json!({}));
        other.set_label(LABEL.0, "repository");
        assert_eq!(Declaration::of(&other), None);
    }

    /// What a program is called with, changed.
    fn exec(change: Value) -> Value {
        let mut provider = json!({
            "command": "login", "args": ["--for", "hunter2"], "env": {"KEY": "hunter2"},
            "apiVersion": VERSIONS[0], "installHint": "ask Ann",
        });
        provider.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        json!({"execProviderConfig": provider})
    }

    #[test]
    fn a_program_that_gives_credentials() {
        let found = config(&exec(json!({})));
        assert_eq!(found.problem, None);
        assert!(!format!("{found:?}").contains("hunter2"));
        let ExecProvider { secret, command, args, env, install_hint, .. } =
            found.declared.exec.clone().unwrap().provider().clone();
        assert_eq!([secret, command, install_hint], ["argocd/staging", "login", "ask Ann"]);
        assert_eq!((args.len(), env.get("KEY").map(String::as_str)), (2, Some("hunter2")));
        // The same Secret, read again, is no change.
        assert_eq!(found, config(&exec(json!({}))));
        assert_ne!(found, config(&exec(json!({"args": []}))));
    }

    #[test]
    fn what_cannot_be_used_is_named_and_no_value_shows() {
        let mut both = exec(json!({}));
        both["bearerToken"] = json!("hunter2");
        for (given, expected) in [
            (json!({"execProviderConfig": "hunter2"}), "execProviderConfig is no object"),
            (
                json!({"execProviderConfig": {"command": "hunter2"}}),
                "execProviderConfig.apiVersion must be one of",
            ),
            (exec(json!({"command": ""})), "execProviderConfig.command is missing"),
            (exec(json!({"command": ["hunter2"]})), "execProviderConfig.command is not text"),
            (exec(json!({"args": "hunter2"})), "execProviderConfig.args is no list of texts"),
            (exec(json!({"args": [7]})), "execProviderConfig.args is no list of texts"),
            (exec(json!({"env": {"A": ["hunter2"]}})), "execProviderConfig.env is no map of texts"),
            (exec(json!({"env": {"A=B": "hunter2"}})), "execProviderConfig.env is no map of texts"),
            (
                exec(json!({"env": [{"name": "A", "value": "hunter2"}]})),
                "execProviderConfig.env is no map of texts",
            ),
            (exec(json!({"env": {"LD_PRELOAD": "hunter2"}})), "env has \"LD_PRELOAD\", which may not be set"),
            (exec(json!({"command": "a".repeat(4097)})), "execProviderConfig.command is too long"),
            (exec(json!({"token": "hunter2"})), "execProviderConfig.\"token\" that is not known"),
            (
                exec(json!({"apiVersion": "client.authentication.k8s.io/v1alpha1"})),
                "apiVersion must be one of",
            ),
            (both, "beside other credentials"),
            (json!({"awsAuthConfig": {"clusterName": "hunter2"}}), "awsAuthConfig: an identity of AWS"),
            (json!({"bearerToken": ["hunter2"]}), "bearerToken is not text"),
            (json!({"token": "hunter2"}), "a field \"token\" that is not known"),
            (json!({"tlsClientConfig": {"keyData": "hunter2!"}}), "keyData is not in base64"),
            (json!({"tlsClientConfig": {"keyData": "aHVudGVyMg=="}}), "only one of certData and keyData"),
            (json!({"tlsClientConfig": {"insecure": "hunter2"}}), "neither true nor false"),
            (
                json!({"tlsClientConfig": {"insecure": true, "caData": "aHVudGVyMg=="}}),
                "both insecure and caData",
            ),
            (json!({"tlsClientConfig": {"caData": "aHVudGVyMg=="}}), "caData holds no certificate in PEM"),
            (
                json!({"tlsClientConfig": {"caData": pem("aHVudGVyMg==")}}),
                "caData holds no certificate in PEM",
            ),
            (json!({"tlsClientConfig": {"caData": pem("hunter2!")}}), "caData holds no certificate in PEM"),
            (json!({"tlsClientConfig": "hunter2"}), "tlsClientConfig is no object"),
            (json!("hunter2"), "its config is no JSON object"),
        ] {
            let problem = config(&given).problem.unwrap_or_default();
            assert!(problem.contains(expected) && !problem.contains("hunter2"), "{given}: {problem}");
        }
        for (fields, expected) in [
            (json!({"name": "s"}), "server is missing"),
            (json!({"server": "https://me:hunter2@a"}), "no https:// address"),
            (json!({"server": "https://a", "namespaces": "web, shop"}), "for some namespaces only"),
            (
                json!({"server": "https://a", "clusterResources": "false"}),
                "without a namespace (clusterResources)",
            ),
            (json!({"server": "https://a", "config": 7}), "stringData.config is not text"),
        ] {
            let problem = Declaration::of(&secret(&fields)).unwrap().problem.unwrap_or_default();
            assert!(problem.contains(expected) && !problem.contains("hunter2"), "{fields}: {problem}");
        }
    }
}
