//! What can go wrong between a path and a picture.

use thiserror::Error;

use retime_core::cost::overhead::OverheadError;
use retime_core::device::{CatalogError, UnknownDevice};
use retime_core::graph::BuildError;
use retime_core::scenario::StepError;
use retime_core::trace::OpenError;

/// Why a trace could not be opened or a question not be answered.
#[derive(Debug, Error)]
pub enum SessionError {
    /// A file could not be read as a trace.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A trace has nothing to model.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A device file cannot be used.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A device is not in the catalog.
    #[error(transparent)]
    Device(#[from] UnknownDevice),
    /// A device between several of which nothing is known.
    #[error("{0}: no interconnect is known of it")]
    NoLink(String),
    /// A line is not a step.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The default overheads are damaged.
    #[error(transparent)]
    Overheads(#[from] OverheadError),
    /// A file could not be read.
    #[error("{path}: {reason}")]
    Read {
        /// The file.
        path: String,
        /// What the system said, or what is wrong in it.
        reason: String,
    },
    /// A file could not be written.
    #[error("{path}: {reason}")]
    Write {
        /// The file.
        path: String,
        /// What the system said, and what to do.
        reason: String,
    },
    /// An execution trace in which nothing computes.
    #[error("{path}: no operator in it computes anything, so there is nothing to predict; record a whole step")]
    NothingToPlace {
        /// The file.
        path: String,
    },
    /// Several traces that are not one job, where one is needed.
    #[error("{count} separate traces where one is needed: name one of {}", listed(.names))]
    SeveralJobs {
        /// How many.
        count: usize,
        /// Their names.
        names: Vec<String>,
    },
    /// Two traces from which no law of the batch size follows.
    #[error("nothing to learn from a second trace: the batch sizes are {} and {}", told(.batches.0), told(.batches.1))]
    Learn {
        /// Batch sizes of both, where known.
        batches: (Option<u64>, Option<u64>),
    },
}

fn told(batch: Option<u64>) -> String {
    batch.map_or("not recorded".to_owned(), |batch| batch.to_string())
}

/// Most names that an error lists.
const LISTED: usize = 4;

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(LISTED);
    let first = names[..names.len() - more].join(", ");
    if more > 0 { format!("{first} and {more} more; `retime info` lists them") } else { first }
}
