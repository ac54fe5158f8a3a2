//! Access control: users with tokens, their kubeconfigs, and roles.

use std::fs;
use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::AuthInfo;
use serde_json::{Value, json};

use super::{ApiClient, KubeError};

/// A user of the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User(std::borrow::Cow<'static, str>);

impl User {
    /// The program under test, which has all permissions.
    pub const ENGINE: &User = &User(std::borrow::Cow::Borrowed("engine"));
    /// kube-controller-manager and the simulated nodes.
    pub const CONTROLLERS: &User = &User(std::borrow::Cow::Borrowed("controllers"));
    /// The test itself, acting as another user with all permissions.
    pub const OBSERVER: &User = &User(std::borrow::Cow::Borrowed("observer"));

    /// Returns the user name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns a user without permissions. Roles must grant them.
    pub(super) fn without_rights(number: usize) -> Self {
        Self(format!("limited-{number:02}").into())
    }

    fn token(&self) -> String {
        format!("token-of-{}", self.0)
    }
}

/// Number of users without permissions. The API server must know all users when it starts.
pub(super) const USERS_WITHOUT_RIGHTS: usize = 32;

fn all_users() -> impl Iterator<Item = User> {
    [User::ENGINE, User::CONTROLLERS, User::OBSERVER]
        .into_iter()
        .cloned()
        .chain((0..USERS_WITHOUT_RIGHTS).map(User::without_rights))
}

/// Folder and URL of the control plane, for access to the API server.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) folder: PathBuf,
    pub(super) url: String,
}

impl Access {
    pub(super) fn certificate_path(&self) -> PathBuf {
        self.folder.join("certs/apiserver.crt")
    }

    /// Writes the API server's user file, and the signing key for service account tokens.
    pub(super) fn write_users(&self) -> Result<(), KubeError> {
        let tokens: String = all_users()
            .map(|user| {
                let group = if user == *User::CONTROLLERS { "system:masters" } else { "tidegate-tests" };
                format!("{},{name},{name},\"{group}\"\n", user.token(), name = user.name())
            })
            .collect();
        self.write_file("tokens.csv", tokens.as_bytes())?;
        let key = rcgen::KeyPair::generate()?;
        self.write_file("service-accounts.key", key.serialize_pem().as_bytes())?;
        self.write_file("service-accounts.pub", key.public_key_pem().as_bytes())
    }

    /// Writes a kubeconfig for each user, after the API server has created its certificate. Every file has
    /// all users as contexts, with its own user as the current one.
    pub(super) fn write_kubeconfigs(&self) -> Result<(), KubeError> {
        let users: Vec<Value> =
            all_users().map(|user| json!({"name": user.name(), "user": {"token": user.token()}})).collect();
        let contexts: Vec<Value> = all_users()
            .map(|user| json!({"name": user.name(), "context": {"cluster": "test", "user": user.name()}}))
            .collect();
        for user in all_users() {
            let config = json!({
                "apiVersion": "v1", "kind": "Config",
                "clusters": [{
                    "name": "test",
                    "cluster": {"server": self.url, "certificate-authority": self.certificate_path()},
                }],
                "users": users, "contexts": contexts, "current-context": user.name(),
            });
            self.write_file(&kubeconfig_name(&user), config.to_string().as_bytes())?;
        }
        Ok(())
    }

    pub(super) fn kubeconfig_path(&self, user: &User) -> PathBuf {
        self.folder.join(kubeconfig_name(user))
    }

    /// Creates a client for a user, with its own connections.
    pub(super) fn client(&self, user: &User) -> Result<ApiClient, KubeError> {
        let mut config = Config::new(self.url.parse().expect("the local address is valid"));
        config.root_cert_file = Some(self.certificate_path());
        config.auth_info = AuthInfo { token: Some(user.token().into()), ..AuthInfo::default() };
        ApiClient::new(config)
    }

    pub(super) fn write_file(&self, name: &str, content: &[u8]) -> Result<(), KubeError> {
        write_private_file(&self.folder.join(name), content)
    }
}

fn kubeconfig_name(user: &User) -> String {
    format!("kubeconfig-{}.yaml", user.name())
}

fn write_private_file(path: &Path, content: &[u8]) -> Result<(), KubeError> {
    fs::write(path, content).map_err(|why| KubeError::File { path: path.to_owned(), why })
}

/// Grants all permissions to the engine and the observer.
pub(super) async fn grant_all(controllers: &ApiClient) -> Result<(), KubeError> {
    let subjects: Vec<Value> = [User::ENGINE, User::OBSERVER].map(role_subject).into();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "tidegate-tests"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": subjects,
    });
    controllers.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await?;
    Ok(())
}

/// Grants a user a role with these rules, in a namespace or in the whole cluster.
pub(super) async fn grant(
    controllers: &ApiClient,
    user: &User,
    namespace: Option<&str>,
    rules: &Value,
) -> Result<(), KubeError> {
    let (prefix, place) = match namespace {
        Some(namespace) => ("", format!("namespaces/{namespace}/")),
        None => ("Cluster", String::new()),
    };
    let name = user.name();
    let root = format!("/apis/rbac.authorization.k8s.io/v1/{place}{}", prefix.to_lowercase());
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{prefix}Role"),
        "metadata": {"name": name}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{prefix}RoleBinding"),
        "metadata": {"name": name}, "subjects": [role_subject(user)],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": format!("{prefix}Role"), "name": name},
    });
    controllers.post(&format!("{root}roles"), &role).await?;
    controllers.post(&format!("{root}rolebindings"), &binding).await?;
    Ok(())
}

fn role_subject(user: &User) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name()})
}
