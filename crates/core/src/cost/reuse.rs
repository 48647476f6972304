//! How often the rows of an embedding table are looked up again within one batch, and what a cache makes of it.
//!
//! The index distribution as reuse factors [Lin 2024 §IV-C]: from index tensors as a histogram, else from statistics.
use crate::units::Percent;

use std::hash::{Hash, Hasher};

use serde::Serialize;

/// Bins of the reuse histogram: (0, 1], (1, 2], (2, 4], …, beyond 32768.
pub const REUSE_BINS: usize = 17;

/// Which rows a batch looks up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// Every row is as likely as any other: what is taken where nothing is known.
    #[default]
    Uniform,
    /// The `k`-th most wanted row is looked up in proportion to `k^−a`; the exponent `a`, from 0.
    Zipf(f64),
    /// Share of the look-ups that are the first of their row, above 0 up to 1.
    Unique(f64),
    /// Share of the look-ups by how often their row is looked up, in bins of powers of two: bin `i` holds rows looked up
    /// `2^(i−1) < n ≤ 2^i` times.
    Histogram(Box<[f64; REUSE_BINS]>),
}

impl Hash for Reuse {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Uniform => {}
            Self::Zipf(value) | Self::Unique(value) => value.to_bits().hash(state),
            Self::Histogram(bins) => bins.iter().for_each(|share| share.to_bits().hash(state)),
        }
    }
}

/// Rows taken for a table whose size is not known: so many that chance does not repeat any.
const UNKNOWN_ROWS: f64 = 1e9;

impl Reuse {
    /// The histogram of an index tensor: the rows that one batch looks up, in any order; even draws of none.
    pub fn of_indices(indices: &[u64]) -> Self {
        if indices.is_empty() {
            return Self::Uniform;
        }
        let mut sorted = indices.to_vec();
        sorted.sort_unstable();
        let mut bins = Box::new([0.0; REUSE_BINS]);
        for row in sorted.chunk_by(|a, b| a == b) {
            let bin = (usize::BITS - (row.len() - 1).leading_zeros()) as usize;
            bins[bin.min(REUSE_BINS - 1)] += row.len() as f64 / sorted.len() as f64;
        }
        Self::Histogram(bins)
    }

    /// The law in a word or two.
    pub fn shown(&self) -> String {
        match self {
            Self::Uniform => "even draws".to_owned(),
            Self::Zipf(exponent) => format!("zipf {exponent:.2}"),
            Self::Unique(share) => format!("{:.0} first", Percent(*share)),
            Self::Histogram(_) => "histogram".to_owned(),
        }
    }

    /// Rows that `look_ups` look-ups in a table of `rows` rows touch; 0 rows: size not known.
    ///
    /// Uniform: `U = E·(1 − (1 − 1/E)^n)`; Zipf: `U = Σ_k 1 − e^{−n·p_k}`.
    pub fn distinct(&self, rows: f64, look_ups: f64) -> f64 {
        let rows = if rows > 0.0 { rows } else { UNKNOWN_ROWS };
        let touched = match self {
            Self::Uniform => uniform_distinct(rows, look_ups),
            Self::Zipf(exponent) => Ranks::of(*exponent, rows).distinct(look_ups),
            Self::Unique(share) => share * look_ups,
            Self::Histogram(bins) => {
                bins.iter().enumerate().map(|(bin, share)| share / per_row(bin)).sum::<f64>() * look_ups
            }
        };
        touched.clamp(0.0, rows.min(look_ups))
    }

