//! Every state with every input, and every state with every fact.

mod details;
mod facts;
mod inputs;
mod states;
