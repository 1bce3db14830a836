//! See the README.

mod artefacts;
mod bad_upstream;
mod corpora;
mod documents;
mod layers;
mod product;
mod smoke;
mod whitelist_layers;