    /// Look-ups, of `look_ups`, that find their row in a cache of `cached` rows that starts empty: all but the first of each
    /// row when the touched rows fit; else those of the rows wanted most, uniform ones by chance.
    pub fn hits(&self, rows: f64, look_ups: f64, cached: f64) -> f64 {
        let rows = if rows > 0.0 { rows } else { UNKNOWN_ROWS };
        let touched = self.distinct(rows, look_ups);
        let found = match self {
            _ if touched <= cached => look_ups - touched,
            Self::Uniform => (look_ups - cached).max(0.0) * cached / rows,
            Self::Zipf(exponent) => Ranks::of(*exponent, rows).repeats(look_ups, cached),
            Self::Unique(share) => Ranks::of(exponent_of(*share, rows, look_ups), rows).repeats(look_ups, cached),
            Self::Histogram(bins) => kept_repeats(bins, look_ups, cached),
        };
        found.clamp(0.0, look_ups)
    }
}

fn uniform_distinct(rows: f64, look_ups: f64) -> f64 {
    if rows <= 1.0 { rows } else { rows * -(look_ups * (-1.0 / rows).ln_1p()).exp_m1() }
}

/// Look-ups of one row in a bin of the histogram, mean.
fn per_row(bin: usize) -> f64 {
    if bin == 0 { 1.0 } else { 0.75 * (bin as f64).exp2() }
}

/// The rows looked up most often are the cached ones.
fn kept_repeats(bins: &[f64; REUSE_BINS], look_ups: f64, cached: f64) -> f64 {
    let total: f64 = bins.iter().sum();
    if total <= 0.0 {
        return 0.0;
    }
    let (mut room, mut hits) = (cached, 0.0);
    for (bin, share) in bins.iter().enumerate().rev() {
        let kept = (share / total * look_ups / per_row(bin)).min(room);
        hits += kept * (per_row(bin) - 1.0);
        room -= kept;
    }
    hits
}

/// Ranks of rows by how much they are wanted: the first one by one, the others in spans that grow.
struct Ranks {
    /// Share of the look-ups of one row, and how many rows have it.
    steps: Vec<(f64, f64)>,
}

/// Ranks that count one by one.
const SINGLE: f64 = 64.0;
/// Growth of the spans beyond.
const GROWTH: f64 = 1.1;

impl Ranks {
    fn of(exponent: f64, rows: f64) -> Self {
        let (mut steps, mut rank, mut total) = (Vec::new(), 1.0_f64, 0.0);
        while rank <= rows {
            let next = if rank < SINGLE { rank + 1.0 } else { (rank * GROWTH).min(rows + 1.0).max(rank + 1e-9) };
            let (width, middle) = (next - rank, if rank < SINGLE { rank } else { (rank * next).sqrt() });
            let weight = middle.powf(-exponent);
            total += weight * width;
            steps.push((weight, width));
            rank = next;
        }
        for step in &mut steps {
            step.0 /= total;
        }
        Self { steps }
    }

    fn distinct(&self, look_ups: f64) -> f64 {
        self.steps.iter().map(|(share, width)| width * -(-look_ups * share).exp_m1()).sum()
    }

    /// Look-ups beyond the first of each row among the `cached` most wanted.
    fn repeats(&self, look_ups: f64, cached: f64) -> f64 {
        let mut room = cached;
        let mut hits = 0.0;
        for (share, width) in &self.steps {
            let wanted = look_ups * share;
            let kept = width.min(room);
            hits += kept * (wanted + (-wanted).exp_m1());
            room -= kept;
            if room <= 0.0 {
                break;
            }
        }
        hits
    }
}

/// Largest exponent that is looked for.
const STEEPEST: f64 = 3.0;

