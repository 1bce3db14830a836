//! See the README.

mod corpora;
mod layers;
mod whitelist_layers;
