//! What can go wrong between a path and a picture.

use thiserror::Error;

use retime_core::device::UnknownDevice;
use retime_core::engine::EngineError;

/// Why a question could not be answered, or a file not be read or written.
#[derive(Debug, Error)]
pub enum SessionError {
    /// A trace cannot be opened, or an edit not be made.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A device is not in the catalog.
    #[error(transparent)]
    Device(#[from] UnknownDevice),
    /// A device between several of which nothing is known.
    #[error("{0}: no interconnect is known of it")]
    NoLink(String),
    /// A file could not be written.
    #[error("{path}: {reason}")]
    Write {
        /// The file.
        path: String,
        /// What the system said, and what to do.
        reason: String,
    },
    /// Several traces that are not one job, where one is needed.
    #[error("{count} separate traces where one is needed: name one of {}", listed(.names))]
    SeveralJobs {
        /// How many.
        count: usize,
        /// Their names.
        names: Vec<String>,
    },
}

/// Most names that an error lists.
const LISTED: usize = 4;

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(LISTED);
    let first = names[..names.len() - more].join(", ");
    if more > 0 { format!("{first} and {more} more; `retime info` lists them") } else { first }
}
