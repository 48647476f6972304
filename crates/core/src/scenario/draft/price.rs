//! What tasks of a draft take: one [`Price`] for each, resolved to a duration by one function, whatever order edits came in.

use rayon::prelude::*;

use crate::cost::{Placed, Prediction, Provenance, Work};
use crate::graph::NodeId;
use crate::units::DurNs;

use super::by_node::ByNode;
use super::recost::Change;
use super::{AddedId, Draft, Node};
use crate::scenario::typical_calls::Again;

/// So many tasks are looked at by a thread at least.
pub(in crate::scenario) const LEAST: usize = 1 << 12;

/// What decides how long a task takes besides what it has to do and the device it is on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    start: Start,
    correction: Option<Correction>,
    /// What edits multiply its time by.
    factor: f64,
}

/// The time from which a change of work or device goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    /// The recorded time.
    Traced,
    /// In place of the recorded time.
    Instead(Prediction),
    /// What it takes whatever it does, on any device.
    Fixed(Prediction),
    /// What another task takes at any moment, factors of that task aside.
    Repeats(Node),
}

/// A multiple of what a task's own work tells, for a reason that lies outside of that work.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Correction {
    factor: f64,
    /// Only what takes longer than this is corrected.
    above: DurNs,
    of: Prediction,
    /// Whether it makes up for what the models err by, so that only the error of `of` is left.
    is_measured: bool,
}

impl From<Prediction> for Price {
    fn from(prediction: Prediction) -> Self {
        Self { start: Start::Instead(prediction), correction: None, factor: 1.0 }
    }
}

impl Price {
    /// The prediction that it starts from; `None` where that is the recorded time.
    pub fn given(&self) -> Option<Prediction> {
        match self.start {
            Start::Traced | Start::Repeats(_) => None,
            Start::Instead(prediction) | Start::Fixed(prediction) => Some(prediction),
        }
    }

    /// The task whose work and time it has.
    pub(in crate::scenario) fn repeated(&self) -> Option<Node> {
        if let Start::Repeats(of) = self.start { Some(of) } else { None }
    }

    /// Changes the time that an added task starts from.
    pub(super) fn go_on(&mut self, change: Change) {
        if let Start::Instead(start) = self.start {
            self.start = Start::Instead(change.apply(start));
        }
    }

    /// Takes what calls like it typically take: another like it was recorded, never this one.
    pub(super) fn take_typical(&mut self, Again { factor, above, error }: Again) {
        let (duration, provenance, error) = (DurNs::ZERO, Provenance::Anchored, error as f32);
        let of = Prediction { duration, provenance, model: "calls of its name", error, extrapolated: false };
        self.correction = Some(Correction { factor, above, of, is_measured: false });
    }

    /// What the task takes.
    ///
    /// # Arguments
    /// `traced`: the recorded time; `change`: what a model makes of its work and device now against those it was recorded with.
    pub(super) fn resolve(&self, traced: DurNs, change: impl FnOnce() -> Change) -> Prediction {
        let changed = match self.start {
            Start::Traced => change().apply(Prediction::measured(traced)),
            Start::Instead(start) => change().apply(start),
            Start::Fixed(fixed) => fixed,
            Start::Repeats(_) => Prediction::measured(traced),
        };
        let corrected = self.correction.map_or(changed, |correction| correction.apply(changed));
        if (self.factor - 1.0).abs() <= f64::EPSILON {
            return corrected;
        }
        let provenance = corrected.provenance.max(Provenance::Anchored);
        let model = if corrected.model.is_empty() { "scale" } else { corrected.model };
        Prediction { duration: corrected.duration.scale(self.factor), provenance, model, ..corrected }
    }
}

impl Correction {
    fn apply(self, to: Prediction) -> Prediction {
        let error = if self.is_measured { self.of.error } else { self.of.error.hypot(to.error) };
        let factor = if to.duration > self.above { self.factor } else { 1.0 };
        let (duration, provenance) = (to.duration.scale(factor), self.of.provenance.max(to.provenance));
        Prediction { duration, provenance, error, ..self.of }
    }
}

/// The prices of traced tasks, column by column: most have the recorded time and nothing else.
#[derive(Clone, Debug, Default)]
pub(super) struct Prices {
    starts: ByNode<Start>,
    corrections: ByNode<Correction>,
    /// Empty while all are 1.
    factors: Vec<f64>,
    /// Tasks whose time may differ from the recorded one; empty while none does.
    touched: Vec<bool>,
}

impl Prices {
    fn of(&self, node: NodeId) -> Price {
        Price {
            start: self.starts.get(node).copied().unwrap_or(Start::Traced),
            correction: self.corrections.get(node).copied(),
            factor: self.factors.get(node.index()).copied().unwrap_or(1.0),
        }
    }
}

