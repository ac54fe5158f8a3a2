mod applier;
mod contract;
mod field_owners;
mod pitfalls;
