//! See the README.

mod layers;
mod whitelist_layers;
