//! The pipeline with every port in memory.

mod pipeline;
mod refusals;
mod world;
