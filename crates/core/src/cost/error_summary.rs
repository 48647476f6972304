//! Errors of predictions against measurements.

use serde::Serialize;

/// Errors over a set of rows, as fractions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ErrorSummary {
    /// Rows.
    pub n: usize,
    /// Mean of `|predicted/measured − 1|`.
    pub mape: f64,
    /// Geometric mean of the same.
    pub gmae: f64,
    /// Mean of `predicted/measured − 1`.
    pub bias: f64,
    /// Smallest signed error.
    pub min: f64,
    /// Median of the absolute errors.
    pub p50: f64,
    /// Nine in ten absolute errors are below this.
    pub p90: f64,
    /// Largest signed error.
    pub max: f64,
}

impl ErrorSummary {
    /// `n` rows of which only the mean absolute error is known; the rest is not a number, and null in JSON.
    pub fn of_mean(n: usize, mape: f64) -> Self {
        let unknown = f64::NAN;
        Self { n, mape, gmae: unknown, bias: unknown, min: unknown, p50: unknown, p90: unknown, max: unknown }
    }
}

/// Absolute errors below this count as this in the geometric mean, which one exact row would make zero.
const SMALLEST: f64 = 1e-4;

/// The errors of `(predicted, measured)` pairs; pairs without a positive measurement are left out.
pub fn summarise(pairs: impl Iterator<Item = (f64, f64)>) -> ErrorSummary {
    let errors: Vec<f64> =
        pairs.filter(|(_, measured)| *measured > 0.0).map(|(predicted, measured)| predicted / measured - 1.0).collect();
    let n = errors.len();
    if n == 0 {
        return ErrorSummary::default();
    }
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / n as f64;
    ErrorSummary {
        n,
        mape: mean(&mut sizes.iter().copied()),
        gmae: mean(&mut sizes.iter().map(|size| size.max(SMALLEST).ln())).exp(),
        bias: mean(&mut errors.iter().copied()),
        min: errors.iter().copied().fold(f64::INFINITY, f64::min),
        p50: sizes[n / 2],
        p90: sizes[(n * 9 / 10).min(n - 1)],
        max: errors.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_worked_out_by_hand() {
        let summary = summarise([(110.0, 100.0), (60.0, 100.0), (100.0, 0.0)].into_iter());
        assert_eq!(summary.n, 2);
        assert!((summary.mape - 0.25).abs() < 1e-12 && (summary.bias + 0.15).abs() < 1e-12);
        assert!((summary.gmae - 0.2).abs() < 1e-12);
        assert!((summary.min + 0.4).abs() < 1e-12 && (summary.max - 0.1).abs() < 1e-12);
    }
}