/// The Zipf exponent with which a share `unique` of the look-ups are the first of their row; by bisection, since more skew
/// touches fewer rows.
fn exponent_of(unique: f64, rows: f64, look_ups: f64) -> f64 {
    let (mut low, mut high) = (0.0, STEEPEST);
    for _ in 0..24 {
        let middle = f64::midpoint(low, high);
        if Ranks::of(middle, rows).distinct(look_ups) > unique * look_ups { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_alone_touches_as_many_rows_as_the_equation_says() {
        // 1000 rows, 1000 look-ups: 1000·(1 − (1 − 1/1000)^1000) = 632.3.
        assert!((Reuse::Uniform.distinct(1000.0, 1000.0) - 632.3).abs() < 0.1);
        let flat = Reuse::Zipf(0.0).distinct(1000.0, 1000.0);
        assert!((flat - 632.3).abs() < 3.0, "{flat}");
    }

    #[test]
    fn skew_touches_fewer_rows_and_hits_more() {
        let (rows, look_ups, cached) = (1e6, 1e5, 1e4);
        let skewed = Reuse::Zipf(1.05);
        assert!(skewed.distinct(rows, look_ups) < 0.5 * Reuse::Uniform.distinct(rows, look_ups));
        assert!(skewed.hits(rows, look_ups, cached) > 10.0 * Reuse::Uniform.hits(rows, look_ups, cached));
    }

    #[test]
    fn a_share_of_first_look_ups_is_met_and_means_skew_where_the_cache_is_small() {
        let (rows, look_ups) = (1_677_721.0, 104_857.0);
        let told = Reuse::Unique(0.334);
        assert!((told.distinct(rows, look_ups) / look_ups - 0.334).abs() < 1e-9);
        let exponent = exponent_of(0.334, rows, look_ups);
        assert!((Ranks::of(exponent, rows).distinct(look_ups) / look_ups - 0.334).abs() < 0.01, "{exponent}");
        let (some, all) = (told.hits(rows, look_ups, 1000.0), told.hits(rows, look_ups, 1e6));
        assert!(some > 0.3 * look_ups && some < all && (all / look_ups - 0.666).abs() < 1e-9);
    }

    #[test]
    fn a_histogram_keeps_the_rows_looked_up_most() {
        let mut bins = [0.0; REUSE_BINS];
        (bins[0], bins[3]) = (0.4, 0.6);
        let reuse = Reuse::Histogram(Box::new(bins));
        // 1000 look-ups: 400 rows once, 100 rows six times each.
        assert!((reuse.distinct(0.0, 1000.0) - 500.0).abs() < 1e-9);
        assert!((reuse.hits(0.0, 1000.0, 100.0) - 500.0).abs() < 1e-9);
        assert!((reuse.hits(0.0, 1000.0, 50.0) - 250.0).abs() < 1e-9);
    }

    #[test]
    fn no_look_ups_and_one_row_are_no_fault() {
        for reuse in
            [Reuse::Uniform, Reuse::Zipf(1.2), Reuse::Unique(0.5), Reuse::Histogram(Box::new([0.0; REUSE_BINS]))]
        {
            for (rows, look_ups) in [(0.0, 0.0), (1.0, 5.0), (7.0, 0.0), (0.0, 10.0)] {
                for cached in [0.0, 3.0] {
                    let hits = reuse.hits(rows, look_ups, cached);
                    assert!(hits.is_finite() && (0.0..=look_ups).contains(&hits), "{reuse:?} {rows} {look_ups} {hits}");
                }
            }
        }
    }

    #[test]
    fn an_index_tensor_gives_the_rows_it_touches() {
        // 64 rows once, 32 twice, 16 four times: 192 look-ups of 112 rows.
        let indices: Vec<u64> =
            (0..64).chain((100..132).flat_map(|row| [row; 2])).chain((200..216).flat_map(|row| [row; 4])).collect();
        let reuse = Reuse::of_indices(&indices);
        let Reuse::Histogram(bins) = &reuse else { panic!("{reuse:?}") };
        assert!(
            bins[..3].iter().all(|share| (share - 1.0 / 3.0).abs() < 1e-12)
                && bins[3..].iter().all(|&share| share == 0.0)
        );
        // Bins are as wide as their powers of two: within a third.
        let touched = reuse.distinct(1e6, 192.0);
        assert!((touched / 112.0 - 1.0).abs() < 0.34, "{touched}");
        assert_eq!(Reuse::of_indices(&[]), Reuse::Uniform);
    }
}