impl Draft<'_> {
    /// What a traced task takes now, and where that figure is from.
    pub fn price(&self, node: NodeId) -> Prediction {
        self.price_of(Node::Traced(node))
    }

    /// What a task takes now, and where that figure is from.
    pub fn price_of(&self, node: Node) -> Prediction {
        self.as_figured(node, self.priced(node))
    }

    /// What a task takes with the own figures of its device: that from which another goes on.
    pub fn price_without_figures(&self, node: impl Into<Node>) -> Prediction {
        self.priced(node.into())
    }

    fn priced(&self, node: Node) -> Prediction {
        match node {
            Node::Traced(node) => {
                let traced = self.graph().tasks[node].duration;
                if !self.is_touched(node) {
                    return Prediction::measured(traced);
                }
                self.prices.of(node).resolve(traced, || self.change(node))
            }
            Node::Added(AddedId(id)) => self.resolve_added(&self.structure.added[id as usize].price),
        }
    }

    fn resolve_added(&self, price: &Price) -> Prediction {
        match price.start {
            Start::Repeats(of) => {
                let unscaled = Price { factor: 1.0, ..self.price_parts(of) };
                let repeated = match of {
                    Node::Traced(node) if !self.is_touched(node) => self.price(node),
                    Node::Traced(node) => unscaled.resolve(self.graph().tasks[node].duration, || self.change(node)),
                    Node::Added(_) => self.resolve_added(&unscaled),
                };
                Price { start: Start::Instead(repeated), ..*price }.resolve(DurNs::ZERO, || Change::Kept)
            }
            _ => price.resolve(DurNs::ZERO, || Change::Kept),
        }
    }

    /// The price of an added task that no longer follows the one it repeated.
    pub(super) fn price_repeated(&self, node: Node) -> Price {
        let price = self.price_parts(node);
        Price { start: Start::Instead(self.resolve_added(&Price { factor: 1.0, ..price })), ..price }
    }

    fn price_parts(&self, node: Node) -> Price {
        match node {
            Node::Traced(node) => self.prices.of(node),
            Node::Added(AddedId(id)) => self.structure.added[id as usize].price,
        }
    }

    /// The price of a task that repeats another: what that takes at any moment, and the factors that it has now.
    pub(super) fn price_repeating(&self, of: Node) -> Price {
        Price { start: Start::Repeats(of), correction: None, factor: self.price_parts(of).factor }
    }

    /// Takes what a task takes to be `prediction` from here on; changes of its work and device go on from there.
    pub fn set_price(&mut self, node: Node, prediction: Prediction) {
        match node {
            Node::Traced(node) => self.set_duration(node, prediction),
            Node::Added(AddedId(id)) => {
                self.structure.added[id as usize].price.start = Start::Instead(prediction);
            }
        }
    }

    /// As [`set_price`](Self::set_price), of a traced task.
    pub fn set_duration(&mut self, node: NodeId, prediction: Prediction) {
        let is_fixed = matches!(self.prices.starts.get(node), Some(Start::Fixed(_)));
        self.prices.starts.insert(node, if is_fixed { Start::Fixed(prediction) } else { Start::Instead(prediction) });
        self.touch(node);
    }

    /// Lets a task take `prediction` whatever it does: what it computed is done elsewhere.
    pub fn fix_duration(&mut self, node: NodeId, prediction: Prediction) {
        self.prices.starts.insert(node, Start::Fixed(prediction));
        self.touch(node);
    }

    /// Takes a task's time to be the recorded one again.
    pub fn unset_duration(&mut self, node: NodeId) {
        match self.prices.starts.get(node) {
            Some(Start::Fixed(_)) => self.set_duration(node, Prediction::measured(self.graph().tasks[node].duration)),
            _ => self.prices.starts.remove(node),
        }
    }

    /// Multiplies the time of a task.
    pub fn stretch(&mut self, node: Node, factor: f64) {
        let node = match node {
            Node::Traced(node) => node,
            Node::Added(AddedId(id)) => {
                self.structure.added[id as usize].price.factor *= factor;
                return;
            }
        };
        if self.prices.factors.is_empty() {
            self.prices.factors = vec![1.0; self.graph().tasks.node_count()];
        }
        self.prices.factors[node.index()] *= factor;
        self.touch(node);
    }

    /// What edits multiply the time of a task by.
    pub fn factor_of(&self, node: Node) -> f64 {
        match node {
            Node::Traced(node) => self.prices.factors.get(node.index()).copied().unwrap_or(1.0),
            Node::Added(AddedId(id)) => self.structure.added[id as usize].price.factor,
        }
    }

    /// Takes a task's time to be a multiple of what its work tells, or with `None` no longer so.
    ///
    /// # Arguments
    /// `correction`: the factor, and where it is from; the duration in it is not looked at.
    pub fn correct(&mut self, node: NodeId, correction: Option<(f64, Prediction)>) {
        match correction {
            Some((factor, of)) => {
                self.prices.corrections.insert(node, Correction { factor, above: DurNs::ZERO, of, is_measured: false });
            }
            None => self.prices.corrections.remove(node),
        }
        self.touch(node);
    }

    /// As [`correct`](Self::correct), where the factor makes up for what the models err by: only the error of `of` is left.
    pub fn correct_by_measurement(&mut self, node: NodeId, factor: f64, of: Prediction) {
        self.prices.corrections.insert(node, Correction { factor, above: DurNs::ZERO, of, is_measured: true });
        self.touch(node);
    }

    /// The model that the correction of a task's time is from; `None` where it has none.
    pub fn corrected_by(&self, node: NodeId) -> Option<&'static str> {
        self.prices.corrections.get(node).map(|correction| correction.of.model)
    }

    pub(super) fn touch(&mut self, node: NodeId) {
        if self.prices.touched.is_empty() {
            self.prices.touched = vec![false; self.graph().tasks.node_count()];
        }
        self.prices.touched[node.index()] = true;
    }

    pub(super) fn touch_all(&mut self, chosen: impl Fn(&Self, NodeId) -> bool + Sync) {
        let mut touched = std::mem::take(&mut self.prices.touched);
        touched.resize(self.graph().tasks.node_count(), false);
        let (draft, all) = (&*self, touched.par_iter_mut().with_min_len(LEAST).enumerate());
        all.for_each(|(index, touched)| *touched |= chosen(draft, NodeId::new(index)));
        self.prices.touched = touched;
    }

    /// Whether any edit may have changed what a task takes.
    pub fn is_touched(&self, node: NodeId) -> bool {
        self.prices.touched.get(node.index()).copied().unwrap_or(false)
    }

    pub(in crate::scenario) fn has_touched(&self) -> bool {
        !self.prices.touched.is_empty()
    }

    /// What `work` takes on the device of rank `rank`, never having been measured; `None` where no model covers it.
    pub fn price_new(&self, work: &Work, rank: usize) -> Option<Prediction> {
        let device = self.device(rank)?;
        let placed = Placed { work: Some(work), device };
        let prediction = self.context.models.predict(None, Placed { work: None, device }, placed);
        (prediction.provenance != Provenance::Unmodelled).then_some(prediction)
    }

    /// What `work` takes that does what `members` do now: their time, times the model's ratio of new to old.
    pub fn price_instead(&self, members: &[NodeId], work: &Work, rank: usize) -> Option<Prediction> {
        let device = self.device(rank)?;
        let now: DurNs = members.iter().map(|&node| self.price_without_figures(node).duration).sum();
        let old: Option<Vec<Work>> = members.iter().map(|&node| self.work(node).cloned()).collect();
        old.and_then(|old| self.instead_of(now, &old, work, device)).or_else(|| self.price_new(work, rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prediction(ns: i64, error: f32) -> Prediction {
        let provenance = Provenance::Anchored;
        Prediction { duration: DurNs(ns), provenance, model: "test", error, extrapolated: false }
    }

    #[test]
    fn a_price_is_its_start_times_the_models_ratio_the_correction_and_the_factor() {
        let correction = Correction { factor: 3.0, above: DurNs::ZERO, of: prediction(0, 0.4), is_measured: false };
        let price = Price { start: Start::Instead(prediction(100, 0.0)), correction: Some(correction), factor: 0.5 };
        let doubled = || Change::Ratio(2.0, prediction(0, 0.3));
        let resolved = price.resolve(DurNs(7), doubled);
        assert_eq!(resolved.duration, DurNs(300));
        assert!((resolved.error - 0.5).abs() < 1e-6, "independent errors add up: {}", resolved.error);
        let measured = Correction { is_measured: true, ..correction };
        let resolved = Price { correction: Some(measured), ..price }.resolve(DurNs(7), doubled);
        assert!((resolved.error - 0.4).abs() < 1e-6, "only that of the measurements: {}", resolved.error);
        let traced = Price { start: Start::Traced, ..price }.resolve(DurNs(7), || Change::Kept);
        assert_eq!(traced.duration, DurNs(11), "half of 21, rounded");
    }

    #[test]
    fn a_fixed_price_follows_no_change_but_its_own_factor() {
        let price = Price { start: Start::Fixed(prediction(100, 0.1)), correction: None, factor: 2.0 };
        assert_eq!(price.resolve(DurNs(7), || Change::Ratio(9.0, prediction(0, 0.3))).duration, DurNs(200));
    }
}
