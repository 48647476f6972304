//! The engine of retime: opens traces, edits their execution graphs, re-times and explains them. Knows no terminal.
//!
//! Data flows one way: bytes → [`trace`] → [`graph`] → [`scenario`] (edits) → timed graph → [`sim`] → [`analysis`]. The [`engine`]
//! goes all the way:
//!
//! ```
//! use retime_core::engine::Engine;
//! use retime_core::graph::BuildOptions;
//! use retime_core::scenario::Scenario;
//! use retime_core::trace::OpenOptions;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::builtin()?;
//! let trace = "../../sample_traces/dlrm-ddp-b256-on-v100.predicted.json.gz";
//! let jobs = engine.load(&[trace.into()], &OpenOptions::default(), &BuildOptions::default())?;
//! let scenario = Scenario::parse(["resize-batch 1024", "cuda-graph"])?;
//! let summary = engine.evaluate(&jobs[0], &scenario, 0).summary;
//! println!("{} instead of {} per iteration", summary.simulated_ns, summary.base_simulated_ns);
//! # assert_eq!(summary.batch, Some((256, 1024)));
//! # assert!(summary.simulated_ns < summary.base_simulated_ns);
//! # Ok(())
//! # }
//! ```

pub mod align;
pub mod analysis;
pub mod cost;
pub mod device;
pub mod diagnostic;
pub mod engine;
pub mod fnv;
pub mod graph;
pub mod intern;
pub mod log;
pub mod memory;
pub mod reads;
pub mod scenario;
pub mod sim;
pub mod stats;
pub mod trace;
pub mod units;
