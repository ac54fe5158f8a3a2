//! Every state with every input, and every state with every event.

mod details;
mod events;
mod inputs;
mod states;
