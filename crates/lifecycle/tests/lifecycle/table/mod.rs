//! Every state with every input, and every state with every fact.

mod facts;
mod inputs;
mod states;
