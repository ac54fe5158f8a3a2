//! Name of Tidegate's authenticated user on the API server.

use http::Method;
use serde::Deserialize;
use serde_json::json;

use crate::KubeCluster;
use crate::call::{Call, JSON};
use crate::response::CallSubject;

/// Group versions with SelfSubjectReview, newest first. Kubernetes before 1.27 supports neither.
const GROUP_VERSIONS: [&str; 2] = ["authentication.k8s.io/v1", "authentication.k8s.io/v1beta1"];

#[derive(Default, Deserialize)]
#[serde(default)]
struct Review {
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    user_info: UserInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UserInfo {
    username: String,
}

impl KubeCluster {
    /// Returns the user name from the API server's authentication, or else from the kubeconfig or the pod's
    /// token, if any.
    pub async fn user_name(&self) -> Option<String> {
        for group in GROUP_VERSIONS {
            let path = format!("/apis/{group}/selfsubjectreviews");
            let body = json!({"apiVersion": group, "kind": "SelfSubjectReview"}).to_string().into_bytes();
            let call = Call::write(Method::POST, path, JSON, body, None);
            let Ok(answer) = self.api_server().call(&call).await else { break };
            if let Ok(Review { status: Status { user_info: UserInfo { username } } }) =
                answer.decode::<Review>(CallSubject::default())
                && !username.is_empty()
            {
                return Some(username);
            }
        }
        Some(self.configured_user().to_owned()).filter(|user| !user.is_empty())
    }
}
