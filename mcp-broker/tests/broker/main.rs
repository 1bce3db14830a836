//! The pipeline with every port in memory.

mod cache;
mod pipeline;
mod refusals;
mod world;
