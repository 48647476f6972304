//! The bundled sample, part of the program: what opens when no trace is named.
//!
//! Its operators were captured on a host; its host times, kernels and their times are predicted for a GPU (`place-on-gpu V100`).

use retime_core::graph::BuildOptions;

use super::{Engine, EngineError, Loaded};

const NAME: &str = "dlrm-ddp-b256-on-v100.predicted.json.gz";
const BYTES: &[u8] = include_bytes!("../../sample_traces/dlrm-ddp-b256-on-v100.predicted.json.gz");

/// Opens the bundled sample.
///
/// # Errors
/// The sample is damaged.
pub fn load(engine: &Engine, options: &BuildOptions) -> Result<Loaded, EngineError> {
    engine.load_bytes(BYTES, NAME, options)
}
