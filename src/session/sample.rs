//! The bundled sample, part of the program: what opens when no trace is named.

use crate::graph::BuildOptions;

use super::{Engine, Loaded, SessionError};

const NAME: &str = "dlrm-ddp-b256-fp32-cpu.kineto.json.gz";
const BYTES: &[u8] = include_bytes!("../../sample_traces/dlrm-ddp-b256-fp32-cpu.kineto.json.gz");

/// Opens the bundled sample.
///
/// # Errors
/// The sample is damaged.
pub fn load(engine: &Engine, options: &BuildOptions) -> Result<Loaded, SessionError> {
    engine.load_bytes(BYTES, NAME, options)
}
