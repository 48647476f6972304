//! One row of work: what is common to it, its times, and how they compare with the models.

use retime_core::cost::{Estimate, Provenance};
use retime_core::graph::NodeId;
use retime_core::units::DurNs;

use super::nested::Row;

/// From this multiple of what its model says a kernel counts as slow, where the model errs by less.
const SLOW: f64 = 1.3;
/// A model's mean errors that a kernel must lie beyond to count as slow.
const ERRORS: f64 = 2.0;

/// What makes device work one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// From the whole model through modules and operators to kernels.
    #[default]
    Tree,
    /// The operator that launched it.
    Operator,
    /// The kernel's name.
    Kernel,
    /// The module, or the part of training, it belongs to.
    Module,
    /// The stream or thread.
    Stream,
    /// The kernel family.
    Family,
}

impl Grouping {
    /// All of them, in the order a key goes through them.
    pub const ALL: [Self; 6] = [Self::Tree, Self::Operator, Self::Kernel, Self::Module, Self::Stream, Self::Family];

    /// What one row is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Operator => "operator",
            Self::Kernel => "kernel",
            Self::Module => "module",
            Self::Stream => "stream",
            Self::Family => "family",
        }
    }

    /// The next one, around the end.
    pub fn next(self) -> Self {
        Self::ALL[(Self::ALL.iter().position(|&known| known == self).unwrap_or(0) + 1) % Self::ALL.len()]
    }
}

/// What rows are sorted by, the most first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Device time.
    #[default]
    Time,
    /// Time above what the models say.
    Model,
    /// Change by the scenario.
    Change,
    /// Host time.
    Host,
    /// How many.
    Count,
    /// Name.
    Name,
}

impl Order {
    /// All of them, in the order a key goes through them.
    pub const ALL: [Self; 6] = [Self::Time, Self::Model, Self::Change, Self::Host, Self::Count, Self::Name];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "device",
            Self::Model => "above model",
            Self::Change => "change",
            Self::Host => "host",
            Self::Count => "count",
            Self::Name => "name",
        }
    }

    /// The next one, around the end.
    pub fn next(self) -> Self {
        Self::ALL[(Self::ALL.iter().position(|&known| known == self).unwrap_or(0) + 1) % Self::ALL.len()]
    }
}

/// Measured kernels against what their models say of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelComparison {
    /// What the models say.
    pub modelled: DurNs,
    /// Measured time of the kernels they cover.
    pub covered: DurNs,
    /// What the models say of kernels within what they were fitted on.
    pub within: DurNs,
    /// Measured time of these.
    pub within_covered: DurNs,
    /// Their mean errors, in ns.
    pub error_ns: f64,
}

impl ModelComparison {
    /// Counts a kernel that took `measured`.
    pub fn add(&mut self, measured: DurNs, estimate: Estimate) {
        self.modelled += estimate.duration;
        self.covered += measured;
        if !estimate.extrapolated {
            self.within += estimate.duration;
            self.within_covered += measured;
            self.error_ns += estimate.duration.0 as f64 * f64::from(estimate.error);
        }
    }

    /// Measured over modelled, of the kernels that models were fitted for where there are any; `None` where no model covers
    /// anything.
    pub fn ratio(&self) -> Option<f64> {
        let is_within = self.within > DurNs::ZERO;
        let (covered, modelled) =
            if is_within { (self.within_covered, self.within) } else { (self.covered, self.modelled) };
        (modelled > DurNs::ZERO).then(|| covered.0 as f64 / modelled.0 as f64)
    }

    /// Whether all that is covered lies beyond what the models were fitted on, so that nothing follows from it.
    pub fn is_extrapolated(&self) -> bool {
        self.modelled > DurNs::ZERO && self.within == DurNs::ZERO
    }

    /// From which multiple on work like this counts as slow: models err by so much themselves.
    ///
    /// One model's errors are taken as fully correlated, so that they do not shrink with the number of kernels.
    pub fn slow_from(&self) -> f64 {
        SLOW.max(1.0 + ERRORS * self.error_ns / self.within.0.max(1) as f64)
    }

    /// Time above what the models say of the kernels they were fitted for; zero where that is within their error.
    pub fn lost(&self) -> DurNs {
        let is_slow =
            self.within > DurNs::ZERO && self.within_covered.0 as f64 >= self.within.0 as f64 * self.slow_from();
        if is_slow { self.within_covered - self.within } else { DurNs::ZERO }
    }
}

