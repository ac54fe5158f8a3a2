//! Safe messages for credential errors. The library's own messages include the credential program's whole
//! response, its arguments and its environment.

use std::error::Error as StdError;

use kube::client::AuthError;

/// Returns a message for an error from a credential program or a token file. `None` for other errors, which
/// have harmless messages.
pub(crate) fn credential_error_message(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(text) = error.downcast_ref().and_then(describe_auth_error) {
            return Some(text);
        }
        // The wrapper includes the error in its message but not as its source.
        if let Some(kube::Error::Auth(error)) = error.downcast_ref() {
            return describe_auth_error(error);
        }
        cause = error.source();
    }
    None
}

fn describe_auth_error(error: &AuthError) -> Option<String> {
    let text = match error {
        AuthError::AuthExecRun { out, .. } => {
            // The program shares our standard error, so the user has already seen its output.
            format!("the credential program in the kubeconfig failed ({})", out.status)
        }
        AuthError::AuthExecParse(_) => {
            "the credential program in the kubeconfig did not print an ExecCredential; its output is hidden because it may contain a token"
                .to_owned()
        }
        AuthError::ParseTokenKey(_) => "cannot parse the token key in the kubeconfig".to_owned(),
        _ => return None,
    };
    Some(text)
}
