//! Who may do what: users with tokens, the files that name them, roles.

use std::fs;
use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::AuthInfo;
use serde_json::{Value, json};

use super::{Caller, KubeError};

/// A user of the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User(std::borrow::Cow<'static, str>);

impl User {
    /// The program under test; may do everything, by a role binding.
    pub const ENGINE: &User = &User(std::borrow::Cow::Borrowed("engine"));
    /// kube-controller-manager and the nodes.
    pub const CONTROLLERS: &User = &User(std::borrow::Cow::Borrowed("controllers"));
    /// The test, reading and meddling as another person would; may do everything.
    pub const OBSERVER: &User = &User(std::borrow::Cow::Borrowed("observer"));

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// One of the users that may do nothing until they are given a role.
    pub(super) fn limited(number: usize) -> Self {
        Self(format!("limited-{number:02}").into())
    }

    fn token(&self) -> String {
        format!("token-of-{}", self.0)
    }
}

/// How many users without any rights a control plane has. They must be known when the API server starts.
pub(super) const LIMITED: usize = 32;

fn all() -> impl Iterator<Item = User> {
    [User::ENGINE, User::CONTROLLERS, User::OBSERVER]
        .into_iter()
        .cloned()
        .chain((0..LIMITED).map(User::limited))
}

/// The control plane's folder and address.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) folder: PathBuf,
    pub(super) url: String,
}

impl Access {
    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.join("certs/apiserver.crt")
    }

    /// Writes what the API server reads about users, and the key that signs service account tokens.
    pub(super) fn write_users(&self) -> Result<(), KubeError> {
        let tokens: String = all()
            .map(|user| {
                let group = if user == *User::CONTROLLERS { "system:masters" } else { "tidegate-tests" };
                format!("{},{name},{name},\"{group}\"\n", user.token(), name = user.name())
            })
            .collect();
        self.write("tokens.csv", tokens.as_bytes())?;
        let key = rcgen::KeyPair::generate()?;
        self.write("service-accounts.key", key.serialize_pem().as_bytes())?;
        self.write("service-accounts.pub", key.public_key_pem().as_bytes())
    }

    /// Writes a kubeconfig for each user, once the API server has made its certificate. All users are contexts of
    /// all files; each file has another current one.
    pub(super) fn write_kubeconfigs(&self) -> Result<(), KubeError> {
        let users: Vec<Value> =
            all().map(|user| json!({"name": user.name(), "user": {"token": user.token()}})).collect();
        let contexts: Vec<Value> = all()
            .map(|user| json!({"name": user.name(), "context": {"cluster": "test", "user": user.name()}}))
            .collect();
        for user in all() {
            let config = json!({
                "apiVersion": "v1", "kind": "Config",
                "clusters": [{
                    "name": "test",
                    "cluster": {"server": self.url, "certificate-authority": self.certificate()},
                }],
                "users": users, "contexts": contexts, "current-context": user.name(),
            });
            self.write(&kubeconfig(&user), config.to_string().as_bytes())?;
        }
        Ok(())
    }

    pub(super) fn kubeconfig(&self, user: &User) -> PathBuf {
        self.folder.join(kubeconfig(user))
    }

    /// Requests as a user, on connections of their own.
    pub(super) fn caller(&self, user: &User) -> Result<Caller, KubeError> {
        let mut config = Config::new(self.url.parse().expect("our own address is valid"));
        config.root_cert_file = Some(self.certificate());
        config.auth_info = AuthInfo { token: Some(user.token().into()), ..AuthInfo::default() };
        Caller::new(config)
    }

    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<(), KubeError> {
        write(&self.folder.join(name), content)
    }
}

fn kubeconfig(user: &User) -> String {
    format!("kubeconfig-{}.yaml", user.name())
}

fn write(path: &Path, content: &[u8]) -> Result<(), KubeError> {
    fs::write(path, content).map_err(|why| KubeError::File { path: path.to_owned(), why })
}

/// Lets engine and observer do everything.
pub(super) async fn grant_all(controllers: &Caller) -> Result<(), KubeError> {
    let subjects: Vec<Value> = [User::ENGINE, User::OBSERVER].map(subject).into();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "tidegate-tests"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": subjects,
    });
    controllers.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await?;
    Ok(())
}

/// Gives a user a role with these rules: in a namespace, or in the whole cluster.
pub(super) async fn grant(
    controllers: &Caller,
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
        "metadata": {"name": name}, "subjects": [subject(user)],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": format!("{prefix}Role"), "name": name},
    });
    controllers.post(&format!("{root}roles"), &role).await?;
    controllers.post(&format!("{root}rolebindings"), &binding).await?;
    Ok(())
}

fn subject(user: &User) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name()})
}