/// Work of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What is common to it.
    pub label: String,
    /// The labels from the root down, which name the row whatever the order.
    pub path: String,
    /// How far it is indented.
    pub depth: usize,
    /// One past the last row inside it, in the list of all rows.
    pub end: usize,
    /// Whether the rows inside it are shown until told otherwise.
    pub is_open: bool,
    /// The longest piece.
    pub example: NodeId,
    /// Pieces of device work.
    pub count: usize,
    /// Measured device time of its own, waits for other ranks left out.
    pub measured: DurNs,
    /// Simulated device time of its own.
    pub simulated: DurNs,
    /// Measured host time of its own.
    pub host: DurNs,
    /// Time that its work, or the host in it, waited for other ranks or the device.
    pub waited: DurNs,
    /// What its kernels are.
    pub family: &'static str,
    /// Worst source of their times.
    pub provenance: Provenance,
    /// Its kernels against their models.
    pub against: ModelComparison,
}

impl Row for Group {
    fn path(&self) -> &str {
        &self.path
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn end(&self) -> usize {
        self.end
    }

    fn is_open(&self) -> bool {
        self.is_open
    }
}

impl Group {
    /// A row with nothing in it yet.
    pub fn new(label: String, path: String, depth: usize, example: NodeId) -> Self {
        Self {
            label,
            path,
            depth,
            end: 0,
            is_open: false,
            example,
            count: 0,
            measured: DurNs::ZERO,
            simulated: DurNs::ZERO,
            host: DurNs::ZERO,
            waited: DurNs::ZERO,
            family: "host",
            provenance: Provenance::Measured,
            against: ModelComparison::default(),
        }
    }

    /// Whether its kernels are slower than their models say, by more than the models err.
    pub fn is_slow(&self) -> bool {
        self.against.lost() > DurNs::ZERO
    }
}

/// The most first; equal rows by simulated device time, then by measured, then by host time, then by name.
pub fn compare(a: &Group, b: &Group, order: Order) -> std::cmp::Ordering {
    let above = |group: &Group| group.against.covered.0 - group.against.modelled.0;
    let change = |group: &Group| (group.simulated - group.measured).0.abs();
    let longest = |group: &Group| (group.simulated, group.measured, group.host);
    let by_order = match order {
        Order::Name => return a.label.cmp(&b.label),
        Order::Time => std::cmp::Ordering::Equal,
        Order::Model => above(b).cmp(&above(a)),
        Order::Change => change(b).cmp(&change(a)),
        Order::Host => b.host.cmp(&a.host),
        Order::Count => b.count.cmp(&a.count),
    };
    by_order.then_with(|| longest(b).cmp(&longest(a))).then_with(|| a.label.cmp(&b.label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(duration: i64, error: f32, extrapolated: bool) -> Estimate {
        Estimate { duration: DurNs(duration), model: "made-up", error, extrapolated }
    }

    #[test]
    fn slow_is_what_lies_beyond_twice_the_models_error() {
        let of = |measured, estimate| {
            let mut against = ModelComparison::default();
            against.add(DurNs(measured), estimate);
            against.lost()
        };
        assert_eq!(of(1400, estimate(1000, 0.1, false)), DurNs(400), "beyond 1.3, and the model errs by 10 %");
        assert_eq!(of(1250, estimate(1000, 0.1, false)), DurNs(0), "beyond the error, not beyond 1.3");
        assert_eq!(of(1400, estimate(1000, 0.3, false)), DurNs(0), "the model errs by 30 %: up to 1.6 is usual");
        assert_eq!(of(1700, estimate(1000, 0.3, false)), DurNs(700));
        assert_eq!(of(9000, estimate(1000, 0.1, true)), DurNs(0), "nothing follows from beyond the fit");
    }

    #[test]
    fn kernels_beyond_the_fit_weigh_nothing_beside_others() {
        let mut against = ModelComparison::default();
        against.add(DurNs(9000), estimate(1000, 0.1, true));
        assert!(against.is_extrapolated());
        against.add(DurNs(1000), estimate(1000, 0.1, false));
        assert!(!against.is_extrapolated());
        assert_eq!(against.lost(), DurNs(0));
        assert_eq!(against.ratio(), Some(1.0));
    }
}
