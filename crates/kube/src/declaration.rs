//! Clusters as Argo CD declares them: Secrets labelled `argocd.argoproj.io/secret-type: cluster`. No value of one shows.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use tidegate_model::Object;

use crate::Declared;

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
    let (namespaces, project) = (take("namespaces"), take("project"));
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
    if config.trim().is_empty() {
        return Ok(());
    }
    // The words of the parser may hold what it has read.
    let config: Map<String, Value> =
        serde_json::from_str(&config).map_err(|_| "its config is no JSON object".to_owned())?;
    read_config(&mut declaration.declared, &config)
}

fn read_config(declared: &mut Declared, config: &Map<String, Value>) -> Result<(), String> {
    for (field, what) in
        [("awsAuthConfig", "an identity of AWS"), ("execProviderConfig", "a program that gives credentials")]
    {
        if config.get(field).is_some_and(|value| !value.is_null()) {
            return Err(format!(
                "its config has {field}: {what} is not supported yet; give it a bearerToken"
            ));
        }
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
    if declared.cert_data.is_empty() != declared.key_data.is_empty() {
        return Err("its config has only one of certData and keyData".to_owned());
    }
    if declared.insecure && !declared.ca_data.is_empty() {
        return Err("its config has both insecure and caData; take one of them away".to_owned());
    }
    Ok(())
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

    #[test]
    fn a_cluster_as_argo_cd_declares_it() {
        let found = config(&json!({
            "bearerToken": "hunter2", "proxyUrl": "http://proxy:3128", "awsAuthConfig": null,
            "tlsClientConfig": {"insecure": false, "serverName": "a", "caData": "YWJj", "certData": "YQ==", "keyData": "Yg=="},
        }));
        assert_eq!(found.problem, None);
        let Declared { name, server, token, ca_data, key_data, server_name, proxy_url, .. } =
            found.declared.clone();
        let all = [name, server, token, ca_data, key_data, server_name, proxy_url];
        assert_eq!(all, ["s", "https://10.0.0.2:6443", "hunter2", "YWJj", "Yg==", "a", "http://proxy:3128"]);
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
        let mut object = secret(&json!({"name": "s", "server": "https://a"}));
        object.set_label("env", "prod");
        object.set_annotation("team", "shop");
        object.set_annotation(LAST_APPLIED, "{\"stringData\":{\"config\":\"hunter2\"}}");
        let found = Declaration::of(&object).unwrap();
        assert_eq!(found.labels.get("env").map(String::as_str), Some("prod"));
        assert_eq!(found.annotations, BTreeMap::from([("team".to_owned(), "shop".to_owned())]));
        assert!(!format!("{found:?}").contains("hunter2"));
        let mut other = secret(&json!({}));
        other.set_label(LABEL.0, "repository");
        assert_eq!(Declaration::of(&other), None);
    }

    #[test]
    fn what_cannot_be_used_is_named_and_no_value_shows() {
        for (given, expected) in [
            (
                json!({"execProviderConfig": {"command": "hunter2"}}),
                "execProviderConfig: a program that gives",
            ),
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
            (json!({"server": "https://a", "config": 7}), "stringData.config is not text"),
        ] {
            let problem = Declaration::of(&secret(&fields)).unwrap().problem.unwrap_or_default();
            assert!(problem.contains(expected) && !problem.contains("hunter2"), "{fields}: {problem}");
        }
    }
}
