//! Scenarios: a traced graph plus an ordered list of edits, resolved into a timed graph that the simulator runs.
//!
//! One file per edit in [`transforms`](mod@transforms). Knows no file, no screen and no analysis; the base graph never changes.

pub mod base;
mod batch;
pub mod context;
pub mod difference;
pub mod draft;
mod effect;
pub mod file;
pub mod grammar;
pub mod history;
pub mod host;
mod inputs;
mod kernel_work;
mod known;
mod lower;
mod memory;
pub mod named;
mod nearest;
pub mod placements;
mod refuted;
pub mod resolve;
pub mod roles;
pub mod selector;
mod sparse;
mod stated;
pub mod step;
pub mod tables;
pub mod text;
pub mod transform;
pub mod transforms;
mod typical_calls;
mod work_classes;

pub use base::Base;
pub use batch::BatchScaling;
pub use context::{Context, ContextError, Databases, RankDevice};
pub use difference::difference;
pub use draft::{Added, AddedId, Combine, Draft, Node, Recomputed, SharedStates, Source, memory_of_added};
pub use effect::{Effect, EffectKind};
pub use file::{FileError, Fit, SavedScenario};
pub use grammar::Grammar;
pub use history::History;
pub use host::HostModel;
pub use kernel_work::KernelWork;
pub use known::{Known, read_step};
pub use named::NamedScenarios;
pub use nearest::nearest;
pub use resolve::{AddedTask, Prefix, Resolved, resolve};
pub use selector::Selector;
pub use step::{Scenario, Step, current, next, parse_step};
pub use text::{StepError, short};
pub(crate) use transform::tasks_of;
pub use transform::{StepReport, Transform};
pub use transforms::transforms;
