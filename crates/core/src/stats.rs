//! Means, medians and quantiles of samples. Knows no graph and no units.

/// The middle of `values`, or the mean of the middle two; sorts them. `None` without values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    Some(f64::midpoint(*values.get(low)?, *values.get(high)?))
}

/// The value below which `numerator / denominator` of the others lie, rounded down: of four values the median is the second.
pub fn lower_quantile<T: Copy + Ord>(values: &mut [T], (numerator, denominator): (usize, usize)) -> Option<T> {
    let at = values.len().checked_sub(1)? * numerator / denominator;
    Some(*values.select_nth_unstable(at).1)
}

/// The value below which `numerator / denominator` of all lie, rounded up: of four values the median is the third.
pub fn upper_quantile(values: &mut [f64], (numerator, denominator): (usize, usize)) -> Option<f64> {
    let at = (values.len() * numerator / denominator).min(values.len().checked_sub(1)?);
    Some(*values.select_nth_unstable_by(at, f64::total_cmp).1)
}

/// The value below which `share` of the others lie, between two neighbours by the line through them.
pub fn interpolated_quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

/// The least value that `share` of the weight does not exceed, of `(value, weight)`.
pub fn weighted_quantile(mut rows: Vec<(f64, f64)>, share: f64) -> Option<f64> {
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = rows.iter().map(|(_, weight)| weight).sum();
    let (mut open, least) = (share * all, 1e-12 * all);
    let reached = rows.iter().find(|(_, weight)| {
        open -= weight;
        open <= least
    });
    reached.map(|(value, _)| *value)
}

/// The mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The mean and the standard deviation (of the values themselves, not of a population behind them); `None` without values.
pub fn mean_and_deviation(values: &[f64]) -> Option<(f64, f64)> {
    let mean = mean(values)?;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    Some((mean, variance.sqrt()))
}

/// The mean without the `cut` least and the `cut` greatest; sorts the values. `None` where none is left.
pub fn trimmed_mean(values: &mut [f64], cut: usize) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    mean(values.get(cut..values.len().saturating_sub(cut))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_number_of_values_is_the_lower_the_upper_or_their_mean() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&mut values.clone()), Some(2.5));
        assert_eq!(lower_quantile(&mut [4, 1, 3, 2], (1, 2)), Some(2));
        assert_eq!(upper_quantile(&mut values.clone(), (1, 2)), Some(3.0));
        assert_eq!(upper_quantile(&mut values.clone(), (1, 1)), Some(4.0));
        assert_eq!(interpolated_quantile(&[1.0, 2.0, 3.0, 4.0], 0.25), Some(1.75));
        assert_eq!((median(&mut []), upper_quantile(&mut [], (1, 2))), (None, None));
        assert_eq!(lower_quantile::<i64>(&mut [], (1, 2)), None);
    }

    #[test]
    fn half_of_the_weight_may_be_in_one_value() {
        let rows = vec![(3.0, 1.0), (1.0, 4.0), (2.0, 3.0)];
        assert_eq!(weighted_quantile(rows.clone(), 0.5), Some(1.0));
        assert_eq!(weighted_quantile(rows, 0.51), Some(2.0));
        assert_eq!(weighted_quantile(Vec::new(), 0.5), None);
    }

    #[test]
    fn a_trimmed_mean_leaves_the_outer_values_out() {
        assert_eq!(trimmed_mean(&mut [100.0, 2.0, 3.0, -7.0], 1), Some(2.5));
        assert_eq!(trimmed_mean(&mut [1.0], 1), None);
        assert_eq!(mean_and_deviation(&[2.0, 4.0]), Some((3.0, 1.0)));
    }
}
