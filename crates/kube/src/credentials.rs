//! What may be said of a failure to get credentials: the library's own words hold the program's whole answer, its
//! arguments and its environment.

use std::error::Error as StdError;

use kube::client::AuthError;

/// Words for an error that comes from a credential program or a token file; `None` for others, whose own words are
/// harmless.
pub(crate) fn guarded(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(words) = error.downcast_ref().and_then(words) {
            return Some(words);
        }
        // Not among the sources of its wrapper, but inside its words.
        if let Some(kube::Error::Auth(error)) = error.downcast_ref() {
            return words(error);
        }
        cause = error.source();
    }
    None
}

fn words(error: &AuthError) -> Option<String> {
    let words = match error {
        AuthError::AuthExecRun { out, .. } => {
            // Its standard error is ours: the user has seen it.
            format!("the credential program of the kubeconfig failed ({})", out.status)
        }
        AuthError::AuthExecParse(_) => {
            "the credential program of the kubeconfig did not print an ExecCredential; its answer is not shown, because it \
             may hold a token"
                .to_owned()
        }
        AuthError::ParseTokenKey(_) => "the token key of the kubeconfig cannot be read".to_owned(),
        _ => return None,
    };
    Some(words)
}
