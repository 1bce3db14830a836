//! See the README.

mod artefacts;
mod corpora;
mod layers;
mod product;
mod smoke;
mod whitelist_layers;
