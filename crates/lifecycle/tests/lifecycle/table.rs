//! Every state combined with every input, and every state combined with every event.

mod details;
mod events;
mod inputs;
mod states;
