mod applier;
mod contract;
mod famous;
mod others;
