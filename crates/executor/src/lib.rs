//! The actors that carry operations out.
