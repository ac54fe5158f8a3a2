//! Programs that give parameters: what Argo CD calls plugin generators.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_generate::Unanswered;
use tidegate_model::argo::PluginInput;

use crate::address::Base;
use crate::conversation::Conversation;
use crate::problem::Problem;
use crate::proof::{Proof, Scheme};
use crate::secrets::Token;
use crate::web::{Trusted, Web};

/// The only thing that they are asked.
const PATH: &str = "/api/v1/getparams.execute";

/// A program that gives parameters.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// Its address.
    pub base_url: String,
    /// What proves who asks.
    pub token: Token,
    /// Where the token is from, in words.
    pub token_origin: String,
    /// How long it may take for an answer.
    pub timeout: Duration,
}

impl Plugin {
    /// What it answers to the input of a generator of a set. Blocks.
    ///
    /// # Errors
    ///
    /// It cannot be asked, or answers with an error or with anything but JSON.
    pub fn ask(&self, web: &Web, set: &str, input: &PluginInput) -> Result<Value, Unanswered> {
        let talk = self.talk(web)?;
        let body = json!({"applicationSetName": set, "input": {"parameters": input.parameters}});
        Ok(web.run(talk.post(PATH, &body))?)
    }

    fn talk<'w>(&self, web: &'w Web) -> Result<Conversation<'w>, Problem> {
        let base = Base::new("baseUrl", &self.base_url)?;
        let proof = Proof::from_token(&self.token, self.token_origin.clone(), &Scheme::Bearer)?;
        let talk = Conversation::new(web, "the plugin", base, Some(proof), &Trusted::System)?;
        Ok(talk.patient(self.timeout))
    }
}
