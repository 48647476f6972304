//! Calibration: measurements → fitted parameters, with the error on rows the fit has not seen.
//!
//! Reads text, not files. What comes out is a [`Fit`](retime_core::cost::fits::Fit) per domain and device.

mod anchored;
pub mod collectives;
pub mod csv;
mod curve;
mod device;
mod fit;
mod forest;
mod formats;
mod held_out;
mod inconsistent;
mod kernel_table;
mod lookups;
mod microbench;
pub mod mlp;
mod published;
mod rows;
mod scale;
mod search;
mod serving;
mod structure;
pub mod traced;
pub mod validate;

use thiserror::Error;

use retime_core::device::DeviceProfile;

use retime_core::cost::copies::quantisation_us;
use retime_core::cost::domain::Domain;
use retime_core::cost::work::{Shape, Work};

pub(crate) use anchored::batch_of;
pub use anchored::{FittedSample, anchored_errors};
pub use device::{DeviceCalibration, DomainReport, Model, Target, calibrate_device};
pub use fit::{Calibrated, FitErrors, Tuning, assess, calibrate, calibrate_quick, quick_shapes, quick_work};
pub(crate) use fit::{carried_quick, counterpart, is_kernel, predicted_us, share_inside};
pub use forest::Hyperparameters;
pub use formats::measurements;
pub use held_out::is_held_out;
pub use kernel_table::kernel_measurements;
pub use lookups::{MeasuredLookup, lookup_measurements};
pub use microbench::FamilyUse;
use retime_core::cost::{ErrorSummary, summarise};
pub use scale::fit_scale;
pub use structure::{mean_parameters, shared_parameters};

/// One measured kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// What it did.
    pub work: Work,
    /// The device as the file names it.
    pub device: String,
    /// Its time in µs.
    pub us: f64,
    /// What took it.
    pub timed: Timed,
    /// Which kernel was launched on which grid, as a number that like launches share; none where that was not recorded.
    pub launched: Option<u64>,
    /// Line of its file, from 1.
    pub line: usize,
    /// Whether a larger launch of the same kernel took less by more than noise, so that one of the two times is wrong.
    pub is_inconsistent: bool,
    /// Whether its table holds more of those than noise explains.
    pub is_unreliable: bool,
}

/// What a measured time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// The kernels alone.
    Kernels,
    /// A whole call, whose floor is the host's.
    Call,
    /// A product and the rounding of its first factor to 8 bits.
    Quantised,
}

impl Measurement {
    /// A kernel that took `us` by line `line` of a table.
    pub(crate) fn of_kernel(work: Work, device: &str, us: f64, line: usize) -> Self {
        let (device, launched) = (device.to_owned(), None);
        let (timed, is_inconsistent, is_unreliable) = (Timed::Kernels, false, false);
        Self { work, device, us, timed, launched, line, is_inconsistent, is_unreliable }
    }

    /// Whether its time is of a whole call, whose floor is the host's.
    pub fn is_call(&self) -> bool {
        self.timed == Timed::Call
    }

    /// The row of its kernel alone, as it ran on `device`: without the rounding of a factor to 8 bits, in a model a kernel of its own.
    /// `None` where that takes the most of it, so that the rest says little of the product.
    pub fn of_one_kernel(self, device: &DeviceProfile) -> Option<Self> {
        let &Shape::Gemm { batch, m, k, .. } = &self.work.shape else { return Some(self) };
        if self.timed != Timed::Quantised {
            return Some(self);
        }
        let us = self.us - quantisation_us(batch.saturating_mul(m).saturating_mul(k), device);
        (us > 0.5 * self.us).then_some(Self { us, timed: Timed::Kernels, ..self })
    }
}

/// The domain and measurements of one device, ready to fit.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// What is fitted.
    pub domain: Domain,
    /// The device measured.
    pub device: &'a DeviceProfile,
    /// Its measurements in that domain.
    pub rows: &'a [Measurement],
}

/// What a fit goes by besides its own rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct FitPrior<'a> {
    /// Parameters that devices have in common: what its own rows do not determine stays near them. Without them, the model's defaults.
    pub common: Option<&'a [f64]>,
    /// Rows of the same chip of the kind (kernels, whole calls) that its own are not.
    pub companions: &'a [Sample<'a>],
}

/// Measurements or fits that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FitError {
    /// A file without rows.
    #[error("no measurements: a header and at least one row are expected")]
    Empty,
    /// A row wider than the header.
    #[error("line {line}: {fields} fields, but the header has {columns} columns")]
    Width {
        /// Line, from 1.
        line: usize,
        /// Fields found.
        fields: usize,
        /// Columns of the header.
        columns: usize,
    },
    /// Two columns of one name.
    #[error("a second column `{column}`")]
    RepeatedColumn {
        /// Their name.
        column: String,
    },
    /// A needed column is not there.
    #[error("no column `{column}`")]
    MissingColumn {
        /// Its name.
        column: &'static str,
    },
    /// A value that cannot be.
    #[error("line {line}, column `{column}`: `{value}` is no number that can be there")]
    BadNumber {
        /// Line, from 1.
        line: usize,
        /// Its column.
        column: &'static str,
        /// As written.
        value: String,
    },
    /// A time that no such device can reach, or needs.
    #[error("line {line}: {us} µs is {times} times {than}: is the unit right?")]
    Impossible {
        /// Line, from 1.
        line: usize,
        /// As read.
        us: String,
        /// How far off it is.
        times: String,
        /// From what, with the device.
        than: String,
    },
    /// Several devices where one is calibrated.
    #[error("measurements of {} devices ({}): choose one with --device", devices.len(), devices.join(", "))]
    SeveralDevices {
        /// As the files name them.
        devices: Vec<String>,
    },
    /// Measurements that name no device, and nothing to inherit from.
    #[error("the measurements name no device: name a known one like it with --inherits")]
    NoDevice,
    /// A device that is in no catalog, and nothing to inherit from.
    #[error("the catalog has no `{device}`: name a device like it with --inherits")]
    UnknownDevice {
        /// As the file names it.
        device: String,
    },
    /// Nothing that a fit could use.
    #[error("nothing to fit: {0}")]
    Nothing(String),
    /// A header that no known format has.
    #[error(
        "unknown kind of measurements: expected the columns of microbench.py, NeuSight, aiconfigurator or nccl-tests tables"
    )]
    UnknownFormat,
    /// A header that has most columns of a known format, not all.
    #[error("no column `{column}`, which tables of {format} have")]
    NearlyKnown {
        /// The format.
        format: &'static str,
        /// The first of its columns that is not there.
        column: &'static str,
    },
    /// A word that is none of those expected.
    #[error("line {line}, column `{column}`: `{value}` is not one of {expected}")]
    BadWord {
        /// Line, from 1.
        line: usize,
        /// Its column.
        column: &'static str,
        /// As written.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// Too little beside what is held out.
    #[error(
        "{rows} usable measurements of {domain}, {held_out} of them held out for the error; at least {needed} others are needed, and one held out"
    )]
    TooFewBeside {
        /// How many there are.
        rows: usize,
        /// How many of them tell the error.
        held_out: usize,
        /// Of what.
        domain: &'static str,
        /// How many it takes beside those.
        needed: usize,
    },
    /// Too little to fit.
    #[error("{rows} usable measurements of {domain}; at least {needed} are needed")]
    TooFew {
        /// How many there are.
        rows: usize,
        /// Of what.
        domain: &'static str,
        /// How many it takes.
        needed: usize,
    },
}
