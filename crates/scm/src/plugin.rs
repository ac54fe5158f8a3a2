//! Client for plugin generators: servers that return parameters.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_generate::QueryError;
use tidegate_model::argo::PluginInput;

use crate::api_address::Base;
use crate::conversation::Conversation;
use crate::http_client::{Authorities, Web};
use crate::problem::Problem;
use crate::request_credentials::{RequestCredentials, Scheme};
use crate::secrets::Token;

/// Path of the only request that plugins support.
const PATH: &str = "/api/v1/getparams.execute";

/// A plugin server.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// Base URL of the plugin.
    pub base_url: String,
    /// Bearer token.
    pub token: Token,
    /// Description of the token's origin for messages.
    pub token_origin: String,
    /// Maximum time for the response.
    pub timeout: Duration,
}

impl Plugin {
    /// Requests parameters from the plugin and returns the raw response. `set` is the name of the
    /// ApplicationSet. This function blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin is unreachable, or if it responds with an error or invalid JSON.
    pub fn request_parameters(&self, web: &Web, set: &str, input: &PluginInput) -> Result<Value, QueryError> {
        let talk = self.open_conversation(web)?;
        let body = json!({"applicationSetName": set, "input": {"parameters": input.parameters}});
        Ok(web.run(talk.post(PATH, &body))?)
    }

    fn open_conversation<'w>(&self, web: &'w Web) -> Result<Conversation<'w>, Problem> {
        let base = Base::new("baseUrl", &self.base_url)?;
        let proof = RequestCredentials::from_token(&self.token, self.token_origin.clone(), &Scheme::Bearer)?;
        let talk = Conversation::new(web, "the plugin", base, Some(proof), &Authorities::System)?;
        Ok(talk.with_response_timeout(self.timeout))
    }
}
