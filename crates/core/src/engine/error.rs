//! Why a trace cannot be opened, or an edit not be made.

use thiserror::Error;

use crate::cost::overhead::OverheadError;
use crate::device::CatalogError;
use crate::graph::BuildError;
use crate::scenario::StepError;
use crate::trace::OpenError;
use crate::units::DurNs;

/// Why a trace could not be opened, or an edit not be made.
#[derive(Debug, Error)]
pub enum EngineError {
    /// A file could not be read as a trace.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A trace has nothing to model.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A device file cannot be used.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
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
    /// An execution trace in which nothing computes.
    #[error("{path}: no operator in it computes anything, so there is nothing to predict; record a whole step")]
    NothingToPlace {
        /// The file.
        path: String,
    },
    /// A trace whose times are those of no iteration.
    #[error(
        "{path}: its tasks end after {}, beyond what is computed: the times are not those of an iteration",
        DurNs::LONGEST
    )]
    Beyond {
        /// What was opened.
        path: String,
    },
    /// A trace whose iteration takes no time.
    #[error("{path}: its iteration takes no time: {reason}")]
    Timeless {
        /// What was opened.
        path: String,
        /// Why.
        reason: String,
    },
    /// Two traces from which no law of the batch size follows.
    #[error("nothing to learn from a second trace: {}", why(.batches))]
    Learn {
        /// Batch sizes of both, where known.
        batches: (Option<u64>, Option<u64>),
    },
}

fn why(batches: &(Option<u64>, Option<u64>)) -> String {
    match batches {
        (Some(a), Some(b)) if a != b => {
            "beyond the batch the sizes of its operators differ, so it is of another model".to_owned()
        }
        (a, b) => format!("the batch sizes are {} and {}", told(*a), told(*b)),
    }
}

fn told(batch: Option<u64>) -> String {
    batch.map_or("not recorded".to_owned(), |batch| batch.to_string())
}
