//! What look-ups of a job take by what they read, as its own ranks tell: each rank was traced with another set of tables.
//!
//! `t = a + b·n` for `n` elements read, by least squares of relative errors. It stands in for the model where it tells every rank
//! from the others better than the model's ratio does.

/// Ranks from which on a line says more than its points.
const LEAST_RANKS: usize = 4;
/// Beyond this many times the most that any rank read, the line is extrapolated.
const REACH: f64 = 2.0;

/// What one rank was traced with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traced {
    /// Elements that its look-ups read in a step.
    pub(super) elements: f64,
    /// What they took, in ns.
    pub(super) took: f64,
    /// What the model says they take, in ns.
    pub(super) modelled: f64,
}

/// A line through the ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LookupLine {
    start: f64,
    per_element: f64,
    /// Mean relative error of each rank told from the others.
    pub(super) error: f64,
    most: f64,
}

impl LookupLine {
    /// The line of `ranks`; `None` where they are too few or alike, or the model tells them as well.
    pub(super) fn learn(ranks: &[Traced]) -> Option<Self> {
        let whole = line(ranks)?;
        let error = left_out(ranks, |others, one| line(others).map(|(start, each)| start + each * one.elements))?;
        let of_model = left_out(ranks, |others, one| {
            let ratios: f64 = others.iter().map(|other| other.took / other.modelled).sum();
            Some(one.modelled * ratios / others.len() as f64)
        })?;
        let most = ranks.iter().map(|rank| rank.elements).fold(0.0, f64::max);
        (error < of_model).then_some(Self { start: whole.0, per_element: whole.1, error, most })
    }

    /// Time in ns of look-ups that read `elements`.
    pub(super) fn time(&self, elements: f64) -> f64 {
        self.start + self.per_element * elements
    }

    /// Whether no rank read nearly as much.
    pub(super) fn is_beyond(&self, elements: f64) -> bool {
        elements > REACH * self.most
    }
}

/// Start and time per element, neither below 0.
fn line(ranks: &[Traced]) -> Option<(f64, f64)> {
    if ranks.len() + 1 < LEAST_RANKS || ranks.iter().any(|rank| rank.took <= 0.0 || rank.modelled <= 0.0) {
        return None;
    }
    // Each point weighs so that its relative error counts.
    let sum = |of: fn(&Traced) -> f64| ranks.iter().map(|rank| of(rank) / (rank.took * rank.took)).sum::<f64>();
    let (w, x, y) = (sum(|_| 1.0), sum(|rank| rank.elements), sum(|rank| rank.took));
    let (xx, xy) = (sum(|rank| rank.elements * rank.elements), sum(|rank| rank.elements * rank.took));
    let spread = w * xx - x * x;
    if spread <= 1e-9 * w * xx {
        return None;
    }
    let each = (w * xy - x * y) / spread;
    let start = (y - each * x) / w;
    match (start >= 0.0, each > 0.0) {
        (true, true) => Some((start, each)),
        (false, true) => Some((0.0, xy / xx)),
        _ => None,
    }
}

/// Mean relative error of each rank as `tell` has it from the others.
fn left_out(ranks: &[Traced], tell: impl Fn(&[Traced], &Traced) -> Option<f64>) -> Option<f64> {
    let error = |at: usize| {
        let others: Vec<Traced> = ranks.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, rank)| *rank).collect();
        Some((tell(&others, &ranks[at])? / ranks[at].took - 1.0).abs())
    };
    let errors: Option<Vec<f64>> = (0..ranks.len()).map(error).collect();
    errors.filter(|errors| errors.len() >= LEAST_RANKS).map(|errors| errors.iter().sum::<f64>() / errors.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(of: &[(f64, f64, f64)]) -> Vec<Traced> {
        of.iter().map(|&(elements, took, modelled)| Traced { elements, took, modelled }).collect()
    }

    #[test]
    fn a_line_through_the_ranks_stands_in_for_a_model_that_sits_on_its_floor() {
        let line = LookupLine::learn(&ranks(&[
            (6.0, 700.0, 35.0),
            (14.0, 1500.0, 35.0),
            (37.0, 3800.0, 35.0),
            (104.0, 10_500.0, 52.0),
        ]));
        let line = line.unwrap();
        assert!((line.time(50.0) - 5100.0).abs() < 1.0 && line.error < 1e-9, "{line:?}");
        assert!(line.is_beyond(300.0) && !line.is_beyond(104.0));
    }

    #[test]
    fn a_model_that_tells_every_rank_stays() {
        let exact = [(6.0, 70.0, 7.0), (14.0, 110.0, 11.0), (37.0, 500.0, 50.0), (104.0, 900.0, 90.0)];
        assert_eq!(LookupLine::learn(&ranks(&exact)), None);
    }

    #[test]
    fn few_ranks_ranks_alike_and_times_that_fall_tell_nothing() {
        let rising: Vec<_> = (1..=3).map(|n| (f64::from(n), 100.0 * f64::from(n), 5.0)).collect();
        let alike = [(5.0, 100.0, 9.0); 6];
        let falling: Vec<_> = (1..=6).map(|n| (f64::from(n), 100.0 / f64::from(n), 5.0)).collect();
        for of in [&rising[..], &alike[..], &falling[..]] {
            assert_eq!(LookupLine::learn(&ranks(of)), None, "{of:?}");
        }
    }
}
