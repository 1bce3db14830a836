//! What must hold for any bytes at all. The fuzz targets in `fuzz/` search for bytes that break it, and the tests repeat
//! all that were ever found interesting.

mod envelope;
mod translator;

pub use self::envelope::envelope;
pub use self::translator::translator;

/// A target: it panics when the bytes break what must hold.
pub type Target = fn(&[u8]);

/// All targets, under the names of their corpora in `fuzz/corpus`.
pub const TARGETS: &[(&str, Target)] = &[("envelope", envelope), ("translator", translator)];
